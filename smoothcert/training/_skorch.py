"""Training skorch nets with fresh noise in every batch. Imported only where there is a net."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from skorch import NeuralNetBinaryClassifier
from skorch.callbacks import Callback

from .._column_noise import ColumnNoise, Sigma
from .._evaluation_mode import evaluation_mode
from .._validation import FloatArray
from ._outputs import main_output


class TrainingNoise(Callback):
    """Adds Gaussian noise to what the module is given, in training mode only.

    It is appended to the net's callbacks for the time of one `fit`, last, so that it meets the module that the others
    may have set up.
    """

    def __init__(self, sigma: Sigma, seed: int, sample: FloatArray, n_classes: int) -> None:
        self.sigma = sigma
        self.seed = seed
        self.sample = sample
        self.n_classes = n_classes
        self.handle: Any = None
        self.generators: dict[torch.device, torch.Generator] = {}

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        self.detach()
        check_goes_through(net, self.sample)
        check_outputs(net, self.sample, self.n_classes)
        warn_of_logits(net, self.sample)
        self.handle = net.module_.register_forward_pre_hook(self._add_noise)

    def on_batch_end(self, net: Any, batch: Any = None, training: bool = False, **step: Any) -> None:
        loss = step.get("loss")
        if not training or loss is None:
            return
        value = float(torch.as_tensor(loss).detach().sum())
        if not np.isfinite(value):
            raise FloatingPointError(
                f"The loss must be finite, got {value:g} in epoch {len(net.history)}. Lower the learning rate or "
                "sigma, clip gradients, or check X for large values."
            )

    def detach(self) -> None:
        if self.handle is not None:
            self.handle.remove()
            self.handle = None

    def _add_noise(self, module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not module.training or not inputs or not torch.is_tensor(inputs[0]) or not inputs[0].is_floating_point():
            return None
        x = inputs[0]
        if x.device not in self.generators:
            self.generators[x.device] = torch.Generator(x.device).manual_seed(self.seed)
        noise = torch.randn(x.shape, generator=self.generators[x.device], device=x.device, dtype=x.dtype)
        return (x + noise_scale(self.sigma, x) * noise, *inputs[1:])


def noise_scale(sigma: Sigma, x: torch.Tensor) -> Any:
    """Return what standard normal noise in the shape of inputs is multiplied with."""
    if not isinstance(sigma, ColumnNoise):
        return sigma
    scale = np.zeros(sigma.n_features)
    scale[sigma.columns] = sigma.sigma
    return torch.as_tensor(scale, dtype=x.dtype, device=x.device).reshape(x.shape[1:])


def code_labels(nets: list[Any], labels: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the classes and the labels of the rows as numbers from 0 on, in the type that nets inside another
    estimator are trained on."""
    binary = all(isinstance(net, NeuralNetBinaryClassifier) for net in nets)
    kind = np.float32 if binary else np.int64
    return np.arange(len(labels)).astype(kind), np.searchsorted(labels, y).astype(kind)


@contextlib.contextmanager
def own_random_state(seed: int) -> Iterator[None]:
    """Seed torch, and leave its random state as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def fitting_inner_nets(seed: int, seeded: bool) -> Iterator[None]:
    """Fit an estimator with nets inside: with `seeded`, what they draw comes from the seed; errors of torch are
    explained."""
    with own_random_state(seed) if seeded else contextlib.nullcontext():
        try:
            yield
        except (RuntimeError, IndexError) as error:
            error.add_note(
                "The estimator around the net decides which labels the net is given. One that codes them itself, as "
                "BaggingClassifier does, gives whole numbers, for which NeuralNetBinaryClassifier has no use: take "
                "NeuralNetClassifier. One that trains a net for one class against the rest, as OneVsRestClassifier "
                "does, needs a net with two outputs."
            )
            raise


def check_goes_through(net: Any, X: FloatArray) -> None:
    """Refuse inputs that the module cannot take, before hours of training."""
    try:
        _outputs(net, X)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"X must fit the net, got rows of shape {X.shape[1:]} and the module answered: {error}. "
            "Images are expected as (n_samples, channels, height, width)."
        ) from error


def check_outputs(net: Any, X: FloatArray, n_classes: int) -> None:
    """Refuse a last layer that does not fit the labels."""
    if isinstance(net, NeuralNetBinaryClassifier):
        if n_classes > 2:
            raise ValueError(
                f"y must have two classes for {type(net).__name__}, got {n_classes}. Use skorch's NeuralNetClassifier "
                "and a module with one output for each class."
            )
        return
    shape = tuple(_outputs(net, X).shape[1:])
    if shape != (n_classes,):
        raise ValueError(
            f"The net must have one output for each of the {n_classes} classes in y, got outputs of shape {shape}. "
            "Check its last layer against the labels."
        )


def warn_of_logits(net: Any, X: FloatArray) -> None:
    """Warn of logits: skorch's default criterion wants probabilities and gives no error if it gets logits."""
    if not isinstance(getattr(net, "criterion_", None), torch.nn.NLLLoss):
        return
    output = _outputs(net, X)
    sums = output.sum(dim=-1)
    if bool((output < 0).any()) or not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        warnings.warn(
            "The criterion is NLLLoss, for which skorch expects probabilities, but the module returns something else. "
            "If it returns logits, create the net with criterion=torch.nn.CrossEntropyLoss.",
            UserWarning,
            stacklevel=2,
        )


