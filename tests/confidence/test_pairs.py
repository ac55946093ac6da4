"""The joint limits of pair probabilities: published values, the sums behind them, and the arcs between the points.

That radii above the truth are rare enough is tested in ``certifiers/test_exact_coverage.py``.
"""

import mpmath
import numpy as np
import pytest
from helpers import coverage_by_enumeration as enumeration
from helpers import published_logs
from scipy import stats
from scipy.special import betainc

from smoothcert.bounds import dipole_radius, first_order_radius
from smoothcert.confidence import _pairs, _ranked_outcomes, binomial_lower, joint_pair_limits

# Pairs with two hits, one, none; radii of the split and of the joint inference, the latter by a fine search of the
# curve without any allowance.
TABLE = [
    ((27290, 20330, 2380), 0.7013, 0.70974),
    ((32987, 16738, 275), 0.9335, 0.93883),
    ((20000, 20000, 10000), 0.3035, 0.31740),
    ((44963, 5030, 7), 1.6198, 1.62121),
    ((50000, 0, 0), 3.7878, 3.81071),
]


def split_radius(both, one, pairs, alpha):
    low = binomial_lower(both, pairs, alpha / 2)
    return dipole_radius(low, np.minimum(binomial_lower(one, pairs, alpha / 2) / 2, (1 - low) / 2))


@pytest.mark.parametrize(("counts", "split", "joint"), TABLE)
def test_values(counts, split, joint):
    both, one, _ = counts
    radius = float(dipole_radius(*joint_pair_limits(both, one, sum(counts), 0.001)))
    assert radius <= joint
    assert radius == pytest.approx(joint, rel=5e-4 if one == 0 else 0.0, abs=0.0 if one == 0 else 1e-4)
    assert split_radius(both, one, sum(counts), 0.001) == pytest.approx(split, abs=1e-4)


def test_costs_nothing_when_all_pairs_hit():
    first_order = first_order_radius(binomial_lower(100_000, 100_000, 0.001))
    joint = dipole_radius(*joint_pair_limits(50_000, 0, 50_000, 0.001))
    assert 0 <= first_order - joint <= 0.001 * first_order


