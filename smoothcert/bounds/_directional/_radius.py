"""From multipliers to a radius: every displacement of that length must be covered.

A displacement is (along, across) with ``across >= 0``; the bound does not care which way across. The half circle of
radius `r` is wrapped in a polygon. The bound is evaluated at its vertices; on an edge of length `l` the smoothed
probability is at least the linear interpolation minus ``phi(1) l^2 / 4``, because its second derivatives are at most
``2 phi(1)``; and below an edge it is no smaller, because the best bound falls with `across` at given `along`. Testing
the circle at bare angles would be unsound.

The axis `along` is cut into cells, each with multipliers of its own. A cell vouches for the edges above it. There is a
vertex on each border of cells, so that multipliers are not tested farther out than they are needed.

Against a rival the bound is for the probability of the class plus that of "not the rival". Both have all bins, so
there are twice as many, with one slope for all; what is to be kept is 1 instead of one half, and edges may lose twice
as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._numerics import SAFETY, density
from ..._validation import BoolArray, FloatArray, IndexArray
from ._dual import USUAL_SLOPE, Multipliers, integral_value, multipliers_along
from ._integral import ChordEnds, InnerIntegral, RoughIntegral, bin_masses, chord_ends

BORDERS: FloatArray = np.array(
    [1.05, 1.03, 1.01, 0.99, 0.97, 0.945, 0.91, 0.865, 0.805, 0.725, 0.625, 0.5, 0.35, 0.15, -0.1, -0.4, -0.75]
)
"""Borders of the cells on the axis `along`, in units of the radius they are made for.

