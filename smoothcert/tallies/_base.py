"""What all tallies share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import FloatArray, as_float_array, check_counts
from ._design import Design

IntArray = NDArray[np.int64]
AnyRows = TypeVar("AnyRows", bound="RowArrays")
AnyTally = TypeVar("AnyTally", bound="Tally")


@dataclass(eq=False)
class RowArrays:
    """Arrays with one entry for each input along their leading axis, and settings that all inputs share.

    A subclass is a dataclass that declares how each of its fields is kept: nothing is guessed from types.
    """

    per_row: ClassVar[tuple[str, ...]] = ()
    """Fields with one entry for each input; they may be None."""

    shared: ClassVar[tuple[str, ...]] = ()
    """Fields that are the same for all inputs."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self: AnyRows, rows: Any) -> AnyRows:
        index = np.atleast_1d(np.arange(len(self))[rows])
        return replace(self, **{name: value[index] for name, value in self._rows().items()})

    def _rows(self) -> dict[str, Any]:
        """Return the fields with one entry for each input, those that are None left out."""
        _check_declared(type(self))  # type: ignore[arg-type]
        values = {name: getattr(self, name) for name in self.per_row}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def concatenate(cls: type[AnyRows], parts: Sequence[AnyRows]) -> AnyRows:
        """Return the inputs of all parts, one after the other."""
        if not parts:
            raise ValueError("There must be at least one tally or plan to concatenate, got none.")
        joined: dict[str, Any] = {}
        for name, value in parts[0]._rows().items():
            join = type(value).concatenate if isinstance(value, RowArrays) else np.concatenate
            joined[name] = join([getattr(part, name) for part in parts])
        return replace(parts[0], **joined)


@cache
def _check_declared(kind: type[RowArrays]) -> None:
    """Refuse a class that does not say of each field how it is kept."""
    declared = [*kind.per_row, *kind.shared]
    for field in fields(kind):
        if declared.count(field.name) != 1:
            raise TypeError(
                f"{kind.__name__} must list its field {field.name!r} exactly once, in per_row (one entry for each "
                f"input) or in shared (the same for all inputs); it is listed {declared.count(field.name)} times."
            )


@dataclass(eq=False)
class Tally(RowArrays):
    """Base class of all tallies, which merges them field by field."""

    additive: ClassVar[tuple[str, ...]] = ()
    """Fields that add when two tallies of the same inputs are merged."""

    squared: ClassVar[tuple[str, ...] | None] = None
    """Additive fields that are sums of squares, for `scaled`; None if it is not known what more samples would add up
    to."""

    fill: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """What stands in `summary` for inputs without evidence, where that is not zero."""

    def scaled(self: AnyTally, factor: int) -> AnyTally | None:
        """Return the evidence to expect from `factor` times the samples; None if that is not known.

        Counts and sums are multiplied by the factor and sums of squares by its square, which leaves unbiased estimates
        of squares of means, ``|sum|^2 - sum of squares``, as they are. For planning only: nothing is proved by it.
        """
        if self.squared is None:
            return None
        kept = [name for name in self.additive if getattr(self, name) is not None]
        powers = {name: factor**2 if name in self.squared else factor for name in kept}
        return replace(self, **{name: getattr(self, name) * power for name, power in powers.items()})

    def class_and_rival(self) -> tuple[IntArray, IntArray, IntArray] | None:
        """Return the votes for the class, for its strongest rival, and the samples; None if they are not known.

        All votes for other classes may count as one rival. For planning only.
        """
        return None

    @property
    def needs_noise(self) -> bool:
        """Whether `update` looks at the noise."""
        return False

    @property
    def design(self) -> Design | None:
        """How the noise of the only row is to be drawn; None if at random, as usual."""
        return None

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add the votes on noisy copies of the inputs."""
        raise NotImplementedError

    def summary(self) -> dict[str, NDArray[Any]]:
        """Return the plain numbers of the evidence, for a report."""
        raise NotImplementedError

    def _merge_key(self, other: Any) -> dict[str, Any]:
        """Return what two tallies must have in common to be merged."""
        return {"kind": type(self).__name__, "rows": len(self)}

    def merge(self: AnyTally, other: AnyTally) -> AnyTally:
        """Return the evidence of both as a new tally. Counts add exactly, sums in float64."""
        mine = self._merge_key(other)
        theirs = other._merge_key(self) if isinstance(other, Tally) else {"kind": type(other).__name__}
        for what, value in mine.items():
            if not np.array_equal(np.asarray(value), np.asarray(theirs.get(what))):
                raise ValueError(
                    f"Tallies to merge must have the same {what}, got {value} and {theirs.get(what)}. "
                    "Merge evidence about the same inputs, classes and features only."
                )
        kept = [name for name in self.additive if getattr(self, name) is not None]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in kept})


def as_row_counts(name: str, value: Any, rows: int) -> IntArray:
    counts = check_counts(name, value).astype(np.int64)
    if counts.ndim > 1 or (counts.ndim == 1 and len(counts) != rows):
        raise ValueError(
            f"{name} must be a number or have shape ({rows},), one for each input, got shape {counts.shape}."
        )
    return np.array(np.broadcast_to(counts, (rows,)))


def broadcast_to_rows(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return one number for each place, or one for all."""
    found = as_float_array(name, value)
    if found.shape not in ((), shape):
        raise ValueError(f"{name} must be a number or have shape {shape}, got shape {found.shape}.")
    return np.array(np.broadcast_to(found, shape))


def check_rows(holds: NDArray[np.bool_], rule: str, left: IntArray, right: IntArray) -> None:
    if not np.all(holds):
        at = int(np.argmin(holds))
        raise ValueError(
            f"{rule}, got {int(left[at])} and {int(right[at])} in row {at}. Check that they count the same samples."
        )


def check_finite(name: str, value: FloatArray) -> FloatArray:
    if not np.all(np.isfinite(value)):
        raise ValueError(
            f"{name} must be finite, got {value[~np.isfinite(value)][0]}. Sums of noise are always finite; check where "
            "this value comes from."
        )
    return value
