"""SmoothMix: less confidence on the way to an adversarial example."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from .._parameters import not_negative, optional, positive
from ._base import BaseRecipe
from ._functions import ascend, divergence_from_target, log_mean_softmax
from ._settings import CLIP, N_STEPS, WARMUP, check_inside, warmup_epochs, warn_above
from ._step import TrainingStep


class SmoothMix(BaseRecipe):
    """Train for less confidence on the line to an adversarial example (Jeong et al. 2021).

    An adversarial example of the smoothed classifier is searched for at any distance. At a random point on the first
    half of the line to it, the net is trained to predict a mixture of its prediction for the input and of equal
    probabilities for all classes, in the proportion of the point on the line. This term is used where the input is
    classified correctly.

    Parameters
    ----------
    weight : float, default=5.0
        Weight of the mixed term.
    n_steps : int, default=4
        Steps of the search.
    step_size : float, default=None
        Length of a step, in the units of `X`. None means ``2 * sigma``, with 4 steps the authors' setting for CIFAR-10;
        for MNIST they go as far, ``8 * sigma``, by steps of length 1.
    warmup : int or float, default=10
        Epochs over which the weight rises linearly: a number of epochs, or a fraction of all of them.
    clip : tuple (low, high), default=None
        Range to which moved inputs are clipped, for example ``(0, 1)`` for images. None does not clip.
    copies : int, default=4
        Noisy copies of each input in a training step. The authors use 4 for MNIST and 2 for CIFAR-10.
    chunking : {"step", "accumulate", None}, default="step"
        How a batch is split, see `BaseRecipe`.

    References
    ----------
    Jeong et al.: SmoothMix: training confidence-calibrated smoothed classifiers for certified robustness, 2021.

    Examples
    --------
    >>> from smoothcert.training import SmoothMix
    >>> SmoothMix().step_size_at(0.5)
    1.0
    """

    moves_inputs = True

    _rules: ClassVar = {
        "weight": not_negative("5 is the authors'."),
        "n_steps": N_STEPS,
        "step_size": optional(positive("None means 2 * sigma.")),
        "warmup": WARMUP,
        "clip": CLIP,
    }

    def __init__(
        self,
        weight: float = 5.0,
        n_steps: int = 4,
        step_size: float | None = None,
        warmup: int | float = 10,
        clip: tuple[float, float] | None = None,
        copies: int = 4,
        chunking: str | None = "step",
    ) -> None:
        super().__init__(copies, chunking)
        self.weight = weight
        self.n_steps = n_steps
        self.step_size = step_size
        self.warmup = warmup
        self.clip = clip

    def step_size_at(self, sigma: float) -> float:
        """Return the length of a step that is used at a noise level."""
        return 2.0 * sigma if self.step_size is None else float(self.step_size)

    def schedule(self, epoch: int, n_epochs: int) -> float:
        return min(1.0, epoch / max(warmup_epochs(self.warmup, n_epochs), 1.0))

    def objective(self, step: TrainingStep, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        x, noise = step.x, step.noise
        with step.frozen():
            far = ascend(
                step.logits, x, y, noise, step_size=self.step_size_at(step.sigma), n_steps=self.n_steps, clip=self.clip
            )
        mean = log_mean_softmax(logits).exp()
        share = torch.rand(len(x), generator=step.generator, device=x.device, dtype=x.dtype) / 2
        along = share.reshape(-1, *[1] * (x.ndim - 1))
        mixed = step.logits((1 - along) * x + along * far, noise)
        target = (1 - share[:, None]) * mean + share[:, None] / mean.shape[1]
        right = mean.argmax(dim=1) == y
        return {
            "ce": step.criterion(),
            "mix": self.weight * step.strength * right * divergence_from_target(target, mixed),
        }

    def check_data(self, X: Any, sigma: float) -> None:
        check_inside(X, self.clip)
        warn_above("weight", float(self.weight), 5.0, sigma, "Use weight=5, or search below that.")
