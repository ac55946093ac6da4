"""How far sums of noise may be off, and sums rounded to the safe side.

The limit of a gradient grows with ``|S|^2 - Q``, where `S` is a sum of vectors and `Q` the sum of their squared
lengths. So `Q` must not be too large and the length of `S` not too small. `Q` is rounded down. `S` cannot be rounded
outwards, since vectors added later may point the other way; instead a bound of the length of its error is kept and
added up, and the triangle inequality does the rest: the true sum is at most ``|S| + error`` long.

Sums of `k` products in float64, in whatever order and with or without fused operations, are off by at most
``gamma(k) = k u / (1 - k u)`` times the sum of their absolute values, where ``u = 2^-53`` (Higham, Accuracy and
Stability of Numerical Algorithms, section 3.1). What is rounded off on top of that is known.

Exact noise is known by the middle of a narrow cell only, within ``2^-49 + 2^-51 |Z|`` of the normal number in it. So a
square may be off by ``24 u Z^2 + 2^-49``, which counts as 24 terms and `NOISE_ERROR`. In vector sums, with weights of
at most one, the relative error counts as 4 terms, and the rest is covered by the one percent that is added to the
rounding to steps, for up to 10^5 samples in one update.
"""

from __future__ import annotations

import numpy as np

from .._validation import FloatArray, IndexArray

_UNIT = 2.0**-53
"""Unit roundoff of float64."""

NOISE_ERROR = 2.0**-49
"""Largest absolute error of the square of a component of the noise, beside its relative error."""

# Sums of each update are rounded to these steps of a unit. Multiples of a power of two add without rounding in float64
# while there are fewer than 2^53 of them, so merging is exact in every order: for vector sums up to 2^29, which takes
# more than a billion samples, since no mean of `noise (f - 1/2)` is longer than 0.4; for square sums up to 2^43.
# Bounds of errors are much smaller, so their steps are finer: rounding adds ``sqrt(n_features) 2^-25`` an update, and
# they may sum up to 2^13, which takes more than a hundred million updates in 150,528 dimensions.
SUM_STEPS = 2.0**24
SQUARE_STEPS = 2.0**10
_ERROR_STEPS = 2.0**40


def gamma(n_terms: float) -> float:
    """Return the largest error of a sum of `n_terms` products, compared with the sum of their absolute values."""
    return n_terms * _UNIT / (1.0 - n_terms * _UNIT)


def round_square_down(square: FloatArray, error: FloatArray) -> FloatArray:
    """Return a computed square sum less a bound of its error, in steps that add without rounding; at least 0."""
    return np.maximum(np.floor((square - 1.01 * error) * SQUARE_STEPS), 0.0) / SQUARE_STEPS


def length_error(n_samples: IndexArray | int, n_features: int, square: FloatArray, n_terms: float) -> FloatArray:
    """Return a bound of the length of the error of a vector sum computed with `n_terms` and rounded.

    Rounding to steps moves each component by half a step at most. The summation moves the vector by ``gamma(n_terms)``
    times the sum of the vectors' lengths at most, and that is at most ``sqrt(n_samples * square)`` by the inequality of
    Cauchy and Schwarz, where `square` is the sum of their squared lengths, known to far better than one percent.
    Rounded up, in steps that add without rounding.
    """
    rounding = np.sqrt(n_features) * 0.5 / SUM_STEPS
    summation = gamma(n_terms) * np.sqrt(n_samples * (square + 1.0 / SQUARE_STEPS))
    error: FloatArray = np.ceil(1.01 * (rounding + summation) * _ERROR_STEPS) / _ERROR_STEPS
    return error


def square_of_length_up(square: FloatArray, sizes: FloatArray, error: FloatArray, n_terms: float) -> FloatArray:
    """Return an upper bound of the squared length of a true vector sum.

    Parameters
    ----------
    square : ndarray
        Squared length of the sum that was kept, computed with `n_terms` products.
    sizes : ndarray
        The same with all terms positive; `square` itself, if they are.
    error : ndarray
        Bound of the length of the sum's error.
    """
    least = np.maximum(square, 0.0) + 1.01 * gamma(n_terms) * sizes
    most: FloatArray = least + (2.0 * np.sqrt(least) + error) * error * (1.0 + 8.0 * _UNIT)
    return most
