"""Checks and settings that the recipes share."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._validation import FloatArray

SIGMAS = (0.25, 0.5, 1.0)
"""Noise for which the authors of the recipes have published their settings."""


def at_sigma(sigma: float, values: Sequence[float]) -> float:
    """Return a published setting at any noise: interpolated between the values at `SIGMAS`, constant beyond them."""
    return float(np.interp(sigma, SIGMAS, values))


def check_number(name: str, value: Any, cure: str, *, zero: bool = False, default: bool = False) -> None:
    """Require a finite number above 0, or of at least 0 if `zero`; None is allowed if there is a `default`."""
    if default and value is None:
        return
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not np.isfinite(float(value)) or float(value) < 0 or (not zero and float(value) == 0):
        rule = "a finite number of at least 0" if zero else "a finite number above 0"
        raise ValueError(f"{name} must be {rule}{' or None' if default else ''}, got {value!r}. {cure}")


def check_warmup(value: Any) -> None:
    """Require a number of epochs, or a fraction of them."""
    count = isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 0
    fraction = _is_fraction(value) and 0.0 <= float(value) <= 1.0
    if not count and not fraction:
        raise ValueError(
            f"warmup must be a number of epochs (an integer of at least 0) or a fraction of all epochs (a float from "
            f"0 to 1), got {value!r}. 0 starts at full strength."
        )


def warmup_epochs(value: int | float, n_epochs: int) -> float:
    """Return a warm-up in epochs, whether it was given as a number of them or as a fraction."""
    return float(value) * n_epochs if _is_fraction(value) else float(value)


def _is_fraction(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)


def warn_above(name: str, value: float, largest: float, sigma: float, cure: str) -> None:
    """Warn of a setting more than twice as large as any published one."""
    if value > 2 * largest:
        warnings.warn(
            f"{name}={value:g} is far above the published range at sigma={sigma:g}, which ends at {largest:g}. "
            f"Training tends to collapse there. {cure}",
            UserWarning,
            stacklevel=2,
        )


def check_steps(n_steps: Any) -> None:
    """Require a number of steps."""
    if not isinstance(n_steps, numbers.Integral) or isinstance(n_steps, bool) or int(n_steps) < 1:
        raise ValueError(f"n_steps must be an integer of at least 1, got {n_steps!r}. 4 to 10 is usual.")


def check_clip(clip: Any) -> None:
    """Require an interval or None."""
    if clip is None:
        return
    try:
        low, high = (float(end) for end in clip)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not low < high:
        raise ValueError(
            f"clip must be None or two increasing numbers, got {clip!r}. Images often have the range (0, 1)."
        )


def check_inside(X: FloatArray, clip: tuple[float, float] | None) -> None:
    """Require data within the range to which moved inputs are clipped."""
    if clip is None:
        return
    low, high = float(X.min()), float(X.max())
    if low < clip[0] or high > clip[1]:
        raise ValueError(
            f"clip must hold all of X, got {clip!r} and values from {low:g} to {high:g}. "
            "Give the range of the data, or None."
        )
