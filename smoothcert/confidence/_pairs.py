"""Joint confidence limits for the two pair probabilities behind the dipole certificates.

An antithetic pair has two hits, one or none. Limits for the first two probabilities on their own add two errors that
in truth cancel, since the counts are negatively correlated. What must not be overstated is only the radius, so we
test that directly (Buehler 1957):

1. Rank all outcomes, the higher the better. The outcomes that rank no lower than the observed one form a set `R`.
2. Probabilities under which `R` has at most the probability `alpha` are refuted: were they true, an event of
   probability at most `alpha` would have been observed.
3. The certificate is its smallest value over all probabilities that are not refuted. The probability of a pair
   without hit is searched only inside an interval that misses it with probability ``NUISANCE_SHARE * alpha``, which is
   taken off `alpha` (Berger and Boos 1994).

The edge of what is refuted is a curve. It is replaced by a chain of arcs that provably lie on its refuted side: the
logarithm of the probability of `R` is a convex function of the logarithms of the pair probabilities, so it can be
bounded between two points from its values there. Along an arc the certificate is bounded below by its tangent planes,
because it is a convex function of the pair probabilities. The proofs are on the page "Joint inference for pairs" of
the theory.

The ranking must be fixed beforehand. The dipole certificate ranks outcomes by the radius they give at face value,
which is optimal to first order. The second-order dipole depends almost equally on the pairs with one hit and with two,
so there a fixed weight for the former serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from .._validation import BoolArray, FloatArray, IndexArray, broadcast, check_counts, check_level
from ..bounds import dipole_radius
from ..bounds._dipole import dipole_plane
from ._binomial import binomial_lower, binomial_upper
from ._ranked_outcomes import TAIL_SHARE, RankedOutcomes

NUISANCE_SHARE = 0.02
"""Share of the error probability spent on the interval for the pairs without hit.

