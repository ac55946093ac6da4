"""Certificates in the plane: rings around points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._certificates import Certificates
from .._pipelines import certify
from .._validation import BoolArray, FloatArray, IndexArray, as_float_array
from ..certifiers import BaseCertifier
from ..metrics._asked import warn_if_not_asked
from ._common import Display, baseline_for, certify_with, describe_setting

COLOURS = ("#2471a3", "#c0392b", "#1e8449", "#b9770e", "#7d3c98", "#117a65", "#566573", "#a04000", "#2e4053", "#6c3483")


def spread_out(X: FloatArray, n: int, candidates: IndexArray, start: int | None = None) -> IndexArray:
    """Return the indices of up to `n` of the candidate rows, each as far as possible from those before it."""
    if len(candidates) == 0 or n <= 0:
        return np.array([], dtype=np.intp)
    chosen = [int(candidates[0]) if start is None else int(start)]
    nearest = np.linalg.norm(X[candidates] - X[chosen[0]], axis=1)
    while len(chosen) < min(n, len(candidates)) and nearest.max() > 0.0:
        chosen.append(int(candidates[np.argmax(nearest)]))
        nearest = np.minimum(nearest, np.linalg.norm(X[candidates] - X[chosen[-1]], axis=1))
    return np.array(chosen, dtype=np.intp)


class CertifiedRegionDisplay(Display):
    """Points in the plane with their certified discs, over the regions of the smoothed classifier.

    Made by `from_estimator` or `from_certificates`. A ring is drawn at the radius of the baseline; where the
    certificate reaches further, the increase is filled in a lighter colour.

    Parameters
    ----------
    X : ndarray of shape (n, 2)
        Points.
    y : ndarray of shape (n,)
        True labels.
    certificates : Certificates
    baseline : Certificates or None
        Certificates that the increase is measured from.
    xx0, xx1 : ndarray of shape (rows, columns) or None
        Grid of points.
    response : ndarray of shape (rows, columns) or None
        Class predicted at each point of the grid.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    surface_ : matplotlib QuadMesh or None
        The regions.
    points_ : matplotlib PathCollection
        The points; black where wrong or not certified.
    rings_ : list of matplotlib Circle
        Radii of the baseline, or of the certificates if there is none.
    increases_ : list of matplotlib Wedge
        What the certificates add.
    ring_index_ : ndarray of int
        Which points have rings.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from smoothcert import Certificates
    >>> from smoothcert.plotting import CertifiedRegionDisplay
    >>> baseline = Certificates([0, 1], [0.4, 0.2], [False, False])
    >>> better = Certificates([0, 1], [0.5, 0.2], [False, False])
    >>> display = CertifiedRegionDisplay.from_certificates([[0.0, 0.0], [1.0, 0.0]], [0, 1], better, baseline=baseline)
    >>> [ring.radius for ring in display.rings_], len(display.increases_)
    ([0.4, 0.2], 1)
    """

    def __init__(
        self,
        X: FloatArray,
        y: NDArray[Any],
        certificates: Certificates,
        baseline: Certificates | None = None,
        xx0: FloatArray | None = None,
        xx1: FloatArray | None = None,
        response: NDArray[Any] | None = None,
    ) -> None:
        self.X = X
        self.y = y
        self.certificates = certificates
        self.baseline = baseline
        self.xx0 = xx0
        self.xx1 = xx1
        self.response = response

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        baseline: BaseCertifier | None = None,
        grid_resolution: int = 60,
        eps: float = 0.5,
        ax: Any = None,
        **kwargs: Any,
    ) -> CertifiedRegionDisplay:
        """Certify points twice, predict on a grid, and draw.

        Parameters
        ----------
        estimator : fitted estimator
            Whatever `smoothcert.certify` takes, for data with two columns.
        X : array-like of shape (n, 2)
            Points.
        y : array-like of shape (n,)
            True labels.
        baseline : certifier, optional
            By default the first-order certifier with as many samples as the estimator's own.
        grid_resolution : int, default=60
            Points of the grid along each axis; each of them costs a prediction of the smoothed classifier.
        eps : float, default=0.5
            How far the grid goes beyond the points.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        CertifiedRegionDisplay
        """
        points = _plane(X)
        low, high = points.min(axis=0) - eps, points.max(axis=0) + eps
        sides = [np.linspace(low[axis], high[axis], grid_resolution) for axis in range(2)]
        xx0, xx1 = np.meshgrid(*sides)
        # The strongest class, where `predict` might answer that it abstains.
        shares = estimator.predict_proba(np.column_stack([xx0.ravel(), xx1.ravel()]))
        response = np.asarray(estimator.classes_)[np.argmax(shares, axis=1)].reshape(xx0.shape)
        old = certify_with(estimator, points, baseline_for(estimator) if baseline is None else baseline)
        new = certify(estimator, points)
        return cls.from_certificates(points, y, new, baseline=old, xx0=xx0, xx1=xx1, response=response, ax=ax, **kwargs)

    @classmethod
    def from_certificates(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        certificates: Certificates,
        *,
        baseline: Certificates | None = None,
        xx0: FloatArray | None = None,
        xx1: FloatArray | None = None,
        response: NDArray[Any] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> CertifiedRegionDisplay:
        """Draw certificates that were made before.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Points.
        y : array-like of shape (n,)
            True labels.
        certificates : Certificates
        baseline : Certificates, optional
            Certificates that the increase is measured from.
        xx0, xx1, response : ndarray of shape (rows, columns), optional
            Grid of points and the class predicted there.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        CertifiedRegionDisplay
        """
        points, labels = _plane(X), np.asarray(y)
        for name, each in (("certificates", certificates), ("baseline", baseline)):
            if each is not None and not len(each) == len(points) == len(labels):
                raise ValueError(
                    f"{name} must belong to the {len(points)} points and {len(labels)} labels, got {len(each)}."
                )
            if each is not None and each.space != "input":
                raise ValueError(
                    f"{name} must have radii in the space of X, got {each.space!r}. Rings would be of the wrong size."
                )
        warn_if_not_asked("Every ring", [each for each in (certificates, baseline) if each is not None])
        return cls(points, labels, certificates, baseline, xx0, xx1, response).plot(ax=ax, **kwargs)

    def plot(
        self, ax: Any = None, *, name: str | None = None, rings: int | ArrayLike | None = None, **kwargs: Any
    ) -> CertifiedRegionDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        name : str, optional
            Title.
        rings : int or array-like of int, optional
            Points that get rings: a number of them, spread out, the one with the largest increase first; or which ones.
            By default all that are right and certified.
        **kwargs : dict
            For matplotlib's ``scatter``, which draws the points.

        Returns
        -------
        CertifiedRegionDisplay
        """
        ax = self._axes(ax, name)
        from matplotlib.colors import to_rgba
        from matplotlib.patches import Circle, Wedge

        # What is predicted where nothing was proved may be a mere placeholder, -1 in published logs.
        predicted = self.certificates.prediction[~self.certificates.abstained]
        seen = [self.y, predicted] if self.response is None else [self.y, predicted, np.ravel(self.response)]
        classes = np.unique(np.concatenate(seen))
        palette = np.array([to_rgba(COLOURS[i % len(COLOURS)]) for i in range(len(classes))])
        right = (self.certificates.prediction == self.y) & ~self.certificates.abstained
        old = self.certificates if self.baseline is None else self.baseline
        # A baseline that votes for another class proves nothing about this one.
        agrees = old.prediction == self.certificates.prediction
        inner = np.where(agrees & ~old.abstained, old.radius, 0.0)
        increase = np.where(right, self.certificates.radius - inner, 0.0)
        chosen = self._chosen(rings, right, increase)
        own = palette[np.searchsorted(classes, self.y)]

        self.surface_ = None
        if self.response is not None:
            kinds = np.searchsorted(classes, self.response)
            pale = _lighter(palette[:, :3], 0.85)[kinds]
            self.surface_ = ax.pcolormesh(self.xx0, self.xx1, pale, shading="nearest", zorder=0, rasterized=True)
        self.rings_, self.increases_ = [], []
        for i in chosen:
            centre, colour = tuple(self.X[i]), own[i]
            if increase[i] > 0.0:
                light = _lighter(colour[:3], 0.5)
                outer = float(self.certificates.radius[i])
                wedge = Wedge(centre, outer, 0, 360, width=float(increase[i]), facecolor=light, lw=0, zorder=2)
                self.increases_.append(ax.add_patch(wedge))
            ring = Circle(centre, float(inner[i]), fill=False, edgecolor=colour, lw=1.2, zorder=3)
            self.rings_.append(ax.add_patch(ring))
        shade = np.where(right[:, None], np.column_stack([_lighter(own[:, :3], 0.45), own[:, 3]]), to_rgba("black"))
        shade[chosen] = own[chosen]
        style = {"c": shade, "s": 16, "linewidths": 0.3, "edgecolors": "white", "zorder": 4, **kwargs}
        self.points_ = ax.scatter(self.X[:, 0], self.X[:, 1], **style)
        self.ring_index_ = chosen
        ax.set_aspect("equal")
        if setting := describe_setting([self.certificates]):
            ax.set_xlabel(f"discs: certified radius, {setting}")
        return self

    def _chosen(self, rings: Any, right: BoolArray, increase: FloatArray) -> IndexArray:
        certified = np.flatnonzero(right)
        if rings is None:
            return certified
        if isinstance(rings, (int, np.integer)):
            start = None if len(certified) == 0 else int(np.argmax(increase)) if increase.max() > 0 else None
            return spread_out(self.X, int(rings), certified, start)
        wanted = np.atleast_1d(np.asarray(rings))
        if wanted.dtype.kind not in "iu" or wanted.min(initial=0) < 0 or wanted.max(initial=0) >= len(self.X):
            raise ValueError(f"rings must be a number or indices from 0 to {len(self.X) - 1}, got {rings!r}.")
        chosen: IndexArray = wanted[right[wanted]].astype(np.intp)
        return chosen


def _lighter(colour: Any, share: float) -> FloatArray:
    return 1.0 - (1.0 - np.asarray(colour)) * (1.0 - share)


def _plane(X: ArrayLike) -> FloatArray:
    points = as_float_array("X", X)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"X must have shape (n, 2), got {points.shape}. Rings can only be drawn in two dimensions.")
    return points
