"""From a pilot to a plan against rivals: which of them to measure along the direction, and with which multipliers.

Whatever is decided here, the certificate is valid; a good plan makes it large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._validation import BoolArray, FloatArray
from ...bounds import first_order_radius
from ...bounds._directional._dual import USUAL_SLOPE
from ...bounds._directional._integral import bin_masses
from ...bounds._directional._radius import N_CELLS, Cells, cell_middles, expected_radii, plan_cells
from ...confidence import rival_limits, stratified_share_upper
from ...confidence._stratified import usual_width
from ...confidence._stratified_rival import rival_variance
from ...tallies import IntArray, RivalPlan, RivalTally
from ._designs import DESIGNS, FAR, USUAL_GAIN, design_shares, thinning
from ._plan import (
    _LARGEST_RADIUS,
    _LEAST_RADIUS,
    _TILT,
    _USUAL_SHARE,
    _VERTICES,
    _WORTH_IT,
    bisect,
    expected_shares,
    tilts_for,
)
from ._rival_gradients import expected_gradients, pilot_centres

MOST_MEASURED = 8
"""Rivals that are measured at most. A cap of 4 cost up to 3% of the radius on small networks, this one nothing."""

_USUAL_PARTS = ((1.3, 1.5, 2.1), (0.5, 0.14, 0.0))
"""How far certificates usually reach on the way from what the votes alone prove to the boundary along the direction, by
what the votes prove: half of the way, if that is near. A good guess saves a second plan."""

_USUAL_PART_OF_OTHERS = 0.16
"""The same for rivals other than the runner-up, towards which the direction was chosen; at most."""

_NEAR_ENOUGH = 0.08
"""Relative error of the guessed radius up to which cells need not be made again; plans take longer than against one
half."""

_ROWS_AT_ONCE = 12
"""Fewer than against one half: there are twice as many bins."""

_BETTER = 1.003
"""Factor by which a design must promise more than the first one to replace it."""

_CLEAR_OF_OTHERS = 1.03
"""By what factor the radius against all rivals that are not measured should exceed that against the runner-up."""


class Levels(NamedTuple):
    """Error probabilities: of the whole certificate, of the shares, of the gradient."""

    alpha: float
    shares: float
    gradient: float


def rank_rivals(votes: IntArray, candidate: IntArray, most: int) -> IntArray:
    """Return the classes with the most votes but the candidate, the strongest first; -1 in place of those without a
    vote.

    There is at least one, voted for or not, unless no class is left.
    """
    others = votes.copy()
    np.put_along_axis(others, candidate[:, None], -1, axis=1)
    # Stable, so that equal votes are ranked by the order of the classes.
    order = np.argsort(-others, axis=1, kind="stable")[:, : min(most, votes.shape[1] - 1)]
    seen = np.take_along_axis(others, order, axis=1) > 0
    seen[:, :1] = True
    return np.where(seen, order, -1)


def plan_against_rivals(pilot: RivalTally, n_estimation: int, levels: Levels, designs: bool = True) -> RivalPlan:
    """Return which rivals to measure, and the multipliers to certify with, for evidence of `n_estimation` samples.

    The runner-up is measured if that promises more than its votes alone. So is every other rival that would otherwise
    hold the certificate back. With `designs`, noise may be drawn where it decides.
    """
    parts = range(0, len(pilot), _ROWS_AT_ONCE)
    return RivalPlan.concatenate([_plan(pilot[i : i + _ROWS_AT_ONCE], n_estimation, levels, designs) for i in parts])


class _Tests(NamedTuple):
    """Plans for pairs of a row and a rival of its plan, and the radii they promise: with the noise they are made for,
    and, as `elsewhere`, about what they would promise with noise drawn otherwise, shape (n_tests, n_designs)."""

    row: IntArray
    rival: IntArray
    cells: Cells
    tilts: FloatArray
    scales: FloatArray
    centres: FloatArray
    guesses: FloatArray
    radius: FloatArray
    elsewhere: FloatArray

    def replaced(self, places: IntArray, others: _Tests, which: BoolArray) -> _Tests:
        """Return these plans, with some of others for the same pairs at some places."""
        names = ("tilts", "scales", "centres", "guesses", "radius")
        mine = {name: np.array(getattr(self, name)) for name in names}
        for name, values in mine.items():
            values[places] = getattr(others, name)[which]
        chosen = Cells(*(values[which] for values in vars(others.cells).values()))
        return self._replace(cells=self.cells.replaced(places, chosen), **mine)


def _plan(pilot: RivalTally, n_estimation: int, levels: Levels, designs: bool) -> RivalPlan:
    plan = pilot.plan
    by_votes, others = _first_order(pilot, n_estimation, levels.alpha)
    plain = np.minimum(np.min(by_votes, axis=1, initial=np.inf), others)
    usable = (plan.rivals >= 0) & (pilot.bin_trials.sum(axis=1) > 0)[:, None]
    # What is certified against the runner-up decides which others are in the way.
    first = usable & (np.arange(plan.rivals.shape[1]) == 0)
    far = first & (plain > (FAR if designs else np.inf))[:, None]
    rivals = _Rivals(first, usable, by_votes, others, plain)
    design, tests, at_random = _best_design(pilot, rivals, np.any(far, axis=1), n_estimation, levels)
    made = _complete(pilot, design, tests, rivals, n_estimation, levels)
    # At random, all others have limits of their own, and what holds a design back may not hold that back.
    back = np.any(design > 0.0, axis=1) & (made.radius < np.minimum(at_random, others))
    if np.any(back):
        nothing = np.zeros(design.shape)
        tests = _plan_tests(pilot, first & back[:, None], by_votes, nothing, n_estimation, levels)
        other = _complete(pilot, nothing, tests, rivals, n_estimation, levels)
        back &= other.radius > made.radius
        parts = [other if back[row] else made for row in range(len(pilot))]
        made = RivalPlan.concatenate([part[row : row + 1] for row, part in enumerate(parts)])
    return made


class _Rivals(NamedTuple):
    """What is known of the rivals of the pilot's plan before any of them is measured: which one is the runner-up and
    which can be measured, the radii that votes alone would certify against each and against the strongest other class,
    and the smallest of these."""

    first: NDArray[np.bool_]
    usable: NDArray[np.bool_]
    by_votes: FloatArray
    others: FloatArray
    plain: FloatArray


def _best_design(
    pilot: RivalTally, rivals: _Rivals, far: BoolArray, n_estimation: int, levels: Levels
) -> tuple[FloatArray, _Tests, FloatArray]:
    """Return the design with the largest radius to expect against the runner-up, its tests, and the radii to expect of
    noise at random.

    Plans take long, so there is one for the first design, by whose multipliers all others are compared, and one for
    another design where that looks better.
    """
    expected = np.maximum(USUAL_GAIN * rivals.plain, _LEAST_RADIUS)
    candidates = [np.where(far[:, None], design_shares(pilot.plan, each, expected), 0.0) for each in DESIGNS]
    candidates.append(np.zeros(candidates[0].shape))
    chosen = candidates[0].copy()
    tests = _plan_tests(pilot, rivals.first, rivals.by_votes, chosen, n_estimation, levels, candidates[1:])
    at_random = np.zeros(len(pilot))
    at_random[tests.row] = tests.elsewhere[:, -1]
    best = np.argmax(tests.elsewhere, axis=1)
    better = far[tests.row] & (np.max(tests.elsewhere, axis=1) > _BETTER * tests.radius)
    for number, shares in enumerate(candidates[1:]):
        rows = tests.row[better & (best == number)]
        if len(rows):
            which = rivals.first & np.isin(np.arange(len(pilot)), rows)[:, None]
            other = _plan_tests(pilot, which, rivals.by_votes, shares, n_estimation, levels)
            place = np.searchsorted(tests.row, other.row)
            improved = other.radius > tests.radius[place]
            tests = tests.replaced(place[improved], other, improved)
            chosen[other.row[improved]] = shares[other.row[improved]]
    return chosen, tests, at_random


def _complete(
    pilot: RivalTally, design: FloatArray, first_tests: _Tests, rivals: _Rivals, n_estimation: int, levels: Levels
) -> RivalPlan:
    """Return the plan with tests for all rivals that are in the way of what is certified against the runner-up."""
    plan, (first, usable, by_votes, others, plain) = pilot.plan, rivals
    designed = np.any(design > 0.0, axis=1)
    reach = np.where(np.any(first, axis=1), 0.0, -np.inf)
    reach[first_tests.row] = first_tests.radius
    near = usable & ~first & (by_votes < np.minimum(reach, others)[:, None])
    near[designed] = _near_together(
        pilot[designed], usable[designed], design[designed], reach[designed], n_estimation, levels.alpha
    )
    tests = [first_tests, _plan_tests(pilot, near, by_votes, design, n_estimation, levels, alike=first_tests)]
    promised = by_votes.copy()  # the better of both kinds of test, for each rival of the plan
    for test in tests:
        of_votes = np.where(designed[test.row], 0.0, by_votes[test.row, test.rival])
        promised[test.row, test.rival] = np.maximum(test.radius, of_votes)
    measured = np.zeros(plan.rivals.shape, dtype=bool)
    for test in tests:
        measured[test.row, test.rival] = True
    together = _together(pilot, measured, design, n_estimation, levels.alpha)
    rest = np.where(designed, together, others)
    radius = np.minimum(np.min(np.where(measured | ~designed[:, None], promised, np.inf), axis=1, initial=np.inf), rest)
    worth_it = radius > _WORTH_IT * plain
    # Rivals whose votes alone do not hold the certificate back need no measurement.
    wanted = (promised > by_votes) & (by_votes < radius[:, None])
    wanted = (wanted | (measured & designed[:, None])) & worth_it[:, None]
    kept = [np.flatnonzero(wanted[test.row, test.rival]) for test in tests]
    made = _fill(plan, tests, kept, np.where(worth_it, radius, plain), promised, len(pilot))
    return replace(made, design=np.where(worth_it[:, None], design, 0.0))


def _near_together(
    pilot: RivalTally,
    usable: NDArray[np.bool_],
    design: FloatArray,
    reach: FloatArray,
    n_estimation: int,
    alpha: float,
) -> NDArray[np.bool_]:
    """Return which rivals to measure beside the runner-up in designed noise, where all others are compared together:
    the strongest ones, as few as leave the others out of the way."""
    near = np.zeros(usable.shape, dtype=bool)
    in_the_way = np.ones(len(pilot), dtype=bool)
    for number in range(1, usable.shape[1] + 1):
        measured = usable & (np.arange(usable.shape[1]) < number)
        in_the_way &= _together(pilot, measured, design, n_estimation, alpha) < _CLEAR_OF_OTHERS * reach
        if number < usable.shape[1]:
            near[:, number] = usable[:, number] & in_the_way
    return near


def _together(
    pilot: RivalTally, measured: NDArray[np.bool_], design: FloatArray, n_estimation: int, alpha: float
) -> FloatArray:
    """Return the radius to expect against all classes that are not measured, counted together in designed noise."""
    mass = pilot.plan.stratum_masses
    trials = np.rint(n_estimation * np.where(design > 0.0, design, mass))
    seen = np.maximum(pilot.stratum_trials, 1)
    shares = pilot.stratum_hits / seen[:, None]
    missed = 1.0 - shares[:, 0]
    rest = np.clip(missed - np.sum(np.where(measured[:, :, None], shares[:, 1:], 0.0), axis=1), 0.0, 1.0)

    def limit(share: FloatArray) -> FloatArray:
        guess = np.clip(np.sum(share * mass, axis=1), 1e-5, 0.999)
        return stratified_share_upper(np.rint(trials * share), trials, mass, guess, alpha / 2.0)

    lost = limit(missed)
    return np.atleast_1d(first_order_radius(1.0 - lost, np.minimum(limit(rest), lost)))


def _fill(
    plan: RivalPlan,
    tests: list[_Tests],
    kept: list[IntArray],
    radius: FloatArray,
    promised: FloatArray,
    n_rows: int,
) -> RivalPlan:
    """Return the plan with the tests that are kept, in each row the one that promises least first."""
    row = np.concatenate([test.row[of] for test, of in zip(tests, kept, strict=True)])
    rival = np.concatenate([test.rival[of] for test, of in zip(tests, kept, strict=True)])
    cells = [vars(test.cells) for test in tests]
    joined = {name: np.concatenate([each[name][of] for each, of in zip(cells, kept, strict=True)]) for name in cells[0]}
    tilts, scales, centres, guesses = (
        np.concatenate([getattr(test, name)[of] for test, of in zip(tests, kept, strict=True)])
        for name in ("tilts", "scales", "centres", "guesses")
    )
    order = np.lexsort((promised[row, rival], row))
    row, rival = row[order], rival[order]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    most = int(place.max()) + 1 if len(place) else 0
    empty = RivalPlan.towards(plan.edges, plan.direction, np.full((n_rows, most), -1), N_CELLS)
    empty.rivals[row, place] = plan.rivals[row, rival]
    values = {
        "guesses": guesses,
        "multipliers": joined["nu"],
        "tilts": tilts,
        "slopes": joined["k"],
        "across": joined["across"],
        "borders": joined["borders"],
        "made_for": joined["radius"],
        "centres": centres,
        "scales": scales,
    }
    for name, of_tests in values.items():
        getattr(empty, name)[row, place] = of_tests[order]
    return replace(empty, radius=radius)


def _first_order(pilot: RivalTally, n_estimation: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the radii to expect from votes alone, with noise at random: against each rival of the plan (inf if there
    is none), and against the strongest class outside of it."""
    own, listed, strongest = pilot.shares_at_random()
    hits, of_rivals, rest = (np.rint(share * n_estimation) for share in (own, listed, strongest))
    rival = np.minimum(np.column_stack([of_rivals, rest]), n_estimation - hits[:, None])
    radius = np.atleast_2d(first_order_radius(*rival_limits(hits[:, None], rival, n_estimation, alpha)))
    return np.where(pilot.plan.rivals >= 0, radius[:, :-1], np.inf), radius[:, -1]


