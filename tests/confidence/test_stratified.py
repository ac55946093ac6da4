"""The limit for weighted sums over strata: its coverage, its exact tails in small cases, its width."""

import itertools

import numpy as np
import pytest
from scipy import stats

from smoothcert.confidence import stratified_lower
from smoothcert.confidence._stratified import _log_factor, least_variance, usual_width

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
    """Limits above the truth were seen in 0 to 1.3% of the repetitions, where 5% are allowed."""
    mass, shares, weights, guesses, n = SITUATIONS[situation]
    repetitions = 20_000
    hits, trials = draw(np.random.default_rng(len(situation)), mass, shares, n, repetitions)
    limit = stratified_lower(hits, trials, mass, weights, guesses, ALPHA)
    truth = np.sum(mass * limit.weights * shares, axis=-1)
    failures = int(np.sum(limit.value > truth))
    assert failures <= stats.binom.ppf(1 - FALSE_ALARM, repetitions, ALPHA)


def test_the_promise_is_used():
    """The test of coverage can fail: the promise is used up to a factor of four."""
    mass, shares, weights, guesses, n = SITUATIONS["right guesses"]
    hits, trials = draw(np.random.default_rng(0), mass, shares, n, 20_000)
    limit = stratified_lower(hits, trials, mass, weights, guesses, ALPHA)
    assert np.mean(limit.value > np.sum(mass * limit.weights * shares, axis=-1)) > ALPHA / 5
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
def test_width_is_nearly_that_of_the_normal_quantile_when_guesses_are_right(alpha):
    """Seen: 1.80, 3.21 and 4.83 standard deviations, where the normal quantiles are 1.64, 3.16 and 4.75, and Markov's
    inequality alone would need 2.45, 3.78 and 5.26."""
    mass, shares, weights, _, _ = SITUATIONS["right guesses"]
    n = 80_000
    hits, trials = draw(np.random.default_rng(3), mass, shares, n, 2000)
    limit = stratified_lower(hits, trials, mass, weights, shares, alpha)
    deviation = np.sqrt(np.sum(mass * weights**2 * shares * (1 - shares)) / n)
    short = (np.sum(mass * weights * shares) - limit.value) / deviation
    assert stats.norm.isf(alpha) < np.mean(short) < 1.02 * usual_width(alpha) < 1.12 * stats.norm.isf(alpha)
    # The spread is that of the hits given the trials: what falls where costs nothing.
    assert np.std(short) == pytest.approx(1.0, rel=0.1)


# The factor by which Markov's inequality is improved.

TRIALS = np.array([40, 60, 30])


def all_outcomes(trials):
    return np.stack(np.meshgrid(*(np.arange(n + 1) for n in trials), indexing="ij"), axis=-1).reshape(-1, len(trials))


@pytest.mark.parametrize("size", [0.05, 0.2, 0.5])
def test_the_factor_covers_every_tail_of_the_wealth(size):
    """For all thresholds, by enumeration of all outcomes: no simulation, no false alarm."""
    rng = np.random.default_rng(5)
    hits = all_outcomes(TRIALS)
    helped = 0
    for _ in range(20):
        shares, guesses = rng.uniform(0.02, 0.98, (2, 3))
        bets = size * rng.uniform(-1.0, 1.0, 3)
        won, lost = np.log1p(bets * (1.0 - guesses)), np.log1p(-bets * guesses)
        log_wealth = hits @ won + (TRIALS - hits) @ lost
        probability = stats.binom.pmf(hits, TRIALS, shares).prod(axis=1)
        log_mean = np.log(np.sum(probability * np.exp(log_wealth)))
        factor = np.exp(_log_factor(np.abs(won - lost), TRIALS * shares * (1.0 - shares)))
        order = np.argsort(-log_wealth)
        tail = np.cumsum(probability[order])
        assert np.all(tail <= factor * np.exp(log_mean - log_wealth[order]) * (1.0 + 1e-9))
        helped += factor < 0.9
    assert helped > 0 or size == 0.05  # small bets leave the wealth as it is, and nothing can be gained


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_exact_tail_given_the_trials(alpha):
    """Enough samples for the factor to count: its largest value here is checked, too."""
    mass, trials = np.array([0.3, 0.4, 0.3]), np.array([150, 200, 120])
    least = 1.0
    for shares in ([0.9, 0.6, 0.2], [0.99, 0.5, 0.5], [0.5, 0.5, 0.5], [0.7, 0.95, 0.999]):
        shares = np.array(shares)
        # All outcomes but those beyond six standard deviations, which count as failures.
        middle, reach = trials * shares, 6.0 * np.sqrt(trials * shares * (1.0 - shares)) + 6.0
        ranges = [
            np.arange(max(0, int(m - r)), min(n, int(m + r)) + 1) for m, r, n in zip(middle, reach, trials, strict=True)
        ]
        for weights in (np.ones(3), np.array([1.0, -0.5, 2.0])):
            for guesses in (shares * 0.96 + 0.02, np.full(3, 0.5)):
                failed = 0.0
                for first in ranges[0]:
                    rest = np.stack(np.meshgrid(ranges[1], ranges[2], indexing="ij"), axis=-1).reshape(-1, 2)
                    hits = np.column_stack([np.full(len(rest), first), rest])
                    limit = stratified_lower(hits, trials, mass, weights, guesses, alpha)
                    wrong = limit.value > np.sum(mass * limit.weights * shares, axis=-1)
                    failed += stats.binom.pmf(hits[wrong], trials, shares).prod(axis=1).sum()
                assert failed + 1e-6 <= alpha
                least = min(least, alpha / max(failed, 1e-12))
    assert least < 4.0  # Markov's inequality alone would leave a factor of about eight


@pytest.mark.parametrize("n", [1, 7, 60, 1000])
@pytest.mark.parametrize("alpha", [0.2, 0.001])
def test_least_variance_is_a_lower_limit(n, alpha):
    """Exact, on a grid of shares."""
    hits, trials = np.arange(n + 1), np.full(n + 1, n)
    limit = least_variance(hits, trials, alpha)
    for share in np.concatenate([np.geomspace(1e-4, 0.5, 40), 1.0 - np.geomspace(1e-4, 0.5, 40)]):
        wrong = limit > share * (1.0 - share)
        assert stats.binom.pmf(hits[wrong], n, share).sum() <= alpha
    if n == 1000:
        assert limit[500] > 0.24 * (1.0 - 50.0 / n)


def test_the_inequality_behind_it():
    """Okamoto's exponent is at most Chernoff's, for shares above the truth."""
    p, q = np.meshgrid(np.linspace(1e-4, 1 - 1e-4, 400), np.linspace(1e-4, 1 - 1e-4, 400))
    above = q >= p
    divergence = q * np.log(q / p) + (1.0 - q) * np.log((1.0 - q) / (1.0 - p))
    assert np.all((divergence - 2.0 * np.square(np.sqrt(q) - np.sqrt(p)))[above] >= -1e-12)


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
