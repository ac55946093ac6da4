"""By how much the steps of a pipeline can stretch a distance at most.

Steps that are linear but for a shift are put together first: what one of them stretches another may throw away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from ._sklearn_compat import input_columns
from ._validation import FloatArray, IndexArray

_EPS = float(np.finfo(np.float64).eps)
"""Twice the largest relative error of one operation in float64."""

_ROUNDINGS = 4.0
"""More than there are in an entry times a factor that is itself a rounded quotient or root."""


def lipschitz_bound(steps: Sequence[Any]) -> float | None:
    """Return by how much fitted transformers, one after the other, can stretch a distance at most; None if not
    known."""
    factor = 1.0
    whole: _Linear | None = None
    for step in single_steps(steps):
        append = _KNOWN.get(type(step).__name__)
        if append is None or not type(step).__module__.startswith("sklearn."):
            return None
        whole = append(_Linear(step.n_features_in_) if whole is None else whole, step)
        if whole is None:
            return None
        if getattr(step, "clip", False):
            # Clipping stretches nothing, but what follows may no longer undo what came before.
            factor, whole = _product_up(factor, whole.norm()), None
    return factor if whole is None else _product_up(factor, whole.norm())


def _product_up(a: float, b: float) -> float:
    return a * b if 1.0 in (a, b) else float(np.nextafter(a * b, np.inf))


def single_steps(steps: Sequence[Any]) -> Iterator[Any]:
    """Yield the steps of pipelines within pipelines one by one, without those that do nothing."""
    for step in steps:
        if step is None or (isinstance(step, str) and step == "passthrough"):
            continue
        if type(step) is FrozenEstimator:
            yield from single_steps([step.estimator])
        elif type(step) is Pipeline:
            yield from single_steps([inner for _, inner in step.steps])
        else:
            yield step


def parts_of_columns(transformer: Any) -> list[tuple[Any, IndexArray, slice]] | None:
    """Return the parts of a fitted ColumnTransformer that have outputs: steps, columns of the input and of the output.

    None if outputs are weighted.
    """
    if transformer.transformer_weights:
        return None
    parts = []
    for name, part, _ in transformer.transformers_:
        place = transformer.output_indices_[name]
        if place.stop > place.start:
            steps = [] if _is_identity(part) else [part]
            parts.append((steps, input_columns(transformer, name), place))
    return parts


def _is_identity(step: Any) -> bool:
    return type(step) is FunctionTransformer and step.func is None


class _Linear:
    """Some of the features, each times a number, then a matrix, if there is one.

    `error` limits how far the matrix, as it was computed, may be from the true one, as a spectral norm; `roundings`
    counts those in the factors.
    """

    def __init__(self, n_features: int) -> None:
        self.factors: FloatArray = np.ones(n_features)
        self.roundings = 0.0
        self.matrix: FloatArray | None = None
        self.error = 0.0

    def scale(self, factors: FloatArray) -> _Linear:
        """Multiply each output by a number."""
        factors = np.asarray(factors, dtype=np.float64)
        if np.all(factors == 1.0):
            return self
        if self.matrix is None:
            self.factors = self.factors * factors
            self.roundings += _ROUNDINGS
        else:
            self.matrix = factors[:, None] * self.matrix
            self.error = self.error * float(np.max(np.abs(factors))) + _rounding(self.matrix, _ROUNDINGS)
        return self

    def select(self, chosen: IndexArray) -> _Linear:
        """Keep some of the outputs."""
        if self.matrix is None:
            self.factors = self.factors[chosen]
        else:
            self.matrix = self.matrix[chosen]
        return self

    def matmul(self, matrix: FloatArray) -> _Linear:
        """Apply a matrix to the outputs."""
        matrix = np.asarray(matrix, dtype=np.float64)
        if self.matrix is None:
            self.matrix = matrix * self.factors
            self.error = _rounding(self.matrix, self.roundings + _ROUNDINGS)
        else:
            # A sum of n products is off by n roundings of the sum of their sizes.
            sizes = float(np.linalg.norm(matrix) * np.linalg.norm(self.matrix))
            self.error = _spectral_norm(matrix) * self.error + 2.0 * matrix.shape[1] * _EPS * sizes
            self.matrix = matrix @ self.matrix
        return self

    def norm(self) -> float:
        """Return the largest stretch, not below the true one."""
        if self.matrix is None:
            return float(np.max(np.abs(self.factors), initial=0.0)) * (1.0 + self.roundings * _EPS)
        return (_spectral_norm(self.matrix) + self.error) * (1.0 + _ROUNDINGS * _EPS)


def _rounding(matrix: FloatArray, roundings: float) -> float:
    """Return the spectral norm of that many roundings of each entry, which may all point the same way."""
    return roundings * _EPS * float(np.linalg.norm(matrix))


def _spectral_norm(matrix: FloatArray) -> float:
    """Return the largest singular value, not below the true one: the error of its computation is a few roundings for
    each row and column."""
    return float(np.linalg.norm(matrix, 2)) * (1.0 + 4.0 * sum(matrix.shape) * _EPS)


def _pca(before: _Linear, step: Any) -> _Linear:
    # Rows of an orthogonal projection; whitening divides each by its standard deviation.
    projected = before.matmul(step.components_)
    if not step.whiten:
        return projected
    return projected.scale(inverse_deviation(step))


def inverse_deviation(step: Any) -> FloatArray:
    """Return what whitening multiplies the components with, not below what is computed: in the type of the variances,
    the root of each and one over it are rounded."""
    variance = np.asarray(step.explained_variance_)
    rounded = 0.0 if variance.dtype == np.float64 else 4.0 * float(np.finfo(variance.dtype).eps)
    inverse: FloatArray = (1.0 + rounded) / np.sqrt(np.maximum(variance, 1e-300, dtype=np.float64))
    return inverse


def _divided_by_scale(before: _Linear, step: Any) -> _Linear:
    return before if step.scale_ is None else before.scale(1.0 / np.asarray(step.scale_, dtype=np.float64))


def _multiplied_by_scale(before: _Linear, step: Any) -> _Linear:
    return before.scale(step.scale_)


def _selected(before: _Linear, step: Any) -> _Linear:
    return before.select(step.get_support(indices=True))


def _columns_apart(before: _Linear, step: Any) -> _Linear | None:
    """Apply several maps of some of the columns each, one below the other."""
    parts = parts_of_columns(step)
    if not parts:
        return None
    whole = np.zeros((max(place.stop for _, _, place in parts), step.n_features_in_))
    error = 0.0
    for steps, columns, place in parts:
        part: _Linear | None = _Linear(len(columns)).matmul(np.eye(len(columns)))
        for inner in single_steps(steps):
            append = _KNOWN.get(type(inner).__name__)
            if append is None or not type(inner).__module__.startswith("sklearn.") or getattr(inner, "clip", False):
                return None
            part = append(part, inner) if part is not None else None
        if part is None or part.matrix is None:
            return None
        # A part may list a column several times: what it does to all of them adds up.
        np.add.at(whole, (np.arange(len(whole))[place][:, None], np.asarray(columns)), part.matrix)
        error += part.error + len(columns) * float(np.finfo(np.float64).eps) * float(np.linalg.norm(part.matrix))
    size = before.norm()
    after = before.matmul(whole)
    after.error += error * size
    return after


_KNOWN: dict[str, Callable[[_Linear, Any], _Linear | None]] = {
    "ColumnTransformer": _columns_apart,
    "PCA": _pca,
    "IncrementalPCA": _pca,
    "TruncatedSVD": lambda before, step: before.matmul(step.components_),
    "StandardScaler": _divided_by_scale,
    "RobustScaler": _divided_by_scale,
    "MaxAbsScaler": _divided_by_scale,
    "MinMaxScaler": _multiplied_by_scale,
    "VarianceThreshold": _selected,
    "SelectKBest": _selected,
    "SelectPercentile": _selected,
    "SelectFromModel": _selected,
    "RFE": _selected,
}
