"""Evaluation mode for the time of a vote.

A base must vote by one fixed function of its input. A layer in training mode is not: dropout is random, and batch
normalisation computes with the other rows of the batch and changes its own averages. A net may be in evaluation mode
as a whole while one of its layers is not (``module.eval(); module.bn.train()``), so every layer is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
_in_use: dict[int, list[Any]] = {}
"""For each layer in use, by its identity: how many contexts it is in, and its mode before the first of them."""


@contextmanager
def evaluation_mode(net: Any) -> Iterator[None]:
    """Put every layer of an initialised skorch net in evaluation mode, and restore the previous modes on exit.

    Contexts may overlap, one inside the other or in several threads: the mode of a layer is restored at the end of the
    last one that uses it.
    """
    layers = _find_layers(net)
    with _lock:
        for layer in layers:
            _in_use.setdefault(id(layer), [0, layer.training])[0] += 1
        _set_evaluation(layers)
    try:
        yield
    finally:
        with _lock:
            modes = []
            for layer in layers:
                entry = _in_use[id(layer)]
                entry[0] -= 1
                if not entry[0]:
                    modes.append((layer, _in_use.pop(id(layer))[1]))
            _restore(modes, call=len(modes) == len(layers))


def leave_training(net: Any) -> None:
    """Put every layer of a net in evaluation mode for good; for copies that are used for nothing but votes."""
    _set_evaluation(_find_layers(net))


def _find_layers(net: Any) -> list[Any]:
    """Return all layers of a net, those of its criterion included, a layer before those inside it."""
    roots = [getattr(net, f"{name}_") for name in [*net._modules, *net._criteria]]
    found = {id(layer): layer for root in roots if hasattr(root, "modules") for layer in root.modules()}
    return list(found.values())


def _set_evaluation(layers: list[Any]) -> None:
    for layer in layers:
        if layer.training:
            layer.train(False)  # which layers may override, to merge weights for example
    for layer in layers:
        if layer.training:  # such a method may leave something in training mode
            layer.training = False


def _restore(modes: list[tuple[Any, bool]], call: bool) -> None:
    """Restore modes; by ``train`` only if no layer is in use elsewhere, since it is passed on to the layers inside."""
    for layer, training in modes:
        if call and layer.training != training:
            layer.train(training)
    for layer, training in modes:
        if layer.training != training:
            layer.training = training
