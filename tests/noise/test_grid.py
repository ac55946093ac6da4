"""The grid of exact noise: points, what radii lose, and what does not fit."""

from fractions import Fraction

import numpy as np
import pytest

from smoothcert._column_noise import ColumnNoise
from smoothcert._noise import Seed, check_error_share, lower_level, make_grid
from smoothcert._noise._exact import ExactNumpyArrays

SEED = Seed(1, 2, 3, 4)


def squared_length(vector):
    return sum((Fraction(v) ** 2 for v in vector), Fraction(0))


@pytest.mark.parametrize(("sigma", "d"), [(0.25, 1), (0.25, 3072), (0.3, 150_528), (1e-3, 7)])
def test_the_default_grid_takes_little(sigma, d):
    grid = make_grid(sigma, None, d)
    assert np.sqrt(d) * grid.step <= 2.0**-9 * sigma
    assert np.sqrt(d) * grid.step > 2.0**-11 * sigma
    assert (Fraction(sigma) / Fraction(grid.step)).denominator == 1


@pytest.mark.parametrize("quantum", [None, 0.1])
def test_length_lost_in_fractions(quantum):
    X = np.random.default_rng(0).normal(size=(50, 5))
    grid = make_grid(0.5, quantum, 5)
    lost, numbers = grid.length_lost(X), grid.numbers(X)
    step = Fraction(grid.step)
    for row, k, length in zip(X, numbers, lost, strict=True):
        moved = [Fraction(x) - int(n) * step for x, n in zip(row, k, strict=True)]
        assert all(abs(m) <= step / 2 * (1 + Fraction(1, 2**8)) for m in moved)
        # |x - Q(x)| + sqrt(d) h / 2 is at most the length, compared by squares.
        adversary = 5 * (step / 2) ** 2
        room = Fraction(length) ** 2 - squared_length(moved) - adversary
        assert room > 0
        assert room**2 >= 4 * squared_length(moved) * adversary
        assert length <= np.sqrt(5) * grid.step * 1.01


