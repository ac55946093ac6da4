"""Upper confidence limits for the norm of the gradient of a smoothed probability.

With standard normal noise `Z` the gradient (times sigma) is the mean of ``X = Z (f(x + Z) - c)`` for any constant `c`.
Both limits start from the unbiased estimate of its squared norm over all pairs of samples, ``U = (|sum X|^2 - sum
|X|^2) / (n (n - 1))``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._numerics import round_up
from .._validation import FloatArray, apply_flat, broadcast, check_choice, check_counts, check_interval, check_level

VARIANCE_PROXY = 0.403
"""Sub-Gaussian variance proxy of ``Z (f - 1/2)`` in every direction, for every `f` with values in [0, 1].

In one dimension the worst `f` flips at some ``|z| = c``; the supremum over `c` and over the exponent is 0.402181. That
it is below this number is proved by branch and bound, in a test.
"""

METHODS = ("centred", "paper")


def gradient_norm_upper(
    norm_sq: ArrayLike, n: ArrayLike, n_features: ArrayLike, alpha: ArrayLike, method: str = "centred"
) -> FloatArray:
    """Return the upper confidence limit of sigma times the gradient norm: below the truth with probability at most
    `alpha`.

    Parameters
    ----------
    norm_sq : array-like
        Unbiased estimate of the squared norm, ``(|sum X|^2 - sum |X|^2) / (n (n - 1))``; may be negative.
    n : array-like of int
        Number of vectors `X` in it; a single one says nothing, its limit is infinite.
    n_features : array-like of int
        Dimension of the noise, at least 1.
    alpha : array-like
        Error probability of this limit, in (0, 1).
    method : {"centred", "paper"}
        ``"centred"``: for ``X = Z (f - 1/2)``, or ``X = Z (f(x+Z) - f(x-Z)) / 2`` for antithetic pairs. Its error in
        the squared norm is about ``G sqrt(8 v L / n)``, whatever the dimension, plus a term of order ``sqrt(d) / n``.
        ``"paper"``: Theorem 2 of the reference, for ``X = Z f`` with `f` in {0, 1}. It is stated for ``n / 2``
        disjoint pairs and holds for the average over all pairs too, whose moment generating function is no larger
        (Hoeffding 1963, section 5).

    Returns
    -------
    ndarray
        The limit, rounded up.

    Notes
    -----
    With ``L = log(1/alpha)`` and the variance proxy ``v`` the centred limit is

        G^2 <= min over 0 < y < n-1 of (1+y) {U + (2v/(n y)) [L + (d/2)(-(n-1) log(1 - y/(n-1)) - log(1+y))]}.

    Integrating out one `X` after the other bounds the moment generating function of ``-U`` by that of Gaussian
    vectors with variance `v`, which is closed form; Markov's inequality gives the bound for one `y`. The best `y` may
    be chosen after seeing `U`: the bound falls below ``G^2`` only if `U` falls below a threshold that does not depend
    on the data.

    References
    ----------
    Levine, Kumar, Goldstein, Feizi: Tight second-order certificates for randomized smoothing, 2021, Theorem 2.

    Examples
    --------
    >>> from smoothcert.confidence import gradient_norm_upper
    >>> float(gradient_norm_upper(0.2**2, 100_000, 3072, 0.0005).round(4))
    0.2084
    >>> float(gradient_norm_upper(0.2**2, 100_000, 3072, 0.0005, method="paper").round(4))
    1.6654
    """
    check_choice("method", method, METHODS)
    norm_sq, n, n_features, alpha = broadcast(
        norm_sq=check_interval("norm_sq", norm_sq, cure="Give the unbiased estimate of the squared norm."),
        n=check_counts("n", n, least=1),
        n_features=check_counts("n_features", n_features, least=1),
        alpha=check_level("alpha", alpha),
    )
    limit = _centred if method == "centred" else _paper
    enough = n >= 2
    known = np.where(enough, norm_sq, 0.0)
    value = apply_flat(limit, known, np.maximum(n, 2.0), n_features, alpha)
    return np.where(enough, round_up(value), np.inf)[()]


def _paper(norm_sq: FloatArray, n: FloatArray, n_features: FloatArray, alpha: FloatArray) -> FloatArray:
    pairs = np.floor(n / 2.0)
    log_term = -np.log(alpha)
    error = np.where(
        2.0 * log_term <= n_features * pairs,
        4.0 * np.sqrt(n_features * log_term / pairs),
        4.0 * np.sqrt(2.0) * log_term / pairs,
    )
    upper: FloatArray = np.sqrt(np.maximum(norm_sq + error, 0.0))
    return upper


def _centred(norm_sq: FloatArray, n: FloatArray, n_features: FloatArray, alpha: FloatArray) -> FloatArray:
    norm_sq, n, n_features, log_term = (a[:, None] for a in (norm_sq, n, n_features, -np.log(alpha)))
    low, high = np.full_like(n, np.log(1e-9)), np.log((n - 1.0) * (1.0 - 1e-12))
    grid = np.linspace(0.0, 1.0, 65)
    best = np.full(n.shape, np.inf)
    # Every y gives a valid bound, so a grid search is enough; it zooms in on the smallest value found.
    for _ in range(4):
        log_y = low + (high - low) * grid
        y = np.exp(log_y)
        spread = -(n - 1.0) * np.log1p(-y / (n - 1.0)) - np.log1p(y)
        bound = (1.0 + y) * (norm_sq + 2.0 * VARIANCE_PROXY / (n * y) * (log_term + 0.5 * n_features * spread))
        at = np.argmin(bound, axis=1)[:, None]
        best = np.minimum(best, np.take_along_axis(bound, at, axis=1))
        low, high = (np.take_along_axis(log_y, np.clip(at + step, 0, 64), axis=1) for step in (-1, 1))
    upper: FloatArray = np.sqrt(np.maximum(best[:, 0], 0.0))
    return upper