def _plan_tests(
    pilot: RivalTally,
    which: NDArray[np.bool_],
    by_votes: FloatArray,
    design: FloatArray,
    n_estimation: int,
    levels: Levels,
    elsewhere: Sequence[FloatArray] = (),
    alike: _Tests | None = None,
) -> _Tests:
    """Return the plans for some rivals of the pilot's plan, with noise drawn by a design, and what to expect of them
    with others. Slopes are about those of tests of the same rows, if there are any."""
    row, rival = np.nonzero(which)
    edges = np.asarray(pilot.plan.edges)
    mass = bin_masses(edges)
    own = expected_shares(edges, pilot.bin_hits[row, 0], pilot.bin_trials[row])
    other = expected_shares(edges, pilot.bin_hits[row, 1 + rival], pilot.bin_trials[row])
    too_much = np.maximum((own + other) / (1.0 - 1e-6), 1.0)
    guesses = np.stack([own / too_much, other / too_much], axis=1)
    width = usual_width(levels.shares) / np.sqrt(n_estimation)
    distance = _distance_along(edges, guesses, width)
    possible = np.flatnonzero(distance > 0.0)
    row, rival, guesses, distance = row[possible], rival[possible], guesses[possible], distance[possible]
    # Usually what the votes prove, and a part of what is between that and the boundary straight ahead.
    plain = by_votes[row, rival]
    part = np.interp(plain, *_USUAL_PARTS)
    part = np.where(rival == 0, part, np.minimum(part, _USUAL_PART_OF_OTHERS))
    usual = plain + part * np.maximum(distance - plain, 0.0)
    guess = np.clip(np.minimum(_USUAL_SHARE * distance, usual), _LEAST_RADIUS, _LARGEST_RADIUS)
    if not len(row):
        none = np.zeros((0, N_CELLS))
        bins = np.zeros((0, N_CELLS, 2 * len(mass)))
        cells = Cells(none[:, 1:], bins, none, none, none[:, 0], bins)
        strata = np.zeros((0, N_CELLS, pilot.plan.n_strata))
        others = np.zeros((0, len(elsewhere)))
        return _Tests(row, rival, cells, strata, none, strata[:, 0], guesses, none[:, 0], others)
    designs = [each[row] for each in (design, *elsewhere)]
    slopes = np.full((len(row), N_CELLS), USUAL_SLOPE)
    if alike is not None and len(alike.row):
        place = np.minimum(np.searchsorted(alike.row, row), len(alike.row) - 1)
        slopes = np.where((alike.row[place] == row)[:, None], alike.cells.relative_slopes[place], slopes)
    cells, tilts, scales, radii = _cells(
        pilot, row, rival, guesses, guess, slopes, designs, width, n_estimation, levels.gradient
    )
    centres = pilot_centres(pilot, row, rival)
    return _Tests(row, rival, cells, tilts, scales, centres, guesses, radii[0], radii[1:].T)


