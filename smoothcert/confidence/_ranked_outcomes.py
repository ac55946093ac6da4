"""The outcomes that rank no lower than the observed one, and a proved upper bound of their probability.

Of `n` antithetic pairs ``n2`` have two hits, ``n1`` one and ``n0`` none. Given ``n0``, the set is
``n2 >= threshold(n0)``, so its probability is a sum over ``n0`` of binomial weights times binomial tails. Short sums
are taken in full. Long ones are taken in blocks: weights and tails are log-concave along the edge of the set, so the
tangent in the middle of a block bounds the whole block from above (see the theory, "Sums in blocks").
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, gammaln, ndtri

from .._numerics import last_safe_point
from .._validation import BoolArray, FloatArray, IndexArray
from ..bounds._dipole import distance_to_margin, enough_single_hits, pair_loss

TAIL_SHARE = 1e-3
"""Part of the error probability spent on numbers of pairs without hit that are too unlikely to be summed.
A thousandth is hardly missed, and the range of the sum grows only with the root of the logarithm of its inverse."""

_BLOCK = 0.6
"""Length of a block, in standard deviations of what is summed. Longer blocks are fewer but overstate more: at this
length probabilities by 2 to 3% at 50,000 pairs. Every length is valid."""

_CHUNK = 400_000
"""Summands held at once, in arrays of 3 MB each. Memory and time depend on it, validity does not."""

_ROUNDING = 3e-14
"""Relative rounding of a probability, for each pair: the logarithms in it are sums of terms of the order of `n`, each
right to a few units in the last place. A thousandth of the level would be lost at 3e10 pairs."""


class RankedOutcomes:
    """The sets of outcomes that rank no lower than the observed ones, one for each row of counts.

    Parameters
    ----------
    both, one, pairs : ndarray of shape (n_rows,)
        The observed counts.
    alpha : ndarray of shape (n_rows,)
        Error probability of the limits; it decides the ranking and how far sums go.
    low, high : ndarray of shape (n_rows,)
        Interval for the probability of a pair without hit, within which probabilities will be asked for.
    weight : float or None
        Rank by ``both + weight * one``, or by dipole radius.

    Attributes
    ----------
    most_none : ndarray of shape (n_rows,)
        Largest number of pairs without hit in the set.
    least_both : ndarray of shape (n_rows,)
        Smallest number of pairs with two hits in the set when every pair has a hit.
    """

    def __init__(
        self,
        both: FloatArray,
        one: FloatArray,
        pairs: FloatArray,
        alpha: FloatArray,
        low: FloatArray,
        high: FloatArray,
        weight: float | None,
    ) -> None:
        self.n, self.alpha = pairs, alpha
        none = pairs - both - one
        rows = np.arange(pairs.size)
        edge = _Edge(both, one, pairs, alpha, weight)
        self.most_none = edge.most_none
        self.least_both = edge.counts(np.zeros((pairs.size, 1)), rows)[:, 0]

        first = np.maximum(np.floor(pairs * low - self._reach(low, rows)) - 1.0, 0.0)
        last = np.minimum(np.ceil(pairs * high + self._reach(high, rows)) + 1.0, self.most_none)
        # Weights and tails both bend; a block is short against the distance on which their product does. The tail's
        # argument moves by at most `speed` counts for each pair without hit.
        speed = 2.0 if weight is None else 1.0 + weight / (1.0 - weight)
        own = np.maximum(none, 1.0) * (1.0 - none / pairs) + 1e-9
        given = one * both / np.maximum(one + both, 1.0) + 1e-9
        half = np.floor(0.5 * _BLOCK / np.sqrt(1.0 / own + np.square(speed) / given))
        # Blocks end with the window, and begin a little before it where there is room.
        stride = 2.0 * half + 1.0
        half = np.where(first >= stride, half, 0.0)
        self.half, self.stride = half, 2.0 * half + 1.0
        count = np.ceil((last + 1.0 - first) / self.stride)
        self.first, self.count = last + 1.0 - self.stride * count, count.astype(np.intp)

        steps = np.arange(self.count.max())
        inside = steps < self.count[:, None]
        self.n0 = np.where(inside, (self.first + half)[:, None] + self.stride[:, None] * steps, 0.0)
        threshold = edge.counts(np.where(inside, self.n0, none[:, None]), rows)
        # With an outcome the set holds all those with more hits, so thresholds do not fall.
        threshold = np.minimum.accumulate(np.where(inside, threshold, np.inf)[:, ::-1], axis=1)[:, ::-1]
        hit = pairs[:, None] - self.n0
        self.inside = inside
        self.certain = inside & (threshold <= 0.0)
        usual = inside & ~self.certain
        self.threshold = np.where(usual, threshold, 1.0)
        self.single = np.where(usual, hit - threshold, 0.0)
        self.log_weight = _log_choose(pairs[:, None], self.n0)
        self.log_mass = _log_choose(self.threshold + self.single, self.threshold)
        # In each block, the slope of a line below the threshold, and how far the threshold in the middle is above it.
        self.tilt, self.lift = np.zeros_like(self.n0), np.zeros_like(self.n0)
        (long,) = np.nonzero(half > 0.0)
        if long.size:
            # The threshold is a concave function of n0, hence above its chord; and it does not fall.
            steps = np.arange(self.count[long].max() + 1)
            ends = (self.first[long] - 0.5)[:, None] + self.stride[long][:, None] * np.minimum(
                steps, self.count[long][:, None]
            )
            value = edge.smooth(np.minimum(ends, pairs[long][:, None]), long)
            left, right = value[:, :-1], np.maximum(value[:, 1:], value[:, :-1])
            columns = np.arange(left.shape[1])
            at = np.ix_(long, columns)
            self.tilt[at] = np.where(usual[at], (right - left) / self.stride[long][:, None], 0.0)
            self.lift[at] = np.where(usual[at], np.maximum(self.threshold[at] - 0.5 * (left + right), 0.0), 0.0)

    def _reach(self, none: FloatArray, rows: IndexArray) -> FloatArray:
        """Return how far the number of pairs without hit strays from its mean, but for `TAIL_SHARE` (Bernstein)."""
        log_tail = np.log(2.0 / (TAIL_SHARE * self.alpha[rows]))
        variance = self.n[rows] * none * np.maximum(1.0 - none, 0.0)
        reach: FloatArray = np.sqrt(2.0 * variance * log_tail) + 2.0 / 3.0 * log_tail
        return reach

    def probability(
        self, both: FloatArray, one: FloatArray, none: FloatArray, rows: IndexArray
    ) -> tuple[FloatArray, IndexArray]:
        """Return an upper bound of the probability of the set, up to `TAIL_SHARE`, and where it is one.

        Parameters
        ----------
        both, one, none : ndarray of shape (n_points,)
            Probabilities of pairs with two hits, one and none; they sum to one.
        rows : ndarray of int, shape (n_points,)
            The row of counts each point belongs to.

        Returns
        -------
        bound : ndarray of shape (n_points,)
        beyond : ndarray of int, shape (n_points,)
            0 if the probable numbers of pairs without hit lie in the window that was prepared, -1 if there is more
            before it, 1 if there is more after it; then the bound is none.
        """
        first, stride, count, reach = self.first[rows], self.stride[rows], self.count[rows], self._reach(none, rows)
        lowest, highest = self.n[rows] * none - reach, self.n[rows] * none + reach
        beyond = np.where(np.minimum(highest, self.most_none[rows]) > first + stride * count, 1, 0)
        beyond = np.where(np.maximum(lowest, 0.0) < first, -1, beyond)
        begin = np.clip(np.floor((lowest - first) / stride), 0, count - 1).astype(np.intp)
        end = np.clip(np.ceil((highest - first) / stride) + 1, begin + 1, count).astype(np.intp)
        bound = np.empty_like(both)
        order = np.argsort(end - begin)
        start = 0
        while start < order.size:
            size = max(1, int(_CHUNK / (end - begin)[order[min(start + 4095, order.size - 1)]]))
            part = order[start : start + min(size, 4096)]
            bound[part] = self._sum(both[part], one[part], none[part], rows[part], begin[part], end[part])
            start += part.size
        return bound * (1.0 + 1e-9 + _ROUNDING * self.n[rows]) + 1e-250, beyond

    def _sum(
        self,
        both: FloatArray,
        one: FloatArray,
        none: FloatArray,
        rows: IndexArray,
        begin: IndexArray,
        end: IndexArray,
    ) -> FloatArray:
        columns = begin[:, None] + np.arange((end - begin).max())
        at = rows[:, None], np.minimum(columns, self.threshold.shape[1] - 1)
        inside = (columns < end[:, None]) & self.inside[at]
        hit = both + one
        with np.errstate(divide="ignore"):
            share, log_none, log_hit, log_share, log_rest = (
                a[:, None] for a in (both / hit, np.log(none), np.log(hit), np.log(both / hit), np.log(one / hit))
            )
        n, n0, threshold, single = self.n[rows][:, None], self.n0[at], self.threshold[at], self.single[at]
        log_weight = self.log_weight[at] + n0 * log_none + (n - n0) * log_hit
        certain = self.certain[at]
        tail = np.where(certain, 1.0, betainc(threshold, single + 1.0, share))
        half = self.half[rows][:, None]
        if not np.any(half):
            total: FloatArray = np.sum(np.where(inside, np.exp(log_weight) * tail, 0.0), axis=1)
            return total
        with np.errstate(all="ignore"):
            # Weight of the next number of pairs without hit, over the weight of this one.
            rise = np.log((n - n0) / (n0 + 1.0)) + (log_none - log_hit)
            log_tail = np.log(tail)
            log_length = np.log(2.0 * half + 1.0)
            # Tails do not grow with n0, so the middle of the block before bounds this block; and none exceeds one.
            before = np.concatenate([np.zeros((len(tail), 1)), log_tail[:, :-1]], axis=1)
            steps = np.where(half > 0.0, before, log_tail) + half * np.abs(rise)
            mass = np.exp(self.log_mass[at] + threshold * log_share + single * log_rest)
            hazard = np.where(certain, 0.0, np.minimum(mass / tail, 1.0))
            fewer = np.log1p(-hazard)  # one more pair with two hits asked for
            rise += np.log1p(-hazard * (threshold / (threshold + single))) + self.tilt[at] * fewer
            square = np.square(rise)
            # At least the logarithm of the sum of exp(rise * j) over whole j from -half to half, over the length.
            bend = square * (half * (half + 1.0) / 6.0 + square / 2880.0)
            tangent = log_tail - self.lift[at] * fewer + bend
            block = log_weight + log_length + np.fmin(tangent, steps)
            total = np.sum(np.where(inside, np.exp(block), 0.0), axis=1)
            return total


class _Edge:
    """Smallest number of pairs with two hits, for each number without, that ranks no lower than what was observed."""

    def __init__(
        self, both: FloatArray, one: FloatArray, pairs: FloatArray, alpha: FloatArray, weight: float | None
    ) -> None:
        self.both, self.one, self.n = both, one, pairs
        self.none = pairs - both - one
        # Roundings may move a threshold by this many counts; it is lowered by it, which makes the set larger.
        self.slack = 1e-6 + 1e-13 * pairs
        self.weight = 0.5 if weight is None else weight
        # Outcomes rank by the distance at which their bound falls to a little above one half. "A little" is the
        # typical error of the bound at this level: the ranking then fits the points that will be tested, not the
        # point observed. Below the allowance there is no such distance; there the number of hits ranks, below all
        # others. If all pairs were hit twice, nothing else ranks as high.
        self.allowance = np.maximum(-0.25 * ndtri(alpha), 0.0) / np.sqrt(pairs)
        self.linear = (both + 0.5 * one) / pairs - 0.5 <= self.allowance
        if weight is not None:
            self.linear = np.ones_like(self.linear)
        self.full = ~self.linear & (both == pairs)
        self.reached = np.full(pairs.shape, np.inf)
        some = ~self.linear & ~self.full
        self.reached[some] = distance_to_margin(
            both[some] / pairs[some], one[some] / (2.0 * pairs[some]), self.allowance[some]
        )
        self.most_none = self._most_none(some)

    def _most_none(self, some: BoolArray) -> FloatArray:
        most = np.where(self.linear, self.n - (self.both + self.weight * self.one), 0.0)
        if some.any():
            margin, reached = self.allowance[some], self.reached[some]

            def left(none: FloatArray, margin: FloatArray, reached: FloatArray) -> FloatArray:
                return 0.5 - none - pair_loss(-ndtri(none / 2.0), np.full_like(none, -np.inf), reached) - margin

            zero = np.full_like(margin, 1e-300)
            most[some] = self.n[some] * last_safe_point(left, zero, zero + 0.5, margin, reached)
        most = np.floor(most + self.slack)
        return np.where(self.full, 0.0, np.clip(most, self.none, self.none + self.one))

    def smooth(self, n0: FloatArray, rows: IndexArray) -> FloatArray:
        """Return the thresholds that are not rounded to whole counts, lowered by the slack; `n0` has shape (n_rows,
        ...)."""
        n, slack = self.n[rows][:, None], self.slack[rows][:, None]
        observed = (self.both + self.weight * self.one)[rows][:, None]
        threshold = (observed - self.weight * (n - n0)) / (1.0 - self.weight) - slack
        threshold = np.where(self.full[rows][:, None], n, threshold)
        todo = np.broadcast_to((~self.linear[rows] & ~self.full[rows])[:, None], n0.shape) & (n0 < n)
        if todo.any():
            reached, level, start, whole, some_slack = (
                np.broadcast_to(a[rows][:, None], n0.shape)[todo]
                for a in (self.reached, self.allowance, self.one / self.n, self.n, self.slack)
            )
            hit = (1.0 - n0 / n)[todo]
            threshold[todo] = whole * (hit - enough_single_hits(hit, reached, level, start, some_slack / whole))
        return threshold

    def counts(self, n0: FloatArray, rows: IndexArray) -> FloatArray:
        """Return the thresholds in whole counts; the observed outcome is in its own set, whatever the rounding."""
        threshold = np.ceil(self.smooth(n0, rows))
        n, most, none, both = (a[rows][:, None] for a in (self.n, self.most_none, self.none, self.both))
        threshold = np.where(n0 == none, np.minimum(threshold, both), threshold)
        return np.where(n0 <= most, np.minimum(threshold, n - n0), np.inf)


def _stirling_rest(k: FloatArray) -> FloatArray:
    """Return ``log(k!) - (k + 1/2) log(k) + k - log(2 pi) / 2`` for ``k > 0``."""
    x = np.maximum(k, 1.0)
    inverse = np.square(1.0 / x)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / x
    small = np.minimum(x, 20.0)
    direct = gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2.0 * np.pi)
    return np.where(x < 20.0, direct, series)


def _log_choose(n: FloatArray, k: FloatArray) -> FloatArray:
    """Return the logarithm of the binomial coefficient, in terms that are of the order of its own size."""
    rest = n - k
    inner = (k > 0.0) & (rest > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = 0.5 * np.log(n / (2.0 * np.pi * k * rest)) - k * np.log(k / n) - rest * np.log(rest / n)
    return np.where(inner, value + _stirling_rest(n) - _stirling_rest(k) - _stirling_rest(rest), 0.0)
