"""The variance proxy for rare votes: its integrals, linear programmes over all votes, and the limits of its shares."""

import itertools
from math import factorial, prod

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from smoothcert._numerics import LARGEST_GRADIENT
from smoothcert.confidence import share_limits, variance_proxy
from smoothcert.confidence._gradient import VARIANCE_PROXY
from smoothcert.confidence._local_proxy import by_distance, global_proxy, mean_limit, tail_moment

THREE = (0.0, 0.5, 1.0)


def normal_grid(n=601, end=6.5):
    """Points and masses of a discrete law close to the normal one."""
    edges = np.linspace(-end, end, n + 1)
    mass = np.diff(ndtr(edges))
    return (edges[1:] + edges[:-1]) / 2.0, mass / mass.sum()


def worst_log_moment(exponent, centre, values, nested, limits, means=15):
    """Largest ``log E exp(b z (f - c)) - b m`` over all `f` on a grid, by a linear programme for each mean `m`.

    `nested` are sets of indices of values, `limits` the bounds of their probabilities.
    """
    z, mass = normal_grid()
    values = np.asarray(values)
    # One variable for each point and value: the probability that f has this value there.
    gain = mass * np.exp(exponent * z * (values[:, None] - centre))
    each = np.hstack([np.eye(len(z))] * len(values))
    bounds = np.array([np.concatenate([mass * (k in chosen) for k in range(len(values))]) for chosen in nested])
    mean_row = (mass * z * values[:, None]).ravel()
    best = -np.inf
    largest = 0.4 * min(1.0, 3.0 * limits[-1])
    for mean in np.linspace(-largest, largest, means):
        found = linprog(
            -gain.ravel(),
            A_ub=bounds,
            b_ub=limits,
            A_eq=np.vstack([each, mean_row]),
            b_eq=np.append(np.ones(len(z)), mean),
            bounds=(0, 1),
            method="highs",
        )
        if found.status == 0:
            best = max(best, np.log(-found.fun) - exponent * mean)
    return best


@pytest.mark.parametrize("exponent", [0.05, 0.3, 1.0])
@pytest.mark.parametrize(("share", "centre"), [(0.01, 0.99), (0.05, 0.95), (0.3, 0.7), (0.2, 0.6)])
def test_linear_programme_for_one_class(share, centre, exponent):
    worst = worst_log_moment(exponent, centre, (0.0, 1.0), [{0}], [share])
    proxy = variance_proxy([share, 1.0], exponent, centre)
    assert 2.0 * worst / exponent**2 <= proxy * 1.002
    if exponent < 0.1:
        assert 2.0 * worst / exponent**2 >= 0.9 * proxy  # and the bound is not far above


@pytest.mark.parametrize("exponent", [0.05, 0.5])
@pytest.mark.parametrize(
    ("centre", "nested", "limits"),
    [
        (0.95, [{0}, {0, 1}], [0.02, 0.08]),  # farthest first: rival, neither, class
        (0.60, [{0}, {0, 2}], [0.1, 0.5]),  # rival, class, neither
        (0.10, [{2}, {2, 1}], [0.05, 0.2]),  # class, neither, rival
    ],
)
def test_linear_programme_against_a_rival(centre, nested, limits, exponent):
    worst = worst_log_moment(exponent, centre, THREE, nested, limits)
    shares = np.ones(3)
    for limit, chosen, smaller in zip(limits, nested, [set(), *nested[:-1]], strict=True):
        shares[list(chosen - smaller)] = limit
    proxy = variance_proxy(shares, exponent, centre, THREE)
    assert 2.0 * worst / exponent**2 <= proxy * 1.002
    if exponent < 0.1:
        assert 2.0 * worst / exponent**2 >= 0.9 * proxy


