"""Numbers as text that promises no more than they do, and radii on their way from units of sigma to those of inputs."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_UP, Context

import numpy as np

from .._float32_cast import shorten
from .._validation import FloatArray


def round_digits(value: float, digits: int, up: bool = False) -> str:
    """Return a non-negative number with `digits` significant digits, rounded towards zero, or away from it if `up`."""
    value = float(value)
    if value == 0.0 or not np.isfinite(value):
        return f"{value:.1f}" if value == 0.0 else str(value)
    rounded = Context(prec=digits, rounding=ROUND_UP if up else ROUND_DOWN).create_decimal(repr(value))
    return f"{float(rounded):.{digits}g}"


def issue_radius(radius: FloatArray, sigma: float | FloatArray, lost: FloatArray | None) -> FloatArray:
    """Return radii in the units of the inputs for radii in units of sigma, rounded down.

    Parameters
    ----------
    radius : ndarray of shape (n_rows,)
    sigma : float or ndarray of shape (n_rows,)
        What radii are multiplied with, see `effective_sigma`.
    lost : ndarray of shape (n_rows,) or None
        What the radius of each row loses by a cast of its input.
    """
    # One rounding in the product, one step back.
    return shorten(np.where(radius > 0.0, np.nextafter(radius * sigma, 0.0), 0.0), lost)


def radius_before_steps(radius: FloatArray, shift: FloatArray, factor: float | FloatArray) -> FloatArray:
    """Return the radii before steps that follow from radii after them, rounded down.

    Parameters
    ----------
    radius : ndarray of shape (n_rows,)
    shift : ndarray of shape (n_rows,)
    factor : float or ndarray of shape (n_rows,)
        Inputs a distance `d` apart are sent at most ``factor * d + shift`` apart, rounding included.
    """
    left = np.nextafter(radius - shift, -np.inf)
    divided = np.where(left > 0.0, np.nextafter(left / factor, 0.0), 0.0)
    return np.where((factor == 1.0) & (shift == 0.0), radius, divided)
