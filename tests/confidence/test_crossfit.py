"""The cross-fitted limit: its capital, its inversion, its coverage on hard laws, its width."""

import numpy as np
import pytest
from helpers.tilted_gradients import laws
from mpmath import mp, mpf
from scipy import stats
from scipy.integrate import quad

from smoothcert.confidence import (
    crossfit_gradient_upper,
    crossfit_log_capital,
    crossfit_scale,
    share_limits,
    stratified_gradient_upper,
    variance_proxy,
)
from smoothcert.confidence._crossfit import SHARE_OF_SHARES

TILTED = np.array([0.15, 0.7, 0.6])
"""Masses times tilts of the strata in the simulations; the last one has few samples and so heavy weights."""

HALVES = (np.array([240, 520, 80]), np.array([200, 480, 100]))


def simulate(law, d, halves, masses, alpha, repetitions, seed):
    """Return limits and the truth, with a scale that suits the truth."""
    rng = np.random.default_rng(seed)
    centres = np.clip(law.shares @ np.asarray(law.values), 0.05, 0.95)
    truth = float(np.abs(masses @ law.gradient))
    given = {"centres": centres, "alpha": alpha, "values": law.values}
    scale, _ = crossfit_scale(truth, masses, halves, shares=law.shares, n_features=d, **given)
    drawn = []
    for trials in halves:
        strata = np.repeat(np.arange(len(masses)), trials)
        noise = rng.standard_normal((repetitions, len(strata), d))
        votes = law.votes(noise, np.broadcast_to(strata, noise.shape[:2]), rng.random(noise.shape[:2]))
        drawn.append((strata, noise, votes))
    (strata, noise, votes), (strata_b, noise_b, votes_b) = drawn
    vectors = noise * (votes - centres[strata])[..., None]
    total = np.einsum("rnd,n->rd", vectors, (masses / halves[0])[strata])
    length = np.linalg.norm(total, axis=1)
    along = np.einsum("rnd,rd->rn", noise_b, total / length[:, None])
    bets = (scale * length)[:, None] * (masses / halves[1])[strata_b]
    capital = crossfit_log_capital(along, votes_b, centres[strata_b], bets)
    counts = np.stack(
        [
            [np.sum((votes == v) & (strata == s), 1) + np.sum((votes_b == v) & (strata_b == s), 1) for v in law.values]
            for s in range(len(masses))
        ]
    )
    counts = np.moveaxis(counts, -1, 0)
    limits = crossfit_gradient_upper(capital, length, scale, masses, halves, counts=counts, **given)
    return limits, truth


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize(("d", "repetitions"), [(1, 500), (2, 500), (12, 200)])
def test_coverage_in_strata(d, repetitions, alpha):
    # With a true error rate of alpha one law would fail the check with probability 1e-5.
    ratios = []
    for seed, law in enumerate(laws(d)):
        limits, truth = simulate(law, d, HALVES, TILTED, alpha, repetitions, seed)
        assert np.sum(limits < truth) <= stats.binom.ppf(1 - 1e-5, repetitions, alpha), law.name
        ratios.append(np.mean(limits) / max(truth, 0.1))
    assert np.median(ratios) < 2.0  # and the limits say something


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_coverage_where_the_limit_is_tight(alpha):
    repetitions, n, failures = 1000, np.array([2000]), []
    for seed in (0, 2, 4):
        law = laws(1, 1)[seed]
        limits, truth = simulate(law, 1, (n, n), np.ones(1), alpha, repetitions, seed)
        failures.append(np.sum(limits < truth))
        assert failures[-1] <= stats.binom.ppf(1 - 1e-5, repetitions, alpha), law.name
    assert max(failures) > 0.02 * alpha * repetitions  # close enough to err sometimes


def test_gradients_of_the_laws():
    rng = np.random.default_rng(0)
    for d in (1, 3):
        noise, strata = rng.standard_normal((300_000, d)), np.arange(300_000) % 3
        for law in laws(d):
            votes = law.votes(noise, strata, rng.random(len(noise)))
            for s in range(3):
                here = strata == s
                found = np.mean(noise[here] * votes[here][:, None], axis=0)
                np.testing.assert_allclose(found, [law.gradient[s]] + [0.0] * (d - 1), atol=0.018)
                np.testing.assert_allclose(
                    [np.mean(votes[here] == v) for v in law.values], law.shares[s], atol=0.008, err_msg=law.name
                )


