"""The betting limit for votes for a class, for a rival, or for neither: its promise by enumeration, and its width."""

import itertools

import numpy as np
import pytest
from scipy import stats

from smoothcert.confidence import stratified_lower, stratified_rival_lower
from smoothcert.confidence._stratified import _log_factor, usual_width
from smoothcert.confidence._stratified_rival import _least_shares, rival_variance

FALSE_ALARM = 1e-4


def limit_of(hits, rival_hits, trials, mass, weights, guesses, alpha):
    return stratified_rival_lower(
        hits,
        rival_hits,
        trials,
        mass=mass,
        weights=weights[0],
        rival_weights=weights[1],
        guesses=guesses[0],
        rival_guesses=guesses[1],
        alpha=alpha,
    )


def truth_of(limit, mass, shares):
    return np.sum(mass * (limit.weights * shares[0] + limit.rival_weights * (1.0 - shares[1])), axis=-1)


def outcomes_of(trials):
    """All ways in which the given numbers of trials can be votes for the class, the rival, or neither."""
    each = [[(a, b) for a in range(n + 1) for b in range(n + 1 - a)] for n in trials]
    found = np.array(list(itertools.product(*each)))
    return found[..., 0], found[..., 1]


def probabilities(hits, rival_hits, trials, shares):
    rest = trials - hits - rival_hits
    votes, whole = np.stack([hits, rival_hits, rest], axis=1), np.vstack([shares, 1.0 - shares.sum(axis=0)])
    each = [stats.multinomial.pmf(votes[..., b], trials[b], whole[:, b]) for b in range(len(trials))]
    return np.prod(each, axis=0)


SHARES = np.array([[0.9, 0.5], [0.06, 0.35]])
WEIGHTS = (np.array([[0.6, 1.3], [0.6, 1.3]]), np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[-1.0, 0.3], [2.0, 2.5]]))


@pytest.mark.parametrize("trials", [(1, 1), (4, 0), (3, 5), (6, 6)])
@pytest.mark.parametrize("alpha", [0.3, 0.05])
def test_exact_tail_for_few_samples(trials, alpha):
    """All outcomes of two strata, each with its probability, given the trials."""
    mass, trials = np.array([0.4, 0.6]), np.array(trials)
    hits, rival_hits = outcomes_of(trials)
    probability = probabilities(hits, rival_hits, trials, SHARES)
    assert probability.sum() == pytest.approx(1.0)
    for weights in WEIGHTS:
        for guesses in (SHARES, SHARES[::-1], np.full((2, 2), 0.5), np.full((2, 2), 0.98)):
            limit = limit_of(hits, rival_hits, trials, mass, weights, guesses, alpha)
            assert probability[limit.value > truth_of(limit, mass, SHARES)].sum() <= alpha


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.001])
def test_exact_tail_where_the_factor_counts(alpha):
    """One stratum of 260 samples, all outcomes: enough for the Berry-Esseen inequality to help."""
    mass, n = np.array([1.0]), np.array([260])
    hits, rival_hits = outcomes_of(n)
    closest = 1.0
    for shares in ([0.6, 0.3], [0.45, 0.4], [0.85, 0.1]):
        shares = np.array(shares)[:, None]
        probability = probabilities(hits, rival_hits, n, shares)
        for weights in (np.array([[1.0], [1.0]]), np.array([[0.7], [1.4]])):
            for guesses in (shares, shares * 0.9 + 0.03):
                limit = limit_of(hits, rival_hits, n, mass, weights, guesses, alpha)
                failed = probability[limit.value > truth_of(limit, mass, shares)].sum()
                assert failed <= alpha
                closest = min(closest, 1.0 - failed / alpha)
    assert closest < 0.9  # the test can fail


