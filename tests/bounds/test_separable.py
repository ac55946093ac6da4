"""The separable dual against closed forms, brute force and 50 digits."""

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from smoothcert.bounds import separable_radius


def nearest_zero_in_the_plane(parts, offset, x, reach, n_angles=400, n_radii=300):
    """Smallest distance at which the margin of two functions is not positive, by looking everywhere."""
    angle = np.linspace(0.0, 2.0 * np.pi, n_angles, endpoint=False)
    radius = np.linspace(0.0, reach, n_radii)
    along = np.outer(radius, np.cos(angle)) + x[0], np.outer(radius, np.sin(angle)) + x[1]
    bad = (offset + parts[0](along[0]) + parts[1](along[1]) <= 0.0).any(axis=1)
    return radius[np.argmax(bad)] if bad.any() else np.inf


def test_a_linear_margin_is_exact():
    rng = np.random.default_rng(0)
    slope = rng.normal(size=7)
    x, offset = rng.normal(size=(40, 7)), rng.uniform(1.0, 3.0, 40)
    points = np.tile([-50.0, 50.0], (7, 1))
    margin = offset + x @ slope
    radius = separable_radius(x, points, points * slope[:, None], offset=offset)
    expected = np.maximum(margin, 0.0) / np.linalg.norm(slope)
    assert np.all(radius <= expected)
    np.testing.assert_allclose(radius, expected, rtol=1e-5)


def test_a_convex_margin_is_exact():
    # margin 4 - 3 d_1 + d_1^2 - 3 d_2 + d_2^2 at 0: its zeros are a circle of radius sqrt(1/2) around (3/2, 3/2).
    grid = np.linspace(-4.0, 4.0, 4001)
    points, values = np.tile(grid, (2, 1)), np.tile(grid**2 - 3.0 * grid, (2, 1))
    allowance = 2.0 * (grid[1] - grid[0]) ** 2 / 8.0
    radius = separable_radius([0.0, 0.0], points, values, offset=4.0, allowance=allowance)
    exact = 1.5 * np.sqrt(2.0) - np.sqrt(0.5)
    assert exact * (1.0 - 1e-4) < radius <= exact


@pytest.mark.parametrize("seed", range(20))
def test_never_beyond_what_brute_force_finds(seed):
    """Random sums of normal curves: with the allowance for bends no zero of the true margin lies inside."""
    rng = np.random.default_rng(seed)
    weights, at = rng.normal(size=(2, 4)), rng.uniform(-3.0, 3.0, (2, 4))

    def part(j):
        return lambda y: np.tensordot(weights[j], ndtr(y[None] - at[j].reshape(-1, *[1] * np.ndim(y))), axes=1)

    step = rng.choice([0.02, 0.1, 0.5])
    grid = np.arange(-14.0, 14.0, step)
    values = np.array([part(j)(grid) for j in range(2)])
    variation = np.abs(weights).sum(axis=1, keepdims=True)
    x = rng.uniform(-2.0, 2.0, 2)
    offset = rng.uniform(0.02, 0.6) - part(0)(x[:1])[0] - part(1)(x[1:])[0]
    radius = separable_radius(
        x,
        np.tile(grid, (2, 1)),
        values,
        offset=offset,
        allowance=variation * 0.24198 * step**2 / 8.0,
        floor=values[:, [0, -1]] - 1e-15,
    )
    truth = nearest_zero_in_the_plane([part(0), part(1)], offset, x, reach=12.0)
    assert radius <= truth
    if truth < np.inf and step < 0.05:
        assert radius > 0.5 * truth


def test_the_allowance_is_needed():
    """With its chords alone a coarse grid promises too much: the margin (y - 3/2)^2 - 0.15 dips below them."""
    points, values = [[-3.0, 0.0, 3.0]], [[20.0, 2.0, 2.0]]
    zero = 1.5 - np.sqrt(0.15)
    assert separable_radius([0.0], points, values, offset=0.1) > zero
    assert separable_radius([0.0], points, values, offset=0.1, allowance=2.0 * 3.0**2 / 8.0) <= zero


