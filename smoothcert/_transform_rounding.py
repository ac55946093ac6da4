r"""How far the rounding of the steps of a pipeline can move what they return.

A step computes :math:`\hat T(x)` where its parameters define an affine map :math:`T(x)`, clipped or not. In float32,
and far from the origin, the difference is not small: two neighbouring inputs may be sent further apart than the matrix
of :math:`T` alone would send them. So the radius in the space of the input needs, beside the largest stretch, a limit
of :math:`|\hat T(x) - T(x)|`, at the input and at the input of an adversary.

**One step.** Let :math:`u` be the unit roundoff of the coarser of the types of a step's input and output, and
:math:`\gamma_k = k u / (1 - k u)`. Every operation has a relative error of at most :math:`u`, a product of k factors
:math:`1 + \delta` differs from one by at most :math:`\gamma_k`, and a sum of n products, in any order, fused or not, by
at most :math:`\gamma_n` times the sum of their sizes (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
section 3.1). Hence, component by component,

- centring and scaling, :math:`(x - m) / s`, with m and s possibly rounded to the type of x first, and :math:`1/s`
  rounded: at most :math:`\gamma_6 (|x| + |m|) / |s|`;
- min-max scaling, :math:`x s + t`: at most :math:`\gamma_6 (|x| |s| + |t|)`; clipping drives no two numbers apart;
- a projection of n features, :math:`C x - b` with the constant :math:`b \approx C m`, or :math:`C (x - m)`: at most
  :math:`\gamma_{n+4} |C| (|x| + |m|)`; whitening divides by s and makes it :math:`\gamma_{n+8} |C| (|x| + |m|) / s`;
- selection: nothing.

The constants b and s of a projection are computed from the parameters alone, the same way in every call. They are part
of the map; the largest stretch allows for the rounding of s. To each component is added the smallest normal number for
each operation, for what is lost below the normal range. So :math:`|\hat T(x) - T(x)| \le e(x)` with a function e for
which :math:`e(x') \le e(x) + a |x' - x|`, where a is the norm of the matrix in it.

**Several steps.** Let :math:`\hat x_j` be what step j returns, :math:`P_j` the largest stretch of all steps after j
together, and L that of all steps. Exchanging computed for exact steps one at a time,
:math:`|\hat x_k - T(x)| \le \sum_j P_j e_j(\hat x_{j-1})`, and with :math:`D_j \ge |\hat x'_j - \hat x_j|`,

.. math:: D_k = L |x' - x| + \sum_j P_j \left(2 e_j(\hat x_{j-1}) + a_j D_{j-1}\right).

The :math:`D_{j-1}` inside are multiplied by roundings, and the stretches of single steps are good enough for them:
:math:`D_j \le (L_j + a_j) D_{j-1} + 2 e_j(\hat x_{j-1})`. All of it is linear in the distance,
:math:`D_k = A |x' - x| + B`, and a radius r after the steps is a radius :math:`(r - B) / A` before them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.utils import check_array

from ._lipschitz import inverse_deviation, lipschitz_bound, parts_of_columns, single_steps
from ._sklearn_compat import num_samples, safe_indexing
from ._validation import FloatArray, IndexArray

_SLACK = 1.0 + 1e-6
"""More than the rounding of the limits themselves, which are sums of at most some million numbers in float64."""


class Expansion(NamedTuple):
    """Inputs a distance `d` apart are sent at most ``factor * d + shift`` apart, rounding included."""

    factor: float
    shift: FloatArray


class _Rounding(NamedTuple):
    """Limit of the rounding of one step at each row, and by how much it can grow with the distance from there."""

    at_rows: FloatArray
    growth: float


def expansion_of(steps: Sequence[Any], X: Any) -> Expansion | None:
    """Return by how much fitted transformers, one after the other, can drive inputs apart; None if not known.

    Parameters
    ----------
    steps : sequence of fitted transformers
    X : array-like of shape (n_rows, n_features)
        Inputs of the first step. The limit holds for pairs of one of these rows and any other row of the same type.
    """
    whole = lipschitz_bound(steps)
    if whole is None:
        return None
    single = list(single_steps(steps))
    # Distances before the current step: `scale` times that of the inputs, and `offset` more.
    scale, offset = 1.0, np.zeros(num_samples(X))
    growth, shift = 0.0, np.zeros_like(offset)
    for number, step in enumerate(single):
        output = step.transform(X)
        rounding = _rounding_of(step, X, output)
        alone, after = lipschitz_bound([step]), lipschitz_bound(single[number + 1 :])
        if rounding is None or alone is None or after is None:
            return None
        growth = _up(growth + after * rounding.growth * scale)
        shift = _up(shift + after * (2.0 * rounding.at_rows + rounding.growth * offset))
        offset = _up((alone + rounding.growth) * offset + 2.0 * rounding.at_rows)
        scale = _up((alone + rounding.growth) * scale)
        X = output
    if not np.isfinite(growth) or not np.all(np.isfinite(shift)):
        return None
    return Expansion(float(np.nextafter(whole + growth, np.inf)) if growth else whole, shift)


def _up(value: Any) -> Any:
    return value * _SLACK


def _checked(X: Any) -> Any:
    """Return rows as scikit-learn's steps see them: an array or a sparse matrix of numbers."""
    return check_array(X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, ensure_2d=False)


