"""Sums of noise are rounded to the side that certifies less: never a smaller estimate than from exact sums."""

import math
from fractions import Fraction

import numpy as np
import pytest

from smoothcert._noise import block_size
from smoothcert.tallies import DirectionalPlan, DirectionalTally, GradientTally, PairTally, RivalPlan, RivalTally
from smoothcert.tallies._sums import bins_of, place_in_bins

N_UPDATES = 40


def fractions(values):
    """Floats as exact fractions."""
    return [[Fraction(float(v)) for v in row] for row in values]


def exact_sums(vectors):
    """Sum and sum of squared lengths, without any rounding."""
    total = [sum(column) for column in zip(*vectors, strict=True)]
    return total, sum(value * value for vector in vectors for value in vector)


def square_length(vector):
    return sum(value * value for value in vector)


def assert_error_is_bounded(grad_sum, grad_error, exact):
    off = square_length([Fraction(float(kept)) - truth for kept, truth in zip(grad_sum, exact, strict=True)])
    assert off <= Fraction(float(grad_error)) ** 2
    assert grad_error < 1e-4  # and is no excuse for anything


CASES = [(d, dtype, seed) for d in (1, 3, 40) for dtype in (np.float32, np.float64) for seed in (0, 1)]


@pytest.mark.parametrize(("d", "dtype", "seed"), CASES)
@pytest.mark.parametrize("centre", [0.5, 0.0])
def test_gradient_sums_are_on_the_safe_side(d, dtype, seed, centre):
    rng = np.random.default_rng(seed)
    tally, vectors = GradientTally.empty(1, d, centre=centre), []
    for _ in range(N_UPDATES):
        noise = rng.standard_normal((1, 5, d)).astype(dtype)
        hit = noise[:, :, 0] < 0.3
        tally.update(noise, hit)
        weights = [Fraction(float(h - centre)) for h in hit[0]]
        vectors += [[w * z for z in row] for w, row in zip(weights, fractions(noise[0]), strict=True)]
    total, square = exact_sums(vectors)
    n = len(vectors)
    assert Fraction(float(tally.grad_sq[0])) <= square
    assert_error_is_bounded(tally.grad_sum[0], tally.grad_error[0], total)
    exact = (square_length(total) - square) / (n * (n - 1))
    assert Fraction(float(tally.norm_sq[0])) >= exact
    assert float(tally.norm_sq[0]) == pytest.approx(float(exact), abs=2e-5)


@pytest.mark.parametrize(("d", "dtype", "seed"), CASES)
def test_sums_of_pairs_are_on_the_safe_side(d, dtype, seed):
    rng = np.random.default_rng(seed)
    tally, vectors = PairTally.empty(1, d), []
    for _ in range(N_UPDATES):
        noise = rng.standard_normal((1, 5, d)).astype(dtype)
        votes = np.stack([noise[0, :, 0] < 0.3, -noise[0, :, 0] < 0.3]).astype(int)
        tally.update(noise, votes[None])
        weights = [Fraction(int(w), 2) for w in votes[0] - votes[1]]
        vectors += [[w * z for z in row] for w, row in zip(weights, fractions(noise[0]), strict=True)]
    total, square = exact_sums(vectors)
    n = len(vectors)
    assert Fraction(float(tally.grad_sq[0])) <= square
    assert_error_is_bounded(tally.grad_sum[0], tally.grad_error[0], total)
    assert Fraction(float(tally.norm_sq[0])) >= (square_length(total) - square) / (n * (n - 1))


@pytest.mark.parametrize(("d", "dtype", "seed"), [case for case in CASES if case[0] > 1])
def test_sums_across_a_direction_are_on_the_safe_side(d, dtype, seed):
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    direction /= np.linalg.norm(direction)
    plan = DirectionalPlan.towards([-1.0, 0.0, 1.0], direction)
    tally, strata = DirectionalTally.empty(plan), {s: [] for s in range(plan.n_strata)}
    unit = [Fraction(float(a)) for a in direction]
    length = square_length(unit)
    for _ in range(N_UPDATES):
        noise = rng.standard_normal((1, 5, d)).astype(dtype)
        hit = noise[:, :, 0] < 0.3
        tally.update(noise, hit)
        place = np.searchsorted(plan.edges, noise[0].astype(np.float64) @ direction, side="right")
        for z, h, s in zip(fractions(noise[0]), hit[0], plan.strata[place], strict=True):
            along = sum(a * b for a, b in zip(z, unit, strict=True)) / length
            weight = Fraction(1, 2) if h else Fraction(-1, 2)
            strata[int(s)].append([weight * (a - along * b) for a, b in zip(z, unit, strict=True)])
    weights = rng.uniform(0.1, 1.0, (1, 3, plan.n_strata))
    found = tally.norm_sq(weights)[0]
    sums = [exact_sums(strata[s] or [[Fraction(0)] * d]) for s in range(plan.n_strata)]
    for s, (total, square) in enumerate(sums):
        assert Fraction(float(tally.grad_sq[0, s])) <= square
        assert_error_is_bounded(tally.grad_sum[0, s], tally.grad_error[0, s], total)
    for tried, value in zip(weights[0], found, strict=True):
        exact_weights = [Fraction(float(w)) for w in tried]
        whole = [sum(w * t[j] for w, (t, _) in zip(exact_weights, sums, strict=True)) for j in range(d)]
        squares = sum(w * w * square for w, (_, square) in zip(exact_weights, sums, strict=True))
        assert Fraction(float(value)) >= square_length(whole) - squares
        assert float(value) == pytest.approx(float(square_length(whole) - squares), abs=0.2)


