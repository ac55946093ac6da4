"""SmoothAdv: adversarial training of the smoothed classifier."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from .._parameters import optional, positive
from .._validation import FloatArray
from ._base import BaseRecipe
from ._functions import ascend
from ._settings import CLIP, N_STEPS, WARMUP, check_inside, warmup_epochs, warn_above
from ._step import TrainingStep


class SmoothAdv(BaseRecipe):
    """Train on adversarial examples of the smoothed classifier (Salman et al. 2019).

    Each input is moved, within distance `eps`, to where the class probability averaged over its noisy copies is small;
    then the net's criterion is minimised on the moved input with the same noise. During the search the net is in
    evaluation mode and its weights are fixed. It often gives the largest radii, and costs about ``n_steps + 1`` times
    as much as training on `copies` copies.

    Parameters
    ----------
    eps : float, default=None
        Largest distance, in the units of `X`. None means sigma, which suits data of any range. For MNIST, with values
        from 0 to 1, the authors use 1 at every sigma. Too large a distance makes training collapse.
    n_steps : int, default=10
        Steps of the search, each of length ``2 * eps / n_steps``.
    warmup : int or float, default=10
        Epochs over which the distance rises linearly to `eps`: a number of epochs, or a fraction of all of them.
    clip : tuple (low, high), default=None
        Range to which moved inputs are clipped, for example ``(0, 1)`` for images. None does not clip.
    copies : int, default=4
        Noisy copies of each input in a training step.
    chunking : {"step", "accumulate", None}, default="step"
        How a batch is split, see `BaseRecipe`.

    References
    ----------
    Salman et al.: Provably robust deep learning via adversarially trained smoothed classifiers, 2019.

    Examples
    --------
    >>> from smoothcert.training import SmoothAdv
    >>> SmoothAdv().eps_at(0.25), SmoothAdv(eps=1.0).eps_at(0.25)
    (0.25, 1.0)
    >>> [SmoothAdv().schedule(epoch, n_epochs=90) for epoch in (1, 5, 10, 11)]
    [0.1, 0.5, 1.0, 1.0]
    """

    moves_inputs = True

    _rules: ClassVar = {
        "eps": optional(positive("None means sigma; GaussianNoise() trains without attack.")),
        "n_steps": N_STEPS,
        "warmup": WARMUP,
        "clip": CLIP,
    }

    def __init__(
        self,
        eps: float | None = None,
        n_steps: int = 10,
        warmup: int | float = 10,
        clip: tuple[float, float] | None = None,
        copies: int = 4,
        chunking: str | None = "step",
    ) -> None:
        super().__init__(copies, chunking)
        self.eps = eps
        self.n_steps = n_steps
        self.warmup = warmup
        self.clip = clip

    def eps_at(self, sigma: float) -> float:
        """Return the distance that is used at a noise level, after the warm-up."""
        return sigma if self.eps is None else float(self.eps)

    def schedule(self, epoch: int, n_epochs: int) -> float:
        return min(1.0, epoch / max(warmup_epochs(self.warmup, n_epochs), 1.0))

    def adversary(self, step: TrainingStep, x: Tensor, y: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        eps = step.strength * self.eps_at(step.sigma)
        with step.frozen():
            moved = ascend(
                step.logits, x, y, noise, step_size=2 * eps / self.n_steps, n_steps=self.n_steps, radius=eps,
                clip=self.clip,
            )  # fmt: skip
        return moved, noise

    def objective(self, step: TrainingStep, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"ce": step.criterion()}

    def check_data(self, X: FloatArray, sigma: float) -> None:
        check_inside(X, self.clip)
        warn_above("eps", self.eps_at(sigma), 4 * sigma, sigma, "Leave eps=None, or search below that.")
