"""Joint confidence limits for the two pair probabilities behind the dipole certificates.

An antithetic pair has two hits, one or none. Limits for the first two probabilities on their own add two errors that
in truth cancel, since the counts are negatively correlated. What must not be overstated is only the radius, so we
test that directly:

1. Rank all outcomes, the higher the better. The outcomes that rank no lower than the observed one form a set `R`.
Turning a pair without hit into
   one with a single hit, or that into one with two, never lowers the rank.
2. Fix the probability `P0` of a pair without hit, and let ``C(P0)`` be the probability of a pair with two hits at
which `R` has probability `alpha`.
   Below that, `R` is less probable still. So if the truth lies below the curve, an event of probability at most
   `alpha` has been observed.
3. Hence, but for that event, every certificate that grows with the two probabilities is at least its smallest value
on the curve (Buehler 1957). 4. `P0` is searched only inside an interval that misses it with probability at most
``beta``, which is taken off `alpha` (Berger and Boos 1994).

The ranking must not depend on the data otherwise. The dipole certificate ranks outcomes by the radius they give at
face value, which is optimal to first order. The second-order dipole depends almost equally on the pairs with one hit
and with two, so there a fixed weight for the former serves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, gammaln, ndtri, xlog1py, xlogy

from .._numerics import last_safe_point
from .._validation import FloatArray, broadcast, check_counts, check_level
from ..bounds import dipole_radius
from ..bounds._dipole import distance_to_margin, most_single_hits
from ._binomial import binomial_lower, binomial_upper

NUISANCE_SHARE = 0.02
"""Share of the error probability spent on the interval for the pairs without hit."""

_TAIL_SHARE = 1e-3  # spent on counts too unlikely to be summed
_CURVE_POINTS = 9
_GUESS_DOUBT = 2.5  # counts; the error of the guess hardly depends on the number of pairs
_CHUNK = 400_000  # summands held at once

PairRadius = Callable[[FloatArray, FloatArray, NDArray[np.intp]], FloatArray]


def joint_pair_limits(
    both: ArrayLike,
    one: ArrayLike,
    pairs: ArrayLike,
    alpha: ArrayLike,
    *,
    radius: PairRadius | None = None,
    weight: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Pair probabilities at which the certificate is smallest among those the counts do not refute.

    Parameters
    ----------
    both, one, pairs : array-like of int
        Pairs with two hits, pairs with exactly one (on either side), and all pairs.
    alpha : array-like
        Error probability, in (0, 1).
    radius : callable, optional
        ``radius(both, one_sided, rows)``: the certificate to be minimised, increasing in the two probabilities;
        `rows` are the indices into the broadcast counts. The dipole radius by default.
    weight : float, optional
        Rank outcomes by ``both + weight * one``, between 0 and 1. By default they are ranked by their dipole radius.

    Returns
    -------
    both, one_sided : ndarray
        The least favourable probabilities, as the functions in `smoothcert.bounds` take them. The certificate at the
        truth is below that at these with probability at most `alpha`. Zero where the class has no majority.

    References
    ----------
    Buehler: Confidence intervals for the product of two binomial parameters, 1957.
    Berger, Boos: P values maximized over a confidence set for the nuisance parameter, 1994.

    Examples
    --------
    >>> from smoothcert.bounds import dipole_radius
    >>> from smoothcert.confidence import binomial_lower, joint_pair_limits
    >>> round(float(dipole_radius(*joint_pair_limits(20_000, 20_000, 50_000, 0.001))), 3)
    0.317
    >>> split = binomial_lower(20_000, 50_000, 0.0005), binomial_lower(20_000, 50_000, 0.0005) / 2
    >>> round(float(dipole_radius(*split)), 3)
    0.304
    """
    both, one, pairs, alpha = broadcast(
        both=check_counts("both", both),
        one=check_counts("one", one),
        pairs=check_counts("pairs", pairs, least=1),
        alpha=check_level("alpha", alpha),
    )
    if np.any(both + one > pairs):
        at = int(np.argmax(both + one > pairs))
        raise ValueError(
            f"both + one must be at most pairs, got both={int(both.ravel()[at])}, one={int(one.ravel()[at])} and "
            f"pairs={int(pairs.ravel()[at])}. Count every pair once: two hits, exactly one, or none."
        )
    shape = both.shape
    n2, n1, n, alpha = (a.ravel() for a in (both, one, pairs, alpha))
    limits = np.zeros((2, n2.size))
    # Without a majority of hits nothing will be certified.
    todo = np.flatnonzero(2.0 * n2 + n1 > n)
    windows = _windows(n2[todo], n1[todo], n[todo], alpha[todo], weight)
    order = np.argsort(windows.count)
    start = 0
    while start < order.size:
        # Rows with windows of similar length share a padded table.
        room = max(1, int(_CHUNK / (_CURVE_POINTS * windows.count[order[min(start + 255, order.size - 1)]])))
        part = order[start : start + min(room, 256)]
        rows = todo[part]
        curve = _Curve(n2[rows], n1[rows], n[rows], alpha[rows], windows.rows(part), weight)
        limits[:, rows] = curve.least_favourable(radius or _dipole, rows)
        start += part.size
    return limits[0].reshape(shape)[()], limits[1].reshape(shape)[()]