def test_the_factor_covers_every_tail_of_the_wealth():
    """For all thresholds, by enumeration: two strata with votes of three values."""
    rng = np.random.default_rng(5)
    trials = np.array([22, 18])
    hits, rival_hits = outcomes_of(trials)
    votes = np.stack([hits, rival_hits, trials - hits - rival_hits])
    helped = 0
    for _ in range(10):
        shares = rng.dirichlet([2.0, 1.0, 1.0], 2).T
        factors = 1.0 + rng.uniform(-0.45, 0.6, (3, 2))
        logs = np.log(factors)
        log_wealth = np.einsum("vob,vb->o", votes, logs)
        probability = probabilities(hits, rival_hits, trials, shares[:2])
        log_mean = np.log(np.sum(probability * np.exp(log_wealth)))
        jumps = np.ptp(logs, axis=0)
        variance = sum(shares[i] * shares[j] * (logs[i] - logs[j]) ** 2 for i, j in ((0, 1), (0, 2), (1, 2)))
        factor = np.exp(_log_factor(jumps, trials * variance / jumps**2))
        order = np.argsort(-log_wealth)
        tail = np.cumsum(probability[order])
        assert np.all(tail <= factor * np.exp(log_mean - log_wealth[order]) * (1.0 + 1e-9))
        helped += factor < 0.95
    assert helped > 0


@pytest.mark.parametrize("n", [1, 9, 300])
def test_least_shares_are_lower_limits(n):
    """Exact, on a grid of shares."""
    counts = np.arange(n + 1.0)
    for alpha in (0.2, 0.001):
        limit = _least_shares(counts[None], np.full(n + 1, n), alpha)[0]
        for share in np.linspace(0.001, 0.999, 60):
            assert stats.binom.pmf(counts[limit > share], n, share).sum() <= alpha


def test_against_all_that_is_left_it_is_the_limit_for_one_class():
    """If the rival is everybody else, the same weights bet twice on the same votes."""
    mass = np.array([0.3, 0.7])
    hits, trials = np.array([2800, 5000]), np.array([3000, 7000])
    guesses = np.array([0.93, 0.71])
    weights = np.array([0.5, 1.2])
    two = limit_of(hits, trials - hits, trials, mass, np.stack([weights] * 2), np.stack([guesses, 1 - guesses]), 0.001)
    one = stratified_lower(hits, trials, mass, 2.0 * weights, guesses, 0.001)
    # Only the limits of the variance differ a little.
    assert two.value == pytest.approx(one.value, abs=2e-4)


@pytest.mark.parametrize("alpha", [0.05, 0.0008])
def test_width_is_nearly_that_of_the_normal_quantile_when_guesses_are_right(alpha):
    rng = np.random.default_rng(3)
    mass = np.array([0.05, 0.2, 0.5, 0.2, 0.05])
    shares = np.array([[0.97, 0.9, 0.75, 0.5, 0.2], [0.01, 0.05, 0.15, 0.3, 0.5]])
    weights = np.stack([np.array([0.1, 0.4, 1.0, 1.8, 3.0]), np.array([0.1, 0.5, 1.1, 1.9, 2.8])])
    n, repetitions = 80_000, 1000
    trials = rng.multinomial(n, mass, repetitions)
    hits = rng.binomial(trials, shares[0])
    rival_hits = rng.binomial(trials - hits, shares[1] / (1.0 - shares[0]))
    limit = limit_of(hits, rival_hits, trials, mass, weights, shares, alpha)
    deviation = np.sqrt(np.sum(mass * rival_variance(weights[0], weights[1], *shares)) / n)
    truth = np.sum(mass * (weights[0] * shares[0] + weights[1] * (1.0 - shares[1])))
    short = (truth - limit.value) / deviation
    assert stats.norm.isf(alpha) < np.mean(short) < 1.03 * usual_width(alpha)
    assert np.std(short) == pytest.approx(1.0, rel=0.1)
    assert np.mean(limit.value > truth) <= stats.binom.ppf(1 - FALSE_ALARM, repetitions, alpha) / repetitions


def test_bets_of_a_stratum_shrink_together():
    mass, guesses = np.array([0.5, 0.5]), np.array([[0.9, 0.5], [0.05, 0.4]])
    weights = np.array([[1.0, 3.0], [0.5, 2.0]])
    limit = limit_of([9, 2], [0, 3], [10, 6], mass, weights, guesses, 0.01)
    assert np.any(limit.weights < weights[0] * (1 - 1e-9))
    np.testing.assert_allclose(limit.weights / weights[0], limit.rival_weights / weights[1], rtol=1e-12)


def test_refuses_votes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"sum to at most trials, got 4 \+ 3 and 6"):
        limit_of([4], [3], [6], [1.0], np.ones((2, 1)), np.full((2, 1), 0.5), 0.1)
