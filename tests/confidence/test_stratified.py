"""The limit for weighted sums over strata: its coverage, its exact tails in small cases, its width."""

import itertools

import numpy as np
import pytest
from scipy import stats

from smoothcert.confidence import stratified_lower

ALPHA = 0.05
FALSE_ALARM = 1e-4


def draw(rng, mass, shares, n, repetitions):
    """Counts of hits and trials; the strata of the samples are left to chance."""
    trials = rng.multinomial(n, mass, size=repetitions)
    return rng.binomial(trials, shares), trials


MASS = np.array([0.02, 0.08, 0.2, 0.3, 0.25, 0.15])
SHARES = np.array([0.99, 0.95, 0.9, 0.7, 0.3, 0.05])
MIXED = np.array([3.0, 1.5, -0.5, 0.8, 1.2, -2.0])
# Mass, shares, weights, guesses, number of samples.
SITUATIONS = {
    "right guesses": (MASS, SHARES, MIXED, SHARES, 500),
    "all positive": (MASS, SHARES, np.abs(MIXED), SHARES, 500),
    "all negative": (MASS, SHARES, -np.abs(MIXED), SHARES, 500),
    "guesses the wrong way round": (MASS, SHARES, MIXED, 1.0 - SHARES, 500),
    "sure and wrong": (MASS, SHARES, MIXED, np.where(SHARES > 0.5, 0.001, 0.999), 500),
    "few samples, empty strata": (MASS, SHARES, MIXED, SHARES, 12),
    "one sample": (MASS, SHARES, np.abs(MIXED), SHARES, 1),
    "one stratum": (np.ones(1), np.array([0.8]), np.ones(1), np.array([0.8]), 200),
    "no chance": (MASS, np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), MIXED, np.full(6, 0.5), 100),
    "huge weights": (MASS, SHARES, np.array([40.0, 0.1, 0.1, 0.1, -0.1, 0.1]), SHARES, 300),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_coverage(situation):
    """Limits above the truth were seen in 0 to 0.8% of the repetitions, where 5% are allowed."""
    mass, shares, weights, guesses, n = SITUATIONS[situation]
    repetitions = 20_000
    hits, trials = draw(np.random.default_rng(len(situation)), mass, shares, n, repetitions)
    limit = stratified_lower(hits, trials, mass, weights, guesses, ALPHA)
    truth = np.sum(mass * limit.weights * shares, axis=-1)
    failures = int(np.sum(limit.value > truth))
    assert failures <= stats.binom.ppf(1 - FALSE_ALARM, repetitions, ALPHA)


def test_the_promise_is_used():
    """The test of coverage can fail. The normal tail at a width of sqrt(2 log 20) is 0.7%, and that is what is seen."""
    mass, shares, weights, guesses, n = SITUATIONS["right guesses"]
    hits, trials = draw(np.random.default_rng(0), mass, shares, n, 20_000)
    limit = stratified_lower(hits, trials, mass, weights, guesses, ALPHA)
    assert np.mean(limit.value > np.sum(mass * limit.weights * shares, axis=-1)) > ALPHA / 10
    # Without its term for the level the limit would be wrong about half of the time.
    bare = stratified_lower(hits, trials, mass, weights, guesses, 1.0 - 1e-9)
    assert np.mean(bare.value > np.sum(mass * bare.weights * shares, axis=-1)) > 0.3


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("alpha", [0.3, 0.05])
def test_exact_tail_for_few_samples(n, alpha):
    """All outcomes of three strata, each with its probability: no simulation, no false alarm."""
    mass, shares = np.array([0.2, 0.5, 0.3]), np.array([0.9, 0.6, 0.2])
    trials = np.array([t for t in itertools.product(range(n + 1), repeat=3) if sum(t) == n])
    outcomes = [(h, t) for t in trials for h in itertools.product(*(range(k + 1) for k in t))]
    hits, trials = (np.array(part) for part in zip(*outcomes, strict=True))
    probability = stats.multinomial.pmf(trials, n, mass) * stats.binom.pmf(hits, trials, shares).prod(axis=1)
    assert probability.sum() == pytest.approx(1.0)
    for weights in (np.ones(3), np.array([1.0, -0.5, 2.0]), np.array([-1.0, -1.0, -3.0])):
        for guesses in (shares, 1.0 - shares, np.full(3, 0.5), np.full(3, 0.99)):
            limit = stratified_lower(hits, trials, mass, weights, guesses, alpha)
            truth = np.sum(mass * limit.weights * shares, axis=-1)
            assert probability[limit.value > truth].sum() <= alpha


