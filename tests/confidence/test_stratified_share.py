"""The upper limit for rare votes in strata: enumerated coverage, strata nobody saw, and bad input."""

import itertools

import numpy as np
import pytest
from scipy import stats

from smoothcert.confidence import binomial_upper, stratified_share_upper


def coverage(trials, mass, shares, guess, alpha):
    """Exact probability that the limit is below the truth, over all outcomes."""
    outcomes = np.array(list(itertools.product(*(range(n + 1) for n in trials))))
    probability = np.prod(stats.binom.pmf(outcomes, trials, shares), axis=1)
    limit = stratified_share_upper(outcomes, trials, mass, guess, alpha)
    return float(probability[limit < mass @ np.asarray(shares)].sum())


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("trials", [(12, 9), (25, 3), (6, 5, 4)])
def test_covers_all_truths_just_above_its_values(trials, alpha):
    """Truths are placed just above the limits of outcomes, where a fault would show first."""
    mass = np.array([0.9, 0.1] if len(trials) == 2 else [0.5, 0.4, 0.1])
    worst = 0.0
    for guess in (0.01, 0.3):
        grid = np.array(list(itertools.product(*(range(min(n, 6) + 1) for n in trials))))
        limits = np.unique(stratified_share_upper(grid, trials, mass, guess, alpha))
        for truth in limits[limits < 0.95] + 1e-9:
            for lean in (np.ones(len(mass)), np.linspace(0.2, 3.0, len(mass)), np.linspace(3.0, 0.2, len(mass))):
                shares = lean * truth / (mass @ lean)
                if np.all(shares <= 1.0):
                    worst = max(worst, coverage(trials, mass, shares, guess, alpha))
    assert worst <= alpha
    assert worst > alpha / 8  # not so wide that the test cannot fail


def test_close_to_the_exact_limit_with_one_stratum():
    for hits in (0, 3, 50, 400):
        exact = binomial_upper(hits, 20_000, 0.001)
        limit = stratified_share_upper([hits], [20_000], [1.0], max(hits, 1) / 20_000, 0.001)
        assert exact <= limit <= 1.6 * exact


def test_rises_with_hits_and_counts_unseen_strata_in_full():
    limits = [float(stratified_share_upper([k, 0], [100, 100], [0.5, 0.5], 0.02, 0.01)) for k in range(20)]
    assert np.all(np.diff(limits) > 0.0)
    assert stratified_share_upper([0, 0], [10_000, 0], [0.75, 0.25], 0.01, 0.01) > 0.25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hits": [5, 0], "trials": [4, 9]}, "hits must be at most trials"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": [0.1, 0.2]}, "alpha must be one number"),
        ({"guess": 0.0}, "guess"),
        ({"mass": [1.5, -0.5]}, "mass"),
    ],
)
def test_refuses_bad_input(change, message):
    good = {"hits": [1, 0], "trials": [10, 10], "mass": [0.5, 0.5], "guess": 0.1, "alpha": 0.05}
    with pytest.raises(ValueError, match=message):
        stratified_share_upper(**(good | change))
