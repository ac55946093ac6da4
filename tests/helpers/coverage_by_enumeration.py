"""How often a certificate overstates, by summing the probabilities of all outcomes.

Certified radii take finitely many values. A truth can only be overstated by outcomes whose radius exceeds its own, so
the worst truths lie *just below* a certified radius: a grid of truths that is not placed there hides errors. For every
certified radius the functions here take truths along the whole level set of the certificate, its ends included, and
sum the probabilities of all outcomes with that radius or a larger one.
"""

import numpy as np
from scipy.special import gammaln, ndtr, ndtri

RESULTS = {}
"""Worst error of each kind of certificate, in units of alpha, over the cases seen so far."""


def report(name, case, error, alpha):
    """Print a worst error in units of alpha, and keep the largest of its kind."""
    RESULTS[name] = max(RESULTS.get(name, 0.0), error / alpha)
    print(f"\n{name}, {case}: worst error {error / alpha:.4f} alpha", end="")  # noqa: T201


def compositions(n, kinds):
    """All ways to write `n` as an ordered sum of `kinds` whole numbers, shape (n_outcomes, kinds)."""
    if kinds == 1:
        return np.array([[n]])
    parts = [(first, compositions(n - first, kinds - 1)) for first in range(n + 1)]
    return np.concatenate([np.insert(rest, 0, first, axis=1) for first, rest in parts])


def multinomial(counts, probabilities):
    """Probabilities of outcomes under truths, shape (n_outcomes, n_truths)."""
    coefficient = gammaln(counts.sum(axis=1) + 1.0) - gammaln(counts + 1.0).sum(axis=1)
    return np.exp(coefficient[:, None] + counts @ np.log(np.maximum(probabilities, 1e-300)).T)


def certified_levels(certified, levels=None):
    """The distinct positive numbers that are certified, or some of them, evenly through their order."""
    distinct = np.unique(certified[(certified > 0.0) & np.isfinite(certified)])
    if levels is not None and distinct.size > levels:
        distinct = distinct[np.unique(np.linspace(0, distinct.size - 1, levels).astype(int))]
    return distinct


def worst_error(certified, counts, truths_below, chance=multinomial, levels=None):
    """Return the largest probability of certifying more than the truth.

    Parameters
    ----------
    certified : ndarray of shape (n_outcomes,)
        Certified number of each outcome; those of 0 and less certify nothing.
    counts : ndarray of shape (n_outcomes, n_kinds)
    truths_below : callable
        For a certified number, truths of shape (n_truths, n_kinds), all of them (just) below it.
    chance : callable
        Probabilities of outcomes under truths.
    levels : int, optional
        How many of the certified numbers are tried, evenly through their order; all by default.
    """
    order = np.argsort(-certified, kind="stable")
    certified, counts = certified[order], counts[order]
    worst = 0.0
    for level in certified_levels(certified, levels):
        truths = truths_below(level)
        if len(truths):
            overstating = counts[: np.searchsorted(-certified, -level, side="right")]
            worst = max(worst, float(chance(overstating, truths).sum(axis=0).max()))
    return worst


def between(low, high, size, near_ends=7):
    """Points from `low` to `high`, dense towards both ends, which are among them."""
    inner = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, size))
    ends = np.geomspace(1e-12, 1e-3, 7)[7 - near_ends :]
    return low + (high - low) * np.unique(np.concatenate([inner, ends, 1.0 - ends]))


def last_below(reaches, low, high, steps):
    """By bisection, for each row, the largest number found at which `reaches` is false; it is taken to be at `low`."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        reached = reaches(middle)
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return low


def dipole_bound(both, one_sided, r):
    """Theorem 3 of Levine et al. 2021, as printed."""
    c = ndtri((1.0 + both) / 2.0)
    return ndtr(ndtri(one_sided) - r) + ndtr(c - r) - ndtr(-c - r)


def pair_truths(bound, levels, size=33, steps=50, near_ends=7):
    """For each radius, pair probabilities (two hits, one, none) just below it, along the whole level set.

    ``bound(both, one_sided, r)`` is what the class keeps at distance `r`; it grows when a pair with one hit gets its
    second.
    """
    levels = np.asarray(levels, dtype=float)
    if levels.size == 0:
        return {}
    zero = np.zeros_like(levels)
    # Without pairs of one hit the largest probability of two that stays below.
    end = last_below(lambda both: bound(both, zero, levels) > 0.5, zero, zero + 1.0, steps)
    none = np.outer(1.0 - end, between(0.0, 1.0, size, near_ends)).ravel()
    r = np.repeat(levels, none.size // levels.size)
    both = last_below(
        lambda both: bound(both, np.maximum(1.0 - none - both, 0.0) / 2.0, r) > 0.5,
        np.zeros_like(none),
        1.0 - none,
        steps,
    )
    truths = np.stack([both, np.maximum(1.0 - none - both, 0.0), none], axis=1)
    return dict(zip(levels.tolist(), truths.reshape(levels.size, -1, 3), strict=True))


def rival_truths(winner, level_of_rival):
    """Truths with given probabilities of the class, a rival at its level, and the rest on other classes.

    The kinds are the class, two rivals and votes that are not listed. Either a listed rival is at its level or the
    unlisted votes are; the others share what is left in several ways.
    """
    rest = 1.0 - winner - level_of_rival
    winner, rival, rest = (a[rest >= 0.0] for a in (winner, level_of_rival, rest))
    zero = np.zeros_like(rest)
    shares = [(rival, rest, zero), (rival, zero, rest), (rival, rest / 2, rest / 2), (rest, zero, rival)]
    return np.concatenate([np.stack([winner, *of_others], axis=1) for of_others in shares])


def binomials(hits, shares, trials):
    """Probabilities of hits in strata with given trials, under given shares, shape (n_outcomes, n_truths)."""
    coefficient = gammaln(trials + 1.0) - gammaln(hits + 1.0) - gammaln(trials - hits + 1.0)
    won, lost = (np.log(np.maximum(s, 1e-300)).T for s in (shares, 1.0 - shares))
    return np.exp(coefficient.sum(axis=1)[:, None] + hits @ won + (trials - hits) @ lost)


def shares_below(weights, level, rng, size=200):
    """Shares of strata, inside and on the faces of the unit cube, whose weighted sum is just below a level."""
    start = rng.uniform(-0.5, 1.5, (size, weights.size))
    pull = rng.uniform(0.0, 1.0, start.shape) ** 3 * np.sign(weights)

    def shares(t):
        return np.clip(start + t[:, None] * pull, 0.0, 1.0)

    t = last_below(lambda t: shares(t) @ weights >= level, np.full(size, -1e4), np.full(size, 1e4), 90)
    found = shares(t)
    return found[found @ weights < level]
