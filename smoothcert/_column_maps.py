r"""What an ellipsoid behind steps that map single columns is in the columns of the input.

Let output i of the steps be a function of column c(i) of the input alone, with a largest stretch :math:`g_i`. Then for
inputs :math:`x` and :math:`x' = x + \delta`, roundings included (see `_transform_rounding`, component by component),

.. math:: |\hat x'_i - \hat x_i| \le G\, g_i\, |\delta_{c(i)}| + b_i(x),

where :math:`G = \prod_j (1 + \gamma_j)` over the steps, and :math:`b` is multiplied by the gain of each step and
increased by twice its rounding. An ellipsoid :math:`\sum_i (\cdot_i / s_i)^2 < r^2` of the outputs is therefore reached
only if :math:`G\, |g \delta / s| + |b / s| \ge r`: in the input it is the ellipsoid of radius :math:`(r - |b / s|) / G`
with the scale :math:`1 / \sqrt{\sum_{i: c(i) = c} (g_i / s_i)^2}` in column c. A column that feeds an output with
:math:`s_i = 0` must stay as it is, and so do its outputs then, whatever function they are: its scale is 0. A column
that feeds nothing does not matter: its scale is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer

from ._lipschitz import parts_of_columns, single_steps
from ._sklearn_compat import num_samples, safe_indexing
from ._transform_rounding import Rounded, round_columns
from ._validation import BoolArray, FloatArray, IndexArray

_SLACK = 1.0 + 1e-12
"""More than the roundings of a few products and quotients in float64."""


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """Steps that map columns one by one.

    Attributes
    ----------
    uses : ndarray of bool, shape (n_outputs, n_inputs)
        Which columns of the input each output depends on.
    gain : ndarray of shape (n_outputs,)
        By how much each output is stretched at most; nan if it is not a map of a single column.
    growth : float
        The G of the proof above.
    shift : ndarray of shape (n_rows, n_outputs)
        The b of the proof above.
    """

    uses: BoolArray
    gain: FloatArray
    growth: float
    shift: FloatArray

    def scale_before(self, scale: FloatArray) -> FloatArray | None:
        """Return the scale of an ellipsoid in the columns of the input; None if it is not known."""
        noisy = scale > 0.0
        if np.any(np.isnan(self.gain[noisy])):
            return None
        with np.errstate(divide="ignore"):
            steepness = np.sqrt(np.square(self.gain[noisy] / scale[noisy]) @ self.uses[noisy])
            before: FloatArray = 1.0 / (steepness * _SLACK)
        before[np.any(self.uses[~noisy], axis=0)] = 0.0
        return before

    def expansion(self, scale: FloatArray) -> tuple[FloatArray, float]:
        """Return what an ellipsoid of inputs loses, and the factor it is divided by, on the way to the columns of the
        input."""
        noisy = scale > 0.0
        moved: FloatArray = np.linalg.norm(self.shift[:, noisy] / scale[noisy], axis=1) * (1.0 + 1e-9)
        return moved, self.growth * _SLACK


def column_map(steps: Sequence[Any], X: Any) -> ColumnMap | None:
    """Return what fitted transformers, one after the other, do to single columns; None if they mix them."""
    n_rows, n_columns = num_samples(X), np.shape(X)[1]
    whole = ColumnMap(np.eye(n_columns, dtype=bool), np.ones(n_columns), 1.0, np.zeros((n_rows, n_columns)))
    for step in single_steps(steps):
        after = _parts(step, X) if type(step) is ColumnTransformer else _single(step, X)
        if after is None:
            return None
        whole = _one_after_the_other(whole, after)
        X = step.transform(X)
    return whole


def _one_after_the_other(first: ColumnMap, second: ColumnMap) -> ColumnMap:
    uses = (second.uses.astype(int) @ first.uses.astype(int)) > 0
    # An output of the second map that is stretched by a known factor uses one output of the first.
    source = np.argmax(second.uses, axis=1)
    with np.errstate(invalid="ignore"):
        gain = second.gain * first.gain[source] * _SLACK
        shift = np.nan_to_num(second.gain * second.growth * first.shift[:, source]) * (1.0 + 1e-9) + second.shift
    return ColumnMap(uses, gain, first.growth * second.growth * _SLACK, shift)


def _single(step: Any, X: Any) -> ColumnMap | None:
    """Return the map of one scaler or selector."""
    rounded: Rounded | None = round_columns(step, X)
    if rounded is None:
        return None
    uses = np.zeros((len(rounded.source), np.shape(X)[1]), dtype=bool)
    uses[np.arange(len(rounded.source)), rounded.source] = True
    return ColumnMap(uses, rounded.gain, 1.0 + rounded.growth, 2.0 * rounded.each)


def _parts(step: Any, X: Any) -> ColumnMap | None:
    """Return the map of a ColumnTransformer; what some part of it does to its columns may be unknown."""
    parts = parts_of_columns(step)
    if not parts:
        return None
    n_outputs, n_columns = max(place.stop for _, _, place in parts), np.shape(X)[1]
    uses, gain = np.zeros((n_outputs, n_columns), dtype=bool), np.full(n_outputs, np.nan)
    growth, shift = 1.0, np.zeros((num_samples(X), n_outputs))
    for steps, columns, place in parts:
        inner = column_map(steps, safe_indexing(X, columns, axis=1))
        if inner is not None:
            # A part may list a column several times, and outputs of all of them depend on it.
            np.logical_or.at(uses, (_rows(place, n_outputs), np.asarray(columns)), inner.uses)
            gain[place], shift[:, place] = inner.gain, inner.shift
            growth = max(growth, inner.growth)
        elif all(type(each).__module__.startswith("sklearn.") for each in single_steps(steps)):
            # Each row is transformed by itself, so outputs stay the same if the columns do.
            uses[_rows(place, n_outputs), columns] = True
        else:
            return None
    return ColumnMap(uses, gain, growth, shift)


def _rows(place: slice, n_outputs: int) -> IndexArray:
    return np.arange(n_outputs)[place][:, None]