def _rounding_of(step: Any, X: Any, output: Any) -> _Rounding | None:
    if type(step) is ColumnTransformer:
        return _rounding_of_parts(step, X)
    limit = _LIMITS.get(type(step).__name__)
    given, returned = _checked(X), _checked(output)
    if limit is None:  # a selection
        return _Rounding(np.zeros(given.shape[0]), 0.0) if hasattr(step, "get_support") else None
    info = _coarser_type(given, returned)
    if info is None or not _is_held(step, info):
        return None
    sizes = np.abs((given.toarray() if issparse(given) else given).astype(np.float64))
    return limit(step, sizes, info)


class Rounded(NamedTuple):
    """A step that maps single columns: which it takes, their gains, and the limit of its rounding in each output."""

    source: IndexArray
    gain: FloatArray
    growth: float
    each: FloatArray


def round_columns(step: Any, X: Any) -> Rounded | None:
    """Return what a fitted scaler or selector does to single columns; None if it is not known."""
    name = type(step).__name__
    if not type(step).__module__.startswith("sklearn.") or (
        _LIMITS.get(name) is not _centred_and_divided and not hasattr(step, "get_support")
    ):
        return None
    try:
        given, returned = _checked(X), _checked(step.transform(X))
    except (ValueError, TypeError):
        return None
    if issparse(given) or issparse(returned):
        return None
    if name not in _LIMITS:
        source = np.asarray(step.get_support(indices=True), dtype=np.intp)
        return Rounded(source, np.ones(len(source)), 0.0, np.zeros((len(given), len(source))))
    info = _coarser_type(given, returned)
    if info is None or not _is_held(step, info):
        return None
    gain, shift = _gain_and_shift(step, given.shape[1])
    each = _each(np.abs(given.astype(np.float64)), gain, shift, 6, info)
    if not np.all(np.isfinite(each)):
        return None
    factor = np.abs(np.asarray(1.0 if step.scale_ is None else step.scale_, dtype=np.float64))
    exact = np.broadcast_to(factor if name == "MinMaxScaler" else 1.0 / factor, gain.shape) * (1.0 + 1e-15)
    return Rounded(np.arange(given.shape[1]), exact, _up(_gamma(6, info)), _up(each))


def _rounding_of_parts(step: Any, X: Any) -> _Rounding | None:
    """Return the limit for a ColumnTransformer, whose parts are sequences of steps.

    By the above, the roundings of a sequence at an input and at another at distance d are together at most
    ``shift + growth * d``, where its factor is its largest stretch plus the growth.
    """
    squares, growth = 0.0, 0.0
    for steps, columns, _ in parts_of_columns(step) or []:
        given = safe_indexing(X, columns, axis=1)
        expansion, stretch = expansion_of(steps, given), lipschitz_bound(steps)
        if expansion is None or stretch is None:
            return None
        squares = squares + np.square(expansion.shift / 2.0)
        growth += max(expansion.factor - stretch, 0.0)
    return _Rounding(_up(np.sqrt(squares)), _up(growth))


