"""What a base model must offer, and what is told to it for training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from .._column_noise import Sigma
from .._validation import FloatArray, IndexArray
from ..training import BaseRecipe


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a base is trained.

    Attributes
    ----------
    sigma : float or ColumnNoise
        Standard deviation of the noise.
    n_augment : int
        Noisy copies of the data.
    augmentation : {"replicate", "passes"}
    recipe : BaseRecipe or None
        How a net is trained.
    entropy : int
        Seed of the noise.
    seeded : bool
        Whether the user gave the seed, so that everything in training must come from it.
    fit_params : mapping
        Passed on to the base's `fit`.
    as_base_input : callable
        Turns rows of numbers into what the base is given: the rows themselves, or a frame.
    """

    sigma: Sigma
    n_augment: int
    augmentation: str
    recipe: BaseRecipe | None
    entropy: int
    seeded: bool
    fit_params: Mapping[str, Any]
    as_base_input: Callable[[FloatArray], Any]


class Voter(Protocol):
    """Casts the votes of a base on rows of one kind of array."""

    arrays: Any
    """Where its noise is drawn and noisy rows are built."""

    def vote(self, rows: Any) -> IndexArray:
        """Return the class each row is voted into, -1 for none."""

    def vote_with_gradients(self, rows: Any, candidate: int) -> tuple[IndexArray, Any]:
        """Return the votes, and the gradients of the candidate's softened margin by the rows."""

    def differentiable(self, row: Any) -> bool:
        """Return whether there are gradients."""

    def evaluation_mode(self) -> AbstractContextManager[Any]:
        """Return what to enter for all votes of a run."""

    def fingerprint_state(self) -> tuple[Any, ...]:
        """Return all that votes and noise depend on."""


class BaseModel(ABC):
    """One kind of base: how it takes rows, which labels it has, how it is trained and how it votes.

    Parameters
    ----------
    estimator : estimator
        As the user gave it, or as it was fitted.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @property
    def takes_frames(self) -> bool:
        """Whether it is given a frame where the smoothed classifier is."""
        return False

    def prepare(self, X: FloatArray) -> FloatArray:
        """Return rows in the precision in which the base computes."""
        return X

    @abstractmethod
    def classes(self, X: FloatArray, y: NDArray[Any], given: Any = None) -> NDArray[Any]:
        """Return the labels it votes for, sorted or in the order of its outputs, which the user may have given."""

    @abstractmethod
    def train(self, estimator: Any, X: FloatArray, y: NDArray[Any], settings: TrainingSettings) -> None:
        """Train a clone of the estimator in place."""

    @abstractmethod
    def voter(self, classes: NDArray[Any]) -> Voter:
        """Return what casts the votes of the estimator, which must be fitted."""


def refuse_order(given: Any) -> None:
    """Refuse labels in the order of outputs for a base that knows its labels itself."""
    if given is not None:
        raise ValueError(
            f"classes must be None unless estimator is a frozen skorch net, got {given!r}. Other bases know their "
            "labels."
        )
