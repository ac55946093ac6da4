"""AdaBoost of trees with one feature each: every tree adds its weight to the class that it predicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._contract import is_sklearn
from ._step_functions import StepScores
from ._univariate_trees import additive_form, tree_nodes


def _read(model: Any) -> StepScores:
    n_classes = len(model.classes_)
    for tree in model.estimators_:
        if not is_sklearn(tree, "DecisionTreeClassifier", "ExtraTreeClassifier"):
            raise ValueError(
                f"model must boost decision trees for exact certificates, got {type(tree).__name__}. "
                'Use AdaBoostClassifier(DecisionTreeClassifier(max_depth=1)), or voting="hard".'
            )
    weights = np.asarray(model.estimator_weights_[: len(model.estimators_)], dtype=np.float64)
    total = float(model.estimator_weights_.sum())
    # The softmax of these scores is what `AdaBoostClassifier.predict_proba` returns.
    others = max(1, n_classes - 1)
    nodes = (
        tree_nodes(tree.tree_, _votes(tree, model.classes_, others) * (weight / total / others))
        for tree, weight in zip(model.estimators_, weights, strict=True)
    )
    return additive_form(nodes, np.zeros(n_classes), single_precision=True)


def _votes(tree: Any, classes: Any, others: int) -> Any:
    """Return 1 for the class that each node predicts and ``-1 / others`` for the rest."""
    predicted = tree.classes_[np.argmax(tree.tree_.value[:, 0, :], axis=1)]
    return np.where(predicted[:, None] == classes, 1.0, -1.0 / others)


MODELS = {"AdaBoostClassifier": _read}
