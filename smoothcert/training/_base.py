"""What a training recipe is.

It says how many noisy copies of an input the net is trained on, may move the input first (`adversary`), and turns the
net's answers into a loss (`objective`). It never sees the optimiser, the batches or the epochs: skorch has those. A
recipe is one file: subclass `BaseRecipe`, write `objective`, and give it to ``SmoothedClassifier(training=...)``.

Torch is not imported here, so that `SmoothedClassifier` can ask what is a recipe without loading it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import BaseEstimator

from .._parameters import Rule, check_parameters, integer, one_of

if TYPE_CHECKING:
    from torch import Tensor

    from ._step import TrainingStep


class BaseRecipe(BaseEstimator, ABC):
    """Base class of all training recipes.

    Parameters
    ----------
    copies : int, default=1
        Noisy copies of each input in a training step.
    chunking : {"step", "accumulate", None}, default="step"
        What becomes of a batch of which several copies are made. ``"step"`` splits it into `copies` chunks and takes
        an optimiser step on each, as the authors of the recipes do: an epoch has `copies` times more steps.
        ``"accumulate"`` splits it in the same way, adds the gradients up and takes a single step. With both, the net
        is never given more rows at once than the batch has. None gives it all copies of the whole batch at once.
    """

    least_copies: ClassVar[int] = 1
    """The smallest number of copies with which the recipe makes sense."""

    _rules: ClassVar[Mapping[str, Rule]] = {}
    """What the parameters of the recipe must be, apart from those of all recipes."""
    moves_inputs: ClassVar[bool] = False
    """Whether it moves inputs by distances in their units, for which all features must have one sigma."""

    def __init__(self, copies: int = 1, chunking: str | None = "step") -> None:
        self.copies = copies
        self.chunking = chunking

    def adversary(self, step: TrainingStep, x: Tensor, y: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs and the noise to train on; by default those given.

        Parameters
        ----------
        step : TrainingStep
            The net, and where training stands.
        x : Tensor of shape (batch, ...)
            Inputs.
        y : Tensor of int, shape (batch,)
            Indices of their classes.
        noise : Tensor of shape (copies, batch, ...)
            Gaussian noise with standard deviation ``step.sigma``.

        Returns
        -------
        x, noise : Tensor
            Of the same shapes.
        """
        return x, noise

    @abstractmethod
    def objective(self, step: TrainingStep, logits: Tensor, y: Tensor) -> Mapping[str, Tensor]:
        """Return the terms whose sum is minimised.

        Parameters
        ----------
        step : TrainingStep
            The net, and where training stands. ``step.criterion()`` is the net's own criterion on these copies;
            ``step.logits(x, noise)`` asks the net again.
        logits : Tensor of shape (copies, batch, n_classes)
            What the net says about ``step.x + step.noise``, in training mode.
        y : Tensor of int, shape (batch,)
            Indices of the classes.

        Returns
        -------
        mapping of str to Tensor
            Each term has shape ``()``, or ``(batch,)`` and is then averaged. A term ``"ce"`` is found in skorch's
            history as ``train_ce``.
        """

    def schedule(self, epoch: int, n_epochs: int) -> float:
        """Return how strong the recipe is in an epoch, found by the hooks in ``step.strength``; 1 by default.

        Parameters
        ----------
        epoch : int
            Counted from 1.
        n_epochs : int
            Number of epochs in all.
        """
        return 1.0

    def sample_weights(self, step: TrainingStep, logits: Tensor, y: Tensor) -> Tensor | None:
        """Return a weight for each input, of shape (batch,), or None for a plain mean; None by default.

        Weights apply to the criterion and to all terms of shape ``(batch,)``. They are used as they are, so weights
        with a mean of 1 keep the scale of the loss.
        """
        return None

    def check_params(self) -> None:
        """Refuse parameters that make no sense, whenever they were set."""
        copies = integer(
            self.least_copies, f"It is the number of noisy copies of each input in a step of {type(self).__name__}."
        )
        check_parameters(self, {"copies": copies, "chunking": one_of("step", "accumulate", None), **self._rules})

    def check_data(self, X: Any, sigma: float) -> None:
        """Refuse or warn of settings that do not suit the data or the noise."""