Fine on the side the direction points to, coarse behind, and some beyond the radius, which may turn out larger. Near
the axis the best multipliers follow the likelihood ratio along it closely, so cells there must be narrow.
"""

N_CELLS = len(BORDERS) + 1

# The displacements the cells are made for. The outer two cells are unbounded and made for points near their borders.
# Vertices are a little outside of the circle; cells beyond it are made for a small displacement across, not for none.
# This decides how good multipliers are; they are valid at any displacement.
_middle = np.concatenate([[BORDERS[0] + 0.015], (BORDERS[1:] + BORDERS[:-1]) / 2.0, [-0.9]])
_height = np.sqrt(np.maximum(1.01**2 - np.square(_middle), 0.1**2))

_EDGE_LOSS = float(density(np.asarray(1.0))) / 4.0
"""What is lost on an edge of length 1: proved, and needed for validity."""

_EVALUATIONS_AT_ONCE = 2**17
"""Integrals evaluated at once: arrays of them take about 1 MB. About speed only."""

_LARGEST_RADIUS = 30.0
"""Where the search ends, which can only make radii smaller. By votes alone such a radius needs misses below 1e-197."""

_MARGIN = 3e-5
"""Probability that may be left over at the radius returned."""

_TOLERANCE = 1e-4
"""Part of the radius that may be left over where the margin jumps, because a vertex enters another cell."""

_LEAST_RADIUS = 1e-4
"""Where the search gives up, with the radius 0 if none was accepted: so small a part of sigma is of no use."""

_FLATTEST = -0.1
"""Probability lost for each unit of the radius, at least, if a measured slope is to be believed; 0.35 is usual."""

_TRIES = 3
"""Tests of one radius: slopes get better from one to the next."""

_WATCHED = 0.005
"""Points with margins this much above the smallest are not expected to become the smallest."""


@dataclass(frozen=True)
class Cells:
    """Multipliers for each cell of the axis `along`; leading axis: rows.

    Attributes
    ----------
    borders : ndarray of shape (n_rows, n_cells - 1)
        Falling values of `along` between the cells.
    nu : ndarray of shape (n_rows, n_cells, n_bins)
    k : ndarray of shape (n_rows, n_cells)
        Good slopes, at the displacement the cell was made for.
    across : ndarray of shape (n_rows, n_cells)
        That displacement.
    radius : ndarray of shape (n_rows,)
        Length of the displacements the cells were made for.
    tilt : ndarray of shape (n_rows, n_cells, n_bins)
        Factors of the slope in the bins.
    """

    borders: FloatArray
    nu: FloatArray
    k: FloatArray
    across: FloatArray
    radius: FloatArray
    tilt: FloatArray

    @property
    def relative_slopes(self) -> FloatArray:
        """Slopes over displacements across, shape (n_rows, n_cells)."""
        return self.k / self.across

    def replaced(self, rows: IndexArray, others: Cells) -> Cells:
        """Return these cells, with others for some rows."""
        mine = [np.array(values) for values in vars(self).values()]
        for values, new in zip(mine, vars(others).values(), strict=True):
            values[rows] = new
        return Cells(*mine)


def cell_middles(radius: FloatArray) -> FloatArray:
    """Return the displacements along the direction that the cells for these radii are made for; shape (n_rows,
    n_cells)."""
    middles: FloatArray = radius[:, None] * _middle
    return middles


def n_functions(edges: FloatArray, of_bins: FloatArray) -> int:
    """Return how many functions are measured in the same bins: 1 for a class, 2 for a class and a rival."""
    return int(of_bins.shape[-1]) // (len(edges) + 1)


def _repeated(ends: ChordEnds, times: int) -> ChordEnds:
    """Return the bins once for each function."""
    if times == 1:
        return ends
    return ChordEnds(*(np.concatenate([part] * times, axis=-1) for part in ends))


def plan_cells(
    edges: FloatArray,
    misses: FloatArray,
    grad_norm: FloatArray,
    radius: FloatArray,
    ridge: FloatArray | None = None,
    start: FloatArray | float = USUAL_SLOPE,
    tilt: FloatArray | float = 1.0,
) -> Cells:
    """Return cells with the multipliers that are best at distance `radius`, given shares of misses in the bins; slopes
    are searched from `start`, relative to the displacements across."""
    along, across = cell_middles(radius), radius[:, None] * _height
    tilt = np.broadcast_to(tilt, (*along.shape, misses.shape[-1]))
    nu, k, _ = multipliers_along(
        _repeated(chord_ends(edges, along), n_functions(edges, misses)),
        np.broadcast_to(misses[:, None], (*along.shape, misses.shape[-1])),
        np.broadcast_to(grad_norm, along.shape),
        across,
        0.0 if ridge is None else ridge,
        start * across,
        tilt,
        _middle,
    )
    return Cells(radius[:, None] * BORDERS, nu, k, across, radius, tilt)


def cells_radius(
    edges: FloatArray,
    cells: Cells,
    value: FloatArray,
    grad_norm: FloatArray,
    n_vertices: int,
    threshold: float = 0.5,
    n_rounds: int = 8,
    n_steps: int = 9,
) -> FloatArray:
    """Return the largest radius found at which all cells pass, 0 if there is none.

    Parameters
    ----------
    edges : ndarray of shape (n_bins - 1,)
    cells : Cells
    value : ndarray of shape (n_rows, n_cells)
        What is known of ``sum mass nu h``: a lower limit.
    grad_norm : ndarray of shape (n_rows, n_cells)
        Upper limits of the tilted gradient across.
    n_vertices : int
        Of the polygon around the half circle.
    threshold : float
        Probability to keep.
    n_rounds, n_steps : int
        Candidates that are tested at all points, and tests of a few points for each of them.
    """
    found = np.zeros(len(value))
    for rows, test in _tests(edges, cells, value, grad_norm, n_vertices, threshold):
        found[rows] = _largest_accepted(test, cells.radius[rows], n_rounds, n_steps, test.functions)
    return found


def _largest_accepted(
    test: _CircleTest, guess: FloatArray, n_rounds: int, n_steps: int, functions: int = 1
) -> FloatArray:
    """Take secant steps on the margin over the points where it is small; accept what they find if all points pass.

    Rows are tested only as long as they would be alone, so that their last bits do not depend on their company.
    """
    search = _Search(guess, functions)
    margin = test(search.radius, search.going, watch=True)
    search.accepted = np.where(margin >= 0.0, search.radius, 0.0)
    # Slopes get better from call to call, so the first refusal is no reason to stay below.
    search.advance(margin, search.going)
    for _ in range(n_rounds):
        looking = search.going
        for _ in range(n_steps):
            margin = test(search.radius, looking, everything=False, rough=True)
            search.learn(margin, looking)
            looking = looking & ~search.settled(margin)
            if not np.any(looking):
                break
            search.advance(margin, looking)
        search.radius = np.where(search.low > 0.0, search.low, search.radius)
        search.accept(test(search.radius, search.going, watch=True))
        if not np.any(search.going):
            break
    return search.accepted


def cells_radius_up_to(
    edges: FloatArray,
    cells: Cells,
    value: FloatArray,
    grad_norm: FloatArray,
    n_vertices: int,
    threshold: float,
    most: FloatArray,
) -> FloatArray:
    """Return `cells_radius`, but no more than `most`, which is tested first."""
    found = np.zeros(len(value))
    for rows, test in _tests(edges, cells, value, grad_norm, n_vertices, threshold):
        asked = most[rows]
        going = asked > 0.0
        for _ in range(_TRIES):
            if not np.any(going):
                break
            passed = going & (test(asked, going) >= 0.0)
            found[rows] = np.where(passed, asked, found[rows])
            going &= ~passed
        again = np.flatnonzero(going) + (rows.start or 0)
        if len(again):
            part = Cells(*(each[again] for each in vars(cells).values()))
            largest = cells_radius(edges, part, value[again], grad_norm[again], n_vertices, threshold)
            found[again] = np.minimum(largest, most[again])
    return found


def expected_radius(
    edges: FloatArray, cells: Cells, value: FloatArray, grad_norm: FloatArray, n_vertices: int, threshold: float = 0.5
) -> FloatArray:
    """Return about what `cells_radius` would find, from margins at three radii; nothing that is certain."""
    radius: FloatArray = expected_radii(edges, cells, value[None], grad_norm[None], n_vertices, threshold)[0]
    return radius


def expected_radii(
    edges: FloatArray, cells: Cells, values: FloatArray, grad_norms: FloatArray, n_vertices: int, threshold: float
) -> FloatArray:
    """Return `expected_radius` for the first of several values and limits of gradients, and how it would change by the
    others; shape (n_values, n_rows)."""
    found = np.zeros(values.shape[:2])
    for rows, test in _tests(edges, cells, values[0], grad_norms[0], n_vertices, threshold):
        search = _Search(cells.radius[rows], test.functions)
        everywhere = np.ones(len(search.radius), dtype=bool)
        search.advance(test(search.radius, everywhere, watch=True, rough=True), everywhere)
        search.advance(test(search.radius, everywhere, everything=False, rough=True), everywhere)
        margin = test(search.radius, everywhere, everything=len(values) > 1, rough=True)
        search.advance(margin, everywhere)
        margins = [test.margin_with(value[rows], limit[rows]) for value, limit in zip(values, grad_norms, strict=True)]
        with np.errstate(invalid="ignore"):
            change = np.nan_to_num(np.array(margins) - margins[0])
        found[:, rows] = search.radius - change / search.slope
    return found


def _tests(
    edges: FloatArray, cells: Cells, value: FloatArray, grad_norm: FloatArray, n_vertices: int, threshold: float
) -> Iterator[tuple[slice, _CircleTest]]:
    """Yield tests of as many rows at once as fit into the cache."""
    per_row = 2 * cells.nu.shape[-1] * 2 * n_vertices
    step = max(1, _EVALUATIONS_AT_ONCE // per_row)
    for first in range(0, len(value), step):
        rows = slice(first, first + step)
        part = Cells(*(each[rows] for each in vars(cells).values()))
        yield rows, _CircleTest(edges, part, value[rows], grad_norm[rows], n_vertices, threshold)


class _Search:
    """Where the largest radius can be, row by row: between `low` and `high`, as far as is known."""

    def __init__(self, guess: FloatArray, functions: int = 1) -> None:
        self.accepted = np.zeros_like(guess)
        self.low, self.high = np.zeros_like(guess), np.full_like(guess, _LARGEST_RADIUS)
        self.radius = np.array(guess)
        self.slope = np.full_like(guess, -0.35 * functions)
        self.flattest = _FLATTEST * functions
        self.last, self.last_margin = np.zeros_like(guess), np.full_like(guess, np.nan)
        self.going = np.ones(len(guess), dtype=bool)

    def learn(self, margin: FloatArray, rows: BoolArray) -> None:
        """Take in the margins of some rows at their current radii."""
        passed = margin >= 0.0
        self.low = np.where(rows & passed, np.maximum(self.low, self.radius), self.low)
        self.high = np.where(rows & ~passed, np.minimum(self.high, self.radius), self.high)

    def settled(self, margin: FloatArray) -> BoolArray:
        """Return where little is left to be gained, or nothing at all."""
        near = (margin >= 0.0) & (margin < _MARGIN)
        return near | (self.high - self.low < _TOLERANCE * self.high) | (self.radius < _LEAST_RADIUS)

    def accept(self, margin: FloatArray) -> None:
        """Take in the margins over all points: who passes is done, the others go back a little and on."""
        passed = margin >= 0.0
        self.accepted = np.where(self.going & passed, np.maximum(self.radius, self.accepted), self.accepted)
        self.going = self.going & ~passed & (self.radius >= _LEAST_RADIUS)
        self.high, self.low = np.where(self.going, self.radius, self.high), np.where(self.going, 0.0, self.low)
        self.advance(margin - _MARGIN, self.going)

    def advance(self, margin: FloatArray, rows: BoolArray) -> None:
        """Take a secant step for some rows; half-way where it would leave the bracket, less far back without one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            measured = (margin - self.last_margin) / (self.radius - self.last)
        # Margins also grow because slopes of points get better; one that hardly falls is a sign of that, and leads far.
        useful = rows & np.isfinite(measured) & (measured < self.flattest)
        self.slope = np.where(useful, measured, self.slope)
        self.last = np.where(rows, self.radius, self.last)
        self.last_margin = np.where(rows, margin, self.last_margin)
        ahead = self.radius - (margin - 0.3 * _MARGIN) / self.slope
        half = np.where(self.low > 0.0, (self.low + self.high) / 2.0, 0.97 * self.high)
        ahead = np.where((ahead > self.low) & (ahead < self.high), ahead, half)
        ahead = np.clip(ahead, 0.5 * self.radius, 1.5 * self.radius)
        self.radius = np.where(rows, np.minimum(ahead, _LARGEST_RADIUS), self.radius)


