"""Functions of logits that the recipes are made of. Logits have the shape (copies, batch, n_classes)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def log_mean_softmax(logits: Tensor) -> Tensor:
    """Return the logarithm of the class probabilities averaged over the copies, of shape (batch, n_classes)."""
    return F.log_softmax(logits, dim=-1).logsumexp(dim=0) - math.log(len(logits))


def negative_log_probability(logits: Tensor, y: Tensor) -> Tensor:
    """Return minus the logarithm of the averaged probability of the class, of shape (batch,)."""
    return -log_mean_softmax(logits).gather(-1, y[:, None])[:, 0]


def divergence_from_mean(logits: Tensor) -> Tensor:
    """Return the mean over the copies of KL(mean probabilities || probabilities of the copy), of shape (batch,)."""
    log_mean = log_mean_softmax(logits)
    return (log_mean.exp() * (log_mean - F.log_softmax(logits, dim=-1).mean(dim=0))).sum(dim=-1)


def entropy_of_mean(logits: Tensor) -> Tensor:
    """Return the entropy of the averaged class probabilities, of shape (batch,)."""
    log_mean = log_mean_softmax(logits)
    return -(log_mean.exp() * log_mean).sum(dim=-1)


def divergence_from_target(target: Tensor, logits: Tensor) -> Tensor:
    """Return the mean over the copies of KL(target || probabilities of the copy), of shape (batch,).

    The target is differentiated too.
    """
    log_target = target.clamp_min(torch.finfo(target.dtype).tiny).log()  # 0 log 0 is 0, and so is its gradient
    return (target * (log_target - F.log_softmax(logits, dim=-1).mean(dim=0))).sum(dim=-1)


def soft_radius_hinge(logits: Tensor, y: Tensor, beta: float, gamma: float) -> Tensor:
    """Return ``gamma - (q(s_1) - q(s_2))`` where MACER asks for it and 0 elsewhere, of shape (batch,).

    ``s_1`` and ``s_2`` are the largest two entries of the mean of ``softmax(beta * logits)`` and q is the normal
    quantile. It is asked for where the class of ``s_1`` is right and the difference is finite and at most `gamma`.
    """
    scores = F.softmax(beta * logits, dim=-1).mean(dim=0)
    best, index = scores.topk(2, dim=-1)
    with torch.no_grad():
        margin = torch.special.ndtri(best[:, 0]) - torch.special.ndtri(best[:, 1])
        counted = (index[:, 0] == y) & torch.isfinite(margin) & (margin <= gamma)
    # The quantile of 0 or 1 is infinite and would spoil the gradient even where it is not counted.
    first = torch.where(counted, best[:, 0], 0.75)
    second = torch.where(counted, best[:, 1], 0.25)
    hinge = gamma - (torch.special.ndtri(first) - torch.special.ndtri(second))
    return torch.where(counted, hinge, 0.0)


def ascend(
    logits_of: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    noise: Tensor,
    *,
    step_size: float,
    n_steps: int,
    radius: float | None = None,
    clip: tuple[float, float] | None = None,
) -> Tensor:
    """Return inputs at which the smoothed probability of the class is smaller.

    Each of `n_steps` steps has the length `step_size`, along the gradient of `negative_log_probability` under the
    given noise. After each step the input is clipped to the range `clip` and projected to the ball of the given
    `radius` around where it started, where these are given. An input without gradient stays where it is.

    Parameters
    ----------
    logits_of : callable
        Called with inputs and noise, returns logits of shape (copies, batch, n_classes).
    """
    start = x.detach()
    moved = start
    for _ in range(n_steps):
        moved = moved.detach().requires_grad_(True)
        with torch.enable_grad():
            loss = negative_log_probability(logits_of(moved, noise), y).sum()
        if not loss.requires_grad:
            raise TypeError(
                "The net must be differentiable with respect to its input for an adversarial recipe, got a module "
                "whose outputs do not depend on its input through torch. Use training=Consistency(), which needs no "
                "input gradients."
            )
        (gradient,) = torch.autograd.grad(loss, moved)
        length = _lengths(gradient).clamp_min(torch.finfo(gradient.dtype).tiny)
        moved = moved.detach() + step_size * gradient / length
        if clip is not None:
            moved = moved.clamp(*clip)
        if radius is not None:
            change = moved - start
            moved = start + change * (radius / _lengths(change).clamp_min(radius))
    return moved.detach()


def _lengths(rows: Tensor) -> Tensor:
    """Return the Euclidean norm of each row, in a shape that broadcasts against the rows."""
    lengths: Tensor = torch.linalg.vector_norm(rows.flatten(1), dim=1)
    return lengths.reshape(-1, *[1] * (rows.ndim - 1))