def _dipole(both: FloatArray, one_sided: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
    return dipole_radius(both, one_sided)


class _Windows:
    """Which numbers of pairs without hit are summed over: from `first`, `count` of them, `stride` apart.

    The sum over them of binomial weight times binomial tail is a smooth bump. Sampled at half its standard deviation
    or finer, such a sum equals the full one up to ``exp(-8 pi^2)`` (Poisson summation), so long windows can be
    thinned out.
    """

    def __init__(self, first, count, stride, low, high):
        self.first, self.count, self.stride, self.low, self.high = first, count, stride, low, high

    def rows(self, index):
        return _Windows(*(a[index] for a in (self.first, self.count, self.stride, self.low, self.high)))


def _windows(n2: FloatArray, n1: FloatArray, n: FloatArray, alpha: FloatArray, weight: float | None) -> _Windows:
    n0 = n - n2 - n1
    beta = NUISANCE_SHARE * alpha
    low, high = binomial_lower(n0, n, beta / 2.0), binomial_upper(n0, n, beta / 2.0)
    # Bernstein's inequality at the two ends of the interval.
    log_tail = np.log(2.0 / (_TAIL_SHARE * alpha))
    reach = [np.sqrt(2.0 * n * p * np.maximum(1.0 - p, 0.0) * log_tail) + 2.0 / 3.0 * log_tail for p in (low, high)]
    first = np.maximum(np.floor(n * low - reach[0]), 0.0)
    last = np.minimum(np.ceil(n * high + reach[1]), n)
    # The bump is narrower than the binomial weight when the tail changes fast: its argument moves by at most this many
    # counts for each pair without hit, in units of the standard deviation of the pairs with two hits.
    speed = 2.0 if weight is None else 1.0 + weight / (1.0 - weight)
    own = np.maximum(n0, 1.0) * (1.0 - n0 / n) + 1e-9
    given = n1 * n2 / np.maximum(n1 + n2, 1.0) + 1e-9
    stride = np.maximum(np.floor(0.5 / np.sqrt(1.0 / own + np.square(speed) / given)), 1.0)
    count = np.floor((last - first) / stride).astype(np.intp) + 1
    return _Windows(first, count, stride, low, high)


class _Curve:
    """The curve of least favourable probabilities for several rows at once."""

    def __init__(self, n2, n1, n, alpha, windows, weight):
        self.n2, self.n, self.windows = n2, n, windows
        self.level = alpha * (1.0 - NUISANCE_SHARE - _TAIL_SHARE)
        steps = np.arange(windows.count.max())
        column = n[:, None]
        self.n0 = windows.first[:, None] + windows.stride[:, None] * steps
        inside = steps < windows.count[:, None]
        self.n0 = np.where(inside, self.n0, column)
        threshold = _rank_threshold(n2, n1, n, alpha, self.n0, weight)
        # Thinned-out windows use the smooth threshold, which is lower than the next whole count, hence safe.
        whole = np.ceil(threshold - 1e-6)
        threshold = np.where(windows.stride[:, None] == 1.0, whole, threshold)
        self.edge = threshold
        self.possible = inside & (threshold <= column - self.n0)
        self.certain = threshold <= 0.0
        self.threshold = np.where(self.possible & ~self.certain, threshold, 1.0)
        self.slack = np.where(self.possible & ~self.certain, column - self.n0 - threshold + 1.0, 1.0)
        self.log_choose = gammaln(column + 1.0) - gammaln(self.n0 + 1.0) - gammaln(column - self.n0 + 1.0)
        self.log_choose = np.where(self.possible, self.log_choose + np.log(windows.stride[:, None]), -np.inf)

    def probability(self, both: FloatArray, none: FloatArray, row: NDArray[np.intp]) -> FloatArray:
        """Probability of the set `R` at given probabilities of two hits and of none, each for one row of counts."""
        n0, n = self.n0[row], self.n[row][:, None]
        weight = np.exp(self.log_choose[row] + xlogy(n0, none[:, None]) + xlog1py(n - n0, -none[:, None]))
        share = np.clip(both / (1.0 - none), 0.0, 1.0)[:, None]
        tail = np.where(self.certain[row], 1.0, betainc(self.threshold[row], self.slack[row], share))
        return np.sum(weight * tail, axis=1)

    def _margin(self, both, none, row):
        """Falls through zero where the set reaches its level; nearly linear in `both`."""
        row = row.astype(np.intp)
        chance = np.clip(self.probability(both, none, row), 1e-300, 1.0 - 1e-16)
        return ndtri(self.level[row]) - ndtri(chance)

    def _end_margin(self, none, row):
        return -self._margin(1.0 - none, none, row)

    def least_favourable(self, radius: PairRadius, rows: NDArray[np.intp]) -> FloatArray:
        index = np.arange(self.n.size)
        low, high = self.windows.low, np.minimum(self.windows.high, 1.0 - 1e-15)
        # The curve ends where there is no room left for pairs with one hit.
        end = last_safe_point(self._end_margin, low, high, index.astype(np.float64))
        none = low[:, None] + (end - low)[:, None] * np.linspace(0.0, 1.0, _CURVE_POINTS)
        flat_none, flat_index = none.ravel(), np.repeat(index, _CURVE_POINTS)
        top = 1.0 - flat_none
        guess = self._guess(flat_none, flat_index)
        args = flat_none, flat_index.astype(np.float64)
        both = last_safe_point(self._margin, np.zeros_like(top), top, *args, rtol=1e-12, guess=guess)
        # Probabilities found as equal to their ceiling may exceed it by a rounding.
        one_sided = np.maximum((top - both) / 2.0 * (1.0 - 1e-15), 0.0)
        values = radius(both, one_sided, rows[flat_index]).reshape(none.shape)
        worst = np.argmin(values, axis=1)
        pick = index * _CURVE_POINTS + worst
        both, one_sided = both[pick], one_sided[pick]
        return np.stack([self._allow_between(values, both, one_sided, radius, rows), one_sided])

    def _guess(self, none: FloatArray, row: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Ends of a narrow bracket around the curve, by the normal approximation with the edge of `R` straight."""
        n, first, stride = self.n[row], self.windows.first[row], self.windows.stride[row]
        place = (n * none - first) / stride
        left = np.clip(place, 0.0, np.maximum(self.windows.count[row] - 2.0, 0.0)).astype(np.intp)
        edge, right = self.edge[row, left], self.edge[row, np.minimum(left + 1, self.edge.shape[1] - 1)]
        with np.errstate(all="ignore"):
            edge, steepness = edge + (place - left) * (right - edge), (right - edge) / stride
            both = edge / n
            for _ in range(2):
                share = np.clip(both / (1.0 - none), 0.0, 1.0)
                spread = np.square(steepness + share) * none + share * (1.0 - share)
                spread = np.sqrt(n * (1.0 - none) * spread)
                both = (edge + ndtri(self.level[row]) * spread) / n
        return both - _GUESS_DOUBT / n, both + _GUESS_DOUBT / n

    def _allow_between(self, values, both, one_sided, radius, rows):
        """Lower `both` by what the curve may dip between its points: twice the largest second difference over eight."""
        with np.errstate(invalid="ignore"):
            bend = np.abs(values[:, 2:] - 2.0 * values[:, 1:-1] + values[:, :-2])
        dip = np.max(np.nan_to_num(bend, nan=0.0, posinf=0.0), axis=1) / 4.0
        least = np.min(values, axis=1)
        step = 1e-4 * np.minimum(both, 1.0 - both) + 1e-12
        lowered = radius(np.maximum(both - step, 0.0), one_sided, rows)
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = (least - lowered) / step
            shift = np.where(slope > 0.0, 1.5 * dip / slope, 0.0)
        return np.maximum(both - np.nan_to_num(shift), 0.0)


def _rank_threshold(
    n2: FloatArray, n1: FloatArray, n: FloatArray, alpha: FloatArray, n0: FloatArray, weight: float | None
) -> FloatArray:
    """Smallest number of pairs with two hits, for each number without, that ranks no lower than what was observed."""
    column = n[:, None]
    if weight is not None:
        return _linear_threshold(n2, n1, column, n0, weight)
    # Outcomes rank by the distance at which their bound falls to a little above one half. "A little" is the typical
    # error of the bound at this level: the ranking then fits the points that will be tested, not the point observed.
    allowance = -0.25 * ndtri(alpha) / np.sqrt(n)
    near = (n2 + 0.5 * n1) / n - 0.5 <= allowance
    reached = np.full(n.shape, np.inf)
    some = ~near & (n2 < n)
    reached[some] = distance_to_margin(n2[some] / n[some], n1[some] / (2.0 * n[some]), allowance[some])

    threshold = np.where(n0 == 0.0, column, np.inf)  # if all pairs were hit twice, nothing else ranks as high
    hit = 1.0 - n0 / column
    reached, level, start, whole = (np.broadcast_to(a[:, None], n0.shape) for a in (reached, allowance, n1 / n, n))
    todo = some[:, None] & (hit > 0.0)
    # A share of exactly one hides the edge of the slab; leave one part in 1e15 to the pairs with one hit.
    least = np.where(hit == 1.0, 1e-15, 0.0)
    single = most_single_hits(hit[todo], reached[todo], level[todo], least[todo], start[todo])
    threshold[todo] = whole[todo] * (hit[todo] - single)
    # Below the allowance there is no such distance; there the number of hits ranks, below all others.
    threshold[near] = _linear_threshold(n2[near], n1[near], column[near], n0[near], 0.5)
    return threshold


def _linear_threshold(n2: FloatArray, n1: FloatArray, n: FloatArray, n0: FloatArray, weight: float) -> FloatArray:
    observed = (n2 + weight * n1)[:, None]
    return (observed - weight * (n - n0)) / (1.0 - weight)