def _cells(
    pilot: RivalTally,
    row: IntArray,
    rival: IntArray,
    guesses: FloatArray,
    guess: FloatArray,
    slopes: FloatArray,
    designs: list[FloatArray],
    width: float,
    n_estimation: int,
    alpha_gradient: float,
) -> tuple[Cells, FloatArray, FloatArray, FloatArray]:
    """Return cells, their tilts and the scales of their limits of gradients, for guessed radii and the first design;
    and again, if those were far off, for the radii that the first ones promise. Also these radii, for all designs."""
    plan, edges = pilot.plan, np.asarray(pilot.plan.edges)
    mass = bin_masses(edges)
    both_mass, n_bins = np.tile(mass, 2), len(mass)
    own, other = guesses[:, 0], guesses[:, 1]
    hits, misses = np.concatenate([own, 1.0 - other], axis=1), np.concatenate([1.0 - own, other], axis=1)
    # The penalty is for single bins; a class and its rival exclude each other, and it is shared as if weights were
    # alike.
    thin = [thinning(plan, design) for design in designs]
    variance = np.concatenate([own * (1.0 - own + other), other * (1.0 - other + own)], axis=1) * np.tile(thin[0], 2)
    trials = [np.rint(n_estimation * np.where(design > 0.0, design, plan.stratum_masses)) for design in designs]

    def cells_for(of: IntArray, radius: FloatArray, ridge: FloatArray, start: FloatArray) -> Any:
        tilts = tilts_for(plan, _TILT * np.maximum(cell_middles(radius), 0.0))
        of_trials = [each[of] for each in trials]
        grad_norms, scales = expected_gradients(pilot, row[of], rival[of], tilts, of_trials, alpha_gradient)
        tilt = np.concatenate([tilts[..., plan.strata]] * 2, axis=-1)
        found = plan_cells(edges, misses[of], grad_norms[0], radius, ridge, start=start, tilt=tilt)
        return found, tilts, scales, grad_norms

    everything = np.arange(len(row))
    ridge = width * variance / np.sqrt(np.sum(both_mass * variance, axis=-1))[:, None]
    cells, tilts, scales, grad_norms = cells_for(everything, guess, ridge[:, None], slopes)
    of_votes = rival_variance(cells.nu[..., :n_bins], cells.nu[..., n_bins:], own[:, None], other[:, None])
    spreads = np.array([np.sqrt(np.sum(mass * factor[:, None] * of_votes, axis=-1)) for factor in thin])
    values = np.sum(both_mass * cells.nu * hits[:, None], axis=-1) - width * spreads
    radii = expected_radii(edges, cells, values, grad_norms, _VERTICES, threshold=1.0)
    better = np.maximum(np.where(radii[0] > 0.0, radii[0], guess), _LEAST_RADIUS)
    again = np.flatnonzero(np.abs(better - guess) > _NEAR_ENOUGH * guess)
    if len(again):
        ridge = width * variance[again, None] / np.maximum(spreads[0][again], 1e-6)[..., None]
        others, tilts[again], scales[again], _ = cells_for(again, better[again], ridge, cells.relative_slopes[again])
        cells = cells.replaced(again, others)
    return cells, tilts, scales, radii


def _distance_along(edges: FloatArray, guesses: FloatArray, width: float) -> FloatArray:
    """Return where along the direction the rival would overtake, less `width` standard deviations; 0 if at once."""
    mass = bin_masses(edges)
    own, other = guesses[:, 0], guesses[:, 1]

    def kept(distance: FloatArray) -> BoolArray:
        moved = bin_masses(edges, distance)
        weights = moved / mass
        spread = np.sqrt(np.sum(mass * rival_variance(weights, weights, own, other), axis=-1))
        ahead: BoolArray = np.sum(moved * (own - other), axis=-1) - width * spread > 0.0
        return ahead

    return bisect(kept, np.zeros(len(guesses)))
