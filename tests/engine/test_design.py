"""Designed noise: its law, what it leaves alone, and that nothing but seeds decides about it."""

from copy import copy

import mpmath
import numpy as np
import pytest
from scipy import stats
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier
from smoothcert._noise import NumpyArrays, moved_into_strata
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


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_what_is_across_stays_as_it_is(kind):
    rng = np.random.default_rng(3)
    direction = rng.standard_normal(7)
    direction /= np.linalg.norm(direction)
    before = rng.standard_normal((50, 7))
    by = rng.standard_normal(50)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        from smoothcert._noise._torch import TorchArrays

        arrays, noise = TorchArrays("cpu"), torch.tensor(before, dtype=torch.float32)
    else:
        arrays, noise = NumpyArrays(), before.astype(np.float32)
    along = arrays.along(noise, direction)
    arrays.move_along(noise, direction, by)
    after = np.asarray(noise, dtype=np.float64)
    np.testing.assert_allclose(after @ direction, along + by, atol=1e-5)
    project = np.eye(7) - np.outer(direction, direction)
    np.testing.assert_allclose(after @ project, before @ project, atol=1e-5)


@pytest.fixture(scope="module")
def far_from_rivals():
    """A smoothed classifier of three classes, and rows on which the pilot wants designed noise."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0, 0.0], [3.2, 0.0, 0.0], [0.0, 3.6, 0.0]])
    y = np.arange(300) % 3
    X = centres[y] + 0.4 * rng.standard_normal((300, 3))
    base = FrozenEstimator(LogisticRegression(C=100.0).fit(X, y))
    certifier = DirectionalCertifier(6000, n_bins=24)
    clf = SmoothedClassifier(base, sigma=1.0, certifier=certifier, random_state=0).fit(X, y)
    return clf, centres + 0.05


def assert_same(mine, theirs):
    for name in ("radius", "prediction"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    for name in ("votes", "bin_hits", "bin_trials", "designed"):
        np.testing.assert_array_equal(mine.counts[name], theirs.counts[name])


def test_nothing_but_the_seed_decides(far_from_rivals, tmp_path):
    clf, X = far_from_rivals
    usual = clf.certify(X)
    assert np.any(usual.counts["designed"])
    assert_same(clone_with(clf, batch_size=37).certify(X), usual)
    assert_same(clone_with(clf, n_jobs=2).certify(X), usual)
    assert_same(clf.certify(X[::-1])[::-1], usual)
    assert_same(clf.certify(X, journal=tmp_path / "run"), usual)
    assert_same(clf.certify(X, journal=tmp_path / "run"), usual)


def test_the_share_of_votes_is_that_of_ordinary_noise(far_from_rivals):
    clf, X = far_from_rivals
    counts = clf.certify(X).counts
    plain = clone_with(clf, certifier=FirstOrderCertifier(20_000)).certify(X).counts
    np.testing.assert_allclose(counts["share"], plain["hits"] / plain["n"], atol=0.03)
    row = np.flatnonzero(counts["designed"])[0]
    assert abs(counts["hits"][row] / counts["n"][row] - counts["share"][row]) > 0.03  # votes on designed noise


def test_exact_noise_is_never_designed(far_from_rivals):
    clf, X = far_from_rivals
    assert not np.any(clone_with(clf, noise="exact").certify(X).counts["designed"])


def clone_with(clf, **changes):
    other = copy(clf)
    return other.set_params(**changes)


def test_bounds_of_probabilities_account_for_the_design(far_from_rivals):
    """Votes on designed noise are no sample of the noise."""
    pytest.importorskip("pandas")
    clf, X = far_from_rivals
    certificates = clf.certify(X)
    bound = certificates.to_frame()["probability_lower"].to_numpy()
    exact = clone_with(clf, certifier=FirstOrderCertifier(200_000)).certify(X).counts
    share = exact["hits"] / exact["n"]
    assert np.all(bound < share + 0.002)
    assert np.all(bound > share - 0.06)
