"""The gradient limit: its constant, its values, its coverage."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import ndtr

from smoothcert.confidence import gradient_norm_upper
from smoothcert.confidence._gradient import VARIANCE_PROXY
from smoothcert.tallies import GradientTally


def density(z):
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def log_mgf_of_flip(c, exponent):
    """Log moment generating function of the centred ``X = |z|/2 sign(|z| - c)``."""
    half = exponent / 2
    inner = np.exp(half**2 / 2) * (ndtr(c + half) - ndtr(half))
    outer = np.exp(half**2 / 2) * ndtr(half - c)
    mean = 2 * density(c) - density(0.0)
    return np.log(2 * (inner + outer)) - exponent * mean


def test_variance_proxy_is_the_supremum_over_flips():
    def negative(parameters):
        c, exponent = parameters[0], np.clip(parameters[1], -20, 20)
        return -2 * log_mgf_of_flip(abs(c), exponent) / exponent**2

    best = min(
        (
            minimize(
                negative, (c, t), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 2000}
            ).fun
        )
        for c in (0.3, 0.8, 1.5, 2.5)
        for t in (-4.0, -1.0, 0.3, 1.0, 4.0)
    )
    assert -best == pytest.approx(0.402181, abs=1e-6)
    assert -best < VARIANCE_PROXY


@pytest.mark.parametrize("exponent", [-6.0, -2.0, -0.5, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_no_other_function_does_worse(exponent):
    # Coordinate ascent over all two-valued f on a fine grid: f - 1/2 is +-1/2 on each cell.
    edges = stats.norm.ppf(np.linspace(0, 1, 401))
    z = -np.diff(density(edges)) * 400  # mean of z on each cell
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(6):
        sign = rng.choice([-0.5, 0.5], size=400)
        for _ in range(30):
            before = sign.copy()
            mean, mgf = np.mean(z * sign), np.mean(np.exp(exponent * z * sign))
            # Gain of flipping a cell on log E exp(t X) - t E X, to first order in its mass.
            flipped = (np.exp(-exponent * z * sign) - np.exp(exponent * z * sign)) / mgf + 2 * exponent * z * sign
            sign = np.where(flipped > 1e-12, -sign, sign)
            value = np.log(np.mean(np.exp(exponent * z * sign))) - exponent * np.mean(z * sign)
            if value <= np.log(mgf) - exponent * mean + 1e-15:
                sign = before
                break
        value = np.log(np.mean(np.exp(exponent * z * sign))) - exponent * np.mean(z * sign)
        worst = max(worst, 2 * value / exponent**2)
    assert worst < VARIANCE_PROXY


def test_without_centring_the_proxy_is_larger_than_one():
    # Removing 0 < z < 1 from f = 1 beats the tempting guess that the proxy of Z f is 1.
    t = 1.0
    mass_removed = ndtr(1.0) - 0.5
    kept = np.exp(t**2 / 2) * (1 - (ndtr(1.0 - t) - ndtr(-t)))
    mean = -(density(0.0) - density(1.0))
    assert 2 * (np.log(kept + mass_removed) - t * mean) / t**2 > 1.0


@pytest.mark.parametrize(
    ("d", "n", "centred", "paper"),
    [
        (49, 1e5, (0.1079, 0.2078, 0.3078), (0.596, 0.621, 0.660)),
        (49, 1e6, (0.1025, 0.2025, 0.3025), (0.345, 0.386, 0.446)),
        (3072, 1e5, (0.1098, 0.2084, 0.3081), (1.656, 1.665, 1.680)),
        (150528, 1e5, (0.1373, 0.2219, 0.3161), (4.375, 4.379, 4.385)),
        (150528, 1e6, (0.1049, 0.2033, 0.3029), (2.462, 2.468, 2.478)),
    ],
)
def test_values_at_the_true_norm(d, n, centred, paper):
    norm_sq = np.array([0.1, 0.2, 0.3]) ** 2
    np.testing.assert_allclose(gradient_norm_upper(norm_sq, n, d, 0.0005), centred, atol=6e-5)
    np.testing.assert_allclose(gradient_norm_upper(norm_sq, n, d, 0.0005, method="paper"), paper, atol=6e-4)


def test_zoomed_grid_finds_the_minimum():
    rng = np.random.default_rng(1)
    for _ in range(20):
        n, d = int(10 ** rng.uniform(1, 7)), int(10 ** rng.uniform(0, 5))
        norm_sq = rng.uniform(0, 0.16)
        y = np.exp(np.linspace(np.log(1e-9), np.log((n - 1) * (1 - 1e-12)), 400_001))
        spread = -(n - 1) * np.log1p(-y / (n - 1)) - np.log1p(y)
        bound = (1 + y) * (norm_sq + 2 * VARIANCE_PROXY / (n * y) * (np.log(1000) + d / 2 * spread))
        np.testing.assert_allclose(gradient_norm_upper(norm_sq, n, d, 0.001), np.sqrt(bound.min()), rtol=1e-5)


@pytest.mark.parametrize("method", ["centred", "paper"])
@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_coverage(method, d, edge):
    # Half-space votes: the gradient norm is the density at the edge. 2000 repetitions; with a true error rate of alpha
    # the check fails with probability 1e-4.
    alpha, n, repetitions = 0.05, 150, 2000
    rng = np.random.default_rng(d)
    tally = GradientTally.empty(repetitions, d, centre=0.5 if method == "centred" else 0.0)
    noise = rng.standard_normal((repetitions, n, d))
    tally.update(noise, noise[:, :, 0] < edge)
    limits = gradient_norm_upper(tally.norm_sq, n, d, alpha, method=method)
    failures = np.sum(limits < density(edge))
    assert failures <= stats.binom.ppf(1 - 1e-4, repetitions, alpha)
    assert np.mean(limits) < 6  # and the limit says something at all


def test_one_sample_says_nothing():
    np.testing.assert_array_equal(gradient_norm_upper([np.inf, 0.1], [1, 1], 5, 0.01), np.inf)


def test_refuses_bad_arguments():
    with pytest.raises(ValueError, match=r"method must be one of .*got 'best'"):
        gradient_norm_upper(0.1, 100, 2, 0.05, method="best")
    for arguments, name in [
        ((np.nan, 100, 2, 0.05), "norm_sq"),
        ((0.1, 0, 2, 0.05), "n must"),
        ((0.1, 100, 0, 0.05), "n_features"),
        ((0.1, 100, 2, 1.5), "alpha"),
    ]:
        with pytest.raises(ValueError, match=name):
            gradient_norm_upper(*arguments)
