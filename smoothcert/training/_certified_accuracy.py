"""A skorch callback that watches what training under noise is for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.stats import norm
from skorch import NeuralNetBinaryClassifier
from skorch.callbacks import Callback
from skorch.dataset import unpack_data
from skorch.utils import to_tensor

from .._column_noise import ColumnNoise, Sigma
from .._parameters import Rule, check_parameters, integer, not_negative, optional, positive
from ._outputs import main_output
from ._skorch import noise_scale


class CertifiedAccuracy(Callback):
    """Estimate the certified accuracy at a radius on the validation data, every few epochs.

    Given among the callbacks of a net, it writes the column `name` into the net's history, and ``name + "_best"`` for
    checkpoints, so that early stopping and checkpoints can watch it. It is the share of inputs for whose class at least
    the fraction of votes was seen that a first-order certificate of that radius needs. That is an estimate to steer by:
    it has no confidence level, and with few samples it is too high at large radii.

    Parameters
    ----------
    radius : float
        In the units of `X`, or in units of sigma where features have a standard deviation each.
    every : int, default=5
        Epochs between estimates. The first epoch has one too; in between the last value is repeated.
    n_samples : int, default=100
        Noisy copies of each input.
    n_inputs : int, default=500
        How many of the validation data to use, from the first; None takes all.
    sigma : float, default=None
        Standard deviation of the noise; None is that of the `SmoothedClassifier` that trains the net.
    seed : int, default=0
        Seed of the noise. Each estimate sees the same noise, and training sees none of it.
    name : str, default="certified_accuracy"
        Column in the history.

    Examples
    --------
    >>> from skorch.callbacks import Checkpoint, EarlyStopping
    >>> from smoothcert.training import CertifiedAccuracy
    >>> callbacks = [
    ...     CertifiedAccuracy(radius=0.5),
    ...     EarlyStopping(monitor="certified_accuracy", lower_is_better=False, patience=20),
    ... ]
    """

    _rules: ClassVar[Mapping[str, Rule]] = {
        "radius": not_negative("It is a distance in the units of X."),
        "sigma": optional(positive("None is that of the SmoothedClassifier.")),
        "every": integer(1, "5 is the default."),
        "n_samples": integer(1, "100 is the default."),
        "n_inputs": optional(integer(1, "500 is the default; None takes all.")),
    }

    def __init__(
        self,
        radius: float,
        every: int = 5,
        n_samples: int = 100,
        n_inputs: int | None = 500,
        sigma: float | None = None,
        seed: int = 0,
        name: str = "certified_accuracy",
    ) -> None:
        self.radius = radius
        self.every = every
        self.n_samples = n_samples
        self.n_inputs = n_inputs
        self.sigma = sigma
        self.seed = seed
        self.name = name

    def initialize(self) -> CertifiedAccuracy:
        self.best_ = -np.inf
        self.last_: float | None = None
        self.training_sigma_: Sigma | None = None
        self.warned_ = False
        return self

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        check_parameters(self, self._rules)

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        epoch = len(net.history)
        best = False
        if self.last_ is None or epoch % self.every == 0:
            self.last_ = self._estimate(net, dataset_valid)
            best = self.last_ > self.best_
            self.best_ = max(self.best_, self.last_)
        net.history.record(self.name, self.last_)
        net.history.record(f"{self.name}_best", best)

    def _estimate(self, net: Any, dataset: Any) -> float:
        if dataset is None:
            raise ValueError(
                "CertifiedAccuracy needs validation data, got a net with train_split=None. Give it "
                "train_split=skorch.dataset.ValidSplit(5), or predefined_split(...)."
            )
        sigma = self.training_sigma_ if self.sigma is None else float(self.sigma)
        if sigma is None:
            raise ValueError(
                "CertifiedAccuracy must know sigma, got None and a net that is not trained by a SmoothedClassifier. "
                "Give it, for example CertifiedAccuracy(radius=0.25, sigma=0.5)."
            )
        # Where features have a standard deviation each, the radius is in units of these.
        unit = 1.0 if isinstance(sigma, ColumnNoise) else sigma
        needed = norm.cdf(self.radius / unit)
        if self.n_samples * norm.sf(self.radius / unit) < 1 and not self.warned_:
            self.warned_ = True
            warnings.warn(
                f"CertifiedAccuracy(n_samples={self.n_samples}) overestimates the certified accuracy at "
                f"radius={self.radius:g} and sigma={unit:g}: an input counts if all of its few votes are right, which "
                "often happens by chance. Use a smaller radius, or at least "
                f"{int(np.ceil(min(1 / norm.sf(self.radius / unit), 1e9)))} samples.",
                UserWarning,
                stacklevel=2,
            )
        reached = total = 0
        generator: torch.Generator | None = None
        net._set_training(False)
        # Data loaders draw from the random state of the processor, which belongs to training.
        with torch.inference_mode(), torch.random.fork_rng(devices=[]):
            for batch in net.get_iterator(dataset, training=False):
                x, y = unpack_data(batch)
                left = len(x) if self.n_inputs is None else min(len(x), self.n_inputs - total)
                x, y = to_tensor(x[:left], device=net.device), to_tensor(y[:left], device=net.device)
                generator = generator or torch.Generator(x.device).manual_seed(self.seed)
                hits = torch.zeros(left, device=x.device)
                for _ in range(self.n_samples):
                    noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
                    hits += _votes(net, x + noise_scale(sigma, x) * noise) == y
                reached += int((hits / self.n_samples >= needed).sum())
                total += left
                if total == self.n_inputs:
                    break
        return reached / total


def _votes(net: Any, rows: torch.Tensor) -> torch.Tensor:
    output = main_output(net.infer(rows))
    if isinstance(net, NeuralNetBinaryClassifier):
        return torch.sigmoid(output.reshape(len(rows))) > float(net.threshold)
    return output.argmax(dim=1)
