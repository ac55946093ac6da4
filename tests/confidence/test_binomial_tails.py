"""Binomial limits have tails of at most alpha in truth, not just as computed; against 30 digits."""

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from smoothcert.bounds import first_order_radius
from smoothcert.confidence import binomial_lower, binomial_upper


def upper_tail(k, n, p):
    """Probability of `k` or more hits: the incomplete beta function by its continued fraction, to about 25 digits."""
    with mp.workdps(30):
        a, b, x = mpf(int(k)), mpf(int(n - k + 1)), mpf(p)
        mirrored = x > (a + 1) / (a + b + 2)
        if mirrored:
            a, b, x = b, a, 1 - x
        log_front = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b) + a * mp.log(x) + b * mp.log(1 - x)
        c, d = mpf(1), 1 / (1 - (a + b) * x / (a + 1))
        value, m, change = d, 0, mpf(0)
        while abs(change - 1) > mpf(10) ** -25:
            m += 1
            for term in (
                m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
            ):
                d, c = 1 / (1 + term * d), 1 + term / c
                change = d * c
                value *= change
        value *= mp.exp(log_front) / a
        return 1 - value if mirrored else value


def test_the_reference_is_right():
    for k, n, p in [(3, 17, 0.2), (17, 17, 0.9), (1, 2, 0.5), (60, 100, 0.4), (60, 100, 0.7)]:
        exact = mp.fsum(mp.binomial(n, j) * mpf(p) ** j * (1 - mpf(p)) ** (n - j) for j in range(k, n + 1))
        assert abs(upper_tail(k, n, p) / exact - 1) < 1e-14
    assert float(upper_tail(49_800, 100_000, 0.49)) == pytest.approx(stats.binom.sf(49_799, 100_000, 0.49), rel=1e-9)


def assert_tail_is_right(k, n, alpha):
    limit = float(binomial_lower(k, n, alpha))
    with mp.workdps(30):
        assert upper_tail(k, n, limit) <= mpf(alpha)
        # And no more than needed, as far as a float64 near the limit, or near one, can say.
        step = 2e-11 * (1.0 - limit) if 2 * k > n else 0.0
        more = limit + 1e-9 * min(limit, 1.0 - limit) + step + 3e-16
        assert more >= 1.0 or upper_tail(k, n, more) > mpf(alpha)


def counts(n):
    near_half = [n // 3, n // 2 - 1, n // 2, n // 2 + 1]
    wanted = {1, 2, 31, 1000, *near_half, int(0.99 * n), n - 1000, n - 31, n - 30, n - 1, n}
    return sorted(k for k in wanted if 1 <= k <= n)


@pytest.mark.parametrize("alpha", [1e-10, 1e-3, 0.5])
@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000, 49_999, 50_000, 100_000, 10**6, 10**7, 10**9])
def test_a_hard_grid(n, alpha):
    for k in counts(n):
        if n == 10**9 and alpha == 0.5 and 1000 < k < n - 1000:
            continue  # seconds each
        assert_tail_is_right(k, n, alpha)


@pytest.mark.parametrize(
    ("k", "n", "alpha"),
    [
        (19_379_640, 19_379_677, 0.44254404491675126),
        (18_341_067, 18_341_103, 0.44214426697436),
        (18_145_350, 18_145_371, 0.259077356296594),
        (12_922_027, 12_922_047, 0.32545175189454834),
        (20_142_886, 20_142_924, 0.05086069272490007),
    ],
)
def test_where_the_library_inverts_the_beta_distribution_badly(k, n, alpha):
    """Its inverse is off by up to 6e-10 of alpha there, more than the step outwards that follows."""
    assert_tail_is_right(k, n, alpha)


@pytest.mark.parametrize("n", [1, 20, 1000, 100_000, 10**9])
def test_upper_limits_too(n):
    for k in {0, 1, n // 2, n - 1} - {n}:
        limit = float(binomial_upper(k, n, 1e-3))
        with mp.workdps(30):
            assert upper_tail(n - k, n, 1 - mpf(limit)) <= mpf(1e-3)


def test_the_margin_is_too_small_to_be_seen():
    """Against limits without any margin, in radii."""
    for n in (100, 10_000, 100_000, 10**7):
        k = np.unique(np.rint(np.linspace(0.6, 1.0, 200) * n))
        plain = first_order_radius(stats.beta.ppf(0.001, k, n - k + 1))
        found = first_order_radius(binomial_lower(k, n, 0.001))
        seen = plain > 0.0
        np.testing.assert_allclose(found[seen], plain[seen], rtol=1e-9, atol=2e-11)
