"""What the hooks of a recipe know of the net and of where training stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False, kw_only=True)
class TrainingStep:
    """One training step, as the hooks of a recipe see it.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise; where features have one each, their root mean square.
    epoch, n_epochs : int
        The epoch, counted from 1, and how many there are.
    strength : float
        What the recipe's `schedule` says about this epoch.
    generator : torch.Generator
        Where randomness must come from, so that training can be repeated from the seed.
    module : torch.nn.Module
        The net's module.
    x : Tensor of shape (batch, ...)
        The inputs, as returned by `adversary`.
    noise : Tensor of shape (copies, batch, ...)
        Their noise.
    classify : callable
        Maps inputs of shape (n, ...) to logits of shape (n, n_classes), whatever the net returns itself:
        probabilities, or one output for two classes.
    """

    sigma: float
    epoch: int
    n_epochs: int
    strength: float
    generator: torch.Generator
    module: torch.nn.Module
    x: Tensor
    noise: Tensor
    classify: Callable[[Tensor], Tensor]
    _criterion: Callable[[], Tensor] | None = field(default=None, repr=False)

    def logits(self, x: Tensor, noise: Tensor) -> Tensor:
        """Return what the net says about noisy copies, of shape (copies, batch, n_classes).

        Parameters
        ----------
        x : Tensor of shape (batch, ...)
        noise : Tensor of shape (copies, batch, ...)
        """
        copies = x + noise
        answers = self.classify(copies.flatten(0, 1))
        return answers.reshape(*copies.shape[:2], *answers.shape[1:])

    def criterion(self) -> Tensor:
        """Return the net's own criterion on all copies of the batch: its mean, or with sample weights one value for
        each input. Only in `objective`."""
        if self._criterion is None:
            raise RuntimeError("criterion must be called in the objective of a recipe, got a call before that.")
        return self._criterion()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Put the module in evaluation mode and keep its weights out of gradients, for a search over inputs."""
        modes = [(part, part.training) for part in self.module.modules()]
        weights = [weight for weight in self.module.parameters() if weight.requires_grad]
        try:
            self.module.eval()
            for weight in weights:
                weight.requires_grad_(False)
            yield
        finally:
            for weight in weights:
                weight.requires_grad_(True)
            for part, mode in modes:
                part.training = mode
