"""The promise by enumeration: no truth just below a certified radius is overstated more often than alpha.

Every certifier and mode whose evidence can be counted is tested on all outcomes of a few samples; gradient limits,
whose evidence is continuous, by simulation of their worst cases. The worst errors are printed (``pytest -s``).
"""

import numpy as np
import pytest
from helpers import coverage_by_enumeration as enumeration
from scipy import stats
from scipy.special import ndtr, ndtri

from smoothcert import (
    DipoleCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    bounds,
)
from smoothcert.certifiers import _second_order, _second_order_dipole
from smoothcert.confidence import gradient_norm_upper, stratified_gradient_upper, stratified_lower
from smoothcert.tallies import GradientTally, PairTally, VoteTally

ALPHAS = (0.001, 0.01, 0.05, 0.3)
JUST_BELOW = 1.0 - 1e-12


@pytest.fixture(autouse=True, scope="module")
def summary():
    yield
    worst = ", ".join(f"{name} {error:.3f}" for name, error in enumeration.RESULTS.items())
    print(f"\nWorst errors in units of alpha: {worst}")  # noqa: T201


def check(name, case, error, alpha, used=0.0):
    """The error is at most alpha, up to the rounding of the sum; and of `alpha` at least the part `used` is used."""
    enumeration.report(name, case, error, alpha)
    assert used * alpha <= error <= alpha * (1.0 + 1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [10, 100, 1000])
def test_first_order(n, alpha):
    hits = np.arange(n + 1)
    radius = FirstOrderCertifier(alpha=alpha).certify_tally(VoteTally(hits, np.full(n + 1, n))).radius

    def truths(r):
        p = ndtr(r) * JUST_BELOW
        return np.array([[p, 1.0 - p]])

    error = enumeration.worst_error(radius, np.stack([hits, n - hits], axis=1), truths)
    check("first order", f"n={n} alpha={alpha}", error, alpha, used=0.999 if radius.max() > 0.0 else 0.0)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [8, 20])
def test_first_order_with_rivals_and_unlisted_votes(n, alpha):
    counts = enumeration.compositions(n, 4)
    tally = VoteTally(counts[:, :3], np.full(len(counts), n), candidate=np.zeros(len(counts), int))
    radius = FirstOrderCertifier(alpha=alpha).certify_tally(tally).radius

    def truths(r):
        winner = enumeration.between(1e-9, 1.0 - 1e-9, 60)
        return enumeration.rival_truths(winner, ndtr(ndtri(winner) - 2.0 * r) / JUST_BELOW)

    error = enumeration.worst_error(radius, counts, truths)
    check("first order with rivals", f"n={n} alpha={alpha}", error, alpha)


def pair_outcomes(n):
    counts = enumeration.compositions(n, 3)
    return counts, PairTally(counts[:, 0], counts[:, 1], np.full(len(counts), n))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(
    "n", [5, 12, pytest.param(30, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("inference", ["joint", "split"])
def test_dipole(inference, n, alpha):
    counts, tally = pair_outcomes(n)
    radius = DipoleCertifier(alpha=alpha, inference=inference).certify_tally(tally).radius
    truths = enumeration.pair_truths(enumeration.dipole_bound, enumeration.certified_levels(radius, 100))
    error = enumeration.worst_error(radius, counts, truths.get, levels=100)
    # A joint limit spends all of its level; 4% of it are left to the interval, the arcs and the sums.
    used = 0.95 if inference == "joint" and radius.max() > 0.0 else 0.0
    check(f"dipole, {inference}", f"n={n} alpha={alpha}", error, alpha, used)


@pytest.mark.parametrize(("n", "alpha"), [(12, 0.1), (30, 0.001)])
def test_dipole_without_pairs_of_one_hit(n, alpha):
    """The corner of the level set: the observed outcome belongs to its own set, and the curve ends there steeply."""
    counts, tally = pair_outcomes(n)
    radius = DipoleCertifier(alpha=alpha).certify_tally(tally).radius
    alone = np.where(counts[:, 1] == 0, radius, 0.0)
    levels = np.unique(alone[alone > 0.0])
    assert levels.size >= 2
    worst = 0.0
    for level, truths in enumeration.pair_truths(enumeration.dipole_bound, levels, size=65).items():
        worst = max(worst, enumeration.multinomial(counts[radius >= level], truths).sum(axis=0).max())
    check("dipole, joint", f"n={n} alpha={alpha}, no pair of one hit", worst, alpha, used=0.9)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [6, 14])
def test_dipole_as_published(n, alpha):
    """One orientation is counted; in truth both are equally likely."""
    counts = enumeration.compositions(n, 4)
    both, plus, minus = counts[:, 0], counts[:, 1], counts[:, 2]
    tally = PairTally(both, plus + minus, np.full(len(counts), n), one_plus=plus)
    radius = DipoleCertifier(alpha=alpha, inference="paper").certify_tally(tally).radius

    symmetric = enumeration.pair_truths(enumeration.dipole_bound, enumeration.certified_levels(radius, 100))

    def truths(r):
        two, one, none = symmetric[r].T
        return np.stack([two, one / 2, one / 2, none], axis=1)

    check("dipole, paper", f"n={n} alpha={alpha}", enumeration.worst_error(radius, counts, truths, levels=100), alpha)


def known_gradient(monkeypatch, module, grad_norm):
    """Give a certifier the norm of the gradient, so that its evidence is countable."""
    monkeypatch.setattr(module, "gradient_norm_upper", lambda norm_sq, *rest: np.full(np.shape(norm_sq), grad_norm))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "alpha", "grad_norm"), [(5, 0.3, 0.12), (12, 0.001, 0.12)])