def _outputs(net: Any, X: FloatArray) -> torch.Tensor:
    with evaluation_mode(net), torch.no_grad():
        output = net.infer(torch.as_tensor(np.ascontiguousarray(X)))
    return main_output(output)


def classes_of_frozen(net: Any, X: FloatArray, y: NDArray[Any], given: Any = None) -> NDArray[Any]:
    """Return labels of a net that was trained elsewhere: those given, its own, or those in `y` where they can be told.

    They are compared with what the net says about `X`.
    """
    if not getattr(net, "initialized_", False):
        raise ValueError(
            "A frozen net must be initialised and trained, got one that is not. Call net.initialize() and load its "
            "weights with net.load_params(...), or give the net itself to have it trained."
        )
    check_goes_through(net, X[:1])
    outputs = 2 if isinstance(net, NeuralNetBinaryClassifier) else int(_outputs(net, X[:1]).shape[-1])
    labels = np.unique(y)
    try:
        known = np.asarray(net.classes_)
    except AttributeError:
        known = None
    known = known if given is None else np.asarray(given)
    told = known is not None or labels.dtype.kind in "iu"
    if known is None:
        whole = labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < outputs
        known = np.arange(outputs) if whole else labels
    if len(known) != outputs:
        raise ValueError(
            f"y must hold the labels of the net's {outputs} outputs, got {len(known)}: {list(known[:10])}. "
            "Give labels from 0 to the number of outputs less one, or one row of each class."
        )
    outside = ~np.isin(labels, known)
    if np.any(outside):
        raise ValueError(
            f"y must hold labels the frozen net was trained on, got {labels[outside][0]!r}, which is not among "
            f"{list(known[:10])}."
        )
    _check_order(net, X, y, known, told)
    return known


_ROWS_TO_COMPARE = 200
"""Rows, at most, on which the answers of a frozen net are compared with the labels."""

_ROWS_THAT_TELL = 20
"""With fewer rows nothing is concluded."""


def _check_order(net: Any, X: FloatArray, y: NDArray[Any], known: NDArray[Any], told: bool) -> None:
    """Refuse labels that are matched to outputs in an order that is evidently wrong; warn if somebody told that order.

    It is evidently wrong if in another order the net would be right at least twice as often, and on at least 60% of the
    rows, or 80% if somebody told the order: a net that was hardly trained may seem to fit another order by chance. It
    is doubtful if nobody told the order and the net is right about as often as guessing.
    """
    rows = np.unique(np.linspace(0, len(X) - 1, _ROWS_TO_COMPARE).astype(int))
    if len(rows) < _ROWS_THAT_TELL:
        return
    output = _outputs(net, X[rows])
    if isinstance(net, NeuralNetBinaryClassifier):
        answers = (torch.sigmoid(output.reshape(len(rows))) > float(net.threshold)).long()
    else:
        answers = output.argmax(dim=1)
    place = {label: i for i, label in enumerate(known.tolist())}
    confusion = np.zeros((len(known), len(known)))
    for answer, label in zip(answers.tolist(), y[rows].tolist(), strict=True):
        confusion[answer, place[label]] += 1.0 / len(rows)
    agreement = float(np.trace(confusion))
    outputs, best = linear_sum_assignment(confusion, maximize=True)
    possible = float(confusion[outputs, best].sum())
    order = f"classes={known[best].tolist()}" if len(known) <= 20 else "classes=[...]"
    said = f"the net agrees with {100 * agreement:.0f}% of the labels in the order {known[:10].tolist()}"
    if possible >= max(0.8 if told else 0.6, 2.0 * agreement):
        message = (
            f"y must hold the labels of the net's outputs, got labels in the wrong order: {said}, and would agree with "
            f"{100 * possible:.0f}% in another. Give the labels in the order of the outputs: "
            f"SmoothedClassifier(..., {order})."
        )
        if not told:
            raise ValueError(message)
        warnings.warn(message, UserWarning, stacklevel=2)
    elif not told and agreement <= 1.5 / len(known):
        warnings.warn(
            f"The labels in y were matched to the net's outputs in sorted order, and {said}, which is no better than "
            "guessing. Give the labels in the order of the outputs: SmoothedClassifier(..., classes=[...]).",
            UserWarning,
            stacklevel=2,
        )
