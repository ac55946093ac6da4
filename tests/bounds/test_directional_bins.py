"""Multipliers of single bins, against a root finder, and the search for slopes around them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from smoothcert.bounds._directional._bins import Bins, solve_bins
from smoothcert.bounds._directional._dual import (
    USUAL_SLOPE,
    Multipliers,
    best_multipliers,
    dual_value,
    multipliers_along,
)
from smoothcert.bounds._directional._integral import ChordEnds, bin_masses, chord_ends, inner_integral
from smoothcert.bounds._directional._radius import (
    _CircleTest,
    _largest_accepted,
    _Search,
    cell_middles,
    cells_radius,
    expected_radii,
    expected_radius,
    plan_cells,
)

EDGES = np.linspace(-4.0, 4.0, 25)
N_BINS = len(EDGES) + 1


@pytest.fixture
def rng():
    """A generator of its own for each test, whatever ran before."""
    return np.random.default_rng(3)


def random_bins(rng, n, ridge=0.0):
    """Displacements of all kinds; shares from nearly none to nearly all."""
    along, across = rng.uniform(-2.0, 2.0, n), np.exp(rng.uniform(np.log(0.02), np.log(2.0), n))
    misses = rng.beta(0.4, 0.4, (n, N_BINS)).clip(1e-4, 1.0 - 1e-4)
    tilt = np.exp(rng.uniform(-0.5, 0.5, (n, N_BINS)))
    bins = Bins.from_ends(chord_ends(EDGES, along), across, misses, np.full((n, N_BINS), ridge), tilt)
    return bins, across * np.exp(rng.uniform(-1.0, 1.0, n))


def excess(bins, k, nu):
    """By how much the worst case misses more than the bins do."""
    inner = inner_integral(bins.ends.log_w, nu, k[:, None] * bins.tilt, bins.across[:, None])
    return np.sum(bins.ends.weight * inner.missed, axis=0) / bins.ends.mass - bins.misses - bins.ridge * nu


@pytest.mark.parametrize("ridge", [0.0, 0.002])
def test_shares_of_the_worst_case_are_those_of_the_bins(rng, ridge):
    """A few steps solve nearly all bins, many solve all; and other slopes are reached from there.

    Lines that just touch a curve are not tried, so some thousandths may be missed too little. Where the ridge makes it
    best to cut no curve at all, nothing is to be solved.
    """
    bins, k = random_bins(rng, 400, ridge)

    def off(k, n_steps, place=None):
        nu, inner, place = solve_bins(bins, k, n_steps, place)
        some_hits = np.sum(bins.ends.weight * inner.missed, axis=0) / bins.ends.mass < 0.999
        assert np.mean(some_hits) > 0.9
        return np.abs(excess(bins, k, nu))[some_hits], place

    solved, place = off(k, 25)
    assert (np.quantile(solved, 0.999) if ridge else np.max(solved)) < 5e-3  # a steep ridge is slow to climb
    assert np.mean(solved > 1e-6) < 0.01
    few, _ = off(k, 6)
    assert np.quantile(few, 0.95) < 2e-3
    moved, _ = off(k * np.exp(rng.uniform(-0.6, 0.6, len(k))), 25, place)
    assert (np.quantile(moved, 0.999) if ridge else np.max(moved)) < 5e-3


def test_multipliers_are_those_of_a_root_finder(rng):
    bins, k = random_bins(rng, 60)
    nu, _, _ = solve_bins(bins, k, 25, None)
    checked = 0
    for i, b in zip(range(60), rng.integers(N_BINS, size=60), strict=True):
        one, slope = bins.take(np.array([i])), k[i : i + 1]

        def at(value, one=one, slope=slope, b=b):
            return excess(one, slope, np.full((1, N_BINS), value))[0, b]

        if 0.01 < bins.misses[i, b] < 0.99 and at(-60.0) > 0.0 > at(500.0):
            assert nu[i, b] == pytest.approx(brentq(at, -60.0, 500.0, xtol=1e-12), rel=1e-4, abs=1e-4)
            checked += 1
    assert checked > 20


def problems(rng, n):
    along, across = rng.uniform(-1.0, 2.0, n), np.exp(rng.uniform(np.log(0.05), np.log(1.5), n))
    centre = np.concatenate([[-4.2], (EDGES[1:] + EDGES[:-1]) / 2.0, [4.2]])
    misses = 1.0 / (1.0 + np.exp(-2.0 * (centre - rng.uniform(0.2, 1.5, (n, 1)))))
    return chord_ends(EDGES, along), misses, rng.uniform(0.0, 0.1, n), across


def test_no_slope_is_better_than_the_one_found(rng):
    """A grid of slopes, each with its bins solved to the end."""
    ends, misses, grad_norm, across = problems(rng, 200)
    bins = Bins.from_ends(ends, across, misses, np.zeros_like(misses), np.ones_like(misses))
    found = best_multipliers(ends, misses, grad_norm, across)
    single = ChordEnds(ends.mass, ends.log_w[:, :, None], ends.weight[:, :, None])
    start, ones = USUAL_SLOPE * across[:, None], np.ones((*misses.shape[:1], 1, misses.shape[1]))
    of_single = single, misses[:, None], grad_norm[:, None], across[:, None]
    quick = multipliers_along(*of_single, 0.0, start, ones, along=np.zeros(1))  # without neighbours
    value, quick_value = dual_value(ends, misses, grad_norm, across, found), dual_value(*of_single, quick)[:, 0]
    best = np.max([value, quick_value], axis=0)
    for factor in np.exp(np.linspace(-3.0, 3.0, 61)):
        k = found.k * factor
        nu, _, _ = solve_bins(bins, k, 40, None)
        best = np.maximum(best, dual_value(ends, misses, grad_norm, across, found._replace(nu=nu, k=k)))
    assert np.max(best - value) < 1e-5  # 1e-6 was seen
    assert np.quantile(best - quick_value, 0.9) < 2e-4  # 3e-5 was seen


def falling_shares(rng, n, nearest):
    """Shares of hits that fall along the direction, more or less steeply, from `nearest` on or farther out."""
    centre = np.concatenate([[-4.2], (EDGES[1:] + EDGES[:-1]) / 2.0, [4.2]])
    steep, place = rng.uniform(0.5, 4.0, (n, 1)), rng.uniform(nearest, 2.0, (n, 1))
    return 1.0 / (1.0 + np.exp(steep * (centre - place)))


def test_multipliers_from_those_of_neighbours_are_about_as_good(rng):
    """Cells that start from solutions nearby lose little against those that are solved with care: in their bounds, and
    in the radii that they certify."""
    n, radius = 40, rng.uniform(0.1, 1.5, 40)
    misses, grad_norm = 1.0 - falling_shares(rng, n, 0.3), rng.uniform(0.0, 0.1, (n, 1))
    ridge = np.full((n, 1, misses.shape[1]), 1e-3)
    quick = plan_cells(EDGES, misses, grad_norm, radius, ridge)
    ends = chord_ends(EDGES, cell_middles(radius))
    of_cells = np.broadcast_to(misses[:, None], quick.nu.shape), np.broadcast_to(grad_norm, quick.k.shape), quick.across
    best = best_multipliers(ends, *of_cells, ridge)

    def value(found):
        cost = np.sum(ends.mass * ridge * np.square(found.nu), axis=-1) / 2.0
        return dual_value(ends, *of_cells, found) - cost

    lost = value(best) - value(Multipliers(quick.nu, quick.k))
    assert np.quantile(lost, 0.5) < 1e-4
    assert np.quantile(lost, 0.9) < 3e-4

    def certified(cells):
        known = np.sum(ends.mass * cells.nu * (1.0 - misses[:, None]), axis=-1)
        return cells_radius(EDGES, cells, known, of_cells[1], n_vertices=48)

    careful = certified(replace(quick, nu=best.nu, k=best.k))
    assert np.all(careful > 0.0)
    # Either may be larger, as both pay for large multipliers and radii do not.
    assert np.all(certified(quick) > 0.95 * careful)
    assert np.median(certified(quick) / careful) > 0.999


def test_rows_do_not_depend_on_their_company(rng):
    """Plans, radii and what is expected of them, to the last bit, alone and in groups of any size and order."""
    n = 30
    shares = falling_shares(rng, n, 0.3)
    grad_norm, guess = rng.uniform(0.0, 0.1, (n, 1)), rng.uniform(0.1, 1.5, n)

    def everything(rows):
        cells = plan_cells(EDGES, 1.0 - shares[rows], grad_norm[rows], guess[rows])
        value = np.sum(bin_masses(EDGES) * cells.nu * shares[rows, None], axis=-1)
        limits = np.broadcast_to(grad_norm[rows], value.shape)
        radius = cells_radius(EDGES, cells, value, limits, 48)
        return cells.nu, cells.k, radius, expected_radius(EDGES, cells, value, limits, 32)

    alone = [np.concatenate(part) for part in zip(*(everything([row]) for row in range(n)), strict=True)]
    assert np.mean(alone[2] > 0.0) > 0.8
    for size in (2, 3, 8, 30):
        order = rng.permutation(n)
        for first in range(0, n, size):
            rows = order[first : first + size]
            for together, apart in zip(everything(rows), alone, strict=True):
                np.testing.assert_array_equal(together, apart[rows])
    # What is expected, from fewer vertices and with slopes that are not the best yet, is about what is found.
    found = alone[2]
    some = found > 0.05
    guess = found * rng.uniform(0.93, 1.07, n)
    again = everything(some)
    assert np.max(np.abs(again[3] / again[2] - 1.0)) < 0.1
    assert np.median(np.abs(again[3] / again[2] - 1.0)) < 0.02


def test_radii_with_other_values_are_about_those_that_would_be_found(rng):
    """One evaluation tells what wider or narrower limits in the cells are worth, near enough to compare designs."""
    n = 40
    shares = falling_shares(rng, n, 0.5)
    grad_norm, guess = rng.uniform(0.0, 0.1, (n, 1)), rng.uniform(0.3, 1.5, n)
    for _ in range(3):
        cells = plan_cells(EDGES, 1.0 - shares, grad_norm, guess)
        value = np.sum(bin_masses(EDGES) * cells.nu * shares[:, None], axis=-1)
        limits = np.broadcast_to(grad_norm, value.shape)
        found = cells_radius(EDGES, cells, value, limits, 48)
        guess = np.maximum(found, 0.1)
    values = value - np.array([0.0, 0.006, -0.006])[:, None, None] * rng.uniform(0.0, 1.0, value.shape)
    gradients = limits * np.array([1.0, 1.1, 0.9])[:, None, None]
    radii = expected_radii(EDGES, cells, values, gradients, 32, 0.5)
    np.testing.assert_allclose(radii[0], expected_radius(EDGES, cells, values[0], gradients[0], 32), rtol=0.01)
    again = np.array([cells_radius(EDGES, cells, v, g, 32) for v, g in zip(values, gradients, strict=True)])
    some = found > 0.1
    assert np.mean(some) > 0.7
    change, true_change = (each[1:, some] / each[0, some] - 1.0 for each in (radii, again))
    assert np.median(np.abs(true_change)) > 0.005  # enough to tell
    assert np.median(np.abs(change - true_change)) < 0.3 * np.median(np.abs(true_change))


def test_rough_margins_are_near_and_no_radius_is_accepted_by_one(rng, monkeypatch):
    """Searches look at rough margins; a radius that is issued has passed the exact test everywhere."""
    shares, grad_norm = falling_shares(rng, 20, 0.5), rng.uniform(0.0, 0.1, (20, 1))
    cells = plan_cells(EDGES, 1.0 - shares, grad_norm, rng.uniform(0.3, 1.5, 20))
    value = np.sum(bin_masses(EDGES) * cells.nu * shares[:, None], axis=-1)
    limits = np.broadcast_to(grad_norm, value.shape)
    everywhere = np.ones(20, dtype=bool)

    def margin(radius, **how):
        return _CircleTest(EDGES, cells, value, limits, 48, 0.5)(radius, everywhere, **how)

    for radius in rng.uniform(0.05, 2.0, (5, 20)):
        np.testing.assert_allclose(margin(radius, rough=True), margin(radius), atol=1e-6)

    called, accepted = _CircleTest.__call__, []

    def watching(self, radius, going, everything=True, watch=False, rough=False):
        found = called(self, radius, going, everything, watch, rough)
        if everything and not rough:
            accepted.extend(np.broadcast_to(radius, going.shape)[going & (found >= 0.0)])
        return found

    monkeypatch.setattr(_CircleTest, "__call__", watching)
    found = cells_radius(EDGES, cells, value, limits, 48)
    assert np.mean(found > 0.1) > 0.7
    assert set(found[found > 0.0]) <= set(accepted)


def test_what_is_not_a_number_certifies_nothing(rng):
    shares, grad_norm = falling_shares(rng, 4, 0.5), np.full((4, 1), 0.05)
    cells = plan_cells(EDGES, 1.0 - shares, grad_norm, np.full(4, 0.5))
    value = np.sum(bin_masses(EDGES) * cells.nu * shares[:, None], axis=-1)
    limits = np.broadcast_to(grad_norm, value.shape).copy()
    cells.radius[0], value[1], limits[2] = np.nan, np.nan, np.nan
    found = cells_radius(EDGES, cells, value, limits, 48)
    np.testing.assert_array_equal(found[:3], 0.0)
    assert found[3] > 0.0


def test_margins_that_hardly_change_do_not_lead_far():
    """Multipliers of points improve between two tests, so that the margin at the larger radius is nearly the same."""
    search, everyone = _Search(np.array([2.49])), np.array([True])
    for margin in (-0.109, 0.0108, 0.0105):
        before = search.radius
        search.advance(np.array([margin]), everyone)
    assert before < search.radius < 1.1 * before


def test_a_radius_that_passed_once_is_kept():
    """Also if no later test passes, as when slopes go to and fro."""

    class Moody:
        def __init__(self):
            self.calls = 0

        def __call__(self, radius, going, everything=True, watch=False, rough=False):
            self.calls += 1
            return np.where(self.calls == 1, [0.02, -0.02], -0.01 if everything else 0.01) * np.ones(len(radius))

    found = _largest_accepted(Moody(), np.array([0.5, 0.5]), 8, 9)
    np.testing.assert_array_equal(found, [0.5, 0.0])
