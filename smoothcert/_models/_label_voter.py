"""Votes of anything with a scikit-learn style ``predict``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._frames import FrameRows
from .._noise import NumpyArrays
from .._validation import FloatArray, IndexArray


class LabelVoter:
    """Votes of any model with ``predict``, as indices into the sorted `classes`.

    Parameters
    ----------
    estimator : fitted estimator
    classes : ndarray of shape (n_classes,)
        Sorted labels.
    """

    arrays = NumpyArrays()

    def __init__(self, estimator: Any, classes: NDArray[Any]) -> None:
        self.estimator = estimator
        self.classes = classes

    def evaluation_mode(self) -> AbstractContextManager[Any]:
        """Return what to enter for all votes of a run: nothing, as ``predict`` has no modes."""
        return nullcontext()

    def fingerprint_state(self) -> tuple[Any, ...]:
        """Return all that votes and noise depend on."""
        return ("numpy", self.estimator, self.classes)

    def differentiable(self, row: FloatArray) -> bool:
        """Return False: labels have no gradient."""
        return False

    def vote_with_gradients(self, rows: FloatArray, candidate: int) -> tuple[IndexArray, FloatArray]:
        raise NotImplementedError("Labels have no gradient.")

    def vote(self, rows: FloatArray) -> IndexArray:
        """Return the index of the class each row is voted into."""
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


class NamedColumnsVoter(LabelVoter):
    """Votes of a model that was fitted on frames, on rows of numbers without names: they are given the names, or the
    model would warn at every call."""

    def vote(self, rows: FloatArray) -> IndexArray:
        names = self.estimator.feature_names_in_
        return super().vote(_named(rows, names) if rows.ndim == 2 and rows.shape[1] == len(names) else rows)


def _named(rows: FloatArray, names: Any) -> Any:
    try:
        import pandas
    except ImportError:  # it was fitted on a frame of another library
        return rows
    return pandas.DataFrame(rows, columns=names)


class FrameVoter(LabelVoter):
    """Votes of a model that is given frames, on rows of numbers.

    Parameters
    ----------
    voter : LabelVoter
    frame_rows : FrameRows
        Turns rows of numbers into frames.
    """

    def __init__(self, voter: LabelVoter, frame_rows: FrameRows) -> None:
        super().__init__(voter.estimator, voter.classes)
        self.frame_rows = frame_rows

    def fingerprint_state(self) -> tuple[Any, ...]:
        """Return all that votes and noise depend on, but for the content of the rows."""
        columns = [(str(name), *_kind(dtype)) for name, dtype in self.frame_rows.frame.dtypes.items()]
        return (*super().fingerprint_state(), columns)

    def vote(self, rows: FloatArray) -> IndexArray:
        return super().vote(self.frame_rows.decode(rows))


def _kind(dtype: Any) -> tuple[Any, ...]:
    """Return all that a dtype of pandas says about a column; categories of the same values may have other codes."""
    if not hasattr(dtype, "categories"):
        return (str(dtype),)
    return str(dtype), [str(type(each)) + str(each) for each in dtype.categories], bool(dtype.ordered)
