"""Votes: the only place that calls the base model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validation import FloatArray


class LabelVoter:
    """Votes of any model with ``predict``, as indices into the sorted `classes`.

    Parameters
    ----------
    estimator : fitted estimator
    classes : ndarray of shape (n_classes,)
        Sorted labels.
    """

    def __init__(self, estimator: Any, classes: NDArray[Any]) -> None:
        self.estimator = estimator
        self.classes = classes

    def vote(self, rows: FloatArray) -> NDArray[np.intp]:
        """Index of the class each row is voted into."""
        labels = np.asarray(self.estimator.predict(rows))
        if labels.shape != (len(rows),):
            raise ValueError(
                f"estimator.predict must return one label for each row, got shape {labels.shape} for {len(rows)} rows. "
                "Give an estimator with a single output."
            )
        index = np.searchsorted(self.classes, labels)
        index = np.minimum(index, len(self.classes) - 1)
        unknown = self.classes[index] != labels
        if np.any(unknown):
            raise ValueError(
                f"estimator.predict must return labels it was trained on, got {labels[unknown][0]!r}, "
                f"which is not among {list(self.classes[:10])}. Check the labels given to fit."
            )
        return index
