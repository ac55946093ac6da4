"""Consistency: noisy copies of an input should be told the same."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from .._parameters import not_negative, optional
from ._base import BaseRecipe
from ._functions import divergence_from_mean, entropy_of_mean
from ._settings import at_sigma, warn_above
from ._step import TrainingStep


class Consistency(BaseRecipe):
    """Penalise disagreement between noisy copies of an input (Jeong and Shin 2020).

    To the net's criterion, averaged over the copies, are added `weight` times the mean Kullback-Leibler divergence of
    the copies' class probabilities from their mean, and `entropy_weight` times the entropy of that mean. It costs about
    as much as training on `copies` copies, needs no attack, and is the recipe to try first.

    Parameters
    ----------
    weight : float, default=None
        Weight of the disagreement. None takes the authors' for MNIST: 10 at sigma 0.25 and 5 from 0.5 on, linear in
        between, constant beyond. For CIFAR-10 they use twice as much. Far larger weights make training collapse.
    entropy_weight : float, default=0.5
        Weight of the entropy.
    copies : int, default=2
        Noisy copies of each input in a training step, at least 2.
    chunking : {"step", "accumulate", None}, default="step"
        How a batch is split, see `BaseRecipe`.

    References
    ----------
    Jeong, Shin: Consistency regularization for certified robustness of smoothed classifiers, 2020.

    Examples
    --------
    >>> from smoothcert.training import Consistency
    >>> Consistency().weight_at(0.25), Consistency().weight_at(0.5), Consistency(weight=20).weight_at(0.5)
    (10.0, 5.0, 20.0)
    """

    least_copies = 2
    _rules: ClassVar = {
        "weight": optional(not_negative("None takes the authors'; 5 to 20 is usual.")),
        "entropy_weight": not_negative("0.5 is the authors'."),
    }

    def __init__(
        self,
        weight: float | None = None,
        entropy_weight: float = 0.5,
        copies: int = 2,
        chunking: str | None = "step",
    ) -> None:
        super().__init__(copies, chunking)
        self.weight = weight
        self.entropy_weight = entropy_weight

    def weight_at(self, sigma: float) -> float:
        """Return the weight that is used at a noise level."""
        return at_sigma(sigma, (10, 5, 5)) if self.weight is None else float(self.weight)

    def objective(self, step: TrainingStep, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {
            "ce": step.criterion(),
            "consistency": self.weight_at(step.sigma) * divergence_from_mean(logits),
            "entropy": self.entropy_weight * entropy_of_mean(logits),
        }

    def check_data(self, X: Any, sigma: float) -> None:
        largest = at_sigma(sigma, (20, 10, 10))
        warn_above("weight", self.weight_at(sigma), largest, sigma, "Leave weight=None, or search below that.")