It is lost to the rest, so it should be small; and it can be, as the interval widens only with the root of the logarithm
of its inverse. Every share fixed beforehand is valid."""

ARC_ALLOWANCE = 0.02
"""By how much the logarithm of the probability of `R` may rise along an arc. The level at the ends is lower by that,
two percent, and the number of points falls with its root: 15 to 40 are usual. Every positive value is valid."""

_FEW_NONE = 0.02
"""Expected pairs without hit at the first point of the curve; fewer are left to the first corner. The corner is valid
wherever it is, and gives away little as long as this is far below one count."""

_LEVEL_TOLERANCE = 0.01
"""Points of the curve are good if they use up the level but for this part. One percent of the level is hardly missed,
and two or three steps of the secant method reach it."""

_COARSE = np.linspace(0.0, 1.0, 7)
"""Where the curve is solved first, as parts of its range of angles. Polynomials through these points guess the others,
and every arc that is too long is divided: time depends on their number, validity does not."""

_ROWS_AT_ONCE = 256
"""Rows of counts solved together: more hide the interpreter better and take more memory. Time depends on
it, validity does not."""

PairRadius = Callable[[FloatArray, FloatArray, IndexArray], FloatArray]
PairPlane = Callable[[FloatArray, FloatArray, FloatArray, IndexArray], tuple[FloatArray, FloatArray, FloatArray]]


def joint_pair_limits(
    both: ArrayLike,
    one: ArrayLike,
    pairs: ArrayLike,
    alpha: ArrayLike,
    *,
    radius: PairRadius | None = None,
    plane: PairPlane | None = None,
    weight: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the least favourable pair probabilities that the counts do not refute.

    Parameters
    ----------
    both, one, pairs : array-like of int
        Pairs with two hits, pairs with exactly one (on either side), and all pairs.
    alpha : array-like
        Error probability, in (0, 1).
    radius : callable, optional
        ``radius(both, one_sided, rows)``: the certificate to be minimised, increasing in the two probabilities;
        `rows` are the indices into the broadcast counts. The dipole radius by default.
    plane : callable, optional
        ``plane(both, one_sided, r, rows)``: a linear lower bound of what the class keeps at distance `r`, best at the
        given probabilities: its excess over 1/2 there, and its slopes in `both` and `one_sided`, at least 0. Given
        together with `radius`.
    weight : float, optional
        Rank outcomes by ``both + weight * one``, between 0 and 1. By default they are ranked by their dipole radius.

    Returns
    -------
    both, one_sided : ndarray
        Probabilities as the functions in `smoothcert.bounds` take them. The certificate at the truth is below that at
        these with probability at most `alpha`. Zero where nothing can be certified.

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
    if (radius is None) != (plane is None):
        raise ValueError("radius and plane must be given together, got one of them. Give both, or neither.")
    shape = both.shape
    n2, n1, n, alpha = (a.ravel() for a in (both, one, pairs, alpha))
    limits = np.zeros((2, n2.size))
    # Without a majority of hits nothing will be certified.
    todo = np.flatnonzero(2.0 * n2 + n1 > n)
    todo = todo[np.argsort(n[todo], kind="stable")]
    for start in range(0, todo.size, _ROWS_AT_ONCE):
        rows = todo[start : start + _ROWS_AT_ONCE]
        curve = _Curve(n2[rows], n1[rows], n[rows], alpha[rows], weight)
        limits[:, rows] = _least_favourable(curve.arcs(), curve.corner, rows, radius or _radius, plane or _plane)
    return limits[0].reshape(shape)[()], limits[1].reshape(shape)[()]


def _radius(both: FloatArray, one_sided: FloatArray, rows: IndexArray) -> FloatArray:
    return dipole_radius(both, one_sided)


def _plane(
    both: FloatArray, one_sided: FloatArray, r: FloatArray, rows: IndexArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    return dipole_plane(both, one_sided, r)


class _Points(NamedTuple):
    """Points on the refuted side of the curve, ordered by row and, within a row, from few pairs without hit to many."""

    row: IndexArray
    angle: FloatArray  # one: (1 - both) sin^2, none: (1 - both) cos^2
    root: FloatArray  # of 1 - both
    slope: FloatArray  # of the normal quantile of the probability of R in the root
    good: BoolArray
    probabilities: FloatArray  # (n_points, 3): both, one, none

    def take(self, index: BoolArray | IndexArray) -> _Points:
        return _Points._make(a[index] for a in self)

    def merge(self, other: _Points) -> _Points:
        merged = _Points(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))
        return merged.take(np.lexsort([-merged.angle, merged.row]))


class _Curve:
    """The curve of pair probabilities at which `R` reaches its level, for several rows of counts at once."""

    def __init__(self, n2: FloatArray, n1: FloatArray, n: FloatArray, alpha: FloatArray, weight: float | None) -> None:
        n0 = n - n2 - n1
        beta = NUISANCE_SHARE * alpha
        self.n, self.n1 = n, n1
        low, high = binomial_lower(n0, n, beta / 2.0), binomial_upper(n0, n, beta / 2.0)
        self.outcomes = RankedOutcomes(n2, n1, n, alpha, low, high, weight)
        # At the ends of arcs the set has at most the level, of which a part pays for what is not summed.
        level = alpha * (1.0 - NUISANCE_SHARE) * np.exp(-ARC_ALLOWANCE)
        self.level = level - TAIL_SHARE * alpha
        # Below `low` there may be a corner to the first point, see the theory.
        self.low = np.maximum(low, _FEW_NONE / n)
        self.high = np.minimum(high, 1.0 - 1e-15)
        # Without pairs of one hit the set only limits the number of pairs without hit.
        self.end = binomial_upper(self.outcomes.most_none, n, self.level * (1.0 - 1e-8))
        at_none = binomial_lower(self.outcomes.least_both, n, self.level * (1.0 - 1e-8))
        cornered = self.low > low
        self.corner = (
            np.flatnonzero(cornered),
            at_none[cornered],
            np.maximum(1.0 - self.low - at_none, 0.0)[cornered] * (1.0 - 1e-15),
        )

    def arcs(self) -> _Points:
        """Return points whose arcs are short enough, from the low end of the interval to its high end or that of the
        curve."""
        rows = np.arange(self.n.size)
        guess = np.sqrt((self.n1 + 2.0 * np.sqrt(self.n1) + 1.0) / self.n)
        beyond = self.high >= self.end
        final_none = np.where(beyond, self.low, self.high)
        points = self._at_none(np.concatenate([self.low, final_none]), np.tile(rows, 2), np.tile(guess, 2))
        first, final = points.take(rows), points.take(rows + rows.size)
        ends = np.stack([1.0 - self.end, np.zeros_like(self.end), self.end], axis=1)
        final = _Points(
            rows,
            np.where(beyond, 0.0, final.angle),
            np.where(beyond, np.sqrt(self.end), final.root),
            final.slope,
            beyond | final.good,
            np.where(beyond[:, None], ends, final.probabilities),
        )
        # A few points in between tell where the curve runs; they make the guesses for all others good.
        between = _COARSE[1:-1]
        row = np.repeat(rows, between.size)
        part = np.tile(between, rows.size)
        points = first.merge(final).merge(self._between(first, final, row, part))
        # As many points as the lengths of the arcs ask for.
        shape = (rows.size, _COARSE.size)
        roots, slopes, angles = (a.reshape(shape) for a in (points.root, points.slope, points.angle))
        length = _length(points, self.n[points.row])[points.row[1:] == points.row[:-1]].reshape(rows.size, -1)
        pieces = np.clip(np.ceil(length / np.sqrt(0.9 * ARC_ALLOWANCE)), 1, 200).astype(np.intp)
        row = np.repeat(np.repeat(rows, _COARSE.size - 1), pieces.ravel())
        interval = np.repeat(np.tile(np.arange(_COARSE.size - 1), rows.size), pieces.ravel())
        begins = np.cumsum(pieces.ravel()) - pieces.ravel()
        step = np.arange(row.size) - np.repeat(begins, pieces.ravel())
        part = (interval + step / pieces[row, interval]) / (_COARSE.size - 1)
        row, part = row[step > 0], part[step > 0]
        basis = _lagrange(part)
        guess, slope = (np.sum(basis * a[row], axis=1) for a in (roots, slopes))
        angle = angles[row, 0] + part * (angles[row, -1] - angles[row, 0])
        points = points.merge(self._at_angle(angle, row, guess, slope))
        for _ in range(30):
            same = points.row[1:] == points.row[:-1]
            left, right = points.take(np.flatnonzero(same)), points.take(np.flatnonzero(same) + 1)
            long = _rise(left, right, self.n[left.row]) > ARC_ALLOWANCE
            if not long.any():
                return points
            left, right = left.take(long), right.take(long)
            points = points.merge(
                self._at_angle(
                    0.5 * (left.angle + right.angle),
                    left.row,
                    0.5 * (left.root + right.root),
                    0.5 * (left.slope + right.slope),
                )
            )
        points.good[np.isin(points.row, left.row)] = False
        return points

    def _between(self, first: _Points, final: _Points, row: IndexArray, part: FloatArray) -> _Points:
        angle, root, slope = (
            getattr(first, name)[row] * (1.0 - part) + getattr(final, name)[row] * part
            for name in ("angle", "root", "slope")
        )
        return self._at_angle(angle, row, root, slope)

    def _at_none(self, none: FloatArray, row: IndexArray, guess: FloatArray) -> _Points:
        """Return the points of the curve with given probabilities of no hit."""
        zero = np.zeros_like(none)
        slope: FloatArray = -2.0 * np.sqrt(self.n[row])
        _, slope, good, p = self._solve(zero + 1.0, zero, none, row, guess, slope)
        angle = np.arctan2(np.sqrt(p[:, 1]), np.sqrt(p[:, 2]))
        return _Points(row, angle, np.sqrt(p[:, 1] + p[:, 2]), slope, good, p)

    def _at_angle(self, angle: FloatArray, row: IndexArray, guess: FloatArray, slope: FloatArray) -> _Points:
        """Return the points of the curve with given ratios of pairs with one hit to pairs without."""
        one, none = np.square(np.sin(angle)), np.square(np.cos(angle))
        lowest, highest = (np.sqrt(end[row] / none) for end in (self.low, np.minimum(self.high, self.end)))
        guess = np.clip(guess, lowest, highest)
        root, slope, good, p = self._solve(one, none, np.zeros_like(angle), row, guess, slope)
        return _Points(row, angle, root, slope, good, p)

    def _solve(
        self,
        one: FloatArray,
        none: FloatArray,
        start: FloatArray,
        row: IndexArray,
        guess: FloatArray,
        slope: FloatArray,
    ) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
        """Find points ``one = x^2 one, none = start + x^2 none`` at which `R` has nearly its level, and not more.

        The normal quantile of the probability is nearly linear in `x`, so the secant method in a bracket takes two or
        three steps from a good guess.
        """
        highest = np.sqrt((1.0 - start) / (one + none)) * (1.0 - 1e-15)
        level = self.level[row]
        wanted = ndtri(level * (1.0 - 0.5 * _LEVEL_TOLERANCE))
        unsafe, safe = np.zeros_like(guess), highest.copy()
        x = np.clip(guess, 1e-6 * highest, highest)
        best, good = highest.copy(), np.zeros(x.size, dtype=bool)
        slope = slope.copy()
        last_x, last_z = np.full_like(x, np.nan), np.full_like(x, np.nan)
        active = np.arange(x.size)
        for _ in range(60):
            at, p = x[active], np.square(x[active])
            p1, p0 = p * one[active], start[active] + p * none[active]
            chance, beyond = self.outcomes.probability(np.maximum(1.0 - p1 - p0, 0.0), p1, p0, row[active])
            covered = beyond == 0
            held = np.where(covered, chance <= level[active], beyond > 0)
            best[active] = np.where(held & covered, at, best[active])
            good[active] |= held & covered
            safe[active] = np.where(held, at, safe[active])
            unsafe[active] = np.where(held, unsafe[active], at)
            done = held & covered & (chance >= level[active] * (1.0 - _LEVEL_TOLERANCE))
            done |= safe[active] - unsafe[active] <= 1e-14 * safe[active]
            with np.errstate(all="ignore"):
                z = np.where(covered, ndtri(np.clip(chance, 1e-250, 1.0 - 1e-16)), np.nan)
                measured = (z - last_z[active]) / (at - last_x[active])
                usable = np.isfinite(measured) & (measured < 0.0)
                slope[active] = np.where(usable, measured, slope[active])
                last_x[active], last_z[active] = at, z
                step = at + (wanted[active] - z) / slope[active]
            low, high = unsafe[active], safe[active]
            outside = ~((step > low) & (step < high))
            x[active] = np.where(outside, 0.5 * (low + high), step)
            active = active[~done]
            if not active.size:
                break
        p = np.square(best)
        p1, p0 = p * one, start + p * none
        return best, slope, good, np.stack([np.maximum(1.0 - p1 - p0, 0.0), p1, p0], axis=1)


def _lagrange(part: FloatArray) -> FloatArray:
    """Return values of the basis polynomials of the coarse points, shape (n_points, n_coarse)."""
    basis = np.ones((part.size, _COARSE.size))
    for i, here in enumerate(_COARSE):
        for there in np.delete(_COARSE, i):
            basis[:, i] *= (part - there) / (here - there)
    return basis


def _length(points: _Points, n: FloatArray) -> FloatArray:
    """Return the root of the approximate rise of ``log P(R)`` along the arcs between neighbours."""
    step = np.diff(np.sqrt(points.probabilities), axis=0)
    length: FloatArray = np.sqrt(0.5 * n[1:] * np.sum(np.square(step), axis=1))
    return length


def _ends(left: _Points, right: _Points) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the ends of the arcs, and the logarithms of their ratios. An arc to a point without pairs of one hit has
    none."""
    a, b = left.probabilities.copy(), right.probabilities
    a[:, 1] = np.where(b[:, 1] == 0.0, 0.0, a[:, 1])
    ratio = np.log(np.divide(b, a, out=np.ones_like(a), where=a > 0.0))
    return a, b, ratio


