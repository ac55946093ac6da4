"""What all tallies share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import FloatArray, as_float_array, check_counts

IntArray = NDArray[np.int64]
AnyRows = TypeVar("AnyRows", bound="RowArrays")
AnyTally = TypeVar("AnyTally", bound="Tally")


@dataclass(eq=False)
class RowArrays:
    """Arrays with one entry for each input along their leading axis, and settings that all inputs share."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self: AnyRows, rows: Any) -> AnyRows:
        index = np.atleast_1d(np.arange(len(self))[rows])
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: value[index] for name, value in values.items() if _by_row(value)})

    @classmethod
    def concatenate(cls: type[AnyRows], parts: Sequence[AnyRows]) -> AnyRows:
        """The inputs of all parts, one after the other."""
        if not parts:
            raise ValueError("There must be at least one tally or plan to concatenate, got none.")
        joined: dict[str, Any] = {}
        for f in fields(parts[0]):
            values = [getattr(part, f.name) for part in parts]
            if _by_row(values[0]):
                join = type(values[0]).concatenate if isinstance(values[0], RowArrays) else np.concatenate
                joined[f.name] = join(values)
        return replace(parts[0], **joined)


def _by_row(value: Any) -> bool:
    return isinstance(value, RowArrays) or (isinstance(value, np.ndarray) and value.ndim > 0)


@dataclass(eq=False)
class Tally(RowArrays):
    """What all tallies share: merging, field by field."""

    _additive: ClassVar[tuple[str, ...]] = ()

    @property
    def needs_noise(self) -> bool:
        """Whether `update` looks at the noise."""
        return False

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add the votes on noisy copies of the inputs."""
        raise NotImplementedError

    def summary(self) -> dict[str, NDArray[Any]]:
        """The plain numbers of the evidence, for a report."""
        raise NotImplementedError

    def _merge_key(self, other: Any) -> dict[str, Any]:
        """What two tallies must have in common to be merged."""
        return {"kind": type(self).__name__, "rows": len(self)}

    def merge(self: AnyTally, other: AnyTally) -> AnyTally:
        """Evidence of both, as a new tally. Counts add exactly, sums in float64."""
        mine = self._merge_key(other)
        theirs = other._merge_key(self) if isinstance(other, Tally) else {"kind": type(other).__name__}
        for what, value in mine.items():
            if not np.array_equal(np.asarray(value), np.asarray(theirs.get(what))):
                raise ValueError(
                    f"Tallies to merge must have the same {what}, got {value} and {theirs.get(what)}. "
                    "Merge evidence about the same inputs, classes and features only."
                )
        kept = [name for name in self._additive if getattr(self, name) is not None]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in kept})


def as_row_counts(name: str, value: Any, rows: int) -> IntArray:
    counts = check_counts(name, value).astype(np.int64)
    if counts.ndim > 1 or (counts.ndim == 1 and len(counts) != rows):
        raise ValueError(
            f"{name} must be a number or have shape ({rows},), one for each input, got shape {counts.shape}."
        )
    return np.array(np.broadcast_to(counts, (rows,)))


def broadcast_to_rows(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """One number for each place, or one for all."""
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
        raise ValueError(f"{name} must be finite, got {value[~np.isfinite(value)][0]}. A sum of noise never overflows.")
    return value
