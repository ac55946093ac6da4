"""Tallies that are complete, without the sums of noise: as much as a radius can be computed from again.

A sum of noise has as many numbers as an input, for every class and stratum. What enters a radius are squared lengths
and inner products of such sums, so a condensed tally keeps those. It cannot be updated or merged any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from .._validation import FloatArray
from ._base import Tally
from ._directional import DirectionalTally
from ._gradients import GradientTally
from ._pairs import PairTally
from ._rivals import RivalTally, resize


def _without(names: tuple[str, ...], left_out: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != left_out)


def condense(tally: Tally) -> Tally:
    """Return the evidence of a tally without sums of noise; a kind that is not known here stays as it is."""
    known = _CONDENSED.get(type(tally))
    return tally if known is None else known(tally)


class _Complete:
    """Refuses more evidence."""

    def update(self, noise: Any, votes: ArrayLike) -> NoReturn:
        raise TypeError("A condensed tally cannot be updated: its sums of noise were not kept.")

    def merge(self, other: Any) -> NoReturn:
        raise TypeError("A condensed tally cannot be merged: its sums of noise were not kept.")


@dataclass(eq=False)
class CondensedGradientTally(_Complete, GradientTally):
    """Hits, and estimates of squared gradient norms.

    Attributes
    ----------
    estimate : ndarray, shape of `hits`
        What `norm_sq` returns.
    lead_estimate : ndarray, shape of `hits`, or None
        What `lead_norm_sq` returns, with several classes.
    dimension : int
        Dimension of the noise.
    """

    per_row: ClassVar[tuple[str, ...]] = ("hits", "n", "candidate", "estimate", "lead_estimate")
    shared: ClassVar[tuple[str, ...]] = ("centre", "dimension", "grad_sum", "grad_sq", "grad_error", "vote_sq")

    estimate: FloatArray = field(default_factory=lambda: np.empty(0))
    lead_estimate: FloatArray | None = None
    dimension: int = 0

    def __post_init__(self) -> None:
        pass

    @property
    def n_features(self) -> int:
        return self.dimension

    @property
    def norm_sq(self) -> FloatArray:
        return self.estimate

    def lead_norm_sq(self) -> FloatArray:
        assert self.lead_estimate is not None
        return self.lead_estimate

    @classmethod
    def of(cls, tally: Any) -> CondensedGradientTally:
        several = tally.hits.ndim == 2 and tally.candidate is not None
        return cls(
            hits=tally.hits,
            n=tally.n,
            grad_sum=None,  # type: ignore[arg-type]
            grad_sq=None,  # type: ignore[arg-type]
            centre=tally.centre,
            candidate=tally.candidate,
            estimate=tally.norm_sq,
            lead_estimate=tally.lead_norm_sq() if several else None,
            dimension=tally.n_features,
        )


@dataclass(eq=False)
class CondensedPairTally(_Complete, PairTally):
    """Counts of pairs, and estimates of squared gradient norms.

    Attributes
    ----------
    estimate : ndarray of shape (n_rows,) or None
        What `norm_sq` returns.
    dimension : int
        Dimension of the noise.
    """

    per_row: ClassVar[tuple[str, ...]] = ("both", "one", "pairs", "one_plus", "candidate", "estimate")
    shared: ClassVar[tuple[str, ...]] = ("dimension", "grad_sum", "grad_sq", "grad_error")

    estimate: FloatArray | None = None
    dimension: int = 0

    def __post_init__(self) -> None:
        pass

    @property
    def n_features(self) -> int:
        return self.dimension

    @property
    def norm_sq(self) -> FloatArray:
        assert self.estimate is not None
        return self.estimate

    def summary(self) -> dict[str, Any]:
        counts = super().summary()
        return counts if self.estimate is None else {**counts, "norm_sq": self.norm_sq}

    @classmethod
    def of(cls, tally: Any) -> Tally:
        if tally.grad_sum is None:
            return tally  # type: ignore[no-any-return]
        return cls(
            both=tally.both,
            one=tally.one,
            pairs=tally.pairs,
            one_plus=tally.one_plus,
            candidate=tally.candidate,
            estimate=tally.norm_sq,
            dimension=tally.n_features,
        )


@dataclass(eq=False)
class CondensedDirectionalTally(_Complete, DirectionalTally):
    """Hits along a direction, and inner products of the sums across it.

    Attributes
    ----------
    products : ndarray of shape (n_rows, n_strata, n_strata)
        What `grad_products` returns.
    """

    per_row: ClassVar[tuple[str, ...]] = (
        *(name for name in DirectionalTally.per_row if name != "grad_sum"),
        "products",
    )
    shared: ClassVar[tuple[str, ...]] = ("grad_sum",)

    products: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        pass

    def grad_products(self) -> FloatArray:
        return self.products

    @classmethod
    def of(cls, tally: Any) -> CondensedDirectionalTally:
        return cls(**_without_sums(tally), products=tally.grad_products())


@dataclass(eq=False)
class CondensedRivalTally(_Complete, RivalTally):
    """Votes along a direction, and inner products of the sums across it.

    Attributes
    ----------
    products : ndarray of shape (n_rows, n_rivals, 2, n_strata, n_strata)
        What `lead_products` returns for each rival of the plan, with all centres one half and with those of the plan.
    """

    per_row: ClassVar[tuple[str, ...]] = (*_without(RivalTally.per_row, "grad_sum"), "products")
    shared: ClassVar[tuple[str, ...]] = ("grad_sum",)

    products: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        pass

    def lead_products(self, row: int, rival: int, centres: FloatArray) -> FloatArray:
        products: FloatArray = self.products[row, rival, 0 if np.all(centres == 0.5) else 1]
        return products

    @classmethod
    def concatenate(cls, parts: Sequence[Any]) -> Any:
        most = max((part.plan.rivals.shape[1] for part in parts), default=0)
        resized = []
        for part in parts:
            changes = {name: resize(getattr(part, name), 2 + most) for name in ("grad_sq", "grad_error")}
            changes |= {"bin_hits": resize(part.bin_hits, 1 + most)}
            changes |= {"plan": part.plan.with_rivals(most), "products": resize(part.products, most)}
            resized.append(replace(part, **changes))
        return super(RivalTally, cls).concatenate(resized)

    @classmethod
    def of(cls, tally: Any) -> CondensedRivalTally:
        n_rows, n_rivals, n_strata = len(tally), tally.plan.rivals.shape[1], tally.plan.n_strata
        products = np.zeros((n_rows, n_rivals, 2, n_strata, n_strata))
        one_half = np.full(n_strata, 0.5)
        for row, rival in np.argwhere(tally.plan.rivals >= 0):
            products[row, rival, 0] = tally.lead_products(row, rival, one_half)
            products[row, rival, 1] = tally.lead_products(row, rival, tally.plan.centres[row, rival])
        return cls(**_without_sums(tally), products=products)


def _without_sums(tally: Any) -> dict[str, Any]:
    kept = {each.name: getattr(tally, each.name) for each in fields(tally)}
    # Of the direction only the number of its components is used again; it is part of the counts of a certificate.
    plan = replace(tally.plan, direction=np.zeros(tally.plan.direction.shape, dtype=bool))
    return {**kept, "grad_sum": None, "plan": plan}


# By exact type: a subclass may have evidence of its own.
_CONDENSED: dict[type[Tally], Callable[[Any], Tally]] = {
    GradientTally: CondensedGradientTally.of,
    PairTally: CondensedPairTally.of,
    DirectionalTally: CondensedDirectionalTally.of,
    RivalTally: CondensedRivalTally.of,
}
