"""One decision tree: the probability of each of its votes under noise is a sum over leaves of products of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .._numerics import density
from .._validation import FloatArray
from ..bounds import second_order_multiclass_radius
from ._contract import EPS, ROUNDING, ClosedForm
from ._univariate_trees import obeyed_thresholds


class TreeVotes(ClosedForm):
    """Probabilities that the tree votes for each class, with their gradients.

    Parameters
    ----------
    tree : Tree
        scikit-learn's ``tree_`` with one output.
    n_classes : int
    """

    gives_probabilities = True

    def __init__(self, tree: Any, n_classes: int) -> None:
        self.n_classes = n_classes
        self.feature, self.compared_at = tree.feature, tree.threshold
        self.at = obeyed_thresholds(tree.threshold)
        self.inner = np.flatnonzero(tree.children_left != -1)
        self.leaves = list(_leaf_boxes(tree))
        self.votes = np.argmax(tree.value[:, 0, :n_classes], axis=1)
        self.deepest = max(len(box) for _, box in self.leaves)

    def expected_scores(self, X: FloatArray, sigma: FloatArray) -> FloatArray:
        return self._probabilities_and_gradients(X, sigma, with_gradients=False)[0]

    def certified_radius(
        self, X: FloatArray, sigma: FloatArray, scores: FloatArray, prediction: NDArray[np.intp]
    ) -> FloatArray:
        reachable = np.isin(np.arange(self.n_classes), [self.votes[leaf] for leaf, _ in self.leaves])
        if reachable.sum() == 1:
            return np.full(len(X), np.inf)
        probability, norm = self._probabilities_and_gradients(X, sigma, with_gradients=True)
        # Each interval is off by two roundings of a distribution function, and each product by those of its factors.
        noisy = np.any(sigma[self.feature[self.inner]] > 0.0)
        error = 4.0 * ROUNDING * len(self.leaves) * (self.deepest + 1.0) if noisy else 0.0
        own = np.take_along_axis(probability, prediction[:, None], axis=1)[:, 0]
        own_norm = np.take_along_axis(norm, prediction[:, None], axis=1)[:, 0]
        others = np.array([np.delete(np.arange(self.n_classes), c) for c in range(self.n_classes)])[prediction]
        rivals = np.take_along_axis(probability, others, axis=1)
        rival_norms = np.take_along_axis(norm, others, axis=1)
        # A class without a leaf has no probability anywhere; all others may have what rounding hides.
        hidden = np.where(reachable[others], error, 0.0)
        return np.asarray(
            second_order_multiclass_radius(
                np.clip(own - error, 0.0, 1.0 - error),
                own_norm + error * np.sqrt(len(sigma)),
                np.minimum(rivals + hidden, 1.0),
                np.where(reachable[others], rival_norms + error * np.sqrt(len(sigma)), 0.0),
            )
        )

    def _probabilities_and_gradients(
        self, X: FloatArray, sigma: FloatArray, *, with_gradients: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each class and the norm of its gradient times sigma, (n_inputs, n_classes) both."""
        probability = np.zeros((len(X), self.n_classes))
        norm = np.zeros((len(X), self.n_classes))
        size = max(1, (1 << 21) // (len(self.feature) + self.n_classes * X.shape[1]))
        for begin in range(0, len(X), size):
            some = slice(begin, begin + size)
            probability[some], norm[some] = self._block(X[some], sigma, with_gradients)
        return probability, norm

    def _block(self, X: FloatArray, sigma: FloatArray, with_gradients: bool) -> tuple[FloatArray, FloatArray]:
        below, heights = self._at_thresholds(X, sigma)
        probability = np.zeros((self.n_classes, len(X)))
        gradient = np.zeros((self.n_classes, X.shape[1] if with_gradients else 0, len(X)))
        for leaf, box in self.leaves:
            vote = self.votes[leaf]
            masses = [np.maximum(below[high] - below[low], 0.0) for low, high in box.values()]
            # Products of all factors before and after each one.
            before = [np.ones(len(X))]
            for mass in masses:
                before.append(before[-1] * mass)
            probability[vote] += before[-1]
            if not with_gradients:
                continue
            after = np.ones(len(X))
            for k, (j, (low, high)) in reversed(list(enumerate(box.items()))):
                if sigma[j] > 0.0:
                    gradient[vote, j] += before[k] * after * (heights[low] - heights[high])
                after = after * masses[k]
        return probability.T, np.linalg.norm(gradient, axis=1).T * (1.0 + 1e3 * EPS)

    def _at_thresholds(self, X: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability to be below each node's threshold and the density there; two rows more for the ends.

        Row -2 is the threshold minus infinity, row -1 plus infinity.
        """
        n_nodes = len(self.feature)
        below, heights = np.zeros((n_nodes + 2, len(X))), np.zeros((n_nodes + 2, len(X)))
        below[-1] = 1.0
        for node in self.inner:
            j = self.feature[node]
            if sigma[j] > 0.0:
                u = (self.at[node] - X[:, j]) / sigma[j]
                below[node], heights[node] = ndtr(u), density(u)
            else:
                below[node] = X[:, j].astype(np.float32) <= self.compared_at[node]
        return below, heights


def _leaf_boxes(tree: Any) -> list[tuple[int, dict[int, tuple[int, int]]]]:
    """Return each leaf with its box: for each feature the nodes whose thresholds bound it from below and above."""
    leaves = []
    pending: list[tuple[int, dict[int, tuple[int, int]]]] = [(0, {})]
    while pending:
        node, box = pending.pop()
        if tree.children_left[node] == -1:
            leaves.append((node, box))
            continue
        j = int(tree.feature[node])
        low, high = box.get(j, (-2, -1))
        pending.append((int(tree.children_left[node]), {**box, j: (low, node)}))
        pending.append((int(tree.children_right[node]), {**box, j: (node, high)}))
    return leaves


def _read(model: Any) -> TreeVotes:
    if model.n_outputs_ != 1:
        raise ValueError(f"model must have one output, got {model.n_outputs_}. Fit it on 1-D labels.")
    return TreeVotes(model.tree_, int(model.n_classes_))


MODELS = dict.fromkeys(("DecisionTreeClassifier", "ExtraTreeClassifier"), _read)