def test_length_lost_with_a_sigma_for_each_feature():
    sigma = ColumnNoise.from_array(np.array([0.5, 0.0, 2.0, 0.1]))
    X = np.random.default_rng(0).normal(size=(20, 4))
    grid = make_grid(sigma, np.array([0.01, 0.2, 0.05]), 3)
    moved = (X[:, [0, 2, 3]] - grid.round(X)[:, [0, 2, 3]]) / sigma.sigma
    steps = np.array([0.01, 0.2, 0.05]) / sigma.sigma
    expected = np.linalg.norm(moved, axis=1) + np.linalg.norm(steps) / 2
    lost = grid.length_lost(X)
    assert np.all(lost > expected)
    np.testing.assert_allclose(lost, expected, rtol=0.005)
    np.testing.assert_array_equal(grid.round(X)[:, 1], X[:, 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_of_a_given_grid_lose_nothing(dtype):
    pixels = np.random.default_rng(0).integers(0, 256, size=(20, 12))
    grid = make_grid(0.25, 1 / 255, 12)
    for X in (pixels.astype(dtype) / dtype(255), (pixels * (1 / 255)).astype(dtype), (pixels / 255).astype(dtype)):
        assert grid.length_lost(X) is None
        np.testing.assert_array_equal(grid.numbers(X), pixels)
        np.testing.assert_array_equal(grid.numbers(grid.round(X)), pixels)
        off = X.copy()
        off[3, 4] += dtype(1e-4)
        np.testing.assert_array_equal(grid.length_lost(off) > 0, np.arange(20) == 3)
        assert np.all(grid.length_lost(X, keep_points=False) > 0)
    assert np.all(make_grid(0.25, None, 12).length_lost(X) > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("sigma", "quantum"), [(0.25, None), (0.25, 1 / 255), (0.3, 0.01), (3.0, 3.0)])
@pytest.mark.parametrize("seen", [False, True])
def test_sums_are_exact(dtype, sigma, quantum, seen):
    """Noisy rows are the products of whole numbers with the step, and these are sums in exact arithmetic."""
    grid = make_grid(sigma, quantum, 20)
    arrays = ExactNumpyArrays(grid, seen)
    x = grid.round(np.random.default_rng(0).random((1, 20)).astype(dtype))[0]
    noise = arrays.empty_noise(500, x)
    arrays.standard_normal(SEED, noise)
    near, far = np.empty((2, 500, 20), dtype)
    arrays.add_noise(x, noise, sigma, near, far)
    start = [int(k) for k in grid.numbers(x)]
    levels = np.floor(noise).astype(int)
    for rows, sign in ((near, 1), (far, -1)):
        whole = np.array(start) + sign * levels
        np.testing.assert_array_equal(rows, whole.astype(dtype) * dtype(grid.step))
        for k, value in zip(whole[0], rows[0], strict=True):
            assert Fraction(float(dtype(k))) == int(k)
            exact = int(k) * Fraction(grid.step)
            assert abs(Fraction(float(value)) - exact) <= 2 * Fraction(float(np.finfo(dtype).eps)) * abs(exact)


def test_noise_with_several_ratios():
    sigma = ColumnNoise.from_array(np.array([0.5, 0.0, 2.0, 0.1, 0.5]))
    grid = make_grid(sigma, 0.1, 4)
    assert [list(columns) for _, columns in grid.laws] == [[0, 3], [1], [2]]
    levels, cells = np.empty((20_000, 4)), np.empty((20_000, 4))
    grid.draw_levels(SEED, levels)
    grid.draw_cells(SEED, cells)
    np.testing.assert_array_equal(np.floor(cells), levels)
    normal = grid.to_normal(cells)
    np.testing.assert_allclose(normal.std(axis=0), 1.0, atol=0.03)
    np.testing.assert_allclose(
        (levels * 0.1).std(axis=0), np.sqrt(np.square([0.5, 2.0, 0.1, 0.5]) + 0.01 / 12), rtol=0.03
    )
    short = np.empty((30, 4))
    grid.draw_cells(SEED, short)
    np.testing.assert_array_equal(short, cells[:30])
    assert abs(np.corrcoef(normal.T)[np.triu_indices(4, 1)]).max() < 0.04


@pytest.mark.parametrize(
    ("sigma", "quantum", "message"),
    [
        (0.25, 0.3, "quantum must be at most sigma, got 0.3 where sigma is 0.25"),
        (0.25, 1e-9, "quantum must be at least sigma / 4194304, got 1e-09"),
        (1e-310, None, "sigma must be large enough for exact noise"),
    ],
)
def test_grids_that_do_not_fit(sigma, quantum, message):
    with pytest.raises(ValueError, match=message):
        make_grid(sigma, quantum, 10)


def test_rows_that_do_not_fit():
    grid = make_grid(0.25, None, 3072)
    X = np.zeros((3, 4))
    grid.check(X, np.dtype(np.float32))
    X[1, 2] = 1e30
    for dtype in (np.float32, np.float64):
        with pytest.raises(ValueError, match=r"got row 1, where a feature is .*e\+3\d steps from 0"):
            grid.check(X, np.dtype(dtype))
    X[1, 2] = 2.0**9
    grid.check(X, np.dtype(np.float64))
    with pytest.raises(ValueError, match="added in float32 without rounding"):
        grid.check(X, np.dtype(np.float32))
    with pytest.raises(ValueError, match="quantum must be a normal number in float32"):
        make_grid(1e-37, None, 10).check(np.zeros((1, 4)), np.dtype(np.float32))


def test_limits_of_rows_are_safe():
    """At the largest rows that are allowed, whole numbers are found again and their sums are exact."""
    grid = make_grid(0.25, None, 3072)
    largest = 2**23 - 1
    x = np.full(4, np.float32(largest * grid.step))
    grid.check(x[None], np.dtype(np.float32))
    np.testing.assert_array_equal(grid.numbers(x), largest)
    # A step that is not a power of two.
    odd = make_grid(0.3, 0.3 / 1000, 4)
    k = np.arange(2**23 - 5000, 2**23 - 1, dtype=np.float64)
    np.testing.assert_array_equal(odd.numbers((k * odd.step).astype(np.float32)), k)


def test_part_of_alpha():
    assert Fraction(lower_level(0.001)) <= Fraction(0.001) * Fraction(99, 100)
    assert lower_level(0.001) > 0.00098999
    grid = make_grid(0.25, None, 3072)
    check_error_share(grid, 0.001, 2_000_000, 3072, 59)
    check_error_share(grid, 0.001, 50_000_000, 3072, 0)
    check_error_share(make_grid(0.25, None, 150_528), 0.001, 100_000, 150_528, 59)
    with pytest.raises(ValueError, match=r"n_samples must be at most .* with noise='exact'"):
        check_error_share(grid, 1e-9, 100_000, 3072, 59)
