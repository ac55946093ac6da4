"""The limit for weighted gradients in strata: its moment generating function, its coverage, its size."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from smoothcert._numerics import LARGEST_GRADIENT
from smoothcert.confidence import gradient_norm_upper, stratified_gradient_upper
from smoothcert.confidence._gradient import VARIANCE_PROXY
from smoothcert.confidence._stratified_gradient import _limit_at

MASS = np.array([0.05, 0.25, 0.4, 0.2, 0.1])
TILT = np.array([0.4, 0.7, 1.0, 1.4, 1.7])


def log_moment(q, weights, means):
    """``log E exp(-q (|S|^2 - sum |V|^2))`` for ``V = w X``, Gaussian `X` around `means`, by matrices."""
    spread = VARIANCE_PROXY * np.square(weights)
    ones = 1.0 - np.eye(len(weights))
    inside = np.diag(1.0 / spread) + 2.0 * q * ones
    assert np.all(np.linalg.eigvalsh(inside) > 0.0)
    total = 0.0
    for mean in (weights[:, None] * means).T:
        linear = mean / spread
        total += 0.5 * (linear @ np.linalg.solve(inside, linear) - mean @ linear)
        total -= 0.5 * (np.linalg.slogdet(inside)[1] + np.sum(np.log(spread)))
    return total


@pytest.mark.parametrize("seed", range(12))
def test_markov_inequality_at_the_limit(seed):
    """At an estimate that puts the limit just at the truth, the moment bounds the chance of less by alpha."""
    rng = np.random.default_rng(seed)
    d, log_term = int(rng.integers(1, 6)), np.log(20.0)
    trials = rng.integers(1, 12, 4)
    weight = rng.uniform(0.2, 2.0, 4) / trials.sum()
    means = rng.normal(size=(4, d)) if seed % 2 else np.broadcast_to(rng.normal(size=d), (4, d))
    means = LARGEST_GRADIENT * means / np.linalg.norm(means, axis=1, keepdims=True) * rng.uniform(0.5, 1.0)
    truth = np.linalg.norm((trials * weight) @ means)
    largest = 1.0 / (2.0 * VARIANCE_PROXY * np.max(weight) ** 2)
    for q in largest * np.array([0.02, 0.1, 0.3, 0.7]):

        def limit(norm_sq, q=q):
            spread = VARIANCE_PROXY * np.square(weight)[None]
            known = np.array([[norm_sq]])
            return _limit_at(np.array([[q]]), known, trials[None], weight[None], spread, d, log_term)[0, 0]

        if limit(-1e3) > truth:  # the shift alone is more: then the limit is above the truth whatever is seen
            continue
        norm_sq = brentq(lambda value: limit(value) - truth, -1e3, 1e3, xtol=1e-13)
        exact = log_moment(q, np.repeat(weight, trials), np.repeat(means, trials, axis=0))
        assert exact + q * norm_sq <= -log_term + 1e-7


def test_one_stratum_is_nearly_the_plain_limit():
    for d, n in ((49, 1e5), (3072, 1e5), (20, 1e3)):
        norm_sq = np.array([0.0, 0.1, 0.2, 0.3]) ** 2
        plain = gradient_norm_upper(norm_sq, n, d, 0.0005)
        found = stratified_gradient_upper(norm_sq, [n], [1.0 / n], d, 0.0005)
        assert np.all(found >= plain * (1.0 - 1e-6))
        np.testing.assert_allclose(found, plain, rtol=0.02)


def test_zoomed_grid_finds_the_minimum():
    rng = np.random.default_rng(1)
    for _ in range(10):
        n, d = 10 ** rng.uniform(2, 7), int(10 ** rng.uniform(0, 5))
        trials, norm_sq = np.rint(n * MASS), rng.uniform(0, 0.16)
        weights = MASS * TILT / trials
        spread = VARIANCE_PROXY * np.square(weights)
        q = np.exp(np.linspace(np.log(1e-6 / n), np.log(0.999999), 20_001)) / (2.0 * spread.max())
        tried = _limit_at(q[None], np.array([[norm_sq]]), trials[None], weights[None], spread[None], d, np.log(1000))
        found = stratified_gradient_upper(norm_sq, trials, weights, d, 0.001)
        np.testing.assert_allclose(found, tried.min(), rtol=1e-4)


@pytest.mark.parametrize("d", [1, 2, 20])
@pytest.mark.parametrize("classifier", ["half-space", "turning", "random votes"])
def test_coverage(d, classifier):
    # 2000 repetitions; with a true error rate of alpha the check fails with probability 1e-4.
    alpha, n, repetitions = 0.05, 150, 2000
    rng = np.random.default_rng(d)
    stratum = rng.choice(len(MASS), size=(repetitions, n), p=MASS)
    noise = rng.standard_normal((repetitions, n, d))
    edge = {"half-space": np.zeros(5), "turning": np.array([-1.0, -0.5, 0.0, 1.0, 3.0])}.get(classifier)
    if edge is None:
        hits, gradient = rng.random((repetitions, n)) < 0.5, np.zeros(5)
    else:
        sign = np.array([1.0, 1.0, -1.0, 1.0, -1.0]) if classifier == "turning" else np.ones(5)
        hits = sign[stratum] * noise[..., 0] < edge[stratum]
        gradient = sign * stats.norm.pdf(edge)
    trials = np.stack([(stratum == k).sum(axis=1) for k in range(5)], axis=1)
    weights = MASS * TILT / np.maximum(trials, 1)
    vectors = noise * (hits - 0.5)[..., None]
    each = np.take_along_axis(weights, stratum, axis=1)[..., None]
    norm_sq = np.sum(np.sum(each * vectors, axis=1) ** 2, axis=1) - np.sum((each * vectors) ** 2, axis=(1, 2))
    limits = stratified_gradient_upper(norm_sq, trials, weights, d, alpha)
    limits += LARGEST_GRADIENT * np.sum(np.where(trials > 0, 0.0, MASS * TILT), axis=1)
    failures = np.sum(limits < abs(gradient @ (MASS * TILT)))
    assert failures <= stats.binom.ppf(1 - 1e-4, repetitions, alpha)
    assert np.mean(limits) < 4  # and the limit says something at all


def test_nothing_seen():
    assert stratified_gradient_upper(0.0, [0, 0], [1.0, 1.0], 3, 0.01) == 0.0  # no sample has a weight
    assert stratified_gradient_upper(0.0, [5, 5], [0.0, 0.0], 3, 0.01) == 0.0
    assert np.isfinite(stratified_gradient_upper(-0.5, [1, 0], [1.0, 1.0], 3, 0.01))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((np.nan, [5], [0.2], 3, 0.01), "norm_sq"),
        ((0.1, [-5], [0.2], 3, 0.01), "trials"),
        ((0.1, 5, 0.2, 3, 0.01), "trials"),
        ((0.1, [5], [-0.2], 3, 0.01), "weights"),
        ((0.1, [5], [0.2], 0, 0.01), "n_features"),
        ((0.1, [5], [0.2], [3, 4], 0.01), "n_features"),
        ((0.1, [5], [0.2], 3, 1.0), "alpha"),
        ((0.1, [5], [0.2], 3, [0.1, 0.2]), "alpha"),
    ],
)
def test_bad_input(arguments, named):
    with pytest.raises(ValueError, match=named):
        stratified_gradient_upper(*arguments)
