"""Gaussian noise: the net's own criterion on noisy copies."""

from __future__ import annotations

from torch import Tensor

from ._base import BaseRecipe
from ._step import TrainingStep


class GaussianNoise(BaseRecipe):
    """Train on noisy copies of the inputs (Cohen et al. 2019).

    With one copy it does the same as ``training=None``, bit for bit, and writes more columns into the history.

    Parameters
    ----------
    copies : int, default=1
        Noisy copies of each input in a training step.
    chunking : {"step", "accumulate", None}, default="step"
        How a batch is split when there are several copies, see `BaseRecipe`.

    References
    ----------
    Cohen, Rosenfeld, Kolter: Certified adversarial robustness via randomized smoothing, 2019.

    Examples
    --------
    >>> from smoothcert.training import GaussianNoise
    >>> GaussianNoise(copies=4).get_params()
    {'chunking': 'step', 'copies': 4}
    """

    def objective(self, step: TrainingStep, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"ce": step.criterion()}
