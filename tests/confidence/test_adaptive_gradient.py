"""The adaptive limit of a tilted gradient: averages over partitions, algebra of the bets, coverage, width."""

import itertools

import numpy as np
import pytest
from helpers.tilted_gradients import laws
from scipy import stats

from smoothcert.confidence import (
    _adaptive_gradient,
    adaptive_gradient_scale,
    adaptive_gradient_upper,
    share_limits,
    stratified_gradient_upper,
)
from smoothcert.confidence._crossfit import SHARE_OF_SHARES

TILTED, TRIALS = np.array([0.15, 0.7, 0.6]), np.array([300, 700, 130])


def statistics(vectors, strata, masses):
    """Return what the limit takes, for vectors of shape (..., n, d)."""
    trials = np.bincount(strata, minlength=len(masses))
    sums = np.stack([vectors[..., strata == s, :].sum(axis=-2) for s in range(len(masses))], axis=-2)
    squares = np.stack([(vectors[..., strata == s, :] ** 2).sum(axis=(-2, -1)) for s in range(len(masses))], axis=-1)
    weights = masses / trials
    total = np.sum(weights[:, None] * sums, axis=-2)
    norm_sq = np.sum(total**2, axis=-1) - np.sum(weights**2 * squares, axis=-1)
    return norm_sq, np.sum(sums**2, axis=-1) - squares, squares