def test_soft_votes_against_a_rival_by_mean():
    """With two values 0 and 1, the share of misses may be the mean of ``1 - f`` for any `f` in between."""
    rng = np.random.default_rng(0)
    z, mass = normal_grid(2001, 8.0)
    for _ in range(300):
        scores = np.clip(rng.normal(0.5, 2.0) + np.cumsum(rng.normal(0.0, 0.1, len(z))), 0.0, 1.0)
        scores = np.where(rng.random() < 0.5, scores, np.where(np.abs(z) < rng.uniform(1, 3), 1.0, scores))
        share, centre = float(mass @ (1.0 - scores)), rng.uniform(0.5, 1.0)
        for exponent in (0.05, 0.5, 2.0):
            parts = z * (scores - centre)
            moment = np.log(mass @ np.exp(exponent * (parts - mass @ parts)))
            assert moment <= 0.5 * exponent**2 * float(variance_proxy([share, 1.0], exponent, centre)) * 1.001 + 1e-9


def test_integrals_against_forty_digits():
    rng = np.random.default_rng(1)
    mass = np.concatenate([10.0 ** rng.uniform(-12, 0, 60), [1.0, 1.0, 1.0, 1e-300]])
    s = np.concatenate([10.0 ** rng.uniform(-6, 1, 60), [1e-9, 0.499999, 3.0, 0.2]])
    found = tail_moment(mass, s)
    with mp.workdps(60):
        for m, a, value in zip(mass, s, found, strict=True):
            t = mpf(float(-ndtri(0.5 * m)))
            a = mpf(float(a))
            half = mp.exp(a**2 / 2) * mp.ncdf(a - t) - mp.ncdf(-t) - a * mp.npdf(t)
            assert abs(mpf(float(value)) * a**2 / (4 * half) - 1) < mpf(10) ** -12


def test_integral_is_the_one_it_should_be():
    with mp.workdps(30):
        for t, s in ((0.0, 0.3), (1.5, 0.7), (2.2, 0.01)):
            exact = 2 * mp.quad(
                lambda z, s=s: 2 * (mp.exp(s * z) - 1 - s * z) / mpf(s) ** 2 * mp.npdf(z), [t, t + 2, t + 6, 20]
            )
            assert float(tail_moment(np.array(2 * ndtr(-t)), np.array(s))) == pytest.approx(float(exact), rel=1e-12)


def test_no_exponent_is_the_largest_second_moment():
    share, centre = 0.03, 0.9
    t = -ndtri(share / 2)
    tails = 2 * (ndtr(-t) + t * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi))
    expected = centre**2 * tails + (1 - centre) ** 2 * (1 - tails)
    assert float(variance_proxy([share, 1.0], 0.0, centre)) == pytest.approx(expected, rel=1e-10)
    assert variance_proxy([share, 1.0], 0.0, centre) >= expected


def test_rises_and_stays_below_what_holds_for_all_votes():
    exponent = np.linspace(0.0, 25.0, 400)
    for share, centre in itertools.product((1e-6, 0.01, 0.2, 1.0), (0.5, 0.8, 1.0, 0.1)):
        shares = [share, 1.0] if centre >= 0.5 else [1.0, share]
        found = variance_proxy(shares, exponent, centre)
        assert np.all(np.diff(found) >= -1e-12)
        assert np.all(found <= global_proxy(np.array(centre)) * (1 + 1e-9))
        more = variance_proxy(np.minimum(1.0, np.array(shares) * 1.1), exponent, centre)
        assert np.all(more >= found * (1 - 1e-12))
    assert np.all(variance_proxy([1.0, 1.0], exponent, 0.5) <= VARIANCE_PROXY * (1 + 1e-9))


@pytest.mark.parametrize("centre", [0.6, 0.9, 1.0])
def test_what_holds_for_all_votes(centre):
    """The square roots of proxies add up; the truth, by its worst threshold, is smaller."""
    z, mass = normal_grid(4001, 12.0)
    worst = 0.0
    for flip in np.linspace(0.0, 4.0, 60):
        for inner in (0.0, 1.0):
            hits = np.where(np.abs(z) < flip, inner * (z > 0) + (1 - inner) * (z < 0), z > 0)
            parts = z * (hits - centre)
            for exponent in (0.5, 1.0, 2.0, 4.0, 6.0):
                for sign in (-1.0, 1.0):
                    moment = np.log(mass @ np.exp(sign * exponent * (parts - mass @ parts)))
                    worst = max(worst, 2.0 * moment / exponent**2)
    assert worst <= global_proxy(np.array(centre))


