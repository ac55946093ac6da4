"""Standard deviations of noise: one for all features, one for each, by name, or from the spread of the columns."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ._parameters import Rule
from ._validation import FloatArray, as_float_array, check_choice

Names = Sequence[Any] | None
"""Names of the columns, if they have any."""

_NORMAL_IQR = 1.3489795003921634
"""Interquartile range of the standard normal distribution."""


class ColumnSigma(BaseEstimator):
    """Noise of each column in proportion to a unit, such as the spread of the column in the training data.

    Pass it to `SmoothedClassifier` as `sigma`. Radii are then in these units for every factor, so that the candidates
    of a search over `sigma__factor` can be compared.

    Parameters
    ----------
    factor : float, default=0.25
        Standard deviation of the noise divided by the unit.
    unit : {"std", "iqr"}, mapping or array-like, default="std"
        Unit of each column. ``"std"``: its standard deviation. ``"iqr"``: its interquartile range divided by 1.349,
        which is the standard deviation of normal data and does not follow outliers; a column of which half of the
        values are equal has none. Columns that do not vary, and columns of other types than numbers, booleans among
        them, get no noise. A mapping of column names, or an array in the shape of one input, gives the units
        themselves: the changes that matter in each column.
    fixed : sequence of str or int, default=()
        Columns of numbers that get no noise, by name or number: codes of categories, counts that nobody can change.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smoothcert import ColumnSigma, SmoothedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> sigma = ColumnSigma(0.5, fixed=[3])
    >>> clf = SmoothedClassifier(LogisticRegression(max_iter=1000), sigma=sigma, voting="soft")
    >>> clf.fit(X, y).sigma_.round(2)
    array([0.41, 0.22, 0.88, 0.  ])
    """

    def __init__(self, factor: float = 0.25, unit: Any = "std", fixed: Sequence[Any] = ()) -> None:
        self.factor = factor
        self.unit = unit
        self.fixed = fixed

    def check_params(self) -> None:
        """Refuse parameters that make no sense, whenever they were set."""
        if not _is_number(self.factor) or not 0.0 < float(self.factor) < np.inf:
            raise ValueError(
                f"factor must be a positive finite number, got {self.factor!r}. It is the size of the noise in the "
                "units of the columns; 0.25 is a start."
            )
        if isinstance(self.unit, str) or not (isinstance(self.unit, Mapping) or np.ndim(self.unit) > 0):
            check_choice("unit", self.unit, ("std", "iqr"))
        if isinstance(self.fixed, str) or not isinstance(self.fixed, Iterable):
            raise TypeError(f"fixed must be a sequence of columns, got {self.fixed!r}. Give a list, [{self.fixed!r}].")

    def finds_the_same_units(self, other: ColumnSigma) -> bool:
        """Return whether two differ in the factor at most."""
        return self._settings() == other._settings()

    def _settings(self) -> str:
        unit = self.unit.tolist() if isinstance(self.unit, np.ndarray) else self.unit
        return repr((unit, list(self.fixed)))

    def find_units(self, columns: Sequence[NDArray[Any]], shape: tuple[int, ...], names: Names) -> FloatArray:
        """Return the unit of each column of the training data, 0 where a column gets no noise.

        Parameters
        ----------
        columns : sequence of ndarray
            Training data, feature by feature.
        shape : tuple of int
            Shape of one input.
        names : sequence or None
            Names of the columns.
        """
        self.check_params()
        if isinstance(self.unit, str):
            if len(columns[0]) < 2:
                raise ValueError(
                    f"X must have at least 2 rows to compute the spread of a column, got n_samples={len(columns[0])}. "
                    "Otherwise give the units as numbers."
                )
            units = np.array([_spread(column, self.unit) for column in columns]).reshape(shape)
        else:
            units = one_for_each("unit", self.unit, shape, names)
        for column in self.fixed:
            units.reshape(-1)[find_column(column, units.size, names, "fixed")] = 0.0
        return units


def _spread(column: NDArray[Any], unit: str) -> float:
    if column.dtype.kind not in "fiu":
        return 0.0
    numbers_only = column.astype(np.float64)
    # A column with missing values is refused later, by name, since it has noise.
    numbers_only = numbers_only[np.isfinite(numbers_only)]
    if len(numbers_only) == 0 or np.all(numbers_only == numbers_only[0]):
        return 0.0  # the computed deviation may be a rounding error
    if unit == "iqr":
        low, high = np.percentile(numbers_only, [25.0, 75.0])
        return float((high - low) / _NORMAL_IQR)
    return float(np.std(numbers_only))


def find_column(column: Any, n_features: int, names: Names, parameter: str) -> int:
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
        or isinstance(value, Mapping | ColumnSigma)
        or (isinstance(value, np.ndarray) and value.ndim > 0)
        or (isinstance(value, Sequence) and not isinstance(value, str))
        or (hasattr(value, "to_numpy") and hasattr(value, "index"))
    ),
    "It is the size of the noise in units of X. For noise that differs between features give an array in the shape of "
    "one input, a mapping of column names to numbers, or ColumnSigma().",
)


QUANTUM_RULE = Rule(
    "None or a positive finite number",
    lambda value: value is None or (SIGMA_RULE.holds(value) and not isinstance(value, ColumnSigma)),
    "It is the step of the grid of exact noise in units of X, for example 1 / 255 for 8-bit images; None chooses one. "
    "For a step of its own in each feature give an array in the shape of one input, or a mapping of column names to "
    "numbers.",
)


def is_single(sigma: Any) -> bool:
    """Return whether sigma is one number for all features."""
    return _is_number(sigma)


def resolve_sigma(sigma: Any, shape: tuple[int, ...], names: Names, units: FloatArray | None) -> float | FloatArray:
    """Return sigma as one number for all features, or as an array in the shape of one input.

    Parameters
    ----------
    sigma : float, array-like, mapping or ColumnSigma
        What `SIGMA_RULE` allows. Columns that a mapping does not name get 0.
    shape : tuple of int
        Shape of one input.
    names : sequence or None
        Names of the columns.
    units : ndarray or None
        Units of the columns, where `ColumnSigma` found them in the training data.
    """
    if _is_number(sigma):
        return float(sigma)
    cure = "Without noise nothing is smoothed; give the size of the changes that you want to defend against."
    if isinstance(sigma, ColumnSigma):
        sigma.check_params()
        if units is None:
            raise ValueError(
                "sigma must be set to ColumnSigma(...) before fit, which computes the units of the columns, got a "
                "ColumnSigma, or a change of its unit or fixed columns, after fit. Call fit again. Only factor may be "
                "changed after fit."
            )
        array = float(sigma.factor) * units
        cure = "All columns are fixed, constant or of other types than numbers; give sigma by name."
    else:
        array = one_for_each("sigma", sigma, shape, names)
    if not np.any(array > 0.0):
        raise ValueError(f"sigma must be positive for at least one feature, got only zeros. {cure}")
    return array


_ENTRY = "Give the standard deviation of the noise in the units of the feature; 0 leaves a feature without noise."


def one_for_each(parameter: str, value: Any, shape: tuple[int, ...], names: Names) -> FloatArray:
    """Return one number of at least 0 for each feature, given by an array or by a mapping of column names."""
    if hasattr(value, "to_dict") and names is not None:  # a series of pandas
        value = value.to_dict()
    array = _by_name(parameter, value, shape, names) if isinstance(value, Mapping) else as_float_array(parameter, value)
    if array.shape != shape:
        expected = f"{shape[0]} features" if len(shape) == 1 else f"inputs of shape {shape}"
        raise ValueError(
            f"{parameter} must have one entry for each feature of X, got shape {array.shape} for {expected}. Give one "
            "number for each feature, or a mapping of column names to numbers."
        )
    wrong = ~((array >= 0.0) & (array < np.inf))
    if np.any(wrong):
        first = np.argwhere(wrong)[0]
        where = int(first[0]) if len(first) == 1 else tuple(int(i) for i in first)
        label = f"column {names[where]!r}" if names is not None and isinstance(where, int) else f"index {where}"
        found = float(array[tuple(first)])
        raise ValueError(f"{parameter} must be finite and at least 0 everywhere, got {found!r} at {label}. {_ENTRY}")
    return array


def _by_name(parameter: str, value: Mapping[Any, Any], shape: tuple[int, ...], names: Names) -> FloatArray:
    if names is None:
        raise ValueError(
            f"{parameter} must be an array if the columns of X had no names in fit, got a mapping. Fit on a "
            "DataFrame, or give an array with one number for each feature."
        )
    array = np.zeros(shape)
    known = list(names)
    for name, number in value.items():
        if name not in known:
            raise ValueError(
                f"{parameter} must name columns of X, got {name!r}, and X has the columns {shorten_list(known)}. Check "
                "the spelling; columns that are not named have no noise."
            )
        if not _is_number(number):
            raise ValueError(f"{parameter} must be a number for each column, got {number!r} for {name!r}. {_ENTRY}")
        array[known.index(name)] = float(number)
    return array


def radius_unit(sigma: Any) -> float:
    """Return what radii in units of sigma are multiplied with where they are wanted in units of the columns, rounded
    down by more than the product of factor and unit may have been rounded up."""
    return float(sigma.factor) * (1.0 - 1e-15) if isinstance(sigma, ColumnSigma) else 1.0


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
