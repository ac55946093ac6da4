"""Designed noise: its law, what it leaves alone, and that nothing but seeds decides about it."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from smoothcert._noise import moved_into_strata
from smoothcert.tallies._design import Design

CUTS = (-2.8, -1.0, 0.0, 0.7, 2.0, 3.6)


def test_quantiles_are_kept_to_all_digits():
    mpmath.mp.dps = 50
    ends = [-mpmath.inf, *map(mpmath.mpf, CUTS), mpmath.inf]
    for stratum in range(len(CUTS) + 1):
        for z in (-3.0, -0.4, 0.0, 1.7, 4.0):
            moved = float(moved_into_strata(np.array([z]), CUTS, np.array([stratum]))[0])
            low, high = (mpmath.ncdf(end) for end in ends[stratum : stratum + 2])
            wanted = low + mpmath.ncdf(z) * (high - low)
            # By the tail that is smaller, so that nothing is lost far out.
            of = (mpmath.ncdf(moved) - wanted) / min(wanted, 1 - wanted)
            assert abs(of) < 1e-12
            assert ends[stratum] <= moved < ends[stratum + 1]


@pytest.mark.parametrize("stratum", range(len(CUTS) + 1))
def test_has_the_normal_law_restricted_to_the_stratum(stratum):
    z = np.random.default_rng(stratum).standard_normal(50_000)
    moved = moved_into_strata(z, CUTS, np.full(len(z), stratum))
    ends = np.array([-np.inf, *CUTS, np.inf])
    law = stats.truncnorm(ends[stratum], ends[stratum + 1])
    assert stats.kstest(moved, law.cdf).pvalue > 1e-4


def test_every_run_of_draws_has_its_shares():
    shares = np.array([0.3, 0.002, 0.0, 0.5, 0.1, 0.098])
    design = Design(np.ones(1), (-1.0, 0.0, 1.0, 2.0, 3.0), shares)
    for first, n in ((0, 100), (12_345, 1000), (2**40, 20_000)):
        counts = np.bincount(design.strata(first, n), minlength=6)
        assert counts[2] == 0
        np.testing.assert_allclose(counts, n * shares, atol=4.0 + np.log2(n) / 2)
    whole = design.strata(0, 5000)
    np.testing.assert_array_equal(whole, np.concatenate([design.strata(0, 777), design.strata(777, 4223)]))
