"""Designed noise in the directional certificate: its promise, measured with every design, and that it is used where it
pays."""

from functools import lru_cache

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from scipy import optimize, stats

from smoothcert import DirectionalCertifier
from smoothcert.certifiers._directional._designs import DESIGNS, PILOT_DESIGN
from smoothcert.certifiers._directional._rival_gradients import gradients_upper
from smoothcert.confidence._adaptive_gradient import N_BLOCKS

FALSE_ALARM = 1e-4
ALL_DESIGNS = (*DESIGNS, ((0.0, 0.7, 1.0), (0.4, 0.3, 0.3)))


def half_space(z, at=1.3):
    return (z[..., 0] > at).astype(int)


def slab(z, at=1.5):
    return (np.abs(z[..., 0]) > at).astype(int)


def wedge(z, at=1.0):
    return (z[..., 0] - at > 0.5 * np.abs(z[..., 1])).astype(int)


def ball(z, share=0.85):
    return (np.sum(np.square(z), axis=-1) > stats.chi2.ppf(share, z.shape[-1])).astype(int)


def behind(z, at=1.3):
    """Class 1 in front, class 2 behind and rare: the strata there have few samples."""
    return np.where(z[..., 0] > at, 1, np.where(z[..., 0] < -2.5, 2, 0))


@lru_cache
def truth(name, n_features):
    """Where half of the votes, and with them the lead, is lost."""
    if name == "half-space":
        return 1.3
    if name == "slab":
        return optimize.brentq(lambda r: stats.norm.cdf(1.5 - r) - stats.norm.cdf(-1.5 - r) - 0.5, 0.0, 3.0)
    if name == "ball":
        limit = stats.chi2.ppf(0.85, n_features)
        return optimize.brentq(lambda r: stats.ncx2.cdf(limit, n_features, r * r) - 0.5, 1e-3, 9.0)
    if name == "behind":
        lead = lambda r: stats.norm.cdf(1.3 - r) - stats.norm.cdf(-2.5 - r) - stats.norm.sf(1.3 - r)  # noqa: E731
        return optimize.brentq(lead, 0.0, 3.0)
    # By symmetry and since the wedge is convex, its share is largest straight ahead.
    z = np.linspace(-8.0, 8.0, 4001)
    across = 2.0 * stats.norm.cdf(2.0 * np.maximum(z, 0.0)) - 1.0

    def inside(r):
        return np.trapezoid(across * stats.norm.pdf(z + 1.0 - r), z)

    return optimize.brentq(lambda r: inside(r) - 0.5, 0.0, 6.0)


SHAPES = {"half-space": half_space, "slab": slab, "wedge": wedge, "ball": ball, "behind": behind}


def off_by(degrees):
    def direction(X, labels):
        vector = np.zeros(X.shape[1])
        vector[:2] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        return np.repeat(vector[None], len(X), axis=0)

    return direction


def designed(design):
    """A certifier that measures the runner-up in any case, with a given design; every design is valid."""

    class Designed(DirectionalCertifier):
        def _plan_along(self, tally):
            return under_test.forced(super()._plan_along(tally), tally, self, design)

    return Designed


CASES = [
    ("half-space", 2, 0.0, 0.05, 0),
    ("half-space", 6, 30.0, 0.2, 1),
    ("half-space", 50, 15.0, 0.2, 2),
    ("slab", 6, 0.0, 0.2, 0),
    ("slab", 2, 30.0, 0.05, 2),
    ("wedge", 2, 0.0, 0.2, 1),
    ("wedge", 6, 15.0, 0.05, 3),
    ("ball", 6, 0.0, 0.2, 1),
    ("ball", 50, 0.0, 0.05, 0),
    ("behind", 2, 0.0, 0.2, 2),
    ("behind", 6, 30.0, 0.2, 3),
]


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_features", "degrees", "alpha", "design"), CASES)
def test_radii_above_the_truth_are_rare(name, n_features, degrees, alpha, design):
    repetitions = 40 if n_features == 50 else 100
    certifier = designed(ALL_DESIGNS[design])(2000, alpha=alpha, direction=off_by(degrees), n_bins=16)
    tally = under_test.sample_tally(certifier, SHAPES[name], 3, 2000, repetitions, n_features, seed=design, n_pilots=4)
    assert np.all(tally.plan.designed)
    drawn = tally.stratum_trials / tally.n[:, None]
    np.testing.assert_allclose(drawn, tally.plan.design, atol=0.01)
    radius = certifier.certify_tally(tally).radius
    assert np.sum(radius > truth(name, n_features)) <= stats.binom.ppf(1 - FALSE_ALARM, repetitions, alpha)
    assert np.mean(radius) > 0.2 * truth(name, n_features)


