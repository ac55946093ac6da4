"""The root finder ends on the safe side, whatever it was told to expect."""

import numpy as np
import pytest

from smoothcert._numerics import last_safe_point


def falling(x, root):
    return np.expm1(root - x)


@pytest.fixture
def roots():
    return np.random.default_rng(0).uniform(0.01, 0.99, 200)


def found(roots, **options):
    ends = np.zeros_like(roots), np.ones_like(roots)
    return last_safe_point(falling, *ends, roots, **options)


def test_ends_on_the_safe_side_within_the_last_bits(roots):
    root = found(roots)
    assert np.all(falling(root, roots) >= 0.0)
    assert np.all(roots - root <= 4e-15)


def test_tolerance_bounds_the_bracket(roots):
    root = found(roots, rtol=1e-6)
    assert np.all(falling(root, roots) >= 0.0)
    assert np.all(roots - root <= 1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e-3, -1e-3, 0.5, np.nan])
def test_guesses_right_or_wrong_change_nothing(roots, shift):
    root = found(roots, guess=(roots - 1e-4 + shift, roots + 1e-4 + shift))
    assert np.all(falling(root, roots) >= 0.0)
    assert np.all(roots - root <= 4e-15)


def test_good_guess_saves_calls(roots):
    calls = []

    def counted(x, root):
        calls.append(x.size)
        return falling(x, root)

    ends = np.zeros_like(roots), np.ones_like(roots)
    last_safe_point(counted, *ends, roots)
    without = sum(calls)
    calls.clear()
    last_safe_point(counted, *ends, roots, guess=(roots - 1e-5, roots + 1e-5))
    assert sum(calls) < 0.8 * without


def test_without_change_of_sign_it_is_one_of_the_ends():
    zero, one = np.zeros(3), np.ones(3)
    assert np.array_equal(last_safe_point(falling, zero, one, np.array([-1.0, 2.0, np.nan])), [0.0, 1.0, 0.0])


def test_rows_do_not_depend_on_their_company(roots):
    alone = np.concatenate([found(roots[i : i + 1]) for i in range(len(roots))])
    assert np.array_equal(found(roots), alone)


def test_nothing_to_do():
    empty = np.array([])
    assert last_safe_point(falling, empty, empty, empty).size == 0
