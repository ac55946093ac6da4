"""The directional bound at the far ends of its documented range: finite, valid, and never above quadrature."""

import warnings

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

from smoothcert._numerics import SAFETY
from smoothcert.bounds import directional_lower_bound
from smoothcert.bounds._directional._dual import Multipliers, best_multipliers, dual_value
from smoothcert.bounds._directional._integral import chord_ends

EXTREMES = [(along, across) for along in (-30.0, -25.0, 25.0, 30.0) for across in (0.0, 1e-3, 0.5, 5.0, 30.0)]


def half_space(edges):
    """Shares of hits left of 0."""
    return np.append(edges <= 1e-9, False).astype(float)


@pytest.mark.parametrize("reach", [10.0, 15.0])
@pytest.mark.parametrize(("along", "across"), EXTREMES)
def test_the_whole_range_is_served(along, across, reach):
    edges = np.linspace(-reach, reach, 81)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound = directional_lower_bound(half_space(edges), edges, 0.0, along, across)
    assert 0.0 <= bound <= ndtr(-along)


def test_bins_without_mass_are_served():
    edges = np.array([-1.0, 0.0, 1e-300, 1e-17, 1.0])
    bound = directional_lower_bound([1.0, 1.0, 0.3, 0.7, 0.2, 0.0], edges, 0.1, 0.2, 0.2)
    without = directional_lower_bound([1.0, 1.0, 0.2, 0.0], [-1.0, 0.0, 1.0], 0.1, 0.2, 0.2)
    assert bound == pytest.approx(without, abs=1e-6)


def inner(log_w, nu, k, across):
    """The inner integral in closed form, with as many digits as are set."""
    m = across * nu / k + across**2 / 2 - mp.log(across / k) - log_w
    if m <= 1:
        return mpf(0)
    low, high = (-nu / k - mp.lambertw(-mp.exp(-m), branch).real / across for branch in (0, -1))
    shifted, plain = mp.ncdf(high - across) - mp.ncdf(low - across), mp.ncdf(high) - mp.ncdf(low)
    return mp.exp(log_w) * shifted - nu * plain + k * (mp.npdf(high) - mp.npdf(low))


def exact_dual(edges, misses, grad_norm, along, across, multipliers):
    """The bound for given multipliers, by quadrature along the direction; what is beyond 60 has no mass."""
    with mp.workdps(20):
        along, across, k = (mpf(float(value)) for value in (along, across, multipliers.k))
        ends = [mpf(-60), *(mpf(float(edge)) for edge in edges), mpf(60)]
        total = -k * mpf(float(grad_norm))
        for b, nu in enumerate(multipliers.nu):
            nu, left, right = mpf(float(nu)), ends[b], ends[b + 1]
            total += nu * (1 - mpf(float(misses[b]))) * (mp.ncdf(right) - mp.ncdf(left))
            total += mp.quad(
                lambda z, nu=nu: mp.npdf(z) * inner(along * z - along**2 / 2, nu, k, across),
                mp.linspace(left, right, 4),
                maxdegree=4,
            )
        return total


@pytest.mark.parametrize(("along", "across"), [(-30.0, 0.5), (30.0, 1e-3), (25.0, 5.0)])
def test_never_above_quadrature(along, across):
    rng = np.random.default_rng(0)
    edges = np.linspace(-10.0, 10.0, 5)
    misses = 1.0 - half_space(edges)
    ends = chord_ends(edges, np.array(along))
    found = best_multipliers(ends, misses, np.array(0.05), np.array(across))
    wild = Multipliers(rng.normal(size=len(misses)), np.array(across * 0.7))
    for multipliers in (found, wild):
        value = float(dual_value(ends, misses, np.array(0.05), np.array(across), multipliers))
        slack = SAFETY * (1.0 + np.sum(ends.mass * np.abs(multipliers.nu)))
        assert value <= exact_dual(edges, misses, 0.05, along, across, multipliers) + slack
