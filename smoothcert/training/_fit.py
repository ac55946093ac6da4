"""Fitting a skorch net under noise, by a recipe or without. Imported only where a net is to be trained.

For the time of one `fit` the class of the net is a subclass made here, which stands between skorch's training step and
the net's own `infer` and `get_loss`. So whatever the net's class does itself stays in force: its own training step,
loss, mixed precision, gradient accumulation. Attributes of the instance would not do: skorch takes them for parameters.
"""

from __future__ import annotations

import contextlib
import copy
import copyreg
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skorch import NeuralNetBinaryClassifier

from .._column_noise import ColumnNoise, Sigma, typical_sigma
from .._validation import FloatArray
from ._base import BaseRecipe
from ._certified_accuracy import CertifiedAccuracy
from ._runner import PassingCallback, Runner
from ._skorch import TrainingNoise, own_random_state

RECORDS, RUNNER = "smoothcert_history", "smoothcert_training"
"""Names of the callbacks that stand before and after the user's own."""


def fit_net(
    net: Any,
    X: FloatArray,
    y: NDArray[np.intp],
    *,
    sigma: Sigma,
    recipe: BaseRecipe | None = None,
    seed: int = 0,
    seeded: bool = True,
    fit_params: Mapping[str, Any] | None = None,
) -> Any:
    """Fit a net under noise, and leave no trace of how.

    Parameters
    ----------
    net : skorch.NeuralNet
        It is trained in place. Apart from that it is as it was, also when training raises an error; what was trained
        until then is in its module and its history.
    X : ndarray of float32, shape (n_samples, ...)
    y : ndarray of int, shape (n_samples,)
        Indices of the classes, from 0.
    sigma : float or ColumnNoise
        Standard deviation of the noise.
    recipe : BaseRecipe, default=None
        None is one noisy copy of each input.
    seed : int, default=0
        Seed of the noise.
    seeded : bool, default=True
        Take weights, order and dropout from the seed too, and leave the user's own random state as it was.
    fit_params : mapping, default=None
        For the net's ``fit``.

    Returns
    -------
    net
    """
    fit_params = {} if fit_params is None else dict(fit_params)
    target = y.astype(np.float32) if isinstance(net, NeuralNetBinaryClassifier) else y.astype(np.int64)
    n_classes = int(y.max()) + 1
    with contextlib.ExitStack() as stack:
        if seeded:
            stack.enter_context(own_random_state(seed))
        if recipe is None:
            noise = TrainingNoise(sigma, seed, X[:2], n_classes)
            stack.callback(noise.detach)
            stack.enter_context(_extra_callbacks(net, [(RECORDS, _Announcement(sigma))], [(RUNNER, noise)]))
        else:
            recipe.check_params()
            _check_moves_no_inputs(recipe, sigma)
            recipe.check_data(X, typical_sigma(sigma))
            epochs = fit_params.get("epochs") or net.max_epochs
            chance = float(np.bincount(y).max() / len(y))
            runner = Runner(
                net=net,
                recipe=copy.deepcopy(recipe),
                sigma=sigma,
                seed=seed,
                sample=X[:2],
                n_classes=n_classes,
                n_epochs=int(epochs),
                chance=chance,
            )
            stack.enter_context(_extra_callbacks(net, [(RECORDS, _Records(runner))], [(RUNNER, runner)]))
            stack.enter_context(_trained_by(net, runner))
        net.fit(X, target, **fit_params)
    return net


def _check_moves_no_inputs(recipe: BaseRecipe, sigma: Sigma) -> None:
    """Refuse attacks in units that are not those of the noise."""
    if isinstance(sigma, ColumnNoise) and recipe.moves_inputs:
        raise ValueError(
            f"sigma must be one number for training={recipe!r}, which moves inputs by distances in the units of X, got "
            "one for each feature. Scale the features before, or use GaussianNoise, Consistency or MACER."
        )


@contextlib.contextmanager
def _extra_callbacks(net: Any, before: list[tuple[str, Any]], after: list[tuple[str, Any]]) -> Iterator[None]:
    """Put callbacks around the user's, and take them away again."""
    given = net.callbacks
    net.callbacks = [*before, *(() if given in (None, "disable") else given), *after]
    added = {name for name, _ in (*before, *after)}
    try:
        yield
    finally:
        net.callbacks = given
        if hasattr(net, "callbacks_"):
            net.callbacks_ = [(name, callback) for name, callback in net.callbacks_ if name not in added]


@contextlib.contextmanager
def _trained_by(net: Any, runner: Runner) -> Iterator[None]:
    """Let a runner see the training steps of one net."""
    own = type(net)

    class Trained(own):  # type: ignore[misc, valid-type]
        def train_step(self, batch: Any, **fit_params: Any) -> Any:
            step = super().train_step
            return runner.train_step(step, batch, fit_params) if self is net else step(batch, **fit_params)

        def train_step_single(self, batch: Any, **fit_params: Any) -> Any:
            step = super().train_step_single
            return runner.train_step_single(step, batch, fit_params) if self is net else step(batch, **fit_params)

        def infer(self, x: Any, **fit_params: Any) -> Any:
            infer = super().infer
            return runner.infer(infer, x, fit_params) if self is net else infer(x, **fit_params)

        def get_loss(self, y_pred: Any, y_true: Any, *args: Any, **kwargs: Any) -> Any:
            get_loss = super().get_loss
            if self is net and runner.pending is not None:
                return runner.get_loss(get_loss, y_pred, y_true)
            return get_loss(y_pred, y_true, *args, **kwargs)

        def __reduce_ex__(self, protocol: Any) -> Any:
            # Checkpoints pickle the net in the midst of training: what they keep is of the user's own class.
            return copyreg._reconstructor, (own, object, None), self.__getstate__()  # type: ignore[attr-defined]

    Trained.__name__, Trained.__qualname__, Trained.__module__ = own.__name__, own.__qualname__, own.__module__
    net.__class__ = Trained
    try:
        yield
    finally:
        net.__class__ = own


class _Announcement(PassingCallback):
    """Tells callbacks that estimate certificates which noise the net is trained with."""

    def __init__(self, sigma: Sigma) -> None:
        self.sigma = sigma

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        for _, callback in net.callbacks_:
            if isinstance(callback, CertifiedAccuracy):
                callback.training_sigma_ = self.sigma


class _Records(_Announcement):
    """Writes what the runner saw in an epoch into the history, before the user's callbacks look there."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner.sigma)
        self.runner = runner

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        for name, value in self.runner.means_of_epoch().items():
            net.history.record(name, value)