@pytest.mark.slow
def test_nearly_all_of_the_way_on_a_line_and_no_further():
    """In one dimension the shares are all that is limited, so that mistakes would show."""
    certifier = designed(PILOT_DESIGN)(3000, alpha=0.2, direction=lambda X, labels: np.ones((len(X), 1)), n_bins=40)
    tally = under_test.sample_tally(certifier, half_space, 3, 3000, 100, 1, seed=5, n_pilots=6)
    radius = certifier.certify_tally(tally).radius
    assert np.sum(radius > 1.3) <= stats.binom.ppf(1 - FALSE_ALARM, 100, 0.2)
    assert radius.mean() > 0.93 * 1.3


def test_a_class_that_only_the_estimation_sees_is_not_overlooked():
    """Of classes that are not measured all votes count together, in the strata where they were cast."""

    def classify(z):
        return np.where(z[..., 0] > 1.3, 1, np.where(z[..., 0] < -1.0, 2, 0))

    certifier = designed(PILOT_DESIGN)(4000, direction=off_by(0.0), n_bins=16, alpha=0.05)
    tally = under_test.sample_tally(certifier, classify, 3, 4000, 3, 2, seed=6)
    assert np.all(tally.plan.rivals == 1) or np.all(tally.plan.rivals == 2)
    overtaken = optimize.brentq(lambda r: stats.norm.cdf(1.3 + r) - 2.0 * stats.norm.cdf(r - 1.0), 0.0, 3.0)
    assert np.all(certifier.certify_tally(tally).radius <= overtaken)


def test_confident_votes_gain_by_a_design():
    """Where the class has 98% of the votes, noise at random sees little of what decides."""

    def classify(z):
        return np.where(z[..., 0] + 0.15 * z[..., 1] ** 2 > 2.3, 1, 0)

    radius = {}
    for design in (None, DESIGNS[0]):
        certifier = designed(design)(60_000, direction=off_by(0.0))
        tally = under_test.sample_tally(certifier, classify, 3, 60_000, 2, 4, seed=8)
        assert np.all(tally.plan.designed == (design is not None))
        radius[design] = certifier.certify_tally(tally).radius.mean()
    assert radius[DESIGNS[0]] > 1.01 * radius[None]


@pytest.mark.slow
@pytest.mark.parametrize(("design", "n_samples"), [(PILOT_DESIGN, 4000), (None, 20_000)])
def test_radii_above_the_truth_are_rare_with_adaptive_limits_of_gradients(design, n_samples):
    """From about a hundred dimensions on the pilot chooses limits that adapt to how often votes differ."""
    alpha = 0.2
    certifier = designed(design)(n_samples, alpha=alpha, direction=off_by(15.0), n_bins=16)
    tally = under_test.sample_tally(certifier, half_space, 3, n_samples, 30, 120, seed=9, n_pilots=3)
    assert np.any(tally.plan.scales > 0.0)
    # Some strata have too few samples for the limit.
    assert np.any(tally.stratum_trials < N_BLOCKS)
    radius = certifier.certify_tally(tally).radius
    assert np.sum(radius > truth("half-space", 120)) <= stats.binom.ppf(1 - FALSE_ALARM, 30, alpha)
    assert np.mean(radius) > 0.3 * truth("half-space", 120)


def test_strata_with_few_samples_hardly_widen_the_limits_of_gradients():
    """Drawn at random, a few of tens of thousands of samples fall into the strata far out; how few is chance."""
    certifier = designed(None)(40_000, direction=off_by(30.0))
    tally = under_test.sample_tally(certifier, half_space, 3, 40_000, 1, 120, seed=10)
    assert np.any(tally.plan.scales > 0.0)
    assert tally.plan.stratum_masses[-1] < 3e-4
    farthest = tally.plan.strata == tally.plan.n_strata - 1
    tally.bin_trials[:, farthest], tally.bin_hits[..., farthest] = 0, 0
    limits = []
    for trials in (N_BLOCKS - 1, N_BLOCKS):
        tally.bin_trials[0, -1] = trials
        limits.append(gradients_upper(tally, np.array([0]), 0, 0.0002))
    assert np.all(limits[0] < limits[1] + 0.01)
