"""MACER: the certified radius itself, softened, as part of the loss."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from .._parameters import not_negative, optional, positive
from ._base import BaseRecipe
from ._functions import negative_log_probability, soft_radius_hinge
from ._settings import WARMUP, at_sigma, warmup_epochs, warn_above
from ._step import TrainingStep


class MACER(BaseRecipe):
    """Maximise a soft version of the certified radius (Zhai et al. 2020).

    The loss of an input is minus the logarithm of its class probability averaged over the copies, and, where the class
    is right, `weight` times the distance by which a soft certified radius falls short of ``gamma * sigma / 2``. That
    classification term takes the place of the net's criterion, whose class weights or label smoothing do not apply.

    Parameters
    ----------
    weight : float, default=None
        Weight of the radius. None takes the authors' for MNIST: 16 up to sigma 0.5 and 6 from 1 on, linear in between.
    beta : float, default=16.0
        Factor of the logits in the soft radius; the larger, the closer to votes.
    gamma : float, default=8.0
        Margin, in units of sigma / 2, beyond which an input asks for no more.
    warmup : int or float, default=1/3
        Epochs before the radius counts: a number of epochs, or a fraction of all of them.
    copies : int, default=16
        Noisy copies of each input in a training step.
    chunking : {"step", "accumulate", None}, default="step"
        How a batch is split, see `BaseRecipe`.

    References
    ----------
    Zhai et al.: MACER: attack-free and scalable robust training via maximizing certified radius, 2020.

    Examples
    --------
    >>> from smoothcert.training import MACER
    >>> [MACER().schedule(epoch, n_epochs=6) for epoch in (1, 2, 3)]
    [0.0, 0.0, 1.0]
    """

    _rules: ClassVar = {
        "weight": optional(not_negative("None takes the authors'; 6 to 16 is usual.")),
        "beta": positive("16 is the authors'."),
        "gamma": positive("8 is the authors'."),
        "warmup": WARMUP,
    }

    def __init__(
        self,
        weight: float | None = None,
        beta: float = 16.0,
        gamma: float = 8.0,
        warmup: int | float = 1 / 3,
        copies: int = 16,
        chunking: str | None = "step",
    ) -> None:
        super().__init__(copies, chunking)
        self.weight = weight
        self.beta = beta
        self.gamma = gamma
        self.warmup = warmup

    def weight_at(self, sigma: float) -> float:
        """Return the weight that is used at a noise level."""
        return at_sigma(sigma, (16, 16, 6)) if self.weight is None else float(self.weight)

    def schedule(self, epoch: int, n_epochs: int) -> float:
        return float(epoch > warmup_epochs(self.warmup, n_epochs))

    def objective(self, step: TrainingStep, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        weight = step.strength * self.weight_at(step.sigma) * step.sigma / 2
        terms = {"ce": negative_log_probability(logits, y)}
        terms["radius"] = weight * soft_radius_hinge(logits, y, self.beta, self.gamma) if weight else 0 * terms["ce"]
        return terms

    def check_data(self, X: Any, sigma: float) -> None:
        largest = at_sigma(sigma, (16, 16, 12))
        warn_above("weight", self.weight_at(sigma), largest, sigma, "Leave weight=None, or search below that.")
