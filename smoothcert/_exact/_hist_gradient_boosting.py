"""Histogram gradient boosting without interactions.

Its trees compare raw values in double precision. Splits on categories are possible in features without noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray
from ._contract import two_columns
from ._step_functions import FixedPart, StepScores, check_one_feature
from ._univariate_trees import Nodes, additive_form


def _read(model: Any) -> StepScores:
    n_columns = model.n_trees_per_iteration_
    order = _original_columns(model)
    plain: list[Nodes] = []
    categorical: list[tuple[int, Any]] = []
    for stage in model._predictors:
        for column, tree in enumerate(stage):
            inner = tree.nodes["is_leaf"] == 0
            if np.any(tree.nodes["is_categorical"][inner]):
                check_one_feature(tree.nodes["feature_idx"][inner], "a tree with a split on categories")
                categorical.append((column, tree))
            else:
                plain.append(_nodes(tree.nodes, order, column, n_columns))
    start = np.ravel(model._baseline_prediction)
    fixed = _categorical_part(model, categorical, order) if categorical else None
    constants = two_columns(start[0]) if n_columns == 1 else start
    form = additive_form(plain, constants, single_precision=False, fixed=fixed)
    if model.is_categorical_ is not None:
        form.encoder = _Encoder(model, order)
    return form


class _Encoder:
    """Codes of categories as the trees see them, in the columns of the inputs."""

    def __init__(self, model: Any, order: NDArray[np.intp]) -> None:
        self.model, self.order = model, order

    def __call__(self, X: Any) -> FloatArray:
        plain = self.model._preprocessor.transform(X)
        if not np.all(np.isfinite(plain[:, int(self.model.is_categorical_.sum()) :])):
            raise ValueError(
                "Input X contains NaN or infinity in a column of numbers. Exact certificates are for inputs without "
                'missing values; fill them in, or use voting="hard".'
            )
        rows: FloatArray = np.empty(plain.shape)
        rows[:, self.order] = plain
        return rows


def _original_columns(model: Any) -> NDArray[np.intp]:
    """Return the column of X behind each feature of the trees, which have the categorical ones first."""
    columns = np.arange(model.n_features_in_)
    if model.is_categorical_ is None:
        return columns
    return np.concatenate([columns[model.is_categorical_], columns[~model.is_categorical_]])


def _nodes(nodes: Any, order: NDArray[np.intp], column: int, n_columns: int) -> Nodes:
    leaf = nodes["is_leaf"] != 0
    left, right = (np.where(leaf, -1, nodes[side].astype(np.intp)) for side in ("left", "right"))
    values = np.asarray(nodes["value"], dtype=np.float64)
    if n_columns == 1:
        scores = two_columns(values)
    else:
        scores = np.zeros((len(values), n_columns))
        scores[:, column] = values
    return Nodes(left, right, order[nodes["feature_idx"]], np.asarray(nodes["num_threshold"]), scores)


def _categorical_part(model: Any, trees: list[tuple[int, Any]], order: NDArray[np.intp]) -> FixedPart:
    """Return the trees that split on categories, as the model evaluates them."""
    used = sorted({int(order[f]) for _, tree in trees for f in tree.nodes["feature_idx"][tree.nodes["is_leaf"] == 0]})
    known, feature_map = model._bin_mapper.make_known_categories_bitsets()
    n_columns = model.n_trees_per_iteration_

    def scores(X: FloatArray) -> FloatArray:
        codes = np.ascontiguousarray(X[:, order], dtype=np.float64)
        raw = np.zeros((len(X), n_columns))
        for column, tree in trees:
            raw[:, column] += tree.predict(codes, known, feature_map, 1)
        return two_columns(raw[:, 0]) if n_columns == 1 else raw

    return FixedPart(scores, np.array(used, dtype=np.intp), "which is categorical")


MODELS = {"HistGradientBoostingClassifier": _read}