@pytest.mark.parametrize("clip", [3.0, 5.0])
@pytest.mark.parametrize("edge", [-6.0, -1.0, 0.0, 2.0, 3.5, 6.0])
def test_mean_of_a_factor(clip, edge):
    """Exactly: the mean factor of one sample with a miss above an edge is within what the theory allows."""
    bias = stats.norm.pdf(clip) - clip * stats.norm.sf(clip)
    for centre, bet, sign in ((0.9, 0.1, 1.0), (0.5, 0.15, -1.0), (0.99, 0.02, 1.0)):

        def factor(z, hit, bet=bet, centre=centre):
            return (1.0 - bet * np.clip(z, -clip, clip) * (hit - centre)) * stats.norm.pdf(z)

        below = quad(factor, -12, edge, args=(1.0 if sign > 0 else 0.0,), points=[-clip], limit=200)[0]
        above = quad(factor, edge, 12, args=(0.0 if sign > 0 else 1.0,), points=[clip], limit=200)[0]
        along = -sign * stats.norm.pdf(edge)
        assert below + above <= np.exp(-bet * along + bet * bias) * (1 + 1e-9)


def test_capital_against_fifty_digits():
    rng = np.random.default_rng(2)
    n = 500
    projections, votes = rng.normal(size=(4, n)) * 2, rng.choice([0.0, 0.5, 1.0], (4, n))
    centres, bets = rng.uniform(0.1, 0.99, (4, n)), rng.uniform(0, 0.15, (4, n))
    found = crossfit_log_capital(projections, votes, centres, bets, clip=4.0)
    with mp.workdps(50):
        for row in range(4):
            exact = mpf(0)
            for z, f, c, b in zip(projections[row], votes[row], centres[row], bets[row], strict=True):
                exact += mp.log(1 - mpf(b) * max(mpf(-4), min(mpf(4), mpf(z))) * (mpf(f) - mpf(c)))
            assert mpf(float(found[row])) <= exact
            assert exact - mpf(float(found[row])) < 1e-8
    # Parts add up, but for the rounding down of each.
    parts = sum(crossfit_log_capital(projections[:, k::5], votes[:, k::5], centres[:, k::5], bets[:, k::5], clip=4.0)
                for k in range(5))  # fmt: skip
    np.testing.assert_allclose(parts, found, atol=1e-8)
    assert np.all(found * 2.0**30 == np.floor(found * 2.0**30))


def test_errors_of_projections_lower_the_capital():
    rng = np.random.default_rng(3)
    z, f = rng.normal(size=200), (rng.random(200) < 0.8).astype(float)
    lowest = crossfit_log_capital(z, f, 0.8, 0.05, error=1e-3)
    for _ in range(20):
        assert crossfit_log_capital(z + rng.uniform(-1e-3, 1e-3, 200), f, 0.8, 0.05) >= lowest
    assert lowest > crossfit_log_capital(z, f, 0.8, 0.05) - 0.01


def test_ruin():
    assert crossfit_log_capital([0.1], [0.0], 0.9, 0.3) == -np.inf  # 4 times 0.9 times 0.3 is above 1
    assert np.isfinite(crossfit_log_capital([0.1], [0.0], 0.9, 0.25))


def largest_by_scan(capital, length, scale, masses, halves, counts, centres, alpha, values=(0.0, 1.0), clip=4.0):
    """The largest norm that is not refused, on a fine grid, from public functions."""
    shares = share_limits(counts, centres, SHARE_OF_SHARES * alpha / len(masses), values)
    bias = stats.norm.pdf(clip) - clip * stats.norm.sf(clip)
    known = -np.log((1 - SHARE_OF_SHARES) * alpha) - capital + scale * length * bias * np.sum(masses)
    tried = np.linspace(0.0, 0.3989423 * np.sum(masses), 1501)
    exponent = scale * tried[:, None] * masses / halves[0]
    spread = 0.5 * np.sum(halves[0] * exponent**2 * variance_proxy(shares, exponent, centres, values), axis=1)
    return tried[scale * tried**2 - spread < known].max(initial=0.0)


