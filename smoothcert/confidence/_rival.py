"""One joint confidence limit for the probabilities of a class and of a rival."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .._numerics import LARGEST_GRADIENT, SAFETY, density
from .._validation import BoolArray, FloatArray, IndexArray, broadcast, check_counts, check_level
from ._binomial import binomial_lower, binomial_upper
from ._stratified import bet_size

_FEW = 40.0
"""Expected votes for the rival up to which both probabilities are limited one by one, exactly.

The fewer they are, the larger is the Berry-Esseen term in the tests of the cells. Any number is valid: which test a
pair belongs to does not depend on votes. Where the class has no more votes than this and the rival may expect more,
nothing is certified.
"""

_FEW_TRIALS = 400
"""With fewer trials than this they always are; about the size of radii only, for the same reason."""

_SCREEN_SHARE = 0.01
"""Share of the level for each of two exact limits that keep the search short. The tests have the rest, so any share is
valid; limits widen with the logarithm of it only, and a small one leaves nearly all of the level to the tests."""

_BERRY_ESSEEN = 0.4748
"""Constant of the Berry-Esseen inequality for identically distributed variables (Shevtsova 2011)."""

_STEP, _LARGEST_STEP = 6.0, 0.1
"""Width of a cell in units of the normal quantile, times the root of the trials; and at most.

Each cell has one test for all of its pairs: wide ones lose a little, narrow ones take longer. Six is about five
standard deviations of an observed probability of one half. Any width that depends on `n` alone is valid.
"""

_BET_FACTORS = (0.8, 1.0, 1.25)
"""Bets that are tried, relative to the size that is about best for the pair in the middle of a cell.

More of them make radii a little larger and take longer. The best may be taken: each bet refuses a given pair only if
``a k - b k_rival`` is above a threshold, and `a` and `b` are the same for all bets. So these events are nested, and one
of them happens no more often than the most likely of them, with probability at most the level.
"""

_BISECTIONS = 14
"""Steps towards the smallest radius on a line. Each probability is taken from the end of what is left where it is less
favourable, so any number is valid; after 14 what is left is 2^-14 of the line within the cell."""

_CELLS_AT_ONCE = 2**16
"""Cells are made for several rows together up to this number: arrays of them take 0.5 MB. About speed only."""


def rival_limits(k: ArrayLike, k_rival: ArrayLike, n: ArrayLike, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the least favourable pair of probabilities that votes for a class and for a rival leave possible.

    Parameters
    ----------
    k, k_rival : array-like of int
        Votes for the class and for the rival, together at most `n`.
    n : array-like of int
        Samples, at least 1.
    alpha : float
        Error probability, in (0, 1).

    Returns
    -------
    p, p_rival : ndarray
        The pair whose `first_order_radius` is the lower confidence limit of that radius: it exceeds the radius of the
        true pair with probability at most `alpha`. By itself neither number is a limit.

    Notes
    -----
    The pairs are divided into fixed cells, each with a test of its own at level `alpha`: the true pair is in one cell,
    and the limit exceeds its radius only if the test of that cell refuses it. In a cell around ``(p, q)`` the test
    looks at ``a k - b k_rival``, with `a` and `b` in proportion to the derivatives of the radius there, and bounds its
    tail by Markov's inequality for an exponential function, improved as in `stratified_lower`. Two per cent of `alpha`
    are for wide exact limits outside of which no cell need be tested. Pairs that expect few votes for the rival are
    tested by two exact binomial limits, at half of the level each; those that expect hardly any vote for any other
    class, by one for the class.

    The radius falls with `k_rival`, so that the limit against the strongest of several rivals holds against all.

    Examples
    --------
    >>> from smoothcert.bounds import first_order_radius
    >>> from smoothcert.confidence import binomial_lower, binomial_upper, rival_limits
    >>> float(first_order_radius(*rival_limits(45_000, 30_000, 100_000, 0.001)).round(4))
    0.188
    >>> low, high = binomial_lower(45_000, 100_000, 0.0005), binomial_upper(30_000, 100_000, 0.0005)
    >>> float(first_order_radius(low, high).round(4))
    0.186
    """
    level = check_level("alpha", alpha)
    if level.ndim:
        raise ValueError(f"alpha must be one number, got {alpha!r}.")
    n = check_counts("n", n, least=1)
    k, k_rival, n = broadcast(k=check_counts("k", k), k_rival=check_counts("k_rival", k_rival), n=n)
    if np.any(k + k_rival > n):
        at = int(np.argmax((k + k_rival > n).ravel()))
        raise ValueError(
            f"k and k_rival must sum to at most n, got k={int(k.ravel()[at])}, k_rival={int(k_rival.ravel()[at])} and "
            f"n={int(n.ravel()[at])}. Check that they come from the same samples."
        )
    shape = k.shape
    rows, place = np.unique(np.stack([a.ravel() for a in (k, k_rival, n)], axis=1), axis=0, return_inverse=True)
    pair = _least_favourable(rows[:, 0], rows[:, 1], rows[:, 2], float(level))[:, place.ravel()]
    return pair[0].reshape(shape)[()], pair[1].reshape(shape)[()]