def test_nearest_value_needs_no_limit():
    assert variance_proxy([0.01, 0.3], 0.1, 0.9) == variance_proxy([0.01, 1.0], 0.1, 0.9)
    assert variance_proxy([0.5, 0.01], 0.1, 0.9) == variance_proxy([0.5, 1.0], 0.1, 0.9)
    # Three values: a limit of "as far or farther" that is smaller than one of farther values is raised to it.
    assert variance_proxy([0.2, 0.1, 1.0], 0.1, 0.9, THREE) == variance_proxy([0.2, 0.2, 1.0], 0.1, 0.9, THREE)


@pytest.mark.parametrize(("values", "centre"), [((0.0, 1.0), 0.8), (THREE, 0.9), (THREE, 0.55), (THREE, 0.1)])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_limits_of_shares_by_enumeration(values, centre, alpha):
    n, k = 9, len(values)
    counts = np.array([c for c in itertools.product(range(n + 1), repeat=k) if sum(c) == n])
    ways = np.array([factorial(n) // prod(factorial(int(x)) for x in c) for c in counts], dtype=float)
    far = np.abs(np.asarray(values) - centre)
    limits = share_limits(counts, centre, alpha, values)
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(400):
        truth = rng.dirichlet(rng.choice([0.1, 0.5, 2.0], k))
        reached = np.array([truth[far >= far[j] - 1e-12].sum() for j in range(k)])
        chance = ways * np.prod(truth**counts, axis=1)
        worst = max(worst, float(chance[np.any(limits < reached - 1e-12, axis=1)].sum()))
    assert worst <= alpha
    assert worst > alpha / 10


def test_no_samples_no_limit():
    np.testing.assert_array_equal(share_limits([[0, 0], [0, 5]], [0.9, 0.9], 0.01)[:, 1], 1.0)
    assert share_limits([0, 0], 0.9, 0.01)[0] == 1.0


@pytest.mark.parametrize(("values", "centre"), [((0.0, 1.0), 0.9), ((0.0, 1.0), 0.2), (THREE, 0.95), (THREE, 0.5)])
def test_largest_mean(values, centre):
    """Against a linear programme for the mean of ``z f``."""
    z, mass = normal_grid()
    levels = np.asarray(values)
    order = np.argsort(-np.abs(levels - centre), kind="stable")
    shares = np.ones(len(levels))
    shares[order[:-1]] = [0.03, 0.2][: len(levels) - 1]
    nested = [set(order[: j + 1].tolist()) for j in range(len(levels) - 1)]
    bounds = np.array([np.concatenate([mass * (k in chosen) for k in range(len(levels))]) for chosen in nested])
    found = linprog(
        -(mass * z * levels[:, None]).ravel(),
        A_ub=bounds,
        b_ub=shares[order[:-1]],
        A_eq=np.hstack([np.eye(len(z))] * len(levels)),
        b_eq=np.ones(len(z)),
        bounds=(0, 1),
        method="highs",
    )
    _, limits = by_distance(shares[None], np.array([centre]), levels)
    limit = mean_limit(limits, np.array([centre]), levels)[0]
    assert -found.fun <= limit * 1.001
    assert -found.fun >= 0.5 * limit
    assert limit <= LARGEST_GRADIENT * (1 + 1e-9)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([0.1, 1.2], 0.1, 0.9), "shares"),
        (([0.1], 0.1, 0.9), "shares"),
        (([0.1, 1.0], -0.1, 0.9), "exponent"),
        (([0.1, 1.0], 0.1, 1.1), "centre"),
        (([0.1, 1.0], 0.1, 0.9, (0.0, 2.0)), "values"),
        (([0.1, 1.0], 0.1, 0.9, (0.0, 0.0)), "values"),
    ],
)
def test_bad_input(arguments, named):
    with pytest.raises(ValueError, match=named):
        variance_proxy(*arguments)


def test_bad_counts():
    with pytest.raises(ValueError, match="counts"):
        share_limits([1, 2, 3], 0.9, 0.01)
    with pytest.raises(ValueError, match="alpha"):
        share_limits([1, 2], 0.9, 1.0)