def _coarser_type(given: Any, returned: Any) -> Any:
    """Return the coarser of the types of what a step is given and returns, None if these are not numbers."""
    kinds = [np.dtype(a.dtype) for a in (given, returned)]
    if any(kind.kind not in "fiub" for kind in kinds) or returned.dtype.kind != "f":
        return None
    return max((np.finfo(kind) for kind in [*kinds, np.dtype(np.float64)] if kind.kind == "f"), key=lambda i: i.eps)


def _is_held(step: Any, info: Any) -> bool:
    """Return whether a type holds the parameters of a step: none overflows, and no factor is below the normal range."""
    for name in ("mean_", "center_", "scale_", "min_", "components_"):
        value = getattr(step, name, None)
        sizes = np.abs(np.asarray(0.0 if value is None else value, dtype=np.float64))
        vanishing = (sizes > 0.0) & (sizes < float(info.tiny)) if name == "scale_" else False
        if np.any(~(sizes < float(info.max)) | vanishing):
            return False
    return True


def _gamma(operations: int, info: Any) -> float:
    product = operations * float(info.eps) / 2.0
    return product / (1.0 - product) if product < 0.5 else np.inf


def _limit(sizes: FloatArray, matrix: FloatArray, shift: FloatArray | float, operations: int, info: Any) -> _Rounding:
    """Return the limit ``gamma * (matrix @ sizes + shift)``; a matrix of one dimension is diagonal."""
    gamma = _gamma(operations, info)
    if not np.isfinite(gamma):
        return _Rounding(np.full(len(sizes), np.inf), np.inf)
    each = _each(sizes, matrix, shift, operations, info)
    with np.errstate(over="ignore", invalid="ignore"):
        growth = gamma * float(np.max(matrix, initial=0.0) if matrix.ndim == 1 else np.linalg.norm(matrix))
        return _Rounding(_up(np.linalg.norm(each, axis=1)), _up(growth))


def _each(sizes: FloatArray, matrix: FloatArray, shift: FloatArray | float, operations: int, info: Any) -> FloatArray:
    """Return the limit in each output."""
    # What is lost below the normal range may be divided by a scale, which is at least one over the number of features
    # times the largest entry.
    lost = operations * float(info.tiny) * (1.0 + sizes.shape[1] * float(np.max(matrix, initial=0.0)))
    with np.errstate(over="ignore", invalid="ignore"):
        each: FloatArray = (
            _gamma(operations, info) * ((sizes * matrix if matrix.ndim == 1 else sizes @ matrix.T) + shift) + lost
        )
    return each


def _size(value: Any, like: int) -> FloatArray:
    return np.zeros(like) if value is None else np.abs(np.asarray(value, dtype=np.float64))


def _centred_and_divided(step: Any, sizes: FloatArray, info: Any) -> _Rounding:
    return _limit(sizes, *_gain_and_shift(step, sizes.shape[1]), 6, info)


def _gain_and_shift(step: Any, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Return the sizes of the factors and constants of a scaler, not below the true ones."""
    if hasattr(step, "min_"):
        return _size(step.scale_, n_features), _size(step.min_, n_features)
    centre = None
    if getattr(step, "with_mean", False):
        centre = step.mean_
    elif getattr(step, "with_centering", False):
        centre = step.center_
    inverse = np.ones(n_features) if step.scale_ is None else _up(1.0 / _size(step.scale_, n_features))
    return inverse, inverse * _size(centre, n_features)


def _projected(step: Any, sizes: FloatArray, info: Any) -> _Rounding:
    n_features = sizes.shape[1]
    matrix, operations = np.abs(np.asarray(step.components_, dtype=np.float64)), n_features + 4
    if getattr(step, "whiten", False):
        matrix, operations = matrix * inverse_deviation(step)[:, None], operations + 4
    return _limit(sizes, matrix, matrix @ _size(getattr(step, "mean_", None), n_features), operations, info)


_LIMITS: dict[str, Callable[[Any, FloatArray, Any], _Rounding]] = {
    "PCA": _projected,
    "IncrementalPCA": _projected,
    "TruncatedSVD": _projected,
    "StandardScaler": _centred_and_divided,
    "RobustScaler": _centred_and_divided,
    "MaxAbsScaler": _centred_and_divided,
    "MinMaxScaler": _centred_and_divided,
}
