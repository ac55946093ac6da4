"""Tallies and labels as bytes, without pickle."""

from __future__ import annotations

import io
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tallies import AnyTally, Tally


def pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Named arrays in the layout of an npz file, whose checksums notice a damaged bit."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpack(payload: bytes) -> dict[str, NDArray[Any]]:
    """What `pack` packed."""
    with np.load(io.BytesIO(payload), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def pack_tally(tally: Tally) -> bytes:
    """The numbers of a tally, field by field. What is no number, a plan say, is not stored: an empty tally has it."""
    numbers = {f.name: getattr(tally, f.name) for f in fields(tally) if _is_number(getattr(tally, f.name))}
    return pack({name: np.asarray(value) for name, value in numbers.items()})


def unpack_tally(payload: bytes, like: AnyTally) -> AnyTally:
    """A tally of the kind of another, with the numbers stored."""
    stored = unpack(payload)
    wanted = {f.name for f in fields(like) if _is_number(getattr(like, f.name))}
    if set(stored) != wanted:
        raise ValueError(
            f"The stored evidence must have the fields {sorted(wanted)} of {type(like).__name__}, "
            f"got {sorted(stored)}. It belongs to another certifier, or to another version of it."
        )
    return replace(like, **{name: value if value.ndim else value.item() for name, value in stored.items()})


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.generic) or (
        isinstance(value, np.ndarray) and not value.dtype.hasobject
    )
