"""Trees that split on one feature, read as steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray
from ._step_functions import FixedPart, StepScores, check_one_feature, merge_steps


class Nodes(NamedTuple):
    """One tree: for each node its children (-1 in a leaf), feature, threshold and, in leaves, added scores."""

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    feature: NDArray[np.intp]
    threshold: FloatArray
    scores: FloatArray


def obeyed_thresholds(thresholds: FloatArray) -> FloatArray:
    """Return where a comparison of float32(x) with each threshold changes, for x in double precision.

    ``float32(x) <= t`` means that x is rounded to the last float32 number not above t, or to a smaller one. That is so
    up to the midpoint between this number and the next. (What happens in the midpoint itself has no weight under
    noise.)
    """
    below = thresholds.astype(np.float32)
    below = np.where(below > thresholds, np.nextafter(below, np.float32(-np.inf)), below)
    above = np.nextafter(below, np.float32(np.inf))
    return 0.5 * (below.astype(np.float64) + above.astype(np.float64))


def tree_nodes(tree: Any, scores: FloatArray) -> Nodes:
    """Return the nodes of scikit-learn's ``tree_``, with scores of shape (n_nodes, n_classes)."""
    return Nodes(tree.children_left, tree.children_right, tree.feature, tree.threshold, scores)


def additive_form(
    trees: Iterable[Nodes],
    constants: FloatArray,
    *,
    single_precision: bool,
    is_probability: bool = False,
    fixed: FixedPart | None = None,
) -> StepScores:
    """Return the sum of trees with one feature each and of constants."""
    constants = np.array(constants, dtype=np.float64)
    n_classes = len(constants)
    features: list[int] = []
    thresholds: list[float] = []
    weights: list[FloatArray] = []
    size, terms = float(np.max(np.abs(constants), initial=0.0)), 1
    for number, nodes in enumerate(trees):
        inner = np.flatnonzero(nodes.left != -1)
        check_one_feature(nodes.feature[inner], f"tree {number}")
        leaves, cuts = _leaves_in_order(nodes)
        constants += nodes.scores[leaves[0]]
        jumps = np.diff(nodes.scores[leaves], axis=0)
        # A threshold of infinity sends every number to the left.
        finite = np.isfinite(cuts)
        features += [int(nodes.feature[inner[0]])] * int(finite.sum()) if len(inner) else []
        thresholds += list(cuts[finite])
        weights += list(jumps[finite])
        size += float(np.abs(nodes.scores[leaves]).max(initial=0.0)) * 2.0 * len(leaves)
        terms += len(leaves)
    compared_at = np.array(thresholds, dtype=np.float64)
    at = obeyed_thresholds(compared_at) if single_precision else compared_at
    merged = merge_steps(np.array(features, dtype=np.intp), at, compared_at, np.reshape(weights, (-1, n_classes)))
    return StepScores(constants, merged, size, terms, single_precision, is_probability, fixed)


def _leaves_in_order(nodes: Nodes) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the leaves that some number reaches, from left to right, and the thresholds between them."""
    leaves: list[int] = []
    cuts: list[float] = []
    pending = [(0, -np.inf, np.inf)]
    while pending:
        node, low, high = pending.pop()
        if not low < high:
            continue
        if nodes.left[node] == -1:
            if leaves:
                cuts.append(low)
            leaves.append(node)
            continue
        cut = float(nodes.threshold[node])
        pending.append((int(nodes.right[node]), max(low, cut), high))
        pending.append((int(nodes.left[node]), low, min(high, cut)))
    return np.array(leaves, dtype=np.intp), np.array(cuts)
