"""What the bounds themselves look like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from .._numerics import density
from .._validation import FloatArray, check_grad_norm, check_interval, check_probability, check_radius
from ..bounds import first_order_radius, second_order_lower_bound, second_order_radius
from ..certifiers import BaseCertifier, FirstOrderCertifier
from ..tallies import GradientTally, VoteTally
from ._common import Display

TICKS = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999)
"""Round probabilities, closer together towards 0 and 1, where an axis of normal quantiles is stretched."""


def gradient_range(p: float, n_points: int = 101) -> FloatArray:
    """Return the gradient norms, times sigma, that are possible at probability `p`: from 0 to that of a half-space."""
    return np.linspace(0.0, float(density(np.asarray(ndtri(p)))), n_points)


def expected_radius(certifier: BaseCertifier, p: float, grad_norm: ArrayLike, n_features: int) -> FloatArray:
    """Return the radius, in units of sigma, that a certifier proves if its estimates fall exactly on the truth.

    Parameters
    ----------
    certifier : certifier that counts in a `GradientTally`
        Its own `n_samples` and `alpha` are used.
    p : float
        Probability of the class.
    grad_norm : array-like
        Sigma times the norm of its gradient.
    n_features : int
        Dimension of the noise.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> from smoothcert import SecondOrderCertifier
    >>> from smoothcert.plotting._bound import expected_radius
    >>> expected_radius(SecondOrderCertifier(), 0.75, [0.24], n_features=49).round(4)
    array([0.7283])
    """
    if certifier.tally_type is not GradientTally:
        raise TypeError(
            f"certifier must count gradients in a GradientTally, got {type(certifier).__name__}. "
            "Use SecondOrderCertifier."
        )
    norm = np.atleast_1d(check_grad_norm("grad_norm", grad_norm))
    # The certifier itself says where its sums are centred.
    centre = certifier.new_tally(1, n_features, 2, np.zeros(1, dtype=np.int64)).centre  # type: ignore[attr-defined]
    n = certifier.n_samples
    hits = np.full(norm.shape, np.floor(p * n))
    # One gradient at a time would be slow and all at once too large, when there are many features.
    parts = [
        certifier.certify_tally(GradientTally.from_norm_sq(hits[i], n, norm[i] ** 2, n_features, centre=centre)).radius
        for i in np.array_split(np.arange(len(norm)), max(1, len(norm) * n_features // 10**7))
    ]
    return np.concatenate(parts)


class BoundDisplay(Display):
    """Bounds against distance, or certified radii against the gradient. All in units of sigma.

    Made by `from_lower_bound` or `from_radius`.

    Parameters
    ----------
    x, y : sequence of ndarray
        One pair for each curve.
    names : sequence of str
        Names of the curves.
    kind : {"lower_bound", "radius"}
        What is drawn.
    first_order : sequence of float, optional
        For ``kind="radius"``, the radius from the probability alone, for each curve.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        The curves.
    first_order_lines_ : list of matplotlib Line2D
        Dashed lines at the radii from the probability alone.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from smoothcert.plotting import BoundDisplay
    >>> display = BoundDisplay.from_radius([0.8])
    >>> round(float(display.y[0][0]), 3), round(display.first_order[0], 3)  # gradient zero, and unknown
    (1.268, 0.842)
    """

    def __init__(
        self,
        x: Sequence[FloatArray],
        y: Sequence[FloatArray],
        names: Sequence[str],
        kind: str,
        first_order: Sequence[float] = (),
    ) -> None:
        self.x = x
        self.y = y
        self.names = names
        self.kind = kind
        self.first_order = first_order

    @classmethod
    def from_lower_bound(
        cls,
        p: float = 0.8,
        grad_norm: Sequence[float] = (np.inf, 0.0),
        *,
        distance: ArrayLike | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> BoundDisplay:
        """Draw the smallest possible probability of the class at each distance from the input.

        Parameters
        ----------
        p : float, default=0.8
            Probability at the input.
        grad_norm : sequence of float, default=(inf, 0)
            Sigma times the gradient norm, one curve for each; inf means unknown.
        distance : array-like, optional
            Distances, by default from 0 to a little beyond the largest certified radius.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        BoundDisplay
        """
        norms = np.atleast_1d(check_grad_norm("grad_norm", grad_norm))
        p = float(check_probability("p", p))
        if distance is None:
            distance = np.linspace(0.0, 1.25 * max(float(second_order_radius(p, norms.min())), 1.0), 201)
        r = np.atleast_1d(check_radius("distance", distance))
        names = ["gradient unknown" if norm == np.inf else f"gradient {norm:.3g}" for norm in norms]
        curves = [second_order_lower_bound(p, norm, r) for norm in norms]
        return cls([r] * len(norms), curves, names, "lower_bound").plot(ax=ax, **kwargs)

    @classmethod
    def from_radius(
        cls,
        p: Sequence[float] = (0.6, 0.7, 0.8, 0.9, 0.99),
        *,
        certifier: BaseCertifier | None = None,
        n_features: int | None = None,
        n_points: int = 101,
        ax: Any = None,
        **kwargs: Any,
    ) -> BoundDisplay:
        """Draw the certified radius against the gradient norm, a curve for each probability.

        Parameters
        ----------
        p : sequence of float
            Probabilities above one half and below one.
        certifier : SecondOrderCertifier, optional
            What it proves if its estimates fall exactly on the truth; dashed lines are then those of the first-order
            certifier with as many samples. By default probability and gradient are known exactly.
        n_features : int, optional
            Dimension of the noise; needed with a certifier.
        n_points : int, default=101
            Points of each curve.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        BoundDisplay
        """
        values = np.atleast_1d(
            check_interval("p", p, lower=0.5, upper=1.0, lower_open=True, upper_open=True, cure="Others prove nothing.")
        )
        if certifier is not None and n_features is None:
            raise ValueError("n_features must be given with a certifier, got None. Its limits depend on the dimension.")
        norms = [gradient_range(value, n_points) for value in values]
        if certifier is None or n_features is None:
            curves = [second_order_radius(value, norm) for value, norm in zip(values, norms, strict=True)]
            flat = [float(first_order_radius(value)) for value in values]
        else:
            curves = [
                expected_radius(certifier, value, norm, n_features) for value, norm in zip(values, norms, strict=True)
            ]
            flat = _first_order_expected(certifier, values)
        return cls(norms, curves, [f"p = {value:.4g}" for value in values], "radius", flat).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> BoundDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        name : str, optional
            Title.
        **kwargs : dict
            For matplotlib's ``plot``, all curves alike.

        Returns
        -------
        BoundDisplay
        """
        ax = self._axes(ax, name)
        probit = self.kind == "lower_bound"
        self.lines_, self.first_order_lines_ = [], []
        for x, y, label in zip(self.x, self.y, self.names, strict=True):
            # On the axis of normal quantiles the first-order bound is a straight line.
            shown = ndtri(np.where(y > 0.0, y, np.nan)) if probit else y
            self.lines_.append(ax.plot(x, shown, **{"label": label, **kwargs})[0])
        for line, flat in zip(self.lines_, self.first_order, strict=False):
            ends = [line.get_xdata()[0], line.get_xdata()[-1]]
            dashed = ax.plot(ends, [flat, flat], ls="--", lw=1, c=line.get_color())[0]
            self.first_order_lines_.append(dashed)
        if probit:
            low = min(np.nanmin(line.get_ydata()) for line in self.lines_)
            high = max(np.nanmax(line.get_ydata()) for line in self.lines_)
            ticks = [tick for tick in TICKS if low <= ndtri(tick) <= high + 0.2]
            ax.set_yticks(ndtri(ticks), [f"{tick:g}" for tick in ticks])
            ax.axhline(0.0, color="0.4", lw=0.8)
            ax.set(xlabel=r"distance / $\sigma$", ylabel="lower bound on the probability")
            ax.set_xlim(left=0.0)
        else:
            ax.set(xlabel=r"$\sigma$ times norm of the gradient", ylabel=r"certified radius / $\sigma$")
            ax.set_xlim(left=0.0)
            ax.set_ylim(bottom=0.0)
        title = "dashed: from the probability alone" if self.first_order_lines_ else None
        self._legend(ncols=min(len(self.lines_), 3), title=title, title_fontsize="small", alignment="left")
        return self


def _first_order_expected(certifier: BaseCertifier, p: FloatArray) -> list[float]:
    first = FirstOrderCertifier(certifier.n_samples, certifier.n_selection, certifier.alpha)
    hits = np.floor(p * certifier.n_samples)
    return [float(r) for r in first.certify_tally(VoteTally(hits, np.full(hits.shape, certifier.n_samples))).radius]
