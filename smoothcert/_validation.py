"""Argument checks shared by the public functions.

Every message names the parameter, the rule, the offending value (with its index in an array) and a cure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.floating[Any]]
IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]


def as_float_array(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as a float64 array, refusing what is not a real number."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a real number or a regular array of them, got {_short(value)}. "
            "Give a float, a list of floats or a numeric array."
        ) from None


def check_interval(
    name: str,
    value: ArrayLike,
    *,
    lower: float = -np.inf,
    upper: float = np.inf,
    lower_open: bool = False,
    upper_open: bool = False,
    cure: str = "",
) -> FloatArray:
    """Return `value` as float64 and require every entry to lie in an interval; NaN lies in none."""
    array = as_float_array(name, value)
    inside = (array > lower) if lower_open else (array >= lower)
    inside &= (array < upper) if upper_open else (array <= upper)
    if not np.all(inside):
        left = "(" if lower_open else "["
        right = ")" if upper_open else "]"
        rule = f"lie in {left}{lower:g}, {upper:g}{right}"
        if upper == np.inf:
            rule = f"be {'above' if lower_open else 'at least'} {lower:g}"
        raise ValueError(f"{name} must {rule}, got {_first_bad(array, ~inside)}.{_sentence(cure)}")
    return array


def check_probability(name: str, value: ArrayLike) -> FloatArray:
    """Require probabilities."""
    return check_interval(
        name, value, lower=0.0, upper=1.0, cure="Give a probability, for example the share of hits among the votes."
    )


def check_radius(name: str, value: ArrayLike) -> FloatArray:
    """Require distances in units of sigma; beyond a hundred nothing is left in double precision, so cap them there."""
    radius = check_interval(
        name, value, lower=0.0, cure="Give a distance in units of sigma, that is, input distance / sigma."
    )
    return np.minimum(radius, 100.0)


def check_grad_norm(name: str, value: ArrayLike) -> FloatArray:
    """Require gradient norms in units of 1/sigma."""
    return check_interval(
        name,
        value,
        lower=0.0,
        cure="Give sigma times the norm of the gradient of the smoothed probability; inf means unknown.",
    )


def broadcast(**arrays: FloatArray) -> tuple[FloatArray, ...]:
    """Broadcast named arrays against each other, naming the shapes when that fails."""
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"The shapes of {', '.join(arrays)} must broadcast together, got {shapes}. "
            "Give scalars, arrays of one shape, or arrays with axes of length 1 where they differ."
        ) from None


def apply_flat(function: Callable[..., FloatArray], *arrays: FloatArray) -> FloatArray:
    """Call a function of one-dimensional arrays on arrays of any common shape; scalars come back as scalars."""
    return function(*(array.ravel() for array in arrays)).reshape(arrays[0].shape)[()]


def check_counts(name: str, value: ArrayLike, least: int = 0) -> FloatArray:
    """Require whole numbers; they come back as float64, which holds them exactly up to 2^53."""
    array = check_interval(name, value, lower=float(least), cure="Give a count.")
    fractional = (array != np.floor(array)) | ~np.isfinite(array)
    if np.any(fractional):
        raise ValueError(
            f"{name} must be whole, got {_first_bad(array, fractional)}. Give counts, not fractions: multiply by n."
        )
    if np.any(array > 2.0**53):
        raise ValueError(
            f"{name} must be at most 2^53, got {_first_bad(array, array > 2.0**53)}. Larger counts are not exact."
        )
    return array


def check_level(name: str, value: ArrayLike) -> FloatArray:
    """Require error probabilities strictly between 0 and 1."""
    return check_interval(
        name,
        value,
        lower=0.0,
        upper=1.0,
        lower_open=True,
        upper_open=True,
        cure="It is the probability of a wrong limit; 0.001 is usual.",
    )


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Require one of a few values."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ValueError(f"{name} must be one of {choices}, got {value!r}. Choose from these.")


def _first_bad(array: FloatArray, bad: BoolArray) -> str:
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    where = f" at index {index[0] if len(index) == 1 else index}" if index else ""
    return f"{float(array[index])!r}{where}"


def _sentence(text: str) -> str:
    return f" {text}" if text else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