def test_iteration_finds_the_largest_norm():
    rng = np.random.default_rng(4)
    smaller = 0
    for _ in range(25):
        halves = rng.integers(200, 5000, (2, 3))
        masses, centres = rng.dirichlet(np.ones(3)) * rng.uniform(0.5, 2), rng.uniform(0.6, 0.99, 3)
        misses = rng.binomial(halves.sum(axis=0), rng.uniform(0.01, 0.3, 3))
        counts = np.stack([misses, halves.sum(axis=0) - misses], axis=1)
        gradient = rng.uniform(0.0, 0.2)
        scale, _ = crossfit_scale(
            gradient, masses, halves, shares=counts / counts.sum(axis=1, keepdims=True), centres=centres,
            n_features=int(rng.integers(1, 200)), alpha=0.01,
        )  # fmt: skip
        length, capital = rng.uniform(0.05, 0.3), rng.uniform(-6.0, 1.0)
        limit = crossfit_gradient_upper(
            capital, length, scale, masses, tuple(halves), counts=counts, centres=centres, alpha=0.01
        )
        shares = share_limits(counts, centres, SHARE_OF_SHARES * 0.01 / 3)
        trivial = np.sum(masses * np.minimum(2 * stats.norm.pdf(stats.norm.isf(shares[:, 0] / 2)), 0.3989423))
        scanned = largest_by_scan(capital, length, scale, masses, halves, counts, centres, 0.01)
        assert limit >= min(scanned, trivial) * (1 - 1e-9)
        if limit < trivial * (1 - 1e-6):
            smaller += 1
            assert limit <= scanned * 1.001 + 1e-3
    assert smaller > 8


def test_where_nothing_can_be_said():
    given = {"counts": [[30, 970]], "centres": [0.97], "alpha": 0.01}
    known = crossfit_gradient_upper(-np.inf, 0.1, 1e3, [1.0], ([500], [500]), **given)
    stakes = crossfit_gradient_upper(-1.0, 0.1, 1e6, [1.0], ([500], [500]), **given)
    empty = crossfit_gradient_upper(-1.0, 0.1, 1e3, [1.0], ([1000], [0]), **given)
    share = share_limits([30, 970], 0.97, SHARE_OF_SHARES * 0.01)[0]
    expected = 2 * stats.norm.pdf(stats.norm.isf(share / 2))
    np.testing.assert_allclose([known, stakes, empty], expected, rtol=1e-9)
    # A stratum without weight needs no samples.
    more = {"counts": [[30, 970], [0, 0]], "centres": [0.97, 0.5], "alpha": 0.01}
    assert np.isfinite(crossfit_gradient_upper(-1.0, 0.1, 1e3, [1.0, 0.0], ([500, 0], [500, 0]), **more))


def test_error_of_the_sum_raises_the_limit():
    given = {"counts": [[300, 9700]], "centres": [0.97], "alpha": 0.01}
    plain, off = (
        crossfit_gradient_upper(-1.0, 0.1, 5e3, [1.0], ([5000], [5000]), error=error, **given) for error in (0.0, 1e-3)
    )
    assert plain < off < plain + 1e-3


def test_leading_axes():
    rng = np.random.default_rng(5)
    capital, length = rng.uniform(-3, 0, (2, 4)), rng.uniform(0.05, 0.2, (2, 4))
    masses, scale = rng.uniform(0.1, 0.5, (2, 4, 3)), rng.uniform(1e3, 5e3, (2, 4))
    halves = rng.integers(500, 900, (2, 3))
    misses = rng.binomial(halves.sum(axis=0), 0.05)
    given = {"counts": np.stack([misses, halves.sum(axis=0) - misses], axis=1), "centres": [0.9] * 3, "alpha": 0.01}
    limits = crossfit_gradient_upper(capital, length, scale, masses, tuple(halves), **given)
    assert limits.shape == (2, 4)
    for place in np.ndindex(2, 4):
        one = crossfit_gradient_upper(
            capital[place], length[place], scale[place], masses[place], tuple(halves), **given
        )
        assert one == limits[place]  # whatever the company


