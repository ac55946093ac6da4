"""Forests of trees with one feature each: the score is the mean of the leaves' class frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._step_functions import StepScores
from ._univariate_trees import additive_form, tree_nodes


def _read(model: Any) -> StepScores:
    if model.n_outputs_ != 1:
        raise ValueError(f"model must have one output, got {model.n_outputs_}. Fit it on 1-D labels.")
    trees = [tree.tree_ for tree in model.estimators_]
    nodes = (tree_nodes(tree, tree.value[:, 0, : model.n_classes_] / len(trees)) for tree in trees)
    return additive_form(nodes, np.zeros(model.n_classes_), single_precision=True, is_probability=True)


MODELS = dict.fromkeys(("RandomForestClassifier", "ExtraTreesClassifier"), _read)