def test_second_order_dipole_with_known_gradient(n, alpha, grad_norm, monkeypatch):
    known_gradient(monkeypatch, _second_order_dipole, grad_norm)
    counts = enumeration.compositions(n, 3)
    size = len(counts)
    tally = PairTally(
        counts[:, 0], counts[:, 1], np.full(size, n), grad_sum=np.zeros((size, 1)), grad_sq=np.zeros(size)
    )
    radius = SecondOrderDipoleCertifier(alpha=alpha).certify_tally(tally).radius

    def bound(both, one_sided, r):
        one_sided = np.minimum(one_sided, (1.0 - both) / 2.0)
        return bounds.second_order_dipole_lower_bound(both, one_sided, grad_norm, r)

    # Each bound is a search, slow where a probability is tiny: fewer truths, and fewer digits below the radius.
    truths = enumeration.pair_truths(bound, enumeration.certified_levels(radius, 3), size=4, steps=16, near_ends=1)
    error = enumeration.worst_error(radius, counts, truths.get, levels=3)
    level = (1.0 - _second_order_dipole.GRADIENT_SHARE) * alpha
    check("second-order dipole, known gradient", f"n={n} alpha={alpha} G={grad_norm}", error, level, used=0.8)


@pytest.mark.parametrize("grad_norm", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [10, 100])
def test_second_order_with_known_gradient(n, alpha, grad_norm, monkeypatch):
    known_gradient(monkeypatch, _second_order, grad_norm)
    hits = np.arange(n + 1)
    tally = GradientTally.from_norm_sq(hits, np.full(n + 1, n), 0.0, n_features=1)
    radius = SecondOrderCertifier(alpha=alpha).certify_tally(tally).radius

    levels = enumeration.certified_levels(radius)
    p = enumeration.last_below(
        lambda p: bounds.second_order_lower_bound(p, grad_norm, levels) > 0.5,
        np.zeros_like(levels),
        np.ones_like(levels),
        50,
    )
    truths = dict(zip(levels, np.stack([p, 1.0 - p], axis=1)[:, None], strict=True))
    error = enumeration.worst_error(radius, np.stack([hits, n - hits], axis=1), truths.get)
    level = (1.0 - _second_order.GRADIENT_SHARE) * alpha
    used = 0.999 if radius.max() > 0.0 else 0.0
    check("second order, known gradient", f"n={n} alpha={alpha} G={grad_norm}", error, level, used)


@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_second_order_with_rivals_and_known_gradient(alpha, monkeypatch):
    n, grad_norm = 10, 0.1
    known_gradient(monkeypatch, _second_order, grad_norm)
    counts = enumeration.compositions(n, 3)
    size = len(counts)
    tally = GradientTally(
        counts, np.full(size, n), np.zeros((size, 3, 1)), np.zeros((size, 3)), 0.5, candidate=np.zeros(size, int)
    )
    radius = SecondOrderCertifier(alpha=alpha).certify_tally(tally).radius

    def truths(r):
        winner = enumeration.between(0.02, 0.98, 25)
        own = bounds.second_order_lower_bound(winner, grad_norm, r)
        # The rival's probability at which its upper bound just exceeds what the class keeps.
        less = enumeration.last_below(
            lambda less: bounds.second_order_upper_bound(1.0 - less, grad_norm, r) < own,
            np.zeros_like(own),
            np.ones_like(own),
            45,
        )
        rival = 1.0 - less
        keep = winner + rival <= 1.0
        return np.stack([winner, rival, np.maximum(1.0 - winner - rival, 0.0)], axis=1)[keep]

    error = enumeration.worst_error(radius, counts, truths, levels=15)
    check("second order with rivals, known gradient", f"n={n} alpha={alpha}", error, alpha)