@pytest.mark.parametrize(("share", "gradient"), [(0.03, 0.012), (0.03, 0.033), (0.1, 0.02)])
def test_width_in_many_dimensions(share, gradient):
    """Against the stratified limit, with sums drawn from their normal laws in 3071 dimensions."""
    rng = np.random.default_rng(6)
    d, n, alpha, repetitions = 3071, 50_000, 0.0002, 20
    masses, halves = np.ones(1), (np.array([n]), np.array([n]))
    given = {"centres": [1 - share], "alpha": alpha}
    scale, expected = crossfit_scale(gradient, masses, halves, shares=[[share, 1 - share]], n_features=d, **given)
    limits, old = [], []
    for _ in range(repetitions):
        # Miss or not by chance, but a little more often on one side of the first axis.
        first = rng.normal(size=d) * np.sqrt(share * (1 - share) / n)
        first[0] += gradient
        length = np.linalg.norm(first)
        z, across = rng.normal(size=(2, n))
        votes = (rng.random(n) < np.clip(1 - share + gradient * z, 0, 1)).astype(float)
        cos = first[0] / length
        along = cos * z + np.sqrt(1 - cos**2) * across
        capital = crossfit_log_capital(along, votes, 1 - share, scale * length / n)
        misses = int(n * share + np.sum(votes == 0))
        limits.append(
            crossfit_gradient_upper(capital, length, scale, masses, halves, counts=[[misses, 2 * n - misses]], **given)
        )
        whole = rng.normal(size=d) * np.sqrt(0.25 / (2 * n))
        whole[0] += gradient
        norm_sq = whole @ whole - d * 0.25 / (2 * n)
        old.append(stratified_gradient_upper(norm_sq, [2 * n], [0.5 / n], d, alpha))
    assert np.min(limits) >= gradient
    assert np.mean(limits) == pytest.approx(expected, rel=0.1)
    assert np.mean(limits) < 0.8 * np.mean(old)


@pytest.mark.parametrize("d", [1, 49, 3071, 100_000])
def test_planned_scale_is_nearly_the_best(d):
    masses, halves = np.array([0.4, 0.6]), (np.array([20_000, 30_000]), np.array([20_000, 30_000]))
    shares = np.array([[0.02, 0.98], [0.1, 0.9]])
    given = {"shares": shares, "centres": [0.98, 0.9], "n_features": d, "alpha": 0.001}
    scale, limit = crossfit_scale(0.03, masses, halves, **given)
    assert 0.03 < limit < 0.3
    variance = np.sum(masses**2 / halves[0] * np.array([0.02 * 0.98, 0.09]))
    length_sq = 0.03**2 + d * variance
    counts = np.rint(shares * (halves[0] + halves[1])[:, None])
    for factor in (0.5, 0.8, 1.0, 1.2):
        tried = factor * scale
        capital = -tried * 0.03**2 - 0.5 * tried**2 * length_sq * variance
        other = crossfit_gradient_upper(
            capital, np.sqrt(length_sq), tried, masses, halves, counts=counts, centres=[0.98, 0.9], alpha=0.001
        )
        assert other >= limit * 0.99


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"log_capital": np.nan}, "log_capital"),
        ({"length": -1.0}, "length"),
        ({"scale": 0.0}, "scale"),
        ({"masses": [-1.0]}, "masses"),
        ({"trials": ([5.5], [5])}, "trials"),
        ({"counts": [[600, 600]]}, "counts"),
        ({"centres": [1.5]}, "centres"),
        ({"alpha": 0.0}, "alpha"),
        ({"clip": 0.5}, "clip"),
        ({"error": -1.0}, "error"),
        ({"values": (0.0, 3.0)}, "values"),
    ],
)
def test_bad_input(change, named):
    given = {
        "log_capital": -1.0, "length": 0.1, "scale": 1e3, "masses": [1.0], "trials": ([500], [500]),
        "counts": [[30, 970]], "centres": [0.97], "alpha": 0.01,
    }  # fmt: skip
    with pytest.raises(ValueError, match=named):
        crossfit_gradient_upper(**{**given, **change})
