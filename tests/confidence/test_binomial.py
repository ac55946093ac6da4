"""Clopper-Pearson limits against exact tail sums."""

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from scipy.special import betainccinv

from smoothcert.confidence import binomial_lower, binomial_upper

CASES = [(1, 1, 0.001), (1, 2, 0.05), (3, 17, 0.01), (17, 17, 0.001), (90, 100, 0.001), (499, 1000, 0.0005)]


def upper_tail(k, n, p):
    with mp.workdps(50):
        return mp.fsum(mp.binomial(n, j) * mpf(p) ** j * (1 - mpf(p)) ** (n - j) for j in range(k, n + 1))


@pytest.mark.parametrize(("k", "n", "alpha"), CASES)
def test_lower_limit_is_where_the_tail_has_probability_alpha(k, n, alpha):
    limit = float(binomial_lower(k, n, alpha))
    assert upper_tail(k, n, limit) <= mpf(alpha)
    assert upper_tail(k, n, limit + 1e-9) > mpf(alpha) or limit + 1e-9 >= 1


@pytest.mark.parametrize(("k", "n", "alpha"), CASES)
def test_upper_limit_mirrors_the_lower_one(k, n, alpha):
    limit = float(binomial_upper(n - k, n, alpha))
    assert upper_tail(k, n, 1 - limit) <= mpf(alpha) * (1 + mpf(10) ** -12)
    np.testing.assert_allclose(limit, 1 - binomial_lower(k, n, alpha), rtol=1e-12)


def test_agrees_with_scipy_away_from_the_ends():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 100_000))
        k = int(rng.integers(1, n))
        interval = stats.binomtest(k, n).proportion_ci(confidence_level=0.998, method="exact")
        np.testing.assert_allclose(binomial_lower(k, n, 0.001), interval.low, rtol=1e-9)
        np.testing.assert_allclose(binomial_upper(k, n, 0.001), interval.high, rtol=1e-9)


def miss_tail(n, misses, distance):
    """Probability of at most this number of misses, each of probability `distance`, to 50 digits."""
    with mp.workdps(50):
        distance = mpf(float(distance))
        term = mp.exp(n * mp.log(1 - distance))
        total = term
        for j in range(1, misses + 1):
            term *= mpf(n - j + 1) / j * distance / (1 - distance)
            total += term
        return total


@pytest.mark.parametrize("alpha", [1e-12, 1e-3, 0.05, 0.4, 0.9])
@pytest.mark.parametrize(
    ("n", "misses"),
    [(10**9, 999), (10**9, 998), (10**9, 50), (10**7, 999), (10**5, 3000), (10**5, 60), (10**5, 400), (5000, 66)],
)
def test_large_counts_to_fifty_digits(n, misses, alpha):
    # A thousand misses less one in 1e9 trials are where the library's inverse of the beta distribution is 8% off.
    limit = binomial_lower(n - misses, n, alpha)
    assert miss_tail(n, misses, 1 - limit) <= mpf(alpha)
    # One minus the limit is known to a rounding of one.
    nearer = (1 - limit) * (1 - 1e-9) - 3e-16
    assert miss_tail(n, misses, nearer) >= mpf(alpha)


@pytest.mark.parametrize("alpha", [1e-12, 1e-3, 0.05, 0.4, 0.9])
@pytest.mark.parametrize("n", [100, 5000, 100_000])
def test_shortcut_for_large_counts_is_as_exact_as_the_inversion(n, alpha):
    rng = np.random.default_rng(n)
    k = np.unique(np.concatenate([np.floor(rng.uniform(0.5, 1, 4000) * n), n - np.arange(min(n // 2, 2000))]))
    k = k[2 * k > n]
    distance = betainccinv(n - k + 1, k, alpha)
    excess = (1 - binomial_lower(k, n, alpha) - distance) / distance
    rounding = 2.3e-16 / distance  # of one minus the limit itself
    assert np.all(excess + rounding > 0)
    assert np.all(excess - rounding < 1e-9)  # the margins of the level and of the last step


def test_ends_are_exact():
    n = np.array([1, 2, 100, 10**9])
    np.testing.assert_array_equal(binomial_lower(0, n, 0.001), 0.0)
    np.testing.assert_array_equal(binomial_upper(n, n, 0.001), 1.0)
    truth = [1 - mpf("0.001") ** (mpf(1) / int(m)) for m in n]
    gap = 1 - binomial_lower(n, n, 0.001)
    for value, exact in zip(gap, truth, strict=True):
        assert mpf(float(value)) >= exact
        # A limit near one is a float64 near one: its distance from one is known to 1e-16 at best.
        assert (mpf(float(value)) - exact) <= exact * mpf(10) ** -9 + mpf(10) ** -15


def test_exact_coverage_by_enumeration():
    for n in (1, 7, 40):
        k = np.arange(n + 1)
        limits = binomial_lower(k, n, 0.05)
        for p in np.linspace(0.001, 0.999, 400):
            assert stats.binom.pmf(k, n, p)[limits > p].sum() <= 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 10, 0.1), "k must be at least 0, got -1"),
        ((11, 10, 0.1), "k must be at most n, got k=11 and n=10"),
        ((1.5, 10, 0.1), "k must be whole, got 1.5"),
        ((1, 0, 0.1), "n must be at least 1, got 0"),
        ((1, 10, 0.0), r"alpha must lie in \(0, 1\), got 0"),
        ((1, 10, 1.0), r"alpha must lie in \(0, 1\), got 1"),
        ((np.nan, 10, 0.1), "k must be at least 0, got nan"),
        ((1, np.inf, 0.1), "n must be whole, got inf"),
        (([1, 2], [3, 4, 5], 0.1), "must broadcast"),
    ],
)
def test_refuses_what_is_no_count(arguments, message):
    for function in (binomial_lower, binomial_upper):
        with pytest.raises(ValueError, match=message):
            function(*arguments)
