"""Wrong arguments are refused by name, rule, value and cure; right ones of any shape are taken."""

import numpy as np
import pytest

from smoothcert import bounds

VALID = {
    "first_order_lower_bound": {"p": 0.8, "r": 1.0},
    "first_order_upper_bound": {"p": 0.8, "r": 1.0},
    "first_order_radius": {"p": 0.8, "p_rival": 0.1},
    "second_order_lower_bound": {"p": 0.8, "grad_norm": 0.1, "r": 1.0},
    "second_order_upper_bound": {"p": 0.8, "grad_norm": 0.1, "r": 1.0},
    "second_order_radius": {"p": 0.8, "grad_norm": 0.1},
    "second_order_multiclass_radius": {"p": 0.8, "grad_norm": 0.1, "p_rivals": 0.1, "grad_norm_rivals": 0.1},
    "dipole_lower_bound": {"both": 0.7, "one_sided": 0.1, "r": 1.0},
    "dipole_upper_bound": {"both": 0.7, "one_sided": 0.1, "r": 1.0},
    "dipole_radius": {"both": 0.7, "one_sided": 0.1},
    "second_order_dipole_lower_bound": {"both": 0.7, "one_sided": 0.1, "grad_norm": 0.1, "r": 1.0},
    "second_order_dipole_upper_bound": {"both": 0.7, "one_sided": 0.1, "grad_norm": 0.1, "r": 1.0},
    "second_order_dipole_radius": {"both": 0.7, "one_sided": 0.1, "grad_norm": 0.1},
}
# Those whose arguments have shapes of their own have tests of their own, in test_directional.py and test_separable.py.
ELSEWHERE = {"directional_lower_bound", "directional_radius", "directional_rival_radius", "separable_radius"}
EACH_ARGUMENT = [(name, argument) for name, arguments in VALID.items() for argument in arguments]


def test_every_public_bound_is_covered():
    assert set(VALID) | ELSEWHERE == set(bounds.__all__)


@pytest.mark.parametrize(("name", "argument"), EACH_ARGUMENT)
@pytest.mark.parametrize("bad", [np.nan, -0.25, "high", None, 1j, [0.1, [0.2]]])
def test_refuses_by_name(name, argument, bad):
    if argument == "p_rival" and bad is None:
        assert bounds.first_order_radius(0.8, None) == bounds.first_order_radius(0.8)
        return
    with pytest.raises(ValueError, match=rf"\b{argument}\b"):
        getattr(bounds, name)(**{**VALID[name], argument: bad})


@pytest.mark.parametrize(
    ("name", "argument"), [pair for pair in EACH_ARGUMENT if pair[1] in ("p", "both", "one_sided")]
)
def test_refuses_probabilities_above_one_with_value_and_place(name, argument):
    value = [[0.1, 0.2], [1.25, 0.1]]
    with pytest.raises(ValueError, match=rf"{argument} must lie in \[0, 1\], got 1.25 at index \(1, 0\)\..*share"):
        getattr(bounds, name)(**{**VALID[name], argument: value})


@pytest.mark.parametrize("name", [name for name in VALID if "dipole" in name])
def test_refuses_pairs_that_cannot_be(name):
    with pytest.raises(ValueError, match=r"both \+ 2 \* one_sided must be at most 1, got both=0.7 and one_sided=0.2"):
        getattr(bounds, name)(**{**VALID[name], "one_sided": 0.2})


@pytest.mark.parametrize("name", VALID)
def test_refuses_shapes_that_do_not_broadcast(name):
    first, second = list(VALID[name])[:2]
    arguments = {**VALID[name], first: np.full(3, VALID[name][first]), second: np.full(2, VALID[name][second])}
    with pytest.raises(ValueError, match=rf"{first}.*{second}.*broadcast.*\(3,\).*\(2,\)"):
        getattr(bounds, name)(**arguments)


@pytest.mark.parametrize("name", VALID)
def test_broadcasts_and_returns_float64(name):
    function, arguments = getattr(bounds, name), VALID[name]
    scalar = function(**arguments)
    assert isinstance(scalar, np.float64)
    first, *others = arguments
    if "rivals" in " ".join(arguments):
        grid = function(0.8, np.full((2, 1), 0.1), np.full((2, 3, 1), 0.1), 0.1)
    else:
        shaped = {first: np.full((2, 1), arguments[first], dtype=np.float64)}
        shaped |= {other: np.full((1, 3), arguments[other]) for other in others[:1]}
        grid = function(**{**arguments, **shaped})
    assert grid.dtype == np.float64
    assert grid.shape == (2, 3)
    np.testing.assert_allclose(grid, scalar, rtol=1e-13)  # Vector units round their own way.
    empty = function(**{**arguments, first: np.empty((0,))})
    assert empty.shape == (0,)


@pytest.mark.parametrize("name", VALID)
def test_certainty_and_ignorance_neither_warn_nor_give_nan(name):
    function, arguments = getattr(bounds, name), VALID[name]
    grid = {"r": [0.0, 1e-300, 1e-9, 50.0, np.inf], "grad_norm": [0.0, 1e-300, 0.3, 5.0, np.inf]}
    grid["p"] = grid["p_rival"] = grid["p_rivals"] = [0.0, 1e-300, 0.5, 1 - 2**-53, 1.0]
    grid["grad_norm_rivals"] = grid["grad_norm"]
    axes = [np.asarray(grid[a]) for a in arguments if a in grid]
    if "dipole" in name:
        both = np.array([0.0, 1e-300, 0.5, 1 - 2**-53, 1.0])
        for share in (0.0, 1e-300, 0.5, 1.0):
            mesh = np.meshgrid(both, *axes, indexing="ij")
            assert not np.isnan(function(mesh[0], share * (1 - mesh[0]) / 2, *mesh[1:])).any()
    else:
        assert not np.isnan(function(*np.meshgrid(*axes, indexing="ij"))).any()


def test_shares_that_sum_to_one_up_to_rounding_are_taken():
    both = np.linspace(0.01, 0.99, 99)
    assert np.all(bounds.dipole_radius(both, (1 - both) / 2 + 1e-16) >= 0)


def test_unbounded_certificates():
    assert bounds.first_order_radius(1.0) == np.inf
    assert bounds.first_order_radius(0.5, 0.0) == np.inf
    assert bounds.second_order_radius(1.0, 0.0) == np.inf
    assert bounds.dipole_radius(1.0, 0.0) == np.inf
    assert bounds.second_order_dipole_radius(1.0, 0.0, 0.0) == np.inf
