"""Standard deviations of noise: one for all features, one for each, by name, or from the spread of the columns."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ._parameters import Rule
from ._validation import FloatArray, check_choice, check_interval

_NORMAL_IQR = 1.3489795003921634
"""Interquartile range of the standard normal distribution."""


class SigmaFromSpread(BaseEstimator):
    """Noise in proportion to the spread of each column of the training data.

    Give it to `SmoothedClassifier` as `sigma`. Columns of numbers get `factor` times their spread. Columns of other
    types, booleans among them, and columns that do not vary get no noise.

    Parameters
    ----------
    factor : float, default=0.25
        Standard deviation of the noise in units of the spread. In a search it is `sigma__factor`.
    measure : {"std", "iqr"}, default="std"
        ``"std"``: standard deviation. ``"iqr"``: interquartile range divided by 1.349, which is the standard deviation
        of normal data and does not follow outliers; a column of which half of the values are equal has none.
    fixed : sequence of str or int, default=()
        Columns of numbers that get no noise, by name or number: codes of categories, counts that nobody can change.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smoothcert import SigmaFromSpread, SmoothedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> sigma = SigmaFromSpread(0.5, fixed=[3])
    >>> clf = SmoothedClassifier(LogisticRegression(max_iter=1000), sigma=sigma, voting="soft")
    >>> clf.fit(X, y).sigma_.round(2)
    array([0.41, 0.22, 0.88, 0.  ])
    """

    def __init__(self, factor: float = 0.25, measure: str = "std", fixed: Sequence[Any] = ()) -> None:
        self.factor = factor
        self.measure = measure
        self.fixed = fixed

    def check_params(self) -> None:
        """Refuse parameters that make no sense, whenever they were set."""
        if not _is_number(self.factor) or not 0.0 < float(self.factor) < np.inf:
            raise ValueError(
                f"factor must be a positive finite number, got {self.factor!r}. It is the size of the noise in units "
                "of the spread; 0.25 is a start."
            )
        check_choice("measure", self.measure, ("std", "iqr"))
        if isinstance(self.fixed, str) or not isinstance(self.fixed, Iterable):
            raise TypeError(f"fixed must be a sequence of columns, got {self.fixed!r}. Give a list, [{self.fixed!r}].")

    def measure_spread(self, columns: Iterable[NDArray[Any]], names: Sequence[Any] | None) -> FloatArray:
        """Return the spread of each column, 0 where a column gets no noise.

        Parameters
        ----------
        columns : iterable of ndarray
            Training data, column by column.
        names : sequence or None
            Names of the columns.
        """
        self.check_params()
        spreads = np.array([_spread(column, self.measure) for column in columns])
        for column in self.fixed:
            spreads[find_column(column, len(spreads), names, "fixed")] = 0.0
        return spreads


def _spread(column: NDArray[Any], measure: str) -> float:
    if column.dtype.kind not in "fiu":
        return 0.0
    numbers_only = column.astype(np.float64)
    if not np.all(np.isfinite(numbers_only)):
        return 0.0  # refused later where it has noise, with the name of the column
    if np.all(numbers_only == numbers_only[0]):
        return 0.0  # the computed deviation may be a rounding error
    if measure == "iqr":
        low, high = np.percentile(numbers_only, [25.0, 75.0])
        return float((high - low) / _NORMAL_IQR)
    return float(np.std(numbers_only))


def find_column(column: Any, n_features: int, names: Sequence[Any] | None, parameter: str) -> int:
    """Return the number of a column that is given by name or number."""
    if names is not None and column in list(names):
        return list(names).index(column)
    if isinstance(column, numbers.Integral) and not isinstance(column, bool) and 0 <= int(column) < n_features:
        return int(column)
    known = f"the columns {shorten_list(names)}" if names is not None else f"columns from 0 to {n_features - 1}"
    raise ValueError(f"{parameter} must name columns of X, got {column!r}, and X has {known}. Check the spelling.")


def shorten_list(names: Any) -> str:
    """Return some names, for messages."""
    listed = [str(name) for name in names]
    return ", ".join(listed) if len(listed) <= 12 else ", ".join(listed[:12]) + ", ..."


SIGMA_RULE = Rule(
    "a positive finite number",
    lambda value: (
        (_is_number(value) and 0 < float(value) < np.inf)
        or isinstance(value, Mapping | SigmaFromSpread)
        or (isinstance(value, np.ndarray) and value.ndim > 0)
        or (isinstance(value, Sequence) and not isinstance(value, str))
        or (hasattr(value, "to_numpy") and hasattr(value, "index"))
    ),
    "It is the size of the noise in units of X. For noise that differs between features give an array in the shape of "
    "one input, a mapping of column names to numbers, or SigmaFromSpread().",
)


def is_single(sigma: Any) -> bool:
    """Return whether sigma is one number for all features."""
    return _is_number(sigma)


def resolve_sigma(
    sigma: Any, shape: tuple[int, ...], names: Sequence[Any] | None, spread: FloatArray | None
) -> float | FloatArray:
    """Return sigma as one number for all features, or as an array in the shape of one input.

    Parameters
    ----------
    sigma : float, array-like, mapping or SigmaFromSpread
        What `SIGMA_RULE` allows. Columns that a mapping does not name get 0.
    shape : tuple of int
        Shape of one input.
    names : sequence or None
        Names of the columns.
    spread : ndarray or None
        Spread of the columns of the training data, where it was measured.
    """
    if _is_number(sigma):
        return float(sigma)
    if isinstance(sigma, SigmaFromSpread):
        sigma.check_params()
        if spread is None:
            raise ValueError(
                "sigma must be set to SigmaFromSpread(...) before fit, which measures the spread of the columns, got "
                "it afterwards or with another measure or other fixed columns. Call fit again; factor may be changed "
                "without."
            )
        array = float(sigma.factor) * spread
        cure = "All columns are fixed, constant or of other types than numbers; give sigma by name."
    elif isinstance(sigma, Mapping):
        array = _by_name(sigma, shape, names)
        cure = _NO_NOISE
    else:
        array = check_interval("sigma", sigma, lower_open=True, upper_open=True, cure=_ENTRY)
        if array.shape != shape:
            unit = f"{shape[0]} features" if len(shape) == 1 else f"shape {shape} of an input"
            raise ValueError(
                f"sigma must have one entry for each feature of X, got shape {array.shape} for {unit}. Give one "
                "number for all features, one for each, or a mapping of column names to numbers."
            )
        cure = _NO_NOISE
    if np.any(array < 0.0):
        (first, *_) = np.argwhere(array < 0.0)
        where = int(first[0]) if len(first) == 1 else tuple(int(i) for i in first)
        label = f"column {names[where]!r}" if names is not None and isinstance(where, int) else f"index {where}"
        raise ValueError(
            f"sigma must be at least 0 everywhere, got {float(array[tuple(first)])!r} at {label}. {_ENTRY}"
        )
    if not np.any(array > 0.0):
        raise ValueError(f"sigma must be positive for at least one feature, got only zeros. {cure}")
    return array


_ENTRY = "Give the standard deviation of the noise in the units of the feature; 0 leaves a feature without noise."

_NO_NOISE = "Without noise nothing is smoothed; give the size of the changes that you want to defend against."


def _by_name(sigma: Mapping[Any, Any], shape: tuple[int, ...], names: Sequence[Any] | None) -> FloatArray:
    if names is None:
        raise ValueError(
            "sigma must be a number or an array where the columns of X had no names in fit, got a mapping. Fit on a "
            "DataFrame, or give an array with one number for each feature."
        )
    array = np.zeros(shape)
    known = list(names)
    for name, value in sigma.items():
        if name not in known:
            raise ValueError(
                f"sigma must name columns of X, got {name!r}, and X has the columns {shorten_list(known)}. Check the "
                "spelling; columns that are not named have no noise."
            )
        if not _is_number(value) or not np.isfinite(value):
            raise ValueError(f"sigma must be a finite number for each column, got {value!r} for {name!r}. {_ENTRY}")
        array[known.index(name)] = float(value)
    return array


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
