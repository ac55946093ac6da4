"""A ColumnTransformer before a model: columns with noise are mapped one by one, the others as they like.

What is computed from columns without noise alone is a constant, whatever computes it: encoders of categories are as
good as scalers. Columns with noise may go through maps of single columns, each into one output.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import input_columns, safe_indexing
from .._validation import FloatArray, IndexArray
from ._steps import ColumnStep, flatten_steps, known_column_steps, read_step


class MappedColumns(NamedTuple):
    """Outputs of a ColumnTransformer: rows, limits of the rounding in them, and their noise."""

    rows: FloatArray
    error: FloatArray
    sigma: FloatArray


def map_columns(transformer: Any, X: Any, sigma: FloatArray) -> MappedColumns:
    """Return the outputs of a fitted ColumnTransformer for inputs with noise of standard deviation `sigma`."""
    check_is_fitted(transformer)
    if transformer.transformer_weights:
        raise TypeError(
            "model must have a ColumnTransformer without transformer_weights for exact certificates, got "
            f'{transformer.transformer_weights!r}. Put a scaler in their place, or use voting="hard".'
        )
    output = transformer.transform(X)
    rows = np.asarray(output.toarray() if issparse(output) else output, dtype=np.float64)
    error, scale = np.zeros_like(rows), np.zeros(rows.shape[1])
    seen = np.zeros(len(sigma), dtype=int)
    for name, part, _ in transformer.transformers_:
        place = transformer.output_indices_[name]
        columns = input_columns(transformer, name)
        noisy = sigma[columns] > 0.0
        if place.start == place.stop or not np.any(noisy):
            continue
        mapped = _map_part(name, part, np.asarray(safe_indexing(X, columns, axis=1), dtype=np.float64), sigma[columns])
        used = columns[mapped.source]
        np.add.at(seen, used[mapped.sigma > 0.0], 1)
        error[:, place], scale[place] = mapped.error, mapped.sigma
    if np.any(seen > 1):
        raise TypeError(
            "model must use each column with noise once for exact certificates, got a ColumnTransformer that gives "
            f"column {int(np.argmax(seen > 1))} to several outputs, whose noise is then the same. Select columns once, "
            'or use voting="hard".'
        )
    return MappedColumns(rows, error, scale)


class _Part(NamedTuple):
    source: IndexArray
    error: FloatArray
    sigma: FloatArray


def _map_part(name: str, part: Any, rows: FloatArray, sigma: FloatArray) -> _Part:
    error, source = np.zeros_like(rows), np.arange(rows.shape[1])
    for _, transformer in flatten_steps([(name, part)]):
        if type(transformer) is FunctionTransformer and transformer.func is None:
            continue  # passthrough
        step = read_step(transformer)
        if not isinstance(step, ColumnStep):
            raise TypeError(
                f"model must map columns with noise one by one for exact certificates, got the step {name!r}, "
                f"{type(transformer).__name__}, of a ColumnTransformer, which is applied to columns with noise. "
                f'Supported are {known_column_steps()}. Set sigma to 0 for its columns, or use voting="hard".'
            )
        rows, rounding = step.transform(rows)
        gain = np.abs(step.gain)
        error = error[:, step.columns] * gain + rounding
        sigma, source = sigma[step.columns] * gain, source[step.columns]
    return _Part(source, error, sigma)
