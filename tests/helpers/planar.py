"""Classifiers of the plane, constant on small squares, whose smoothed probability is known to rounding.

They are seen along the first axis; to see a shape along another direction, turn the shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

STEP = 0.05
LINES = np.linspace(-8.0, 8.0, round(16.0 / STEP) + 1)
_middle = (LINES[:-1] + LINES[1:]) / 2.0


def _masses(centre):
    """Normal masses of the strips between lines, the outer ones unbounded, around each centre."""
    ends = np.concatenate([[-np.inf], LINES[1:-1], [np.inf]])
    return np.diff(ndtr(ends - np.asarray(centre)[..., None]), axis=-1)


@dataclass(frozen=True)
class Planar:
    """`values[i, j]` on the square number `i` along the first axis and `j` along the second."""

    values: np.ndarray

    @classmethod
    def of(cls, shape, turn=0.0):
        x, y = np.meshgrid(_middle, _middle, indexing="ij")
        c, s = np.cos(turn), np.sin(turn)
        return cls(np.asarray(shape(c * x + s * y, -s * x + c * y), dtype=float))

    def probability(self, x, y):
        """Of the class under noise, at points."""
        return np.einsum("...i,ij,...j->...", _masses(x), self.values, _masses(y), optimize=True)

    def shares(self, edges):
        """Of hits, in bins of the first coordinate of the noise; edges must be among the lines."""
        along = _masses(0.0)
        column = self.values @ _masses(0.0)
        cut = np.searchsorted(LINES, edges - 1e-9)
        assert np.allclose(LINES[cut], edges)
        parts = np.split(along * column, cut), np.split(along, cut)
        return np.array([h.sum() / m.sum() for h, m in zip(*parts, strict=True)])

    def gradient_across(self):
        """Derivative of the probability along the second axis."""
        return float(np.sum(self.gradients_across(np.empty(0))))

    def gradients_across(self, edges):
        """What each bin of the first coordinate of the noise adds to it; edges must be among the lines."""
        ends = np.concatenate([[-np.inf], LINES[1:-1], [np.inf]])
        density = np.exp(-np.square(ends) / 2.0) / np.sqrt(2.0 * np.pi)
        column = _masses(0.0) * (self.values @ (density[:-1] - density[1:]))
        return np.array([part.sum() for part in np.split(column, np.searchsorted(LINES, edges - 1e-9))])

    def radius(self, n_angles=721, farthest=7.0):
        """Distance of the nearest point where the class has less than half of the votes."""
        angles = np.linspace(0.0, 2.0 * np.pi, n_angles)
        radii = np.linspace(0.0, farthest, 701)
        below = np.full(len(angles), np.inf)
        for i, angle in enumerate(angles):
            p = self.probability(radii * np.cos(angle), radii * np.sin(angle))
            if np.any(p < 0.5):
                first = int(np.argmax(p < 0.5))
                low, high = radii[max(first - 1, 0)], radii[first]
                for _ in range(40):
                    mid = (low + high) / 2.0
                    inside = self.probability(mid * np.cos(angle), mid * np.sin(angle)) >= 0.5
                    low, high = (mid, high) if inside else (low, mid)
                below[i] = high
        return float(below.min())


def _random(x, y):
    """Smooth random field, positive near the centre."""
    rng = np.random.default_rng(3)
    field = 1.2 - 0.15 * (x + 0.5) ** 2
    for _ in range(12):
        a, b, phase = rng.normal(size=3) * np.array([1.2, 1.2, 3.0])
        field = field + 0.5 * np.sin(a * x + b * y + phase)
    return field > 0.0


SHAPES = {
    "half-space": lambda x, y: x <= 0.8,
    "slab": lambda x, y: (x >= -1.6) & (x <= 1.0),
    "wedge": lambda x, y: x + 0.4 * np.abs(y) <= 1.3,
    "disk": lambda x, y: (x + 0.4) ** 2 + y**2 <= 2.2**2,
    "notch": lambda x, y: ~((x > 0.5) & (np.abs(y) < 0.8)),
    "island": lambda x, y: (x - 2.0) ** 2 + y**2 > 1.5**2,
    "random": _random,
}
