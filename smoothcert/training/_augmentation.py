"""Training on noisy copies, for bases without epochs of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._column_noise import ColumnNoise, Sigma
from .._sklearn_compat import num_samples, safe_indexing
from .._validation import FloatArray


def noisy_copy(X: FloatArray, sigma: Sigma, rng: np.random.Generator) -> FloatArray:
    """Return the rows with fresh Gaussian noise on them, in the precision they came in."""
    if isinstance(sigma, ColumnNoise):
        copy = X.reshape(len(X), -1).copy()
        noise = rng.standard_normal((len(X), len(sigma.columns)), dtype=X.dtype)
        copy[:, sigma.columns] += noise * sigma.sigma.astype(X.dtype)
        return copy.reshape(X.shape)
    noise = rng.standard_normal(X.shape, dtype=X.dtype)
    noise *= X.dtype.type(sigma)
    noise += X
    return noise


def fit_on_replicas(
    estimator: Any,
    X: FloatArray,
    y: NDArray[Any],
    sigma: Sigma,
    n_replicas: int,
    rng: np.random.Generator,
    fit_params: Mapping[str, Any],
    as_base_input: Callable[[FloatArray], Any],
) -> Any:
    """Fit once on `n_replicas` noisy copies of the data; what goes with the rows is repeated with them."""
    if n_replicas == 0:
        return estimator.fit(as_base_input(X), y, **fit_params)
    copies = np.concatenate([noisy_copy(X, sigma, rng) for _ in range(n_replicas)])
    repeated = {name: _repeat(value, len(X), n_replicas) for name, value in fit_params.items()}
    return estimator.fit(as_base_input(copies), np.tile(y, n_replicas), **repeated)


def fit_in_passes(
    estimator: Any,
    X: FloatArray,
    y: NDArray[Any],
    classes: NDArray[Any],
    sigma: Sigma,
    n_passes: int,
    rng: np.random.Generator,
    fit_params: Mapping[str, Any],
    as_base_input: Callable[[FloatArray], Any],
) -> Any:
    """Call ``partial_fit`` once a pass, each time on fresh noise and in a new order."""
    for _ in range(n_passes):
        order = rng.permutation(len(X))
        ordered = {name: _take(value, len(X), order) for name, value in fit_params.items()}
        copy = as_base_input(noisy_copy(X[order], sigma, rng))
        estimator.partial_fit(copy, y[order], classes=classes, **ordered)
    return estimator


def _belongs_to_rows(value: Any, n_rows: int) -> bool:
    return (
        value is not None
        and not isinstance(value, str | bytes | dict)
        and np.ndim(value) >= 1
        and num_samples(value) == n_rows
    )


def _repeat(value: Any, n_rows: int, times: int) -> Any:
    return safe_indexing(value, np.tile(np.arange(n_rows), times)) if _belongs_to_rows(value, n_rows) else value


def _take(value: Any, n_rows: int, order: NDArray[np.intp]) -> Any:
    return safe_indexing(value, order) if _belongs_to_rows(value, n_rows) else value
