"""The modes that follow the paper, from counts to radius, against its definitions computed independently.

The published logs may not be part of this repository (test_published_logs.py reads them where they are present). The
counts below are our own, chosen to cover the kinds of rows that such logs have: no certificate, small and large radii,
all hits, and every number of samples.
"""

from functools import cache

import numpy as np
import pytest
from helpers import mp_reference
from mpmath import mp, mpf

from smoothcert import DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier
from smoothcert.tallies import GradientTally, PairTally, VoteTally

ALPHA = 0.001
SIZES = [10**5, 10**6, 10**7, 10**8]
SHARES = [0.31, 0.5, 0.503, 0.57, 0.84, 0.9987, 1.0]


def tail(hits, n, p):
    """Probability of at least `hits` of `n`: the first term by logarithms of factorials, the others by their ratios."""
    first = mp.loggamma(n + 1) - mp.loggamma(hits + 1) - mp.loggamma(n - hits + 1)
    first += hits * mp.log(mpf(p)) + ((n - hits) * mp.log(1 - mpf(p)) if hits < n else 0)
    # Standard deviations are at most sqrt(n) / 2: what lies 16 of them above does not show in ten digits.
    j = np.arange(hits, min(n, hits + int(8 * np.sqrt(n))), dtype=float)
    return float(mp.exp(first)) * (1.0 + np.cumprod((n - j) / (j + 1) * (p / (1 - p))).sum())


@cache
def lower_limit(hits, n, alpha):
    """The p under which at least `hits` of `n` have probability `alpha` (Clopper and Pearson), by bisection."""
    low, high = max(0.0, hits / n - 3 / np.sqrt(n)), hits / n
    assert tail(hits, n, low) < alpha
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(hits, n, middle) < alpha else (low, middle)
    return low


def prints_alike(value, expected, digits):
    return float(f"{float(value):.{digits}g}") == float(f"{float(expected):.{digits}g}")


def assert_prints_alike(inference, limits, radii):
    """Limits with six significant digits and radii with three, as published logs print them."""
    for name, expected in limits.items():
        pairs = zip(inference.limits[name], expected, strict=True)
        assert [row for row, (ours, theirs) in enumerate(pairs) if not prints_alike(ours, theirs, 6)] == [], name
    pairs = zip(inference.radius, radii, strict=True)
    assert [row for row, (ours, theirs) in enumerate(pairs) if not prints_alike(ours, theirs, 3)] == []


@pytest.mark.parametrize("n", SIZES)
def test_first_order(n):
    hits = [round(share * n) for share in SHARES]
    p = [lower_limit(k, n, ALPHA) for k in hits]
    inference = FirstOrderCertifier(alpha=ALPHA).certify_tally(VoteTally(hits, n))
    assert_prints_alike(inference, {"p": p}, [mp_reference.first_order_radius(each) for each in p])
    assert inference.radius[0] == 0
    assert p[-1] == pytest.approx(ALPHA ** (1 / n), rel=1e-10)  # the reference itself, where it has a closed form


@pytest.mark.parametrize("n", SIZES)
def test_dipole(n):
    pairs = n // 2
    shares = [(0.2, 0.1), (0.3, 0.26), (0.7, 0.11), (0.96, 0.02), (0.9, 0.0003), (0.55, 0.21)]
    both = [round(first * pairs) for first, _ in shares]
    plus = [round(second * pairs) for _, second in shares]
    limits = {
        "both": [lower_limit(k, pairs, ALPHA / 2) for k in both],
        "one_sided": [lower_limit(k, pairs, ALPHA / 2) for k in plus],
    }
    tally = PairTally(both, 2 * np.array(plus), pairs, one_plus=plus)
    inference = DipoleCertifier(alpha=ALPHA, inference="paper").certify_tally(tally)
    certified = [mpf(first) + mpf(second) > 0.5 for first, second in zip(*limits.values(), strict=True)]
    assert certified == [False, True, True, True, True, True]
    radii = [
        mp_reference.dipole_radius(first, second) if some else mpf(0)
        for first, second, some in zip(*limits.values(), certified, strict=True)
    ]
    assert_prints_alike(inference, limits, radii)


@pytest.mark.parametrize(("n", "n_features"), [*((n, 49) for n in SIZES), (10**8, 2), (10**5, 3072)])
def test_second_order(n, n_features):
    hits = [round(share * n) for share in SHARES]
    norm_sq = [0.01, 0.02, -0.001, 0.0, 0.2**2, 1e-6, 0.0]
    p = [lower_limit(k, n, ALPHA / 2) for k in hits]
    # Theorem 2, for n / 2 products; no gradient is longer than that of a half-space of the same probability.
    level, products = mp.log(2 / mpf(ALPHA)), mpf(n) / 2
    assert 2 * level <= n_features * products
    slack = 4 * mp.sqrt(n_features * level / products)
    grad_norm = [mp.sqrt(max(mpf(each) + slack, 0)) for each in norm_sq]
    radii = [
        mp_reference.second_order_radius(share, norm) if share > 0.5 else mpf(0)
        for share, norm in zip(p, grad_norm, strict=True)
    ]
    tally = GradientTally.from_norm_sq(hits, n, norm_sq, n_features, centre=0.0)
    inference = SecondOrderCertifier(alpha=ALPHA, gradient_bound="paper").certify_tally(tally)
    assert_prints_alike(inference, {"p": p}, radii)