def all_partitions(n, m):
    """All ways to put n numbered samples into m numbered blocks of equal size."""
    labels = np.repeat(np.arange(m), n // m)
    return np.unique(list(itertools.permutations(labels)), axis=0)


@pytest.mark.parametrize(("m", "numbers"), [(2, (4, 2)), (3, (6, 3)), (2, (6, 6))])
def test_averages_over_all_partitions(monkeypatch, m, numbers):
    """Products of blocks and lengths of partial sums, averaged by enumeration."""
    monkeypatch.setattr(_adaptive_gradient, "N_BLOCKS", m)
    rng = np.random.default_rng(m)
    masses = np.array([0.7, 0.4])
    strata = np.repeat([0, 1], numbers)
    vectors = rng.normal([0.5, 0.0, 0.0], 1.0, (len(strata), 3))
    # A sample weighs masses / (m * samples of its stratum in its block), so a block's sum has the mean gamma / m.
    weight = masses[strata] / np.array(numbers)[strata]
    pairs, lengths, count = 0.0, 0.0, 0
    for parts in itertools.product(*(all_partitions(n, m) for n in numbers)):
        block = np.concatenate(parts)
        sums = np.stack([np.sum((weight * (block == k))[:, None] * vectors, axis=0) for k in range(m)])
        before = np.cumsum(sums, axis=0) - sums
        pairs += np.sum(sums * before)
        lengths += np.sum(before**2)
        count += 1
    norm_sq, within, squares = statistics(vectors, strata, masses)
    n = np.array(numbers)
    found = _adaptive_gradient._sums(norm_sq, within, squares, masses, n)
    assert found.pairs * (m - 1) / (2 * m) == pytest.approx(pairs / count, rel=1e-9)
    apart = squares / n - within / (n * (n - 1))
    exact = np.sum(masses**2 / (n / m) * apart) / m**2
    both = [(m - 1) * (2 * m - 1) / (6 * m) * found.pairs + m * (m - 1) / 2 * part for part in (exact, found.spread)]
    assert both[0] == pytest.approx(lengths / count, rel=1e-9)
    assert both[1] >= both[0] * (1 - 1e-9)


def test_algebra_of_the_bets():
    """The exponent of the capital is what the theory says, for any vectors."""
    rng = np.random.default_rng(0)
    for m in (2, 5, 16):
        sums, gamma, rate = rng.normal(size=(m, 4)), rng.normal(size=4), rng.uniform(0.01, 0.4)
        reach = np.zeros(m)
        for j in range(m - 2, -1, -1):
            reach[j] = (1 - rate) * reach[j + 1] + 1 / m
        steps = m - np.arange(1.0, m + 1.0)
        np.testing.assert_allclose(reach, (1 - (1 - rate) ** steps) / (m * rate))
        assert np.all(reach <= steps / m + 1e-15)
        before = np.cumsum(sums, axis=0) - sums
        bet = before + reach[:, None] * gamma
        exponent = np.sum(-sums * bet + gamma / m * bet) - rate / 2 * np.sum(bet**2)
        gain = np.sum(reach / m - rate / 2 * reach**2)
        expected = -np.sum(sums * before) + gamma @ gamma * gain - rate / 2 * np.sum(before**2)
        assert exponent == pytest.approx(expected, rel=1e-10)


def test_gain_falls_with_the_rate():
    m, rate = 16, np.linspace(1e-6, 0.5, 500)[:, None]
    reach = (1 - (1 - rate) ** (m - np.arange(1.0, m + 1.0))) / (m * rate)
    gain = np.sum(reach / m - rate / 2 * reach**2, axis=1)
    assert np.all(np.diff(gain) < 0)


def simulate(law, d, trials, masses, alpha, repetitions, seed, centres=None):
    """Return limits and the truth, with a scale that suits the truth."""
    rng = np.random.default_rng(seed)
    centres = np.clip(law.shares @ np.asarray(law.values), 0.05, 0.95) if centres is None else centres
    truth = float(np.abs(masses @ law.gradient))
    given = {"centres": centres, "alpha": alpha, "values": law.values, "n_features": d}
    scale, _ = adaptive_gradient_scale(truth, masses, trials, shares=law.shares, **given)
    strata = np.repeat(np.arange(len(masses)), trials)
    noise = rng.standard_normal((repetitions, len(strata), d))
    votes = law.votes(noise, np.broadcast_to(strata, noise.shape[:2]), rng.random(noise.shape[:2]))
    known = statistics(noise * (votes - centres[strata])[..., None], strata, masses)
    counts = np.stack([[np.sum((votes == v) & (strata == s), axis=1) for v in law.values] for s in range(len(masses))])
    return adaptive_gradient_upper(*known, scale, masses, counts=np.moveaxis(counts, -1, 0), **given), truth


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize(("d", "repetitions"), [(1, 500), (2, 500), (12, 200)])
def test_coverage_in_strata(d, repetitions, alpha):
    # With a true error rate of alpha one law would fail the check with probability 1e-5.
    ratios = []
    for seed, law in enumerate(laws(d)):
        for centres in (None, np.full(3, 0.5))[: 1 + seed % 2]:
            limits, truth = simulate(law, d, TRIALS, TILTED, alpha, repetitions, seed, centres)
            assert np.sum(limits < truth) <= stats.binom.ppf(1 - 1e-5, repetitions, alpha), law.name
            ratios.append(np.mean(limits) / max(truth, 0.1))
    assert np.median(ratios) < 2.5  # and the limits say something


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_coverage_where_the_limit_is_tight(alpha):
    repetitions, failures = 1000, []
    for seed in (0, 2, 4):
        law = laws(1, 1)[seed]
        limits, truth = simulate(law, 1, np.array([4000]), np.ones(1), alpha, repetitions, seed)
        failures.append(np.sum(limits < truth))
        assert failures[-1] <= stats.binom.ppf(1 - 1e-5, repetitions, alpha), law.name
    if alpha == 0.2:
        assert max(failures) > 0  # close enough to err sometimes


def test_too_few_samples():
    given = {"centres": [0.9, 0.9], "n_features": 3, "alpha": 0.01}
    counts = [[1, 14], [300, 9700]]
    limit = adaptive_gradient_upper(0.01, [0.1, 0.1], [3.0, 900.0], 1e3, [0.1, 0.9], counts=counts, **given)
    shares = share_limits(counts, [0.9, 0.9], SHARE_OF_SHARES * 0.01 / 2)[:, 0]
    longest = np.minimum(2 * stats.norm.pdf(stats.norm.isf(shares / 2)), stats.norm.pdf(0.0))
    assert limit == pytest.approx([0.1, 0.9] @ longest, rel=1e-9)
    # A stratum without weight needs no samples.
    assert adaptive_gradient_upper(0.01, [0.1, 0.1], [3.0, 900.0], 1e3, [0.0, 0.9], counts=counts, **given) < limit


def test_any_scale_is_valid_and_huge_ones_say_nothing():
    given = {"counts": [[300, 9700]], "centres": [0.97], "n_features": 50, "alpha": 0.01}
    limits = adaptive_gradient_upper(1e-4, [1e4], [14_000.0], np.geomspace(1e-3, 1e12, 200), [1.0], **given)
    assert np.all(np.isfinite(limits))
    assert limits[0] == limits[-1] == limits.max()
    assert limits.min() < 0.8 * limits.max()


def test_rises_with_each_sum():
    given = {"counts": [[300, 9700]], "centres": [0.97], "n_features": 50, "alpha": 0.01}
    plain = adaptive_gradient_upper(1e-4, [1e4], [14_000.0], 1e4, [1.0], **given)
    assert adaptive_gradient_upper(1.1e-4, [1e4], [14_000.0], 1e4, [1.0], **given) > plain
    assert adaptive_gradient_upper(1e-4, [2e4], [14_000.0], 1e4, [1.0], **given) > plain
    assert adaptive_gradient_upper(1e-4, [1e4], [20_000.0], 1e4, [1.0], **given) > plain


def test_leading_axes():
    rng = np.random.default_rng(5)
    norm_sq, scale = rng.uniform(0, 1e-3, (2, 4)), rng.uniform(1e3, 5e3, (2, 4))
    within, squares = rng.uniform(0, 50, 3), rng.uniform(500, 900, 3)
    masses = rng.uniform(0.1, 0.5, (2, 4, 3))
    given = {"counts": [[20, 980], [40, 900], [5, 700]], "centres": [0.95] * 3, "alpha": 0.01, "n_features": 20}
    limits = adaptive_gradient_upper(norm_sq, within, squares, scale, masses, **given)
    assert limits.shape == (2, 4)
    for place in np.ndindex(2, 4):
        one = adaptive_gradient_upper(norm_sq[place], within, squares, scale[place], masses[place], **given)
        assert one == limits[place]  # whatever the company


@pytest.mark.parametrize(
    ("share", "gradient", "centre", "ratio"),
    [(0.03, 0.012, 0.97, 0.65), (0.03, 0.033, 0.97, 0.85), (0.1, 0.02, 0.8, 0.85), (0.4, 0.02, 0.5, 0.9)],
)
def test_width_in_many_dimensions(share, gradient, centre, ratio):
    """Against the stratified limit, with sums drawn from their normal laws in 3071 dimensions."""
    rng = np.random.default_rng(6)
    d, n, alpha, repetitions = 3071, 100_000, 0.0002, 20
    given = {"centres": [centre], "alpha": alpha, "n_features": d}
    scale, expected = adaptive_gradient_scale(gradient, [1.0], [n], shares=[[share, 1 - share]], **given)
    variance = share * centre**2 + (1 - share) * (1 - centre) ** 2
    misses = int(n * share)
    limits, old = [], []
    for _ in range(repetitions):
        noise = rng.normal(size=d)
        noise_sq = []
        for spread in (variance, 0.25):
            total = noise * np.sqrt(spread / n)
            total[0] += gradient
            noise_sq.append(total @ total - d * spread / n)
        limits.append(
            adaptive_gradient_upper(
                noise_sq[0], [noise_sq[0] * n**2], [d * variance * n], scale, [1.0],
                counts=[[misses, n - misses]], **given,
            )
        )  # fmt: skip
        old.append(stratified_gradient_upper(noise_sq[1], [n], [1 / n], d, alpha))
    assert np.min(limits) >= gradient
    assert np.mean(limits) == pytest.approx(expected, rel=0.05)
    assert np.mean(limits) < ratio * np.mean(old)


@pytest.mark.parametrize("d", [1, 49, 3071, 100_000])
def test_planned_scale_is_nearly_the_best(d):
    masses, trials, variance = np.array([0.4, 0.6]), np.array([40_000, 60_000]), np.array([0.02 * 0.98, 0.09])
    shares = np.array([[0.02, 0.98], [0.1, 0.9]])
    given = {"centres": [0.98, 0.9], "n_features": d, "alpha": 0.001}
    scale, limit = adaptive_gradient_scale(0.03, masses, trials, shares=shares, **given)
    for factor in (0.3, 0.7, 1.0, 1.4, 3.0):
        other = adaptive_gradient_upper(
            0.03**2, 0.0 * masses, d * variance * trials, factor * scale, masses,
            counts=np.rint(shares * trials[:, None]), **given,
        )  # fmt: skip
        assert other >= limit * 0.99


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"norm_sq": np.nan}, "norm_sq"),
        ({"within": [np.nan]}, "within"),
        ({"squares": [-1.0]}, "squares"),
        ({"scale": 0.0}, "scale"),
        ({"masses": [-1.0]}, "masses"),
        ({"counts": [30, 970]}, "counts"),
        ({"counts": [[30.5, 970]]}, "counts"),
        ({"centres": [1.5]}, "centres"),
        ({"n_features": 0}, "n_features"),
        ({"alpha": 0.0}, "alpha"),
    ],
)
def test_bad_input(change, named):
    given = {
        "norm_sq": 0.01, "within": [1.0], "squares": [30.0], "scale": 1e3, "masses": [1.0],
        "counts": [[30, 970]], "centres": [0.97], "n_features": 3, "alpha": 0.01,
    }  # fmt: skip
    with pytest.raises(ValueError, match=named):
        adaptive_gradient_upper(**{**given, **change})
