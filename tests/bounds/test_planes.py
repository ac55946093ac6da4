"""The planes under the pair bounds: they touch the bound where they were made, and lie below it elsewhere."""

import numpy as np
import pytest

from smoothcert.bounds import dipole_lower_bound, second_order_dipole_lower_bound
from smoothcert.bounds._dipole import dipole_plane
from smoothcert.bounds._second_order_dipole import second_order_dipole_plane


def probabilities(rng, size):
    both, one, _ = rng.dirichlet([3, 1, 1], size).T
    return both, one / 2


@pytest.mark.parametrize("r", [0.2, 0.9, 2.5])
def test_dipole_plane(r):
    rng = np.random.default_rng(1)
    both, one_sided = probabilities(rng, 40)
    distance = np.full(40, r)
    excess, slope_both, slope_one = dipole_plane(both, one_sided, distance)
    np.testing.assert_allclose(excess + 0.5, dipole_lower_bound(both, one_sided, r), atol=1e-10)
    assert np.all(slope_both >= 0.0)
    assert np.all(slope_one >= 0.0)
    for _ in range(20):
        elsewhere, one_elsewhere = probabilities(rng, 40)
        plane = excess + slope_both * (elsewhere - both) + slope_one * (one_elsewhere - one_sided)
        assert np.all(plane + 0.5 <= dipole_lower_bound(elsewhere, one_elsewhere, r) * (1 + 1e-10) + 1e-12)


@pytest.mark.parametrize("grad_norm", [0.03, 0.15])
def test_second_order_dipole_plane(grad_norm):
    rng = np.random.default_rng(2)
    size, r = 30, 0.8
    both, one_sided = probabilities(rng, size)
    excess, slope_both, slope_one = second_order_dipole_plane(
        both, one_sided, np.full(size, grad_norm), np.full(size, r)
    )
    bound = second_order_dipole_lower_bound(both, one_sided, grad_norm, r)
    known = (bound > 0.0) & (excess > -0.5)
    np.testing.assert_allclose((excess + 0.5)[known], bound[known], atol=1e-6)
    assert np.all(slope_both >= 0.0)
    assert np.all(slope_one >= 0.0)
    for _ in range(6):
        elsewhere, one_elsewhere = probabilities(rng, size)
        plane = excess + slope_both * (elsewhere - both) + slope_one * (one_elsewhere - one_sided)
        assert np.all(plane + 0.5 <= second_order_dipole_lower_bound(elsewhere, one_elsewhere, grad_norm, r) + 1e-9)