@pytest.mark.parametrize(("d", "dtype", "seed"), [case for case in CASES if case[0] > 1])
def test_sums_of_classes_across_a_direction_are_on_the_safe_side(d, dtype, seed):
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    direction /= np.linalg.norm(direction)
    plan = RivalPlan.towards([-1.0, 0.0, 1.0], direction, [[2]])
    tally = RivalTally.empty(plan, n_classes=3, candidate=[0])
    vectors = {(group, s): [] for group in range(3) for s in range(plan.n_strata)}
    unit = [Fraction(float(a)) for a in direction]
    length = square_length(unit)
    for _ in range(N_UPDATES):
        noise = rng.standard_normal((1, 5, d)).astype(dtype)
        votes = np.digitize(noise[:, :, 0], [0.3, 0.6])
        tally.update(noise, votes)
        place = np.searchsorted(plan.edges, noise[0].astype(np.float64) @ direction, side="right")
        for z, vote, s in zip(fractions(noise[0]), votes[0], plan.strata[place], strict=True):
            along = sum(a * b for a, b in zip(z, unit, strict=True)) / length
            vectors[int(vote), int(s)].append([a - along * b for a, b in zip(z, unit, strict=True)])
    sums = {key: exact_sums(parts or [[Fraction(0)] * d]) for key, parts in vectors.items()}
    for (group, s), (total, square) in sums.items():
        assert Fraction(float(tally.grad_sq[0, group, s])) <= square
        assert_error_is_bounded(tally.grad_sum[0, group, s], tally.grad_error[0, group, s], total)
    tried, strata = rng.uniform(0.1, 1.0, plan.n_strata), range(plan.n_strata)
    weights = [Fraction(float(w)) for w in tried]
    for centres in (np.full(plan.n_strata, 0.5), rng.uniform(0.0, 1.0, plan.n_strata)):
        # Votes for the class, for a third one and for the rival, less the centre.
        gaps = [[Fraction(vote) - Fraction(float(c)) for vote in (1.0, 0.5, 0.0)] for c in centres]
        total = [[sum(gaps[s][g] * sums[g, s][0][j] for g in range(3)) for j in range(d)] for s in strata]
        square = [sum(gaps[s][g] ** 2 * sums[g, s][1] for g in range(3)) for s in strata]
        whole = [sum(w * total[s][j] for s, w in enumerate(weights)) for j in range(d)]
        exact = square_length(whole) - sum(w * w * square[s] for s, w in enumerate(weights))
        lead = tally.lead_sums(0, 0, centres)
        found = float(lead.norm_sq(tried[None])[0])
        assert Fraction(found) >= exact
        assert found == pytest.approx(float(exact), abs=0.2)
        for s in strata:
            assert Fraction(float(lead.within[s])) >= square_length(total[s]) - square[s]
            assert lead.squares_up(tally.stratum_trials[0])[s] >= square[s] >= Fraction(float(lead.squares[s]))


def test_terms_that_cancel_do_not_hide_the_error():
    """Strata whose sums cancel: the rounding of the large terms counts, not that of the small sum."""
    plan = DirectionalPlan.towards([0.0], [1.0, 0.0, 0.0])
    large = np.zeros((1, 2, 3))
    large[0, :, 1] = 1e9 + 0.25, -1e9
    nothing = np.zeros((1, 2), np.int64)
    tally = DirectionalTally(nothing[:, 0], nothing[:, 0], nothing, nothing, large, np.zeros((1, 2)), plan)
    weights = np.array([[[0.1, 0.1]]])
    exact = Fraction(0.1) ** 2 * Fraction(1, 16)
    assert Fraction(float(tally.norm_sq(weights)[0, 0])) >= exact


@pytest.mark.parametrize(("d", "least"), [(49, 2e-10), (3072, 1e-8), (150_528, 2e-7)])
def test_the_margin_is_too_small_to_be_seen(d, least):
    """In the length of the mean vector, for the blocks of noise that are drawn."""
    rows = block_size(d)
    tally = GradientTally.empty(1, d)
    noise = np.random.default_rng(0).standard_normal((1, rows, d), dtype=np.float32)
    tally.update(noise, noise[:, :, 0] < 0.0)
    assert 0.0 < tally.grad_error[0] / rows < least
    lost = 0.25 * np.sum(np.square(noise, dtype=np.float64)) - tally.grad_sq[0]
    assert 0.0 <= lost < 1e-7 * tally.grad_sq[0] + 1.0 / 1024


def test_projections_at_an_edge_fall_into_the_right_bin():
    """A naive sum misplaces some of the samples whose exact projection is next to an edge; the tally places all."""
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(3000)
    direction /= np.linalg.norm(direction)
    length = Fraction(math.sqrt(math.fsum(direction**2)))
    misplaced = 0
    for _ in range(60):
        noise = rng.standard_normal((1, 3000))
        exact = sum((Fraction(a) * Fraction(z) for a, z in zip(direction, noise[0], strict=True)), Fraction(0)) / length
        least = 3 * 2.0**-53 * float(np.linalg.norm(noise)) + 2.0**-49
        for shift in (1.01 * least, -1.01 * least):
            edges = (float(exact) + shift,)
            along = noise @ direction
            naive = bins_of(along.copy(), edges)
            place = place_in_bins(along, edges, noise, direction, np.square(noise).sum(axis=1))
            assert place[0] == int(exact >= Fraction(edges[0]))
            misplaced += int(naive[0] != place[0])
    assert place_in_bins(np.zeros(1), (0.0,), np.zeros((1, 3)), np.zeros(3), np.zeros(1))[0] == 1
    assert misplaced <= 60  # a naive sum is good, too, as a rule