@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_second_order_with_rivals_and_known_gradient_of_the_lead(alpha, monkeypatch):
    """The joint limit of votes and the arc of pairs that it leaves."""
    n, grad_norm, lead = 20, 0.3, 0.1
    monkeypatch.setattr(
        _second_order,
        "gradient_norm_upper",
        lambda norm_sq, *rest: np.full(norm_sq.shape, grad_norm if norm_sq.shape[1] == 3 else lead / 2.0),
    )
    counts = enumeration.compositions(n, 3)
    size = len(counts)
    tally = GradientTally(
        counts, np.full(size, n), np.zeros((size, 3, 1)), np.zeros((size, 3)), 0.5, candidate=np.zeros(size, int)
    )
    radius = SecondOrderCertifier(alpha=alpha).certify_tally(tally).radius
    levels = enumeration.certified_levels(radius, 6)
    winner = enumeration.between(0.1, 0.95, 6, near_ends=0)
    p, r = (a.ravel() for a in np.meshgrid(winner, levels))

    def kept(less):
        return bounds.second_order_multiclass_radius(p, grad_norm, 1.0 - less[:, None], grad_norm, lead) >= r

    less = enumeration.last_below(kept, np.maximum(p, 1.0 - p), np.ones_like(p), 12)
    truths, below = np.stack([p, 1.0 - less, np.maximum(less - p, 0.0)], axis=1), ~kept(less)
    of_level = {level: truths[below & (r == level)] for level in levels}
    assert sum(map(len, of_level.values())) > 10
    error = enumeration.worst_error(radius, counts, of_level.get, levels=6)
    check("second order with rivals, known gradient of the lead", f"n={n} alpha={alpha}", error, alpha)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(
    ("trials", "weights", "guesses"),
    [
        ([5, 7, 6], [1.0, 1.0, 1.0], [0.9, 0.8, 0.6]),
        ([9, 4, 6], [2.0, 0.7, -0.8], [0.95, 0.5, 0.3]),
        ([1, 12, 5], [0.3, 1.5, 1.0], [0.5, 0.99, 0.9]),
        ([120, 3], [1.0, 0.2], [0.7, 0.5]),
    ],
)
def test_weighted_shares_in_strata(trials, weights, guesses, alpha):
    """The betting limit behind the directional certificate, given the strata."""
    trials, mass = np.array(trials), np.array([0.4, 0.35, 0.25] if len(trials) == 3 else [0.9, 0.1])
    hits = np.stack([a.ravel() for a in np.meshgrid(*(np.arange(t + 1) for t in trials))], axis=1)
    limit = stratified_lower(hits, trials, mass, weights, guesses, alpha)
    kept = mass * limit.weights[0]
    np.testing.assert_array_equal(limit.weights, np.broadcast_to(limit.weights[0], hits.shape))  # trials alone decide
    # Certified numbers must be positive: all are moved by the same amount.
    shift = 1.0 + np.abs(kept).sum()
    rng = np.random.default_rng(len(hits))
    error = enumeration.worst_error(
        np.maximum(limit.value + shift, 0.0),
        hits,
        lambda level: enumeration.shares_below(kept, level - shift, rng),
        chance=lambda counts, shares: enumeration.binomials(counts, shares, trials),
        levels=60,
    )
    check("weighted shares in strata", f"trials={trials} alpha={alpha}", error, alpha)


FALSE_ALARM = 1e-4

VOTES = {
    "half-space through the input": lambda z: z[..., 0] < 0.0,
    "half-space": lambda z: z[..., 0] < 1.0,
    "flips where the variance proxy is attained": lambda z: (z[..., 0] < 0.0) ^ (np.abs(z[..., 0]) > 2.134),
    "the same, upside down": lambda z: (z[..., 0] > 0.0) ^ (np.abs(z[..., 0]) > 2.134),
    "rare hits": lambda z: z[..., 0] > 2.0,
}


def true_gradient(votes):
    z = ndtri((np.arange(400_000) + 0.5) / 400_000)
    return abs(np.mean(z * votes(z[:, None])))


@pytest.mark.slow
def test_gradient_limits():
    """Simulated: the evidence is continuous, and the truth is the law's own gradient, at which a limit must hold.

    All limits are asked about the same draws.
    """
    n, repetitions, worst = 60, 1000, {}
    for seed, votes in enumerate(VOTES.values()):
        truth = true_gradient(votes) * (1.0 - 1e-6)
        for d in (1, 5):
            rng = np.random.default_rng([seed, d])
            noise = rng.standard_normal((repetitions, n, d))
            norm_sq = {}
            for centre in (0.0, 0.5):
                tally = GradientTally.empty(repetitions, d, centre=centre)
                tally.update(noise, votes(noise))
                norm_sq[centre] = tally.norm_sq
            for alpha in (0.01, 0.05, 0.3):
                total = norm_sq[0.5] * (n - 1.0) / n
                limits = {
                    "centred": gradient_norm_upper(norm_sq[0.5], n, d, alpha, method="centred"),
                    "paper": gradient_norm_upper(norm_sq[0.0], n, d, alpha, method="paper"),
                    "strata": stratified_gradient_upper(total, [[n]], [[1.0 / n]], d, alpha),
                }
                for method, limit in limits.items():
                    error = float(np.mean(limit < truth))
                    worst[method, alpha] = max(worst.get((method, alpha), 0.0), error)
    for (method, alpha), error in worst.items():
        enumeration.report(f"gradient, {method} (simulated)", f"n={n} alpha={alpha}", error, alpha)
        assert error * repetitions <= stats.binom.ppf(1.0 - FALSE_ALARM, repetitions, alpha)
