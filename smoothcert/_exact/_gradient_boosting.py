"""Gradient boosting with trees of one feature each."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ._contract import is_sklearn, two_columns
from ._step_functions import StepScores
from ._univariate_trees import Nodes, additive_form, tree_nodes


def _read(model: Any) -> StepScores:
    initial = model.init_
    is_constant = isinstance(initial, str) or (
        is_sklearn(initial, "DummyClassifier") and initial.strategy in ("prior", "most_frequent", "constant")
    )
    if not is_constant:
        raise ValueError(
            f"model must start from a constant for exact certificates, got init={model.init!r}. "
            'Train it with init=None or init="zero", or use voting="hard".'
        )
    n_classes, n_columns = len(model.classes_), model.estimators_.shape[1]
    # The exponential loss has half the log-odds as its decision value.
    gain = 2.0 if model.loss == "exponential" else 1.0
    nodes = [
        _scores_of_tree(tree.tree_, model.learning_rate * gain, column, n_columns)
        for stage in model.estimators_
        for column, tree in enumerate(stage)
    ]
    zero = np.zeros((1, model.n_features_in_))
    added = additive_form(nodes, np.zeros(n_classes), single_precision=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        decision = gain * np.atleast_1d(model.decision_function(zero)[0])
    total = two_columns(decision[0]) if n_columns == 1 else decision
    start = total - added.expected_scores(zero, np.zeros(model.n_features_in_))[0]
    return additive_form(nodes, start, single_precision=True)


def _scores_of_tree(tree: Any, rate: float, column: int, n_columns: int) -> Nodes:
    values = rate * tree.value[:, 0, 0]
    if n_columns == 1:
        return tree_nodes(tree, two_columns(values))
    scores = np.zeros((len(values), n_columns))
    scores[:, column] = values
    return tree_nodes(tree, scores)


MODELS = {"GradientBoostingClassifier": _read}
