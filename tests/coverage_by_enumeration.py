"""How often a certificate overstates, by summing the probabilities of all outcomes.

Certified radii take finitely many values. A truth can only be overstated by outcomes whose radius exceeds its own, so
the worst truths lie *just below* a certified radius: a grid of truths that is not placed there hides errors. For every
certified radius the functions here take truths along the whole level set of the certificate, its ends included, and
sum the probabilities of all outcomes with that radius or a larger one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

RESULTS: list[tuple[str, float]] = []
"""Worst errors in units of alpha, in the order in which they were found."""


def compositions(n, parts):
    """All ways to write `n` as an ordered sum of `parts` whole numbers, shape (n_outcomes, parts)."""
    if parts == 1:
        return np.array([[n]])
    return np.concatenate(
        [
            np.concatenate([np.full((len(rest), 1), first), rest], axis=1)
            for first in range(n + 1)
            for rest in [compositions(n - first, parts - 1)]
        ]
    )


def chances(counts, probabilities):
    """Multinomial probabilities of all outcomes under all truths, shape (n_outcomes, n_truths)."""
    n = counts.sum(axis=1)
    coefficient = gammaln(n + 1.0) - gammaln(counts + 1.0).sum(axis=1)
    return np.exp(coefficient[:, None] + xlogy(counts[:, None, :], probabilities[None]).sum(axis=2))


def spread(low, high, size=40):
    """Points of an interval, ends included, dense towards both."""
    inner = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, size))
    ends = np.concatenate([[1e-12], np.geomspace(1e-9, 1e-2, 8)])
    part = np.unique(np.concatenate([inner, ends, 1.0 - ends]))
    return low + (high - low) * part


def worst_error(radius, counts, truths_below, levels=None):
    """Return the largest probability of a radius above the truth.

    Parameters
    ----------
    radius : ndarray of shape (n_outcomes,)
        Certified radius of each outcome.
    counts : ndarray of shape (n_outcomes, n_kinds)
    truths_below : callable
        For a radius, probabilities of the kinds of shape (n_truths, n_kinds), all with a true certificate below it.
    levels : int, optional
        How many of the certified radii are tried, evenly through their order; all by default.
    """
    order = np.argsort(-radius, kind="stable")
    radius, counts = radius[order], counts[order]
    distinct = np.unique(radius[radius > 0.0])
    if levels is not None and distinct.size > levels:
        distinct = distinct[np.unique(np.linspace(0, distinct.size - 1, levels).astype(int))]
    worst = 0.0
    for level in distinct:
        overstating = np.searchsorted(-radius, -level, side="right")
        truths = truths_below(level)
        if len(truths):
            worst = max(worst, float(chances(counts[:overstating], truths).sum(axis=0).max()))
    return worst


def report(name, error, alpha):
    """Print a worst error in units of alpha, keep it for the summary, and return it."""
    RESULTS.append((name, error / alpha))
    print(f"\n{name}: worst error {error / alpha:.4f} alpha", end="")
    return error


def largest_below(holds, low, high, steps=60):
    """For each row, the largest number found with ``holds`` false, by bisection; `holds` is false at `low`."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        inside = holds(middle)
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    return low


def pair_truths(certificate, level, size=40):
    """Pair probabilities (two hits, one, none) just below a radius, along the whole level set of a certificate.

    `certificate(both, one_sided)` must grow with both arguments and when a pair with one hit gets its second.
    """
    # Without pairs of one hit the largest share of two that stays below; more pairs without hit are below anyway.
    least = largest_below(lambda both: certificate(both, np.zeros_like(both)) >= level, [0.0], [1.0])[0]
    none = spread(0.0, 1.0 - least, size)
    both = largest_below(
        lambda both: certificate(both, np.maximum(1.0 - none - both, 0.0) / 2.0) >= level, np.zeros_like(none), 1.0 - none
    )
    truths = np.stack([both, np.maximum(1.0 - none - both, 0.0), none], axis=1)
    return truths[certificate(truths[:, 0], truths[:, 1] / 2.0) < level]
