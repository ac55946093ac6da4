"""Classifiers of the plane with several classes, constant on small squares, whose smoothed probabilities are known to
rounding. They are seen along the first axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helpers.planar import LINES, Planar


@dataclass(frozen=True)
class PlanarClasses:
    """One `Planar` for each class."""

    parts: tuple[Planar, ...]

    @classmethod
    def of(cls, classify, n_classes, turn=0.0):
        label = Planar.of(classify, turn).values
        return cls(tuple(Planar((label == c).astype(float)) for c in range(n_classes)))

    def votes(self, z):
        """Class indices at noise of shape (..., 2)."""
        label = np.argmax([part.values for part in self.parts], axis=0)
        i, j = (np.clip(np.searchsorted(LINES, z[..., axis], side="right") - 1, 0, len(LINES) - 2) for axis in (0, 1))
        return label[i, j]

    def lead(self, rival, x, y):
        """By how much class 0 is ahead."""
        return self.parts[0].probability(x, y) - self.parts[rival].probability(x, y)

    def radius(self, rival=None, farthest=5.0):
        """Distance of the nearest point where the rival, or any class, is ahead of class 0."""
        rivals = range(1, len(self.parts)) if rival is None else [rival]
        return min(self._radius(each, farthest) for each in rivals)

    def _radius(self, rival, farthest):
        angles, radii = np.linspace(0.0, 2.0 * np.pi, 121), np.linspace(0.0, farthest, 51)
        least = np.inf
        for _ in range(3):  # finer and finer around the nearest point so far
            below = self._crossings(rival, angles, radii)
            at = int(np.argmin(below))
            least = min(least, float(below[at]))
            if not np.isfinite(least):
                break
            step = angles[1] - angles[0]
            angles = np.linspace(angles[at] - step, angles[at] + step, 21)
            radii = np.linspace(max(0.0, least - 0.1), least + 0.1, 5)
        return least

    def _crossings(self, rival, angles, radii):
        """Where the lead is lost for the first time, at each angle; inf if it is not."""
        cos, sin = np.cos(angles), np.sin(angles)
        ahead = self.lead(rival, radii[:, None] * cos, radii[:, None] * sin) >= 0.0
        lost = ~ahead.all(axis=0)
        found = np.full(len(angles), np.inf)
        if lost.any():
            first = np.argmin(ahead, axis=0)[lost]
            low, high, cos, sin = radii[np.maximum(first - 1, 0)], radii[first], cos[lost], sin[lost]
            for _ in range(30):
                middle = (low + high) / 2.0
                kept = self.lead(rival, middle * cos, middle * sin) >= 0.0
                low, high = np.where(kept, middle, low), np.where(kept, high, middle)
            found[lost] = high
        return found

    def shares(self, edges):
        return np.stack([part.shares(edges) for part in self.parts])

    def gradient_across(self, rival):
        """Length of the gradient of the lead along the second axis."""
        return abs(self.parts[0].gradient_across() - self.parts[rival].gradient_across())


def _by_angle(x, y, *cuts):
    """0 near the centre, and sectors outside."""
    angle = np.degrees(np.arctan2(y, x)) % 360.0
    return 1 + np.digitize(angle, cuts)


CLASSES = {
    # Name: labels, number of classes. Class 0 is certified.
    "three stripes": (lambda x, y: np.where(x <= 0.4, 0, np.where(x <= 1.3, 1, 2)), 3),
    "half-spaces with two rivals": (lambda x, y: np.where(x <= 0.3, 0, np.where(x >= 1.1, 1, 2)), 3),
    "wedges": (
        lambda x, y: np.where(x + 0.4 * np.abs(y) <= 0.8, 0, np.where(y > 0.6 * (x - 0.3), 1, 2)),
        3,
    ),
    "ties between rivals": (lambda x, y: np.where(x <= 0.7, 0, np.where(y > 0.0, 1, 2)), 3),
    "disk and sectors": (
        lambda x, y: np.where((x + 0.2) ** 2 + y**2 <= 1.6**2, 0, np.minimum(_by_angle(x, y, 90.0, 200.0), 3)),
        4,
    ),
    "island": (lambda x, y: np.where((x - 1.8) ** 2 + y**2 <= 1.3**2, 1, np.where(x < -2.2, 2, 0)), 3),
    "rival behind": (lambda x, y: np.where(x < -0.9, 2, np.where(x > 1.2, 1, 0)), 3),
    "four stripes": (
        lambda x, y: np.where(x <= 0.1, 0, np.where(x <= 0.7, 3, np.where(x <= 1.5, 2, 1))),
        4,
    ),
    "rare rival": (
        lambda x, y: np.where(x > 2.6, 2, np.where((x > 0.9) & (np.abs(y) < 1.5), 1, 0)),
        3,
    ),
}