def _rise(left: _Points, right: _Points, n: FloatArray) -> FloatArray:
    """Return the upper bound of ``-n log Z`` along the arcs, by the tangents of the convex ``log Z`` at both ends and
    between."""
    a, b, ratio = _ends(left, right)
    middle = np.sqrt(a * b)
    with np.errstate(divide="ignore", invalid="ignore"):
        at_start = np.where(left.probabilities[:, 1] == a[:, 1], 0.0, np.log1p(-left.probabilities[:, 1]))
        missing = 0.5 * np.sum(np.square(np.sqrt(a) - np.sqrt(b)), axis=1) - 0.5 * np.expm1(at_start)
        at_middle = np.log1p(-missing)
        start_slope = np.sum(a * ratio, axis=1) / np.exp(at_start)
        slope = np.sum(middle * ratio, axis=1) / np.exp(at_middle)
        end_slope = np.sum(b * ratio, axis=1)
        first = _meeting(at_start, start_slope, at_middle - 0.5 * slope, slope)
        second = _meeting(at_middle - 0.5 * slope, slope, -end_slope, end_slope)
    lowest = np.minimum(np.minimum(at_start, 0.0), np.minimum(first, second))
    return np.nan_to_num(-n * lowest, nan=np.inf)


def _meeting(value: FloatArray, slope: FloatArray, other_value: FloatArray, other_slope: FloatArray) -> FloatArray:
    """Return the height at which two lines over [0, 1] meet; where they do not, that of the higher one's lower end."""
    s = np.clip((value - other_value) / (other_slope - slope), 0.0, 1.0)
    s = np.nan_to_num(s)
    return np.maximum(value + s * slope, other_value + s * other_slope)