def test_kept_weights_are_those_asked_for_unless_bets_are_clipped():
    mass, shares, weights, guesses, _ = SITUATIONS["right guesses"]
    hits, trials = draw(np.random.default_rng(1), mass, shares, 20_000, 50)
    limit = stratified_lower(hits, trials, mass, weights, guesses, ALPHA)
    np.testing.assert_allclose(limit.weights, np.broadcast_to(weights, trials.shape), rtol=1e-12)
    hits, trials = draw(np.random.default_rng(2), mass, shares, 30, 200)
    kept = stratified_lower(hits, trials, mass, weights, guesses, ALPHA).weights
    assert np.all(kept[trials == 0] == 0.0)
    assert np.all(np.abs(kept) <= np.abs(weights) * (1 + 1e-12))
    assert np.all(kept * weights >= 0.0)
    assert np.any((kept != 0.0) & (np.abs(kept) < 0.9 * np.abs(weights)))


@pytest.mark.parametrize("alpha", [0.05, 0.0008, 1e-6])
def test_width_is_that_of_the_normal_tail_when_guesses_are_right(alpha):
    mass, shares, weights, _, _ = SITUATIONS["right guesses"]
    n = 80_000
    hits, trials = draw(np.random.default_rng(3), mass, shares, n, 2000)
    limit = stratified_lower(hits, trials, mass, weights, shares, alpha)
    width = np.sqrt(-2.0 * np.log(alpha) * np.sum(mass * weights**2 * shares * (1 - shares)) / n)
    short = np.sum(mass * weights * shares) - limit.value
    assert np.mean(short) == pytest.approx(width, rel=0.04)
    # The spread is that of the hits given the trials: what falls where costs nothing.
    assert np.std(short) == pytest.approx(width / np.sqrt(-2.0 * np.log(alpha)), rel=0.1)


def test_rows_are_independent_and_broadcast():
    mass, shares, weights, guesses, _ = SITUATIONS["right guesses"]
    hits, trials = draw(np.random.default_rng(4), mass, shares, 400, 3)
    several = np.stack([weights, -weights, weights[::-1], np.ones(6)])
    limit = stratified_lower(hits[:, None], trials[:, None], mass, several, guesses, ALPHA)
    assert limit.value.shape == (3, 4)
    assert limit.weights.shape == (3, 4, 6)
    for i, j in itertools.product(range(3), range(4)):
        alone = stratified_lower(hits[i], trials[i], mass, several[j], guesses, ALPHA)
        np.testing.assert_allclose(limit.value[i, j], alone.value, rtol=1e-13)


def test_nothing_seen_and_nothing_asked():
    mass = np.array([0.5, 0.5])
    nothing = np.zeros(2, int)
    limit = stratified_lower(nothing, nothing, mass, np.ones(2), np.full(2, 0.5), ALPHA)
    assert np.isfinite(limit.value)
    assert limit.value < 0.0
    np.testing.assert_array_equal(limit.weights, 0.0)
    limit = stratified_lower(np.array([3, 4]), np.array([5, 5]), mass, np.zeros(2), np.full(2, 0.5), ALPHA)
    assert limit.value <= 0.0
    np.testing.assert_array_equal(limit.weights, 0.0)
