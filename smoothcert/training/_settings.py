"""Settings that several recipes have: published values by noise level, a warm-up, a range to clip to."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._parameters import Rule, integer, optional
from .._validation import FloatArray

SIGMAS = (0.25, 0.5, 1.0)
"""Noise for which the authors of the recipes have published their settings."""


def at_sigma(sigma: float, values: Sequence[float]) -> float:
    """Return a published setting at any noise: interpolated between the values at `SIGMAS`, constant beyond them."""
    return float(np.interp(sigma, SIGMAS, values))


def warn_above(name: str, value: float, largest: float, sigma: float, cure: str) -> None:
    """Warn of a setting more than twice as large as any published one."""
    if value > 2 * largest:
        warnings.warn(
            f"{name}={value:g} is far above the published range at sigma={sigma:g}, which ends at {largest:g}. "
            f"Training tends to collapse there. {cure}",
            UserWarning,
            stacklevel=2,
        )


def warmup_epochs(value: int | float, n_epochs: int) -> float:
    """Return a warm-up in epochs, whether it was given as a number of them or as a fraction."""
    return float(value) * n_epochs if _is_fraction(value) else float(value)


def check_inside(X: FloatArray, clip: tuple[float, float] | None) -> None:
    """Require data within the range to which moved inputs are clipped."""
    if clip is None:
        return
    low, high = float(X.min()), float(X.max())
    if low < clip[0] or high > clip[1]:
        raise ValueError(
            f"clip must include all values of X, got clip={clip!r} and values of X from {low:g} to {high:g}. "
            "Give the range of the data, or None."
        )


def _is_fraction(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)


def _is_warmup(value: Any) -> bool:
    if _is_fraction(value):
        return 0.0 <= float(value) <= 1.0
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_interval(value: Any) -> bool:
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError):
        return False
    return low < high


WARMUP = Rule(
    "a number of epochs (an integer of at least 0) or a fraction of all epochs (a float from 0 to 1)",
    _is_warmup,
    "0 starts at full strength.",
)
N_STEPS = integer(1, "4 to 10 is usual.")
CLIP = optional(Rule("two increasing numbers", _is_interval, "Images often have the range (0, 1)."))
