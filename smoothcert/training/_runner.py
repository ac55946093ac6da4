"""Runs a recipe within the training steps of a skorch net."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback
from skorch.dataset import unpack_data
from skorch.utils import to_tensor
from torch import Tensor

from .._column_noise import Sigma, typical_sigma
from .._validation import FloatArray
from ._base import BaseRecipe
from ._outputs import logits_from, main_output
from ._skorch import _outputs, check_goes_through, check_outputs, noise_scale, warn_of_logits
from ._step import TrainingStep

_PATIENCE = 5
"""Epochs after which a net should do better than guesses."""


class PassingCallback(Callback):
    """A callback that is there for one fit. Copies of the net made meanwhile, in a checkpoint for example, have an
    empty one in its place."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def __sklearn_clone__(self) -> Callback:
        return Callback()

    def __reduce__(self) -> Any:
        return Callback, ()


class Runner(PassingCallback):
    """Runs a recipe within the training steps of a net.

    A step goes: `train_step_single` notes the batch, the net's own step calls `infer`, which is given noisy copies in
    place of the inputs, and `get_loss`, which gives the recipe's loss in place of the criterion.
    """

    def __init__(
        self,
        *,
        net: Any,
        recipe: BaseRecipe,
        sigma: Sigma,
        seed: int,
        sample: FloatArray,
        n_classes: int,
        n_epochs: int,
        chance: float,
    ) -> None:
        self.net = net
        self.recipe = recipe
        self.sigma = sigma
        self.seed = seed
        self.sample = sample
        self.n_classes = n_classes
        self.n_epochs = n_epochs
        self.chance = chance
        self.start = 0
        self.labels: Tensor | None = None
        self.fraction = 1.0
        self.pending: TrainingStep | None = None
        self.to_logits: Callable[[Any], Tensor] | None = None
        self.generators: dict[torch.device, torch.Generator] = {}
        self.sums: list[dict[str, float]] = []
        self.n_seen: list[int] = []
        self.batch_terms: list[tuple[int, dict[str, float]]] = []
        self.good_weights: dict[str, Tensor] | None = None
        self.best_accuracy = 0.0
        self.warned = False

    # Between skorch and the net ------------------------------------------------------------------------------------

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        check_goes_through(net, self.sample)
        check_outputs(net, self.sample, self.n_classes)
        warn_of_logits(net, self.sample)
        self.to_logits = logits_from(net, _outputs(net, self.sample))
        self.start = len(net.history)
        self._keep_weights()

    def on_epoch_begin(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        self.sums.clear()
        self.n_seen.clear()

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        self._keep_weights()
        self._warn_of_collapse()

    def train_step(self, step: Callable[..., Any], batch: Any, fit_params: Mapping[str, Any]) -> Any:
        """Take an optimiser step on each chunk, or one on the whole batch."""
        self.batch_terms.clear()
        if self.recipe.chunking != "step" or self.recipe.copies == 1:
            result = step(batch, **fit_params)
        else:
            result = _joined([(len(part[0]), step(part, **fit_params)) for part in self._chunks(batch)])
        self._record_batch()
        return result

    def train_step_single(self, step: Callable[..., Any], batch: Any, fit_params: Mapping[str, Any]) -> Any:
        """Compute gradients of a batch, chunk by chunk if so wanted."""
        if self.recipe.chunking != "accumulate" or self.recipe.copies == 1:
            return self._one(step, batch, 1.0, fit_params)
        n_rows = len(unpack_data(batch)[0])
        parts = self._chunks(batch)
        done = [(len(part[0]), self._one(step, part, len(part[0]) / n_rows, fit_params)) for part in parts]
        joined = _joined(done)
        return {**joined, "loss": sum(result["loss"] for _, result in done)}  # each holds its fraction already

    def _one(self, step: Callable[..., Any], batch: Any, fraction: float, fit_params: Mapping[str, Any]) -> Any:
        x, y = unpack_data(batch)
        self.labels, self.fraction = y, fraction
        try:
            result = step(batch, **fit_params)
        finally:
            unused = self.labels is not None or self.pending is not None
            self.labels, self.pending = None, None
        if unused:
            raise TypeError(
                f"The training step of {type(self.net).__name__} must call self.infer and self.get_loss if a training "
                "recipe is used, but it does not. Use training=None, or call self.infer(...) and self.get_loss(...) in "
                "train_step_single."
            )
        first = _first_rows(result["y_pred"], len(x))
        return {**result, "loss": result["loss"].detach(), "y_pred": first}

    def infer(self, infer: Callable[..., Any], x: Any, fit_params: Mapping[str, Any]) -> Any:
        """Let the net answer about noisy copies, if this is a training step."""
        if self.labels is None:
            return infer(x, **fit_params)
        y, self.labels = self.labels, None  # what is asked from here on is asked by the recipe
        net, recipe = self.net, self.recipe
        x = to_tensor(x, device=net.device)
        y = to_tensor(y, device=x.device).long()
        generator = self._generator(x.device)
        shape = (recipe.copies, *x.shape)
        noise = noise_scale(self.sigma, x) * torch.randn(shape, generator=generator, device=x.device, dtype=x.dtype)
        to_logits = self.to_logits
        assert to_logits is not None
        step = TrainingStep(
            sigma=typical_sigma(self.sigma),
            epoch=self._epoch(),
            n_epochs=self.start + self.n_epochs,
            strength=recipe.schedule(self._epoch(), self.start + self.n_epochs),
            generator=generator,
            module=net.module_,
            x=x,
            noise=noise,
            classify=lambda inputs: to_logits(infer(inputs, **fit_params)),
        )
        step.x, step.noise = recipe.adversary(step, x, y, noise)
        if step.x.shape != x.shape or step.noise.shape != noise.shape:
            raise ValueError(
                f"adversary must return inputs of shape {tuple(x.shape)} and noise of shape {tuple(noise.shape)}, got "
                f"{tuple(step.x.shape)} and {tuple(step.noise.shape)} from {recipe!r}."
            )
        self.pending = step
        return infer((step.x + step.noise).flatten(0, 1), **fit_params)

    def get_loss(self, get_loss: Callable[..., Any], y_pred: Any, y_true: Any) -> Tensor:
        """Return the loss of the recipe for what `infer` returned."""
        step, self.pending = self.pending, None
        assert step is not None
        assert self.to_logits is not None
        net, recipe = self.net, self.recipe
        copies, n_rows = step.noise.shape[:2]
        inputs = (step.x + step.noise).flatten(0, 1)
        target = to_tensor(y_true, device=net.device)
        y = target.long()
        rows = self.to_logits(y_pred)
        logits = rows.reshape(copies, n_rows, *rows.shape[1:])
        weights = recipe.sample_weights(step, logits, y)
        criterion = getattr(net.criterion_, "_orig_mod", net.criterion_)
        reduction = getattr(criterion, "reduction", "mean")

        def own_criterion() -> Tensor:
            repeated = target.repeat(copies, *[1] * (target.ndim - 1))
            if weights is None:
                value: Tensor = get_loss(y_pred, repeated, X=inputs, training=True)
                return value / (copies * n_rows) if reduction == "sum" else value.mean()
            with _reduction(criterion, "none"):
                each: Tensor = get_loss(y_pred, repeated, X=inputs, training=True)
            if each.shape != (copies * n_rows,):
                raise TypeError(
                    f"The criterion must have a value for each row to be weighted, got shape {tuple(each.shape)} from "
                    f"{type(criterion).__name__}. Use one of torch's, or a recipe without sample_weights."
                )
            return each.reshape(copies, n_rows).mean(dim=0)

        step._criterion = own_criterion
        terms = {name: _mean(name, term, weights, n_rows) for name, term in recipe.objective(step, logits, y).items()}
        loss = torch.stack(list(terms.values())).sum()
        values = {f"train_{name}": float(term.detach()) for name, term in terms.items()}
        if not np.isfinite(float(loss.detach())):
            self._refuse(values)
        right = (logits.detach().argmax(dim=-1) == y).float().mean()
        self.batch_terms.append((n_rows, {**values, "train_noisy_acc": float(right)}))
        return loss * (n_rows if reduction == "sum" else self.fraction)

    # Records -------------------------------------------------------------------------------------------------------

    def means_of_epoch(self) -> dict[str, float]:
        """Return the mean of each term over the inputs of the epoch."""
        if not self.sums:
            return {}
        total = sum(self.n_seen)
        return {name: sum(sums[name] for sums in self.sums) / total for name in self.sums[0]}

    def _record_batch(self) -> None:
        if not self.batch_terms:
            return
        n_rows = sum(n for n, _ in self.batch_terms)
        sums = {name: sum(n * values[name] for n, values in self.batch_terms) for name in self.batch_terms[0][1]}
        self.sums.append(sums)
        self.n_seen.append(n_rows)
        for name, value in sums.items():
            self.net.history.record_batch(name, value / n_rows)

    def _warn_of_collapse(self) -> None:
        """Warn once if the accuracy has fallen to that of guesses, or is still there after some epochs."""
        accuracy = self.means_of_epoch().get("train_noisy_acc")
        if self.warned or accuracy is None:
            return
        deviation = np.sqrt(self.chance * (1 - self.chance) / sum(self.n_seen))
        fallen = self.best_accuracy > self.chance + 10 * deviation
        late = self._epoch() - self.start >= _PATIENCE
        self.best_accuracy = max(self.best_accuracy, accuracy)
        if accuracy <= self.chance + 3 * deviation and (fallen or late):
            self.warned = True
            warnings.warn(
                f"Training has collapsed: in epoch {self._epoch()} the accuracy on the noisy training copies is "
                f"{accuracy:.3g}, no better than guessing ({self.chance:.3g}). Lower the weight or the distance of "
                f"{self.recipe!r}, the learning rate or sigma={typical_sigma(self.sigma):g}.",
                UserWarning,
                stacklevel=2,
            )

    def _refuse(self, values: Mapping[str, float]) -> None:
        named = ", ".join(f"{name}={value:g}" for name, value in values.items())
        epoch = self._epoch()
        if self.good_weights is not None:
            self.net.module_.load_state_dict(self.good_weights)
        raise FloatingPointError(
            f"The loss must be finite, got {named} in epoch {epoch}. Lower the learning rate or the weight of "
            f"{self.recipe!r}, clip gradients, or check X for large values. The module has the weights "
            + (f"from the end of epoch {epoch - 1}" if epoch > 1 else "from before training")
            + ", and the history contains what was recorded until the error."
        )

    # Small things --------------------------------------------------------------------------------------------------

    def _epoch(self) -> int:
        return len(self.net.history)

    def _keep_weights(self) -> None:
        self.good_weights = copy.deepcopy(self.net.module_.state_dict())

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self.generators:
            self.generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self.generators[device]

    def _chunks(self, batch: Any) -> list[tuple[Any, Any]]:
        """Split a batch into as many nearly equal chunks as there are copies, fewer if it has fewer rows."""
        x, y = unpack_data(batch)
        ends = np.linspace(0, len(x), min(self.recipe.copies, len(x)) + 1).round().astype(int)
        return [(x[i:j], y[i:j]) for i, j in pairwise(ends)]


def _joined(results: list[tuple[int, Any]]) -> dict[str, Any]:
    """Put the results of chunks together, as if they were of one batch."""
    total = sum(n for n, _ in results)
    loss = sum(n / total * result["loss"] for n, result in results)
    outputs = [result["y_pred"] for _, result in results]
    several = isinstance(outputs[0], tuple)
    y_pred = tuple(map(torch.cat, zip(*outputs, strict=True))) if several else torch.cat(outputs)
    return {**results[-1][1], "loss": loss, "y_pred": y_pred}


def _first_rows(output: Any, n_rows: int) -> Any:
    """Return the outputs for the first copy of each input, which callbacks take for those of the batch."""
    if isinstance(output, tuple):
        return tuple(_first_rows(part, n_rows) for part in output)
    return main_output(output)[:n_rows].detach()


def _mean(name: str, term: Any, weights: Tensor | None, n_rows: int) -> Tensor:
    if not torch.is_tensor(term) or term.shape not in ((), (n_rows,)):
        shape = tuple(term.shape) if torch.is_tensor(term) else type(term).__name__
        raise ValueError(
            f"The term {name!r} of an objective must be a tensor of shape () or ({n_rows},), got {shape}. "
            "Sum or average over the copies and the classes."
        )
    return (term if weights is None or not term.ndim else weights * term).mean()


@contextlib.contextmanager
def _reduction(criterion: Any, reduction: str) -> Iterator[None]:
    given = getattr(criterion, "reduction", None)
    if given is None:
        raise TypeError(
            f"The criterion must have a reduction to be weighted, got {type(criterion).__name__}. Use one of torch's, "
            "or a recipe without sample_weights."
        )
    criterion.reduction = reduction
    try:
        yield
    finally:
        criterion.reduction = given
