"""Votes of skorch nets, cast on their own device. Imported only where there is a net."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from skorch import NeuralNetBinaryClassifier

from .._evaluation_mode import evaluation_mode, leave_training
from .._noise._torch import TorchArrays
from .._validation import FloatArray, IndexArray
from ..training._outputs import main_output

_SOFTNESS = 0.5
"""Margins are divided by this before the sigmoid whose gradients are averaged: soft enough that many samples
contribute, hard enough that the sigmoid is close to a vote. Only the direction depends on it, and certificates hold for
every direction."""


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: the order of sums, and so the last bits of gradients, depends on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class NeuralVoter:
    """Votes of an initialised skorch classifier: the column with the largest output; NaN is no vote.

    Parameters
    ----------
    net : skorch.NeuralNet
    n_classes : int
    """

    def __init__(self, net: Any, n_classes: int) -> None:
        self.net = net
        self.n_classes = n_classes
        self._prepare()

    def _prepare(self) -> None:
        self.arrays = TorchArrays(self.net.device or "cpu")
        self.binary = isinstance(self.net, NeuralNetBinaryClassifier)

    def __getstate__(self) -> dict[str, Any]:
        return {"net": self.net, "n_classes": self.n_classes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A voter is unpickled in worker processes only. They share the cores among them: one thread each.
        torch.set_num_threads(1)
        self.__dict__.update(state)
        self._prepare()
        leave_training(self.net)

    def evaluation_mode(self) -> AbstractContextManager[Any]:
        """Return what to enter for all votes of a run: every layer of the net is in evaluation mode until the end."""
        return evaluation_mode(self.net)

    def fingerprint_state(self) -> tuple[Any, ...]:
        """Return all that votes and noise depend on."""
        return ("torch", self.arrays.device.type, self.net)

    def vote(self, rows: torch.Tensor) -> IndexArray:
        """Return the class each row is voted into, -1 for none; to be called within ``arrays.inference_context()``."""
        return self._votes(self.output(rows))

    def _votes(self, output: torch.Tensor) -> IndexArray:
        if self.binary:
            output = output.reshape(len(output))
            index = (torch.sigmoid(output) > float(self.net.threshold)).long()
        else:
            if output.ndim != 2 or output.shape[1] != self.n_classes:
                raise ValueError(
                    f"The net must have one output for each of the {self.n_classes} classes, got outputs of shape "
                    f"{tuple(output.shape[1:])}. Check the last layer against the labels given to fit."
                )
            # Numpy is faster at this on a processor, with very many classes by far; it has no bfloat16.
            if output.is_cpu and output.dtype != torch.bfloat16:
                index = torch.from_numpy(output.numpy(force=True).argmax(axis=1))
            else:
                index = output.argmax(dim=1)
        # One sum tells whether there may be a NaN at all; the rows are looked at only then.
        if not math.isfinite(output.sum()):
            lost = torch.isnan(output.reshape(len(output), -1)).any(dim=1)
            index = torch.where(lost, -1, index)
        return index.cpu().numpy()

    def differentiable(self, row: FloatArray) -> bool:
        """Return whether input gradients can be had; some modules compute without a graph."""
        rows = self.arrays.row(row).reshape(1, *row.shape)
        try:
            with self.evaluation_mode():
                self.vote_with_gradients(rows, 0)
        except (RuntimeError, NotImplementedError):
            return False
        return True

    def vote_with_gradients(self, rows: torch.Tensor, candidate: int) -> tuple[IndexArray, torch.Tensor]:
        """Return the votes, and the gradients of the candidate's softened margin by the rows."""
        with _one_thread(), torch.enable_grad():
            rows = rows.detach().clone().requires_grad_(True)
            output = self.output(rows)
            votes = self._votes(output.detach())
            if self.binary:
                logit = output.reshape(len(rows)) - float(np.log(self.net.threshold / (1.0 - self.net.threshold)))
                margin = logit if candidate == 1 else -logit
            else:
                rivals = output.clone()
                rivals[:, candidate] = -torch.inf
                margin = output[:, candidate] - rivals.max(dim=1).values
            (slopes,) = torch.autograd.grad(torch.sigmoid(margin / _SOFTNESS).sum(), rows)
        return votes, torch.nan_to_num(slopes, nan=0.0, posinf=0.0, neginf=0.0)

    def output(self, rows: torch.Tensor) -> torch.Tensor:
        """Return what the net says about rows. To be called within ``evaluation_mode()``."""
        return main_output(self.net.infer(rows))