class _Cells(NamedTuple):
    """Rectangles of pairs, cut to what the screen allows, and the row each belongs to."""

    row: IndexArray
    p: FloatArray  # (2, n_cells), lower end first
    rival: FloatArray  # (2, n_cells)
    middle: FloatArray  # (2, n_cells), of the class first, in units of the normal quantile

    def take(self, which: IndexArray | BoolArray) -> _Cells:
        return _Cells(self.row[which], self.p[:, which], self.rival[:, which], self.middle[:, which])


def _least_favourable(k: FloatArray, k_rival: FloatArray, n: FloatArray, alpha: float) -> FloatArray:
    """Return the least favourable pairs, shape (2, n_rows): row 0 the class, row 1 the rival."""
    part = (1.0 - 2.0 * _SCREEN_SHARE) * alpha
    low = binomial_lower(k, n, _SCREEN_SHARE * alpha)
    high = np.minimum(binomial_upper(k_rival, n, _SCREEN_SHARE * alpha), 1.0 - low)
    # A pair that is hardly ever refused: the limit cannot be expected to exceed its radius.
    likely = np.stack([binomial_lower(k, n, 0.5), binomial_upper(k_rival, n, 0.5)])
    likely[1] = np.minimum(likely[1], 1.0 - likely[0])
    border = np.where(n < _FEW_TRIALS, 1.0, _FEW / n)
    pair = _worse(_worse(likely, _nearly_sure(k, n, alpha)), _few_for_rival(k, k_rival, n, border, alpha))
    # With so few votes nothing is certified: the cells' tests would be about pairs of hardly any probability.
    hopeless = (k <= _FEW) & (high > border)
    pair[:, hopeless] = np.array([[0.0], [1.0]])
    todo = np.flatnonzero(~hopeless & (high > border) & (pair[0] > pair[1]))
    for rows, cells in _cells(low, high, border, n, _probit_gap(pair), todo):
        found, which = _cells_pairs(cells, k, k_rival, n, part)
        for_row = np.argsort(_probit_gap(found), kind="stable")[::-1]  # the worst is written last
        worst = np.array(pair)
        worst[:, cells.row[which][for_row]] = found[:, for_row]
        pair[:, rows] = _worse(pair, worst)[:, rows]
    return pair


def _nearly_sure(k: FloatArray, n: FloatArray, alpha: float) -> FloatArray:
    """Return the least favourable pair among those that give other classes almost no probability.

    These are tested by the class alone, with all of `alpha`.
    """
    p = np.maximum(binomial_lower(k, n, alpha), 1.0 - _sure_misses(n, alpha))
    return np.stack([p, 1.0 - p])