def _vertex_angles(n_vertices: int) -> FloatArray:
    """Return the angles from the direction, from 0 to pi; behind, where less is at stake, they are twice as far
    apart."""
    front = np.arange(n_vertices // 2) * (np.pi / n_vertices)
    return np.concatenate([front, np.linspace(np.pi / 2.0, np.pi, n_vertices // 4 + 1)])


class _CircleTest:
    """Smallest margin over the vertices around a circle; keeps improving its slopes from call to call."""

    def __init__(
        self,
        edges: FloatArray,
        cells: Cells,
        value: FloatArray,
        grad_norm: FloatArray,
        n_vertices: int,
        threshold: float,
    ) -> None:
        self.edges, self.cells, self.value, self.grad_norm = edges, cells, value, grad_norm
        self.threshold = threshold
        self.functions = n_functions(edges, cells.nu)
        self.angles = _vertex_angles(n_vertices)
        half_steps = np.diff(self.angles) / 2.0
        # Edges stay outside of the circle if each vertex is far enough out for the longer of its two edges.
        ends = np.concatenate([half_steps[:1], half_steps, half_steps[-1:]])
        self.outward = (1.0 + SAFETY) / np.cos(np.maximum(ends[1:], ends[:-1]))
        self.outward_at_borders = np.where(cells.borders > 0.0, self.outward[0], self.outward[-1])
        self.least_height = 0.1 * np.sin(half_steps[0])
        # How slopes compare with those proportional to `across`, which are about right.
        n_vertices = len(self.angles) + cells.borders.shape[1]
        self.log_factor = np.zeros((*value.shape, n_vertices))
        self.last_step = np.zeros(self.log_factor.shape)
        self.watched = np.ones(self.log_factor.shape, dtype=bool)
        # Rounding of the sums, which are as large as the multipliers.
        mass = np.tile(bin_masses(edges), self.functions)
        self.rounding = SAFETY * (1.0 + np.sum(mass * np.abs(cells.nu), axis=-1))

    def __call__(
        self,
        radius: FloatArray,
        going: BoolArray,
        everything: bool = True,
        watch: bool = False,
        rough: bool = False,
    ) -> FloatArray:
        """Return the margins of circles of these radii for some rows, over all points or over those that are watched;
        with `watch`, points with margins near the smallest are watched from now on. Rough margins are off by up to
        about 1e-6: they lead a search and accept nothing."""
        along, across, order = self._polygon(radius)
        unknown = np.isnan(radius)
        tested = self._tested(along, order) & (going & ~unknown)[:, None, None]
        row, cell, vertex = np.nonzero(tested if everything else tested & self.watched)
        y = across[row, vertex]
        base = self.cells.k[row, cell] * y / self.cells.across[row, cell]
        k = base * np.exp(self.log_factor[row, cell, vertex])
        ends = self._ends(along, row, vertex)
        multipliers = Multipliers(self.cells.nu[row, cell], k, self.cells.tilt[row, cell])
        kind = RoughIntegral if rough else InnerIntegral
        integral, by_k, bend = integral_value(ends, y, multipliers, kind)
        grad_norm = self.grad_norm[row, cell]
        bound = self.value[row, cell] - k * grad_norm + integral - self.rounding[row, cell]
        # A Newton step uphill in the logarithm, for the next call; whatever the slope is, the bound is valid.
        step = np.nan_to_num(np.clip((by_k - grad_norm) / np.maximum(-bend * k, 1e-9), -0.7, 0.7))
        # One that turns back goes half as far as the last at most, or it might go to and fro for ever.
        last = np.abs(self.last_step[row, cell, vertex])
        step = np.where(step * self.last_step[row, cell, vertex] < 0.0, np.clip(step, -last / 2.0, last / 2.0), step)
        self.last_step[row, cell, vertex] = step
        factor = self.log_factor[row, cell, vertex] + step
        self.log_factor[row, cell, vertex] = np.clip(factor, -9.0, 6.0)
        margin = bound - self.threshold - self._edge_losses(along, across, order)[row, vertex]
        self.last_margins = row, cell, k, margin
        smallest = np.where(unknown, -np.inf, _smallest(row, margin, len(radius)))
        if watch:
            self.watched[row, cell, vertex] = margin < smallest[row] + _WATCHED
        return smallest

    def margin_with(self, value: FloatArray, grad_norm: FloatArray) -> FloatArray:
        """Return the smallest margins at the points of the last call, with other values and limits of gradients."""
        row, cell, k, margin = self.last_margins
        change = (value - self.value)[row, cell] - k * (grad_norm - self.grad_norm)[row, cell]
        return _smallest(row, margin + change, len(value))

    def _polygon(self, radius: FloatArray) -> tuple[FloatArray, FloatArray, IndexArray]:
        """Return the vertices around circles, and their order around them, each of shape (n_rows, n_vertices).

        There are vertices at given angles, and one on each border of cells, so that no edge reaches over two cells.
        Borders that a circle does not reach have theirs at its end, where it changes nothing.
        """
        outer = radius[:, None] * self.outward
        # More vertices only make edges shorter, so that those in between are as far out as their neighbours.
        outer_at_borders = radius[:, None] * self.outward_at_borders
        borders = self.cells.borders
        on_borders = np.clip(borders, -outer_at_borders, outer_at_borders)
        height = np.sqrt(np.square(outer_at_borders) - np.square(on_borders))
        along = np.concatenate([outer * np.cos(self.angles), on_borders], axis=1)
        across = np.concatenate([outer * np.sin(self.angles), height], axis=1)
        order = np.argsort(-np.concatenate([along[:, : len(self.angles)], borders], axis=1), axis=1, kind="stable")
        return along, np.maximum(across, radius[:, None] * self.least_height), order

    def _edge_losses(self, along: FloatArray, across: FloatArray, order: IndexArray) -> FloatArray:
        """Return what the edges at each vertex may lose in between; of its two edges the longer one."""
        steps = [np.diff(np.take_along_axis(part, order, axis=1)) for part in (along, across)]
        losses = self.functions * _EDGE_LOSS * (np.square(steps[0]) + np.square(steps[1]))
        ends = np.concatenate([losses[:, :1], losses, losses[:, -1:]], axis=1)
        return _put_back(np.maximum(ends[:, 1:], ends[:, :-1]), order)

    def _tested(self, along: FloatArray, order: IndexArray) -> BoolArray:
        """Return which cells test which vertices: those on edges that reach over the cell. (n_rows, n_cells,
        n_vertices)"""
        borders = self.cells.borders
        infinite = np.full((len(borders), 1), np.inf)
        right, left = np.concatenate([infinite, borders], axis=1), np.concatenate([borders, -infinite], axis=1)
        around = np.take_along_axis(along, order, axis=1)
        meets = (around[:, None, :-1] > left[:, :, None]) & (around[:, None, 1:] < right[:, :, None])
        meets &= (around[:, :-1] > around[:, 1:])[:, None]  # edges of length 0 need no test
        tested = np.zeros((*meets.shape[:2], meets.shape[2] + 1), dtype=bool)
        tested[..., :-1] |= meets
        tested[..., 1:] |= meets
        return _put_back(tested, np.broadcast_to(order[:, None], tested.shape))

    def _ends(self, along: FloatArray, row: IndexArray, vertex: IndexArray) -> ChordEnds:
        # Cells share vertices.
        place, which = np.unique(row * along.shape[1] + vertex, return_inverse=True)
        ends = _repeated(chord_ends(self.edges, along.reshape(-1)[place]), self.functions)
        return ChordEnds(ends.mass, ends.log_w[:, which], ends.weight[:, which])


def _smallest(row: IndexArray, margin: FloatArray, n_rows: int) -> FloatArray:
    """Return the smallest margin of each row; what cannot be computed is refused."""
    smallest = np.full(n_rows, np.inf)
    np.minimum.at(smallest, row, np.where(np.isnan(margin), -np.inf, margin))
    return smallest


def _put_back(around: NDArray[Any], order: IndexArray) -> NDArray[Any]:
    """Return values given in the order around the circle in that of the vertices."""
    values = np.empty_like(around)
    np.put_along_axis(values, order, around, axis=-1)
    return values
