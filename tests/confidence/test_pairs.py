"""The joint limits of pair probabilities: published values, exact coverage by enumeration, and the sums behind them."""

import numpy as np
import pytest
from scipy import stats

from smoothcert.bounds import dipole_radius, first_order_radius
from smoothcert.confidence import binomial_lower, joint_pair_limits
from smoothcert.confidence._pairs import NUISANCE_SHARE

# Pairs with two hits, one, none; radii of the split and of the joint inference.
TABLE = [
    ((27290, 20330, 2380), 0.7013, 0.7098),
    ((32987, 16738, 275), 0.9335, 0.9388),
    ((20000, 20000, 10000), 0.3035, 0.3174),
    ((44963, 5030, 7), 1.6198, 1.6212),
    ((50000, 0, 0), 3.7878, 3.8107),
]


@pytest.mark.parametrize(("counts", "split", "joint"), TABLE)
def test_values(counts, split, joint):
    both, one, _ = counts
    pairs = sum(counts)
    radius = float(dipole_radius(*joint_pair_limits(both, one, pairs, 0.001)))
    assert radius == pytest.approx(joint, abs=1e-4)
    apart = binomial_lower(both, pairs, 0.0005), binomial_lower(one, pairs, 0.0005) / 2
    assert float(dipole_radius(*apart)) == pytest.approx(split, abs=1e-4)
    assert radius >= float(dipole_radius(*apart))


def test_costs_nothing_when_all_pairs_hit():
    first_order = first_order_radius(binomial_lower(100_000, 100_000, 0.001))
    joint = dipole_radius(*joint_pair_limits(50_000, 0, 50_000, 0.001))
    assert 0 <= first_order - joint <= 0.001 * first_order


@pytest.mark.parametrize("weight", [None, 0.5, 0.3])
@pytest.mark.parametrize("n", [5, 14, 30])
def test_exact_coverage_by_enumeration(n, weight):
    """Over all outcomes and a grid of truths the probability of an overstated radius stays below alpha."""
    alpha = 0.05
    both, one = (a.ravel() for a in np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"))
    keep = both + one <= n
    both, one = both[keep], one[keep]
    radius = dipole_radius(*joint_pair_limits(both, one, n, alpha, weight=weight))
    assert radius.max() > 0.1 or n < 10
    worst = 0.0
    for true_both in np.linspace(0.02, 0.98, 33):
        for share in np.linspace(0.0, 1.0, 21):
            true_one = share * (1 - true_both)
            truth = dipole_radius(true_both, true_one / 2)
            chance = stats.multinomial.pmf(
                np.stack([both, one, n - both - one], axis=1), n, [true_both, true_one, 1 - true_both - true_one]
            )
            worst = max(worst, chance[radius > truth].sum())
    assert worst <= alpha


@pytest.mark.parametrize(
    ("both", "one", "pairs"), [(1300, 500, 2000), (1100, 200, 2000), (1900, 90, 2000), (900, 800, 2000)]
)
def test_thinned_sums_bound_the_full_ones(both, one, pairs):
    """At the reported probabilities the set of outcomes ranked no lower has at most the level spent on it."""
    alpha, weight = 0.001, 0.5
    limit_both, limit_one = joint_pair_limits(both, one, pairs, alpha, weight=weight)
    none = 1 - limit_both - 2 * limit_one
    n0 = np.arange(pairs + 1)
    needed = np.ceil((both + weight * one - weight * (pairs - n0)) / (1 - weight) - 1e-9)
    tail = stats.binom.sf(needed - 1, pairs - n0, min(limit_both / (1 - none), 1.0))
    chance = np.sum(stats.binom.pmf(n0, pairs, none) * tail)
    assert chance <= alpha * (1 - NUISANCE_SHARE)
    assert chance >= 0.6 * alpha  # and not by giving most of it away


def test_curve_is_searched_finely_enough():
    """A curve of nine points, lowered by its bend, never lies above one of 201."""
    from smoothcert.confidence import _pairs

    rng = np.random.default_rng(3)
    counts = np.array([rng.multinomial(int(10 ** rng.uniform(1, 5)), rng.dirichlet([5, 2, 1])) for _ in range(60)])
    both, one, pairs = counts[:, 0], counts[:, 1], counts.sum(axis=1)
    coarse = dipole_radius(*joint_pair_limits(both, one, pairs, 0.01))
    points = _pairs._CURVE_POINTS
    try:
        _pairs._CURVE_POINTS = 201
        fine = dipole_radius(*joint_pair_limits(both, one, pairs, 0.01))
    finally:
        _pairs._CURVE_POINTS = points
    assert np.all(coarse <= fine * (1 + 1e-7) + 1e-9)
    assert np.mean(fine - coarse) < 0.01


def test_more_hits_certify_more():
    pairs = 1000
    both = np.arange(500, 1000, 20)
    radius = dipole_radius(*joint_pair_limits(both, (pairs - both) // 2, pairs, 0.001))
    assert np.all(np.diff(radius) > 0)


def test_refuses_bad_arguments():
    with pytest.raises(ValueError, match=r"both \+ one must be at most pairs, got both=7, one=4 and pairs=10"):
        joint_pair_limits([1, 7], [2, 4], 10, 0.001)
    with pytest.raises(ValueError, match="one must be at least 0"):
        joint_pair_limits(1, -1, 10, 0.001)
    with pytest.raises(ValueError, match="alpha"):
        joint_pair_limits(1, 1, 10, 0.0)