def _lowest(
    left: _Points, right: _Points, at: _Points, excess: FloatArray, slope_both: FloatArray, slope_one: FloatArray
) -> FloatArray:
    """Return the lower bound, along the arcs, of planes given by their value and slopes at the points `at`.

    Along an arc each probability is at least an exponential in the arc's parameter, and a plane with slopes of at
    least 0 is then a convex function of the parameter: it lies above its tangents at both ends.
    """
    a, b, ratio = _ends(left, right)
    weights = slope_both, 0.5 * slope_one
    begin, end, rise, last_rise = excess.copy(), excess.copy(), np.zeros_like(excess), np.zeros_like(excess)
    for i, weight in enumerate(weights):
        begin += weight * (a[:, i] - at.probabilities[:, i])
        end += weight * (b[:, i] - at.probabilities[:, i])
        rise += weight * a[:, i] * ratio[:, i]
        last_rise += weight * b[:, i] * ratio[:, i]
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = _meeting(begin, rise, end - last_rise, last_rise)
    return np.where(rise >= 0.0, begin, np.where(last_rise <= 0.0, end, inner))


def _least_favourable(
    points: _Points,
    corner: tuple[IndexArray, FloatArray, FloatArray],
    rows: IndexArray,
    radius: PairRadius,
    plane: PairPlane,
) -> FloatArray:
    """Return the probabilities, shape (2, n_rows), whose certificate holds on all arcs of a row and at its corner."""
    one_sided = np.maximum(points.probabilities[:, 1] / 2.0, 0.0)
    one_sided = np.minimum(one_sided, (1.0 - points.probabilities[:, 0]) / 2.0)
    both = points.probabilities[:, 0]
    # Start from the smallest certificate among some of the points.
    first = np.flatnonzero(np.diff(points.row, prepend=-1))
    position = np.arange(points.row.size) - first[points.row]
    total = np.bincount(points.row)
    some = (position % 4 == 0) | (position == total[points.row] - 1)
    value = np.full(points.row.size, np.inf)
    value[some] = radius(both[some], one_sided[some], rows[points.row[some]])
    worst = np.lexsort([value, points.row])[first]
    limit = np.stack([both[worst], one_sided[worst]])
    reached = value[worst]
    bad = np.zeros(total.size, dtype=bool)
    bad[points.row[~points.good]] = True
    limit[:, bad] = 0.0
    active = np.flatnonzero(~bad & (reached > 0.0))
    limit[:, reached <= 0.0] = 0.0
    corner_row, corner_both, corner_one = corner
    for step in range(12):
        if not active.size:
            break
        part = points.take(np.isin(points.row, active))
        one_of_part = np.minimum(part.probabilities[:, 1], 1.0 - part.probabilities[:, 0]) / 2.0
        excess, slope_both, slope_one = plane(part.probabilities[:, 0], one_of_part, reached[part.row], rows[part.row])
        pair = np.flatnonzero(part.row[1:] == part.row[:-1])
        left, right = part.take(pair), part.take(pair + 1)
        lowest = np.maximum(
            _lowest(left, right, left, excess[pair], slope_both[pair], slope_one[pair]),
            _lowest(left, right, right, excess[pair + 1], slope_both[pair + 1], slope_one[pair + 1]),
        )
        least = np.full(total.size, np.inf)
        np.minimum.at(least, left.row, lowest)
        here = np.isin(corner_row, active)
        if here.any():
            at = corner_row[here]
            value, _, _ = plane(corner_both[here], corner_one[here] / 2.0, reached[at], rows[at])
            least[at] = np.minimum(least[at], value)
        active = active[least[active] < 0.0]
        if not active.size:
            break
        # What is missing is taken off the probability of two hits, with a little more for the bend.
        steep = plane(limit[0, active], limit[1, active], reached[active], rows[active])[1]
        short = 1.02 * 2.0 ** max(step - 3, 0) * least[active] / steep
        short = np.minimum(short, -1e-15)
        limit[0, active] = np.maximum(limit[0, active] + short, 0.0)
        reached[active] = radius(limit[0, active], limit[1, active], rows[active])
        given_up = reached[active] <= 0.0
        limit[:, active[given_up]] = 0.0
        active = active[~given_up]
    limit[:, active] = 0.0
    return limit