@pytest.mark.parametrize("alpha", [0.001, 0.3])
def test_never_below_split(alpha):
    rng = np.random.default_rng(5)
    pairs = (10 ** rng.uniform(1, 5, 60)).astype(int)
    mixes = ([5, 2, 1], [5, 0.5, 0.1], [20, 1, 1])
    counts = np.array([rng.multinomial(n, rng.dirichlet(mixes[i % 3])) for i, n in enumerate(pairs)])
    joint = dipole_radius(*joint_pair_limits(counts[:, 0], counts[:, 1], pairs, alpha))
    split = split_radius(counts[:, 0], counts[:, 1], pairs, alpha)
    assert np.sum(split > 0.0) > 20
    assert np.all(joint >= split - 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("path", published_logs.paths("dipole_N_*"))
def test_never_below_split_on_published_logs(path):
    log = published_logs.Log(path)
    both, pairs = log["raw_count_symmetric"].astype(int)[::5], log.n // 2
    one = np.minimum(2 * log["raw_count_asymmetric"].astype(int)[::5], pairs - both)
    joint = dipole_radius(*joint_pair_limits(both, one, pairs, 0.001))
    assert np.all(joint >= split_radius(both, one, pairs, 0.001) - 1e-4)


@pytest.mark.parametrize("weight", [0.5, 0.3])
def test_exact_coverage_of_other_rankings(weight):
    n, alpha = 14, 0.05
    counts = enumeration.compositions(n, 3)
    radius = dipole_radius(*joint_pair_limits(counts[:, 0], counts[:, 1], n, alpha, weight=weight))
    truths = enumeration.pair_truths(enumeration.dipole_bound, enumeration.certified_levels(radius))
    error = enumeration.worst_error(radius, counts, truths.get)
    assert 0.8 * alpha <= error <= alpha


def column(*values):
    return [np.array([float(value)]) for value in values]


def outcomes(monkeypatch, counts, alpha, weight, block):
    """The curve of one row of counts, with blocks of a given length; 0 sums every term."""
    monkeypatch.setattr(_ranked_outcomes, "_BLOCK", block)
    return _pairs._Curve(*column(counts[0], counts[1], sum(counts), alpha), weight)


@pytest.mark.parametrize("weight", [None, 0.5, 0.3])
@pytest.mark.parametrize("block", [0.6, 2.0])
@pytest.mark.parametrize(
    "counts", [(1300, 500, 200), (5500, 4000, 500), (6500, 3000, 500), (6000, 300, 3700), (2100, 1900, 1000)]
)
def test_blocks_bound_the_full_sum(counts, block, weight, monkeypatch):
    n, alpha = sum(counts), 0.001
    full = outcomes(monkeypatch, counts, alpha, weight, 0.0)
    curve = outcomes(monkeypatch, counts, alpha, weight, block)
    assert curve.outcomes.half[0] > 0.0
    rng = np.random.default_rng(n)
    none = rng.uniform(curve.low[0], min(curve.high[0], curve.end[0]), 40)
    one = np.minimum(counts[1] / n * rng.uniform(0.0, 1.6, 40) ** 2, 1.0 - none)
    both = 1.0 - none - one
    bound, beyond = curve.outcomes.probability(both, one, none, np.zeros(40, int))
    assert not beyond.any()
    n0, threshold = full.outcomes.n0[0], full.outcomes.threshold[0]
    exact = np.array(
        [
            np.sum(stats.binom.pmf(n0, n, p0) * stats.binom.sf(threshold - 1, n - n0, p2 / (1 - p0)))
            for p2, p0 in zip(both, none, strict=True)
        ]
    )
    assert np.all(bound + _ranked_outcomes.TAIL_SHARE * alpha >= exact * (1 - 1e-9))
    probable = exact > 0.1 * alpha
    assert np.any(probable)
    if block < 1.0:
        assert np.median(bound[probable] / exact[probable]) < 1.1  # and hardly more


@pytest.mark.parametrize("n", [1000, 10**6, 10**9])
def test_summands_against_50_digits(n):
    """Binomial coefficients, weights and tails at a point of the curve, up to the rounding that is allowed for."""
    counts = np.array([0.55, 0.4, 0.05]) * n
    curve = _pairs._Curve(*column(counts[0], counts[1], n, 0.001), 0.5)
    sets = curve.outcomes
    both, none = 0.55 - 1.5 / np.sqrt(n), 0.05
    one = 1.0 - both - none
    allowed = 1e-9 + _ranked_outcomes._ROUNDING * n
    with mpmath.workdps(50):
        for at in np.linspace(0, sets.count[0] - 1, 5).astype(int):
            n0, k, single = (int(a[0, at]) for a in (sets.n0, sets.threshold, sets.single))
            p0, hit = mpmath.mpf(none), mpmath.mpf(both) + mpmath.mpf(one)
            log_weight = mpmath.log(mpmath.binomial(n, n0)) + n0 * mpmath.log(p0) + (n - n0) * mpmath.log(hit)
            ours = sets.log_weight[0, at] + n0 * np.log(none) + (n - n0) * np.log(both + one)
            assert abs(float(log_weight - ours)) <= allowed
            share = mpmath.mpf(both) / hit
            log_mass = mpmath.log(mpmath.binomial(k + single, k)) + k * mpmath.log(share)
            log_mass += single * mpmath.log(1 - share)
            ours = sets.log_mass[0, at] + k * np.log(both / (both + one)) + single * np.log(one / (both + one))
            assert abs(float(log_mass - ours)) <= allowed


@pytest.mark.parametrize(
    ("trials", "least"), [(10**6, 550_000), (10**6, 999_900), (10**9, 10**9 - 1000), (10**9, 10**9 - 10)]
)
def test_tails_against_50_digits(trials, least):
    share = least / trials
    share -= 3.0 * np.sqrt(share * (1.0 - share) / trials)
    with mpmath.workdps(50):
        s = mpmath.mpf(float(share))
        first = mpmath.exp(
            mpmath.log(mpmath.binomial(trials, least)) + least * mpmath.log(s) + (trials - least) * mpmath.log(1 - s)
        )
        term = total = mpmath.mpf(1)
        for k in range(least, trials):
            term *= (trials - k) * s / ((k + 1) * (1 - s))
            total += term
            if term < 1e-25 * total:
                break
        off = float(betainc(least, trials - least + 1.0, share) / (first * total) - 1)
    assert abs(off) <= 1e-9 + _ranked_outcomes._ROUNDING * trials


def test_observed_outcome_is_in_its_own_set():
    """A rounding of 1e-17 once dropped it when no pair had one hit."""
    for counts in ((9, 0, 3), (25, 0, 5), (400, 0, 100), (7, 5, 0)):
        curve = _pairs._Curve(*column(counts[0], counts[1], sum(counts), 0.1), None)
        (at,) = np.flatnonzero(curve.outcomes.inside[0] & (curve.outcomes.n0[0] == counts[2]))
        assert curve.outcomes.threshold[0, at] <= counts[0]
        assert curve.outcomes.most_none[0] >= counts[2]


@pytest.mark.parametrize("counts", [(599, 1, 400), (30, 25, 5), (2000, 0, 0), (1800, 150, 50), (49990, 10, 0)])
def test_arcs_stay_refuted(counts):
    """Along every arc the probability of the set, summed in full, stays below the level the arcs may reach."""
    n, alpha = sum(counts), 0.01
    curve = _pairs._Curve(*column(counts[0], counts[1], n, alpha), None)
    points = curve.arcs()
    assert points.good.all()
    probabilities = points.probabilities
    assert probabilities[0, 2] <= max(binomial_lower(counts[2], n, 0.01 * alpha), 0.021 / n)
    assert probabilities[-1, 1] == 0.0 or probabilities[-1, 2] >= curve.high[0] * (1 - 1e-12)
    a, b = probabilities[:-1].copy(), probabilities[1:]
    a[b[:, 1] == 0.0, 1] = 0.0
    for s in (0.02, 0.3, 0.5, 0.8, 0.98):
        with np.errstate(divide="ignore"):
            arc = np.exp((1 - s) * np.log(a) + s * np.log(b))
        arc /= arc.sum(axis=1, keepdims=True)
        one = np.maximum(arc[:, 1], 1e-300)
        chance, _ = curve.outcomes.probability(arc[:, 0], one, arc[:, 2], np.zeros(len(arc), int))
        assert np.all(chance <= alpha * (1 - _pairs.NUISANCE_SHARE))


def test_steep_end_of_the_curve_is_followed():
    """With hardly any pair of one hit the curve has a dip at its end, which nine points and a parabola once missed."""
    both, one_sided = joint_pair_limits(599, 1, 1000, 0.001)
    assert dipole_radius(both, one_sided) <= 0.48226


def test_billion_pairs():
    pairs = 10**9
    both, one = 550_000_000, 400_000_000
    radius = dipole_radius(*joint_pair_limits(both, one, pairs, 0.001))
    face_value = dipole_radius(both / pairs, one / pairs / 2)
    assert split_radius(both, one, pairs, 0.001) < radius < face_value
    assert radius == pytest.approx(face_value, abs=1e-4)


def test_more_hits_certify_more():
    pairs = 1000
    both = np.arange(500, 1000, 20)
    radius = dipole_radius(*joint_pair_limits(both, (pairs - both) // 2, pairs, 0.001))
    assert np.all(np.diff(radius) > 0)


def test_rows_are_independent():
    both, one, pairs = np.array([40, 600, 27290, 5]), np.array([10, 300, 20330, 0]), np.array([55, 1000, 50000, 5])
    together = np.array(joint_pair_limits(both, one, pairs, 0.01))
    alone = np.array([joint_pair_limits(*row, 0.01) for row in zip(both, one, pairs, strict=True)]).T
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_refuses_bad_arguments():
    with pytest.raises(ValueError, match=r"both \+ one must be at most pairs, got both=7, one=4 and pairs=10"):
        joint_pair_limits([1, 7], [2, 4], 10, 0.001)
    with pytest.raises(ValueError, match="one must be at least 0"):
        joint_pair_limits(1, -1, 10, 0.001)
    with pytest.raises(ValueError, match="alpha"):
        joint_pair_limits(1, 1, 10, 0.0)
    with pytest.raises(ValueError, match="radius and plane must be given together"):
        joint_pair_limits(9, 1, 10, 0.1, radius=lambda both, one_sided, rows: dipole_radius(both, one_sided))
