"""When evidence is looked at, and how the error probability is divided among the looks.

Everything here is fixed before the first sample of the estimation, so that the certificate of every look holds whatever
stopped the sampling; see the page on looks in the documentation's theory.
"""

from __future__ import annotations

from dataclasses import dataclass

EARLY, FULL, LATER = 0.15, 0.75, 0.05
"""Parts of `alpha`: all looks before the full number of samples together, the look at it, and the first one beyond it.
Each further look, at twice the samples of the one before, has half of its part, so that all of them together have
twice `LATER`, however many there will be."""

LEAST_SAMPLES = 500
"""Samples at the first look, at least; it has less than twice as many unless there are no others."""

_ROUNDED_DOWN = 1.0 - 2.0**-48
"""More than all roundings of a level, so that the sum of all levels does not exceed `alpha`."""


@dataclass(frozen=True)
class Looks:
    """Looks at the evidence about one input, each at twice the draws of the one before.

    Attributes
    ----------
    alpha : float
        Error probability of all looks together.
    block : int
        Draws of noise in a block. Looks are at whole blocks: what is counted once can be continued.
    first : int
        Blocks at the first look.
    n_early : int
        Number of looks before the full one.
    equal : bool
        All looks have the same level, and there are none beyond the full one.
    """

    alpha: float
    block: int
    first: int
    n_early: int
    equal: bool = False

    def draws(self, look: int) -> int:
        """Return the draws of noise that a look is at."""
        return self.block * (self.first << look)

    def level(self, look: int) -> float:
        """Return the error probability of a look, rounded down."""
        return self.alpha * self._part(look) * _ROUNDED_DOWN

    def _part(self, look: int) -> float:
        if self.equal:
            if look > self.n_early:
                raise ValueError(f"look must be at most {self.n_early}, the last one, got {look}.")
            return 1.0 / (self.n_early + 1)
        if look < self.n_early:
            return EARLY / self.n_early
        if look == self.n_early:
            return FULL if self.n_early else FULL + EARLY
        # Beyond the smallest number of all nothing is left to give; no file holds that many samples.
        return LATER * 2.0 ** (self.n_early + 1 - look)

    def at_least(self, draws: int) -> int:
        """Return the first look at `draws` or more."""
        look = 0
        while self.draws(look) < draws:
            look += 1
        return look

    def last(self, draws: int) -> int:
        """Return the last look at no more than `draws`, at least the full one."""
        look = self.n_early
        while not self.equal and self.draws(look + 1) <= draws:
            look += 1
        return look


def plan_looks(n_draws: int, sides: int, largest_block: int, alpha: float, equal: bool = False) -> Looks:
    """Return the looks at half of `n_draws`, a quarter, and so on, down to some hundred samples.

    Parameters
    ----------
    n_draws : int
        Draws of noise at the full look; a few less are taken where it cannot be halved often enough.
    sides : int
        Samples of each draw.
    largest_block : int
        Draws of a block at most.
    alpha : float
        Error probability of all looks together.
    equal : bool, default=False
        Give all looks the same level and allow none beyond the full one.

    Returns
    -------
    Looks
    """
    halvings = 0
    while (n_draws >> (halvings + 1)) * sides >= LEAST_SAMPLES:
        halvings += 1
    splits = halvings
    while n_draws >> splits > largest_block:
        splits += 1
    return Looks(alpha, n_draws >> splits, 1 << (splits - halvings), halvings, equal)