def _sure_misses(n: FloatArray, alpha: float) -> FloatArray:
    """Return the probability of other classes up to which a pair counts as nearly sure: what is possible if no vote is
    for them, at half of the level."""
    misses: FloatArray = np.minimum(-1.02 * np.log(alpha / 2.0) / n, 1.0)
    return misses


def _few_for_rival(k: FloatArray, k_rival: FloatArray, n: FloatArray, border: FloatArray, alpha: float) -> FloatArray:
    """Return the least favourable of the other pairs that expect few votes for the rival; (1, 0) if none is left.

    These are tested by two exact limits.
    """
    p, rival = binomial_lower(k, n, alpha / 2.0), binomial_upper(k_rival, n, alpha / 2.0)
    pair = np.stack([p, np.minimum(np.minimum(rival, border), 1.0 - p)])
    return np.where(p < 1.0 - _sure_misses(n, alpha), pair, np.array([[1.0], [0.0]]))


def _probit_gap(pair: FloatArray) -> FloatArray:
    apart: FloatArray = ndtri(pair[0]) - ndtri(pair[1])
    return apart


def _worse(one: FloatArray, other: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return np.where(_probit_gap(other) < _probit_gap(one), other, one)


def _cells(
    low: FloatArray, high: FloatArray, border: FloatArray, n: FloatArray, most: FloatArray, todo: IndexArray
) -> Iterator[tuple[IndexArray, _Cells]]:
    """Yield the cells that have pairs with probit gaps below `most`, a part of the rows at a time."""
    step = np.minimum(_STEP / np.sqrt(n), _LARGEST_STEP)
    first, last = np.floor(ndtri(low) / step), np.floor(ndtri(high) / step)
    start = np.zeros_like(n)
    start[todo] = first[todo] - last[todo]
    n_side = np.ones_like(n)
    n_side[todo] = np.maximum(np.ceil(most / step)[todo] - start[todo] + 1.0, 1.0)
    todo = todo[np.argsort(n_side[todo], kind="stable")]
    while len(todo):
        sizes = n_side[todo]
        size = int(sizes[0])
        at_once = max(1, int(_CELLS_AT_ONCE // size**2))
        # Rows with windows of about the same size go together.
        rows = todo[:at_once][sizes[:at_once] <= 1.5 * size + 2]
        size = int(n_side[rows].max())
        todo = todo[len(rows) :]
        i, j = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
        x, y = first[rows, None, None] + i, last[rows, None, None] - j
        h = step[rows, None, None]
        # The best corner of a cell is up by one in both directions from its worst one.
        near = (x - (y + 1.0)) * h < most[rows, None, None]
        place, at, below = np.nonzero(near)
        x, y, row = x[place, at, 0], y[place, 0, below], rows[place]
        h = step[row]
        p = ndtr(np.stack([x, x + 1.0]) * h)
        rival = ndtr(np.stack([y, y + 1.0]) * h)
        middle = np.stack([x + 0.5, y + 0.5]) * h
        cut_p = np.stack([np.maximum(p[0], low[row]), p[1]])
        cut_rival = np.stack([np.maximum(rival[0], border[row]), np.minimum(rival[1], high[row])])
        cells = _Cells(row, cut_p, cut_rival, middle)
        yield rows, cells.take((cut_rival[0] <= cut_rival[1]) & (cut_p[0] + cut_rival[0] <= 1.0))


def _cells_pairs(
    cells: _Cells, k: FloatArray, k_rival: FloatArray, n: FloatArray, alpha: float
) -> tuple[FloatArray, IndexArray]:
    """Return the least favourable pair that each cell's test leaves possible, and the cells that have any."""
    found = np.full((2, len(cells.row)), np.nan)
    rest = np.arange(len(cells.row))
    for factor in _BET_FACTORS:
        pair = _line_pairs(cells.take(rest), k, k_rival, n, alpha, factor)
        # Every bet gives a valid test; a cell is settled by the one that leaves least.
        old = found[:, rest]
        with np.errstate(invalid="ignore"):
            better = np.isnan(old[0]) | (pair[0] > 1.0) | (_probit_gap(pair) > _probit_gap(old))
        found[:, rest] = np.where(better, pair, old)
        rest = rest[pair[0] <= 1.0]
        if not len(rest):
            break
    which = np.flatnonzero(found[0] <= 1.0)
    return found[:, which], which


_REFUSED = np.array([2.0, 0.0])
"""Stands for a cell of which nothing is left, and is told from a pair by a probability above one."""


def _line_pairs(
    cells: _Cells, k: FloatArray, k_rival: FloatArray, n: FloatArray, alpha: float, factor: float
) -> FloatArray:
    """Return the least favourable pair that one bet leaves of each cell; a probability above one if it leaves none.

    The test refuses the pairs below a line ``p = start + slope * rival``. Above it the radius is smallest at the lower
    right: on the line, where along it the radius is unimodal, or at a corner.
    """
    row, n_cells = cells.row, len(cells.row)
    k, k_rival, n = k[row], k_rival[row], n[row]
    a, b = 1.0 / density(cells.middle)
    p, q = ndtr(cells.middle)
    variance = a * a * p * (1.0 - p) + b * b * q * (1.0 - q) + 2.0 * a * b * p * q
    log_term = -np.log(alpha)
    size = factor * bet_size(log_term) / np.sqrt(n * variance)
    win, lose = np.expm1(size * a), -np.expm1(-size * b)
    log_limit = (size * (a * k - b * k_rival) - log_term - _log_factor(cells, win, lose, size * a, size * b, n)) / n
    # The tail is above the level where ``1 + p win - rival lose > exp(log_limit)``.
    start, slope = np.expm1(log_limit) / win, lose / win
    start = start - SAFETY * (np.abs(start) + slope)
    least, most = cells.p[0], cells.p[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.maximum(
            cells.rival[0], np.where(start + slope * cells.rival[0] >= least, -np.inf, (least - start) / slope)
        )
        right = np.minimum(np.minimum(cells.rival[1], (most - start) / slope), (1.0 - start) / (1.0 + slope))
    corner = start + slope * cells.rival[1] <= least
    refused = ~corner & (left > right * (1.0 + SAFETY))
    low, high = np.minimum(left, right), right
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        on_line = np.clip(start + slope * middle, 1e-300, 1.0)
        rising = slope * density(ndtri(middle)) >= density(ndtri(on_line))
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    own = np.clip(np.maximum(start + slope * low, least), 0.0, 1.0) * (1.0 - SAFETY)
    own = np.where(corner, least, own)
    # All of the cell that is left has at least this probability of the class, and so at most the rest for the rival.
    pair = np.stack([own, np.minimum(np.where(corner, cells.rival[1], high * (1.0 + SAFETY)), 1.0 - own)])
    return np.where(refused, np.broadcast_to(_REFUSED[:, None], (2, n_cells)), pair)


def _log_factor(
    cells: _Cells, win: FloatArray, lose: FloatArray, log_win: FloatArray, log_lose: FloatArray, n: FloatArray
) -> FloatArray:
    """Return the logarithm of the factor to Markov's inequality that holds for all pairs of a cell."""
    p, q = cells.p[0], cells.rival[0]
    rest = np.maximum(1.0 - cells.p[1] - cells.rival[1], 0.0)
    largest_mean = 1.0 + cells.p[1] * win - cells.rival[0] * lose
    u, v = 1.0 + win, 1.0 - lose
    both = p * q * u * v * np.square(log_win + log_lose)
    one = rest * (p * u * np.square(log_win) + q * v * np.square(log_lose))
    variance = n * (both + one) / np.square(largest_mean)
    jump = log_win + log_lose
    with np.errstate(divide="ignore"):
        factor = (LARGEST_GRADIENT + 2.0 * _BERRY_ESSEEN * jump) / np.sqrt(variance)
    log_factor: FloatArray = np.minimum(np.log(factor * (1.0 + SAFETY)), 0.0)
    return log_factor
