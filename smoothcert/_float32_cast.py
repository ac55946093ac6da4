r"""What a radius loses when inputs are rounded to float32 before noise is added.

Nets compute in float32, and rows given in float64 are cast. Write :math:`c(x)` for the cast, which rounds every
component to nearest with unit roundoff :math:`u = 2^{-24}`. What is certified is that the majority is the same at every
point closer to :math:`c(x)` than :math:`r`. The promise is about float64 inputs :math:`x'`, which are cast as well, and

.. math:: |c(x') - c(x)| \le |x' - x| + |c(x) - x| + |c(x') - x'|.

The first cast is known. Of the second, :math:`|c(x'_i) - x'_i| \le u |x'_i| + 2^{-150}` in every component (the last
term for numbers below the normal range), hence :math:`|c(x') - x'| \le u (|x| + |x' - x|) + 2^{-150} \sqrt d`. With

.. math:: \ell(x) = |c(x) - x| + u |x| + 2^{-150} \sqrt d

the majority at :math:`c(x')` is the certified one if :math:`(1 + u) |x' - x| + \ell(x) < r`, which holds for all
:math:`x'` closer to :math:`x` than :math:`(1 - 2u) r - \ell(x)`.

Where each feature has a standard deviation :math:`\sigma_i` of its own, distances are in units of sigma: every
component above is divided by :math:`\sigma_i`, and :math:`\sqrt d` becomes :math:`|1 / \sigma|`. Features without noise
are the same in :math:`x` and :math:`x'`, so their casts are too, and they are left out.
"""

from __future__ import annotations

import numpy as np

from ._column_noise import ColumnNoise, Sigma
from ._validation import FloatArray

_ROUNDOFF = 2.0**-24
"""Unit roundoff of float32, whose significands have 24 bits: the `u` of the proof above."""

_LARGEST = float(np.finfo(np.float32).max)
"""Numbers beyond this become infinite in float32."""

_SMALL = 1e-3
"""Largest length in units of sigma that a cast may take: radii of interest are some tenths of sigma and more, so what
is lost stays below one percent. A row that loses more is far from the origin compared with the noise, and most of its
digits are lost to an offset."""


def length_lost(given: FloatArray, cast: FloatArray, sigma: Sigma) -> FloatArray | None:
    """Return the length that every radius loses by a cast, rounded up; None where there was no cast.

    It is in the units of the inputs, or in units of sigma where each feature has its own.

    Parameters
    ----------
    given, cast : ndarray of shape (n_rows, ...)
        Rows before and after.
    sigma : float or ColumnNoise
        Standard deviation of the noise, against which the length must be small.

    Returns
    -------
    ndarray of shape (n_rows,) or None
    """
    if given.dtype == cast.dtype:
        return None
    rows, rounded = (a.reshape(len(a), -1).astype(np.float64) for a in (given, cast))
    n_features = rows.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        size: FloatArray = rows
        moved: FloatArray = rounded - rows  # the difference of two such close numbers is exact
        if isinstance(sigma, ColumnNoise):
            size, moved = sigma.to_units(rows), sigma.to_units(moved)
            unit, deviation, smallest = 1.0, float(sigma.sigma.max()), float(np.linalg.norm(1.0 / sigma.sigma))
        else:
            unit, deviation, smallest = sigma, sigma, float(np.sqrt(n_features))
        # An adversary's input must not overflow either; no radius is larger than 100 sigma.
        largest = np.max(np.abs(rows), axis=1, initial=0.0) + 100.0 * deviation
        length: FloatArray = np.linalg.norm(moved, axis=1) + _ROUNDOFF * np.linalg.norm(size, axis=1)
        length += smallest * 2.0**-148
        # Sums of squares and roots in float64; this is more than all their roundings.
        length *= 1.0 + 4.0 * (n_features + 8.0) * np.finfo(np.float64).eps
    wrong = ~(length <= _SMALL * unit) | ~(largest < _LARGEST)
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise ValueError(
            f"X must not change by more than {_SMALL:g} sigma when it is cast to float32, in which nets compute, got "
            f"row {row}, where the cast from {given.dtype} may move an input by {length[row]:.3g}, and sigma={unit:g}. "
            "Subtract an offset from X or rescale it, so that its values are not so large compared with sigma. Or give "
            "X in float32; the certificates are then about float32 inputs."
        )
    return length


def shorten(radius: FloatArray, lost: FloatArray | None) -> FloatArray:
    """Return what is left of radii, rounded down."""
    if lost is None:
        return radius
    left = np.nextafter(radius * (1.0 - 2.0 * _ROUNDOFF), 0.0) - lost
    return np.where(left > 0.0, np.nextafter(left, 0.0), 0.0)