def test_value_of_the_dual_against_fifty_digits():
    """The best multiplier of three kinked parts, found by mpmath on the same straight lines."""
    points = np.array([[-4.0, -1.0, 0.5, 4.0], [-4.0, 0.0, 2.0, 4.0], [-4.0, -2.0, 1.0, 4.0]])
    values = np.array([[1.0, 0.3, -0.4, 0.1], [-0.5, 0.2, 0.1, -0.7], [0.0, 0.3, -0.6, -0.5]])
    x, offset = [0.1, 0.4, -0.3], 0.9
    mpmath.mp.dps = 50

    def dual(lam):
        total = mpmath.mpf(offset)
        for j in range(3):
            least = mpmath.inf
            for a, b, va, vb in zip(points[j], points[j][1:], values[j], values[j][1:], strict=False):
                a, b, va, vb, at = (mpmath.mpf(float(number)) for number in (a, b, va, vb, x[j]))
                slope = (vb - va) / (b - a)
                y = min(max(at - slope / (2 * lam), a), b)
                least = min(least, va + slope * (y - a) + lam * (y - at) ** 2)
            total += least
        return total / lam

    log_lam = np.linspace(-5.0, 3.0, 801)
    best = max(dual(mpmath.exp(t)) for t in log_lam)
    radius = separable_radius(x, points, values, offset=offset)
    reach = 3.6
    expected = min(float(mpmath.sqrt(best)), reach)
    assert radius <= expected * (1.0 + 1e-4)  # the search may be finer than the list
    assert radius >= expected * (1.0 - 1e-5)


def test_ends_of_the_grid():
    points, values = [[-1.0, 2.0]], [[0.0, 0.0]]
    assert separable_radius([0.5], points, values, offset=1.0) == pytest.approx(1.5)
    assert separable_radius([5.0], points, values, offset=1.0) == 0.0
    assert separable_radius([0.5], points, values, offset=1.0, floor=-0.5) == np.inf
    # To the right the part may fall to -2: the margin can be lost from the end of the grid on.
    assert separable_radius([0.5], points, values, offset=1.0, floor=[[0.0, -2.0]]) <= 1.5
    assert separable_radius([0.5], points, values, offset=-1.0, floor=0.0) == 0.0


def test_rows_do_not_depend_on_each_other():
    rng = np.random.default_rng(1)
    points = np.sort(rng.normal(size=(5, 30)) * 3.0, axis=1)
    values, x, offset = rng.normal(size=(5, 30)), rng.normal(size=(50, 5)), rng.uniform(-1.0, 6.0, 50)
    together = separable_radius(x, points, values, offset=offset, floor=-4.0)
    alone = [separable_radius(row, points, values, offset=o, floor=-4.0) for row, o in zip(x, offset, strict=True)]
    np.testing.assert_array_equal(together, alone)
    assert np.ptp(together) > 0.0


def test_repeated_points_change_nothing():
    points, values = np.array([[-3.0, 0.0, 3.0]]), np.array([[1.0, 0.0, -1.0]])
    padded = np.pad(points, ((0, 0), (0, 4)), mode="edge"), np.pad(values, ((0, 0), (0, 4)), mode="edge")
    plain = separable_radius([0.0], points, values, offset=0.5)
    assert separable_radius([0.0], *padded, offset=0.5) == plain > 0.0


@pytest.mark.parametrize("unit", [1e-200, 1e-100, 1e-6, 1e6, 1e100, 1e200])
def test_the_unit_of_the_margin_does_not_matter(unit):
    points, values = np.array([[-3.0, 0.0, 3.0], [-5.0, 1.0, 5.0]]), np.array([[1.0, 0.2, -1.0], [-0.3, 0.1, -0.8]])
    plain = separable_radius([0.2, 0.4], points, values, offset=0.5)
    scaled = separable_radius([0.2, 0.4], points, values * unit, offset=0.5 * unit)
    assert plain > 0.5
    assert scaled == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": [0.0]}, "x must have one column for each of the 2 parts"),
        ({"x": [0.0, np.nan]}, "x must"),
        ({"points": [[1.0, 0.0], [0.0, 1.0]]}, "points must ascend"),
        ({"points": [[0.0], [1.0]]}, "at least two points"),
        ({"values": [[0.0, 1.0]]}, "one shape"),
        ({"values": [[0.0, np.inf], [0.0, 1.0]]}, "values must"),
        ({"x": "far"}, "x must be a real number"),
        ({"values": [[1j, 0.0], [0.0, 1.0]]}, "values must be a real number"),
        ({"points": [[0.0, 1.0], [0.0]]}, "points must be a real number"),
        ({"allowance": np.nan}, "allowance must be at least 0"),
        ({"allowance": -0.1}, "allowance must be at least 0"),
        ({"allowance": [0.1, 0.2, 0.3]}, "allowance must broadcast"),
        ({"floor": np.nan}, "floor must"),
        ({"floor": [0.0, 0.0, 0.0]}, "floor must broadcast"),
        ({"offset": np.nan}, "offset must"),
        ({"offset": [[1.0]]}, "offset must be a number"),
        ({"x": np.zeros((3, 2)), "offset": [1.0, 2.0]}, "offset must be a number"),
    ],
)
def test_bad_input(change, message):
    arguments = {"x": [0.0, 0.0], "points": [[0.0, 1.0], [0.0, 1.0]], "values": [[0.0, 1.0], [0.0, 1.0]], **change}
    with pytest.raises(ValueError, match=message):
        separable_radius(arguments.pop("x"), arguments.pop("points"), arguments.pop("values"), **arguments)
