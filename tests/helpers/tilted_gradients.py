"""Votes that are hard for limits of a tilted gradient: where they miss, and the gradient they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.integrate import quad


class Law(NamedTuple):
    """Votes in strata, and the mean of ``Z f`` along the first axis in each; it has no other component.

    `votes` maps noise of shape (..., n_features), strata of shape (...) and uniform numbers of shape (...) to votes.
    """

    name: str
    votes: Callable
    gradient: np.ndarray
    shares: np.ndarray
    values: tuple[float, ...] = (0.0, 1.0)


def laws(d: int, n_strata: int = 3) -> list[Law]:
    """Return laws with rare misses and others."""
    every = np.ones(n_strata)

    def two(share: float) -> np.ndarray:
        return np.tile([share, 1.0 - share], (n_strata, 1))

    def one_tail(share: float) -> Law:
        cut = stats.norm.isf(share)
        return Law(
            f"misses in one tail, {share}",
            lambda z, s, r: (z[..., 0] < cut).astype(float),
            -stats.norm.pdf(cut) * every,
            two(share),
        )

    both = stats.norm.isf(0.04)
    both_ends = Law(
        "misses in both tails, more in one",
        lambda z, s, r: ((z[..., 0] < both) & ((z[..., 0] > -both) | (r < 0.5))).astype(float),
        -0.5 * stats.norm.pdf(both) * every,
        two(0.06),
    )
    cuts = np.linspace(2.5, -1.0, n_strata)
    moving = Law(
        "boundary that comes nearer",
        lambda z, s, r: (z[..., 0] < cuts[s]).astype(float),
        -stats.norm.pdf(cuts),
        np.stack([stats.norm.sf(cuts), stats.norm.cdf(cuts)], axis=1),
    )
    # Long vectors miss more often, on one side of the first axis.
    far = stats.chi2.isf(0.1, d)

    def mean_of_long(x: float) -> float:
        rest = far - x * x
        above = 1.0 if rest <= 0 else (stats.chi2.sf(rest, d - 1) if d > 1 else 0.0)
        return float(x * stats.norm.pdf(x) * above)

    long_mean = quad(mean_of_long, 0.0, 12.0, limit=500, points=[np.sqrt(far)])[0]
    long = Law(
        "long vectors miss",
        lambda z, s, r: 1.0 - ((np.sum(z * z, axis=-1) > far) & (z[..., 0] > 0.0)),
        -long_mean * every,
        two(0.05),
    )
    slab = stats.norm.isf(0.05)

    def three(z: np.ndarray, s: np.ndarray, r: np.ndarray) -> np.ndarray:
        neither = np.where(r < 0.3, 0.5, 1.0)
        return np.where(z[..., 0] > slab, 0.0, neither)

    rival = Law(
        "a rival in one tail, others anywhere",
        three,
        # (1 - 0.15) P(z < slab): the mean of z times the mean vote given z.
        -0.85 * stats.norm.pdf(slab) * every,
        np.tile([0.05, 0.3 * 0.95, 0.7 * 0.95], (n_strata, 1)),
        (0.0, 0.5, 1.0),
    )
    half = Law("half-space", lambda z, s, r: (z[..., 0] < 0.0).astype(float), -stats.norm.pdf(0.0) * every, two(0.5))
    chance = Law("votes by chance", lambda z, s, r: (r < 0.9).astype(float), 0.0 * every, two(0.1))
    return [one_tail(0.03), one_tail(0.1), both_ends, moving, long, rival, half, chance]
