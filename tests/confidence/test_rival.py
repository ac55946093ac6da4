"""The joint limit for a class and a rival: its promise by enumeration, and what it gains."""

import numpy as np
import pytest
from scipy import stats

from smoothcert.bounds import first_order_radius
from smoothcert.confidence import binomial_lower, binomial_upper, rival_limits


def outcomes(n, step=1):
    """All counts of a class and of a rival that is not ahead."""
    k, rival = np.meshgrid(np.arange(n + 1), np.arange(n // 2 + 1), indexing="ij")
    possible = (rival <= k) & (k + rival <= n)
    return k[possible], rival[possible]


def errors(n, alpha, n_truths, seed=0):
    """Probabilities that the certified radius exceeds the true one, for truths just below certified radii."""
    k, rival = outcomes(n)
    pair = np.stack(rival_limits(k, rival, n, alpha))
    radius = first_order_radius(*pair)
    rng = np.random.default_rng(seed)
    certified = np.flatnonzero(radius > 0.0)
    chosen = rng.choice(certified, min(n_truths, len(certified)), replace=False)
    wrong = []
    for p, q in pair[:, chosen].T:
        # Least favourable pairs, pairs on the same curve, and all of them a trifle less favourable.
        for shift in (0.0, 0.1, -0.1, 0.4, -0.4):
            x, y = stats.norm.ppf([p, q]) + shift
            truth = stats.norm.cdf([x - 1e-7, y])
            if truth.sum() > 1.0:
                continue
            probability = stats.multinomial.pmf(
                np.stack([k, rival, n - k - rival], axis=1), n, [*truth, 1 - truth.sum()]
            )
            wrong.append(probability[radius > first_order_radius(*truth)].sum())
    return np.array(wrong)


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_exact_tail_for_few_samples(n, alpha):
    assert np.all(errors(n, alpha, 100) <= alpha)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.001])
def test_exact_tail_where_cells_are_tested(alpha):
    """All outcomes of 450 samples. Seen: up to 0.176, 0.029 and 0.00058."""
    wrong = errors(450, alpha, 60)
    assert np.all(wrong <= alpha)
    assert wrong.max() > 0.5 * alpha  # the test can fail


@pytest.mark.parametrize("n", [1000, 100_000, 10**7])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_gains_over_two_limits_at_half_of_the_level(n, alpha):
    shares = np.array([(0.45, 0.3), (0.5, 0.1), (0.9, 0.02), (0.9, 0.1), (0.99, 0.001), (0.6, 0.39), (0.999, 1e-4)])
    k, rival = np.rint(shares * n).astype(int).T
    joint = first_order_radius(*rival_limits(k, rival, n, alpha))
    divided = first_order_radius(binomial_lower(k, n, alpha / 2), binomial_upper(rival, n, alpha / 2))
    assert np.all(joint > divided * 0.999)
    exact = first_order_radius(shares[:, 0], shares[:, 1])
    # A third class in play makes both errors partly cancel.
    assert np.all((exact - joint)[:2] < 0.95 * (exact - divided)[:2])
    if n >= 100_000:
        assert np.all((exact - joint)[:3] < 0.86 * (exact - divided)[:3])


@pytest.mark.parametrize("n", [5, 300, 100_000])
def test_all_votes_for_the_class_are_certified_as_against_one_half(n):
    np.testing.assert_allclose(
        first_order_radius(*rival_limits(n, 0, n, 0.001)), first_order_radius(binomial_lower(n, n, 0.001)), rtol=1e-9
    )


def test_is_monotone_in_the_rival():
    n = 20_000
    rival = np.arange(0, 6000, 37)
    radius = first_order_radius(*rival_limits(np.full_like(rival, 11_000), rival, n, 0.001))
    assert np.all(np.diff(radius) <= 1e-9)


def test_refuses_counts_that_do_not_fit():
    with pytest.raises(ValueError, match="sum to at most n, got k=6, k_rival=5 and n=10"):
        rival_limits(6, 5, 10, 0.1)
