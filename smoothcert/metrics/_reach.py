"""How far certificates can reach at best, given the noise and the number of samples."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from .._pipelines import convert_radius, find_smoothed
from .._sigma import is_single, radius_unit
from .._warnings import UnreachableRadiusWarning, warn_user
from ..certifiers._prospect import unanimous_radius

_MOST_SAMPLES = 1e7
"""More samples than this are not advised."""

_MARGIN = 1.01
"""Advice is this factor beyond what is just enough."""


def samples_to_reach(radius: float, alpha: float) -> float:
    """Return how many votes must agree to prove a radius in units of sigma; the inverse of `unanimous_radius`."""
    # If all of n votes agree, the share is known to be at least alpha ** (1 / n).
    with np.errstate(divide="ignore"):
        return float(np.log(alpha) / log_ndtr(radius))


def warn_if_unreachable(estimator: Any, X: Any, radii: list[float], space: str = "input") -> None:
    """Warn of the first radius at which no row of `X` could be certified, whatever the votes.

    Parameters
    ----------
    estimator : fitted estimator
        Whatever `smoothcert.certify` takes.
    X : array-like
        Its inputs.
    radii : list of float
        Radii at which none of them is certified.
    space : {"input", "smoothed"}, default="input"
        Where they live.
    """
    smoothed = find_smoothed(estimator)
    if smoothed.voting == "soft":
        return
    certifier = smoothed._certifier()
    most = unanimous_radius(certifier.n_samples, certifier.alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever there is to say about X has been said
        unit = float(smoothed.sigma) if is_single(smoothed.sigma) else radius_unit(smoothed.sigma)
        reached = float(np.max(convert_radius(estimator, X, most * unit, space)))
    out_of_reach = [radius for radius in radii if radius > reached]
    if not out_of_reach or reached == 0.0:
        return
    radius = min(out_of_reach)
    factor = _MARGIN * radius / reached
    needed = samples_to_reach(factor * most, certifier.alpha)
    more = f", n_samples of at least {int(_round_up(needed, 2)):,}" if needed < _MOST_SAMPLES else ""
    larger, given = f"{_round_up(factor, 3):g} times this sigma", "this sigma"
    if is_single(smoothed.sigma):
        larger, given = f"sigma of at least {_round_up(factor * unit, 3):g}", f"sigma={smoothed.sigma:g}"
    warn_user(
        f"No input can be certified at radius {radius:g}: with {given}, "
        f"n_samples={certifier.n_samples:,} and alpha={certifier.alpha:g} the largest possible radius is about "
        f"{reached:.3g}, even if all votes agree. Use {larger}{more}, or a smaller radius.",
        UnreachableRadiusWarning,
    )


def _round_up(number: float, digits: int) -> float:
    """Return a number with few significant digits that is not below."""
    unit = 10.0 ** (np.floor(np.log10(number)) - digits + 1)
    return float(np.ceil(number / unit) * unit)
