"""Votes of skorch nets, on the net's own device. Imported only when a net is at hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNetBinaryClassifier

from ._evaluation_mode import evaluation_mode, leave_training
from ._fingerprint import net_content
from ._noise import Seed
from ._validation import FloatArray

_SOFTNESS = 0.5
"""Margins are divided by this before the sigmoid whose gradients are averaged: soft enough that many samples have a
say, hard enough that it is about votes."""

_STAGES = 16


@contextmanager
def _one_thread() -> Iterator[None]:
    """The order of sums, and so the last bits of gradients, depends on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=1024)
def _start(entropy: int, key: int) -> int:
    return int(np.random.SeedSequence([entropy, key]).generate_state(1, np.uint64)[0])


def _number(seed: Seed) -> int:
    """A seed for torch, of 63 bits.

    Torch's generator for processors reads the lower 32 of them only. Random ones would soon meet: among the 50,000
    blocks of a hundred million samples, two would be the same noise with a chance of one in four. So stages and blocks
    of an input are numbered from a random start, and the numbers are scattered by a map that is one to one: no two
    blocks of an input share their noise.
    """
    place = seed.block * _STAGES + seed.stage
    if seed.stage >= _STAGES or place >= 2**32:
        raise ValueError(
            f"n_samples must need fewer than {2**32 // _STAGES} blocks of noise and a certifier have fewer than "
            f"{_STAGES} stages, got block {seed.block} of stage {seed.stage}. Ask for fewer samples."
        )
    high, low = divmod(_start(seed.entropy, seed.key), 2**32)
    mixed = (low + place) % 2**32
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):  # odd factors, so each step can be undone
        mixed = (mixed ^ (mixed >> shift)) * factor % 2**32
    return (high >> 1 << 32) | (mixed ^ (mixed >> 16))


class TorchArrays:
    """Where noise is made and noisy rows are built for nets: on their device, in float32."""

    def __init__(self, device: Any) -> None:
        self.device = torch.device(device)

    def rows_at_once(self, n_features: int) -> int:
        """Rows in one call of the net."""
        # A graphics card wants far more work in a call than the cache of a processor holds.
        numbers = 2**18 if self.device.type == "cpu" else 2**25
        return max(numbers // n_features, 1)

    def row(self, row: FloatArray) -> torch.Tensor:
        """The row, flat, on the device."""
        flat = np.ascontiguousarray(row, dtype=np.float32).reshape(-1)
        return torch.tensor(flat, device=self.device)

    def empty(self, n_rows: int, like: torch.Tensor) -> torch.Tensor:
        """Room for flat rows."""
        return torch.empty((n_rows, like.numel()), dtype=like.dtype, device=self.device)

    def voting(self) -> AbstractContextManager[Any]:
        """What to enter before rows are built and put to the vote."""
        return torch.inference_mode()

    def standard_normal(self, seed: Seed, out: torch.Tensor) -> None:
        """Fill a tensor with noise; the same for a given type of device and shape."""
        out.normal_(generator=torch.Generator(self.device).manual_seed(_number(seed)))

    def around(
        self, x: torch.Tensor, noise: torch.Tensor, sigma: float, out: torch.Tensor, far: torch.Tensor | None = None
    ) -> None:
        """``out = x + sigma * noise`` and ``far = x - sigma * noise``."""
        if far is not None:
            torch.add(x, noise, alpha=-sigma, out=far)
        torch.add(x, noise, alpha=sigma, out=out)

    def to_count(self, noise: torch.Tensor) -> Any:
        """Noise in the form in which tallies sum it best: numpy's sums are faster on a processor, and elsewhere it
        stays on the device."""
        return noise.numpy() if self.device.type == "cpu" else noise


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

    def content(self) -> tuple[Any, ...]:
        """Return all that votes and noise depend on."""
        return ("torch", self.arrays.device.type, net_content(self.net))

    def vote(self, rows: torch.Tensor) -> NDArray[np.intp]:
        """Index of the class each row is voted into, -1 for none. To be called within ``arrays.voting()``."""
        return self._votes(self.output(rows))

    def _votes(self, output: torch.Tensor) -> NDArray[np.intp]:
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
        """Whether input gradients can be had; some modules compute without a graph."""
        rows = self.arrays.row(row).reshape(1, *row.shape)
        try:
            with self.evaluation_mode():
                self.vote_with_slopes(rows, 0)
        except (RuntimeError, NotImplementedError):
            return False
        return True

    def vote_with_slopes(self, rows: torch.Tensor, candidate: int) -> tuple[NDArray[np.intp], torch.Tensor]:
        """Votes, and the gradients of the candidate's softened margin by the rows."""
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
        output = self.net.infer(rows)
        return output[0] if isinstance(output, tuple) else output
