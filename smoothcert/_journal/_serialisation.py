"""Tallies and labels as bytes, without pickle."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tallies import AnyTally, Tally


def pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return named arrays in the layout of an npz file, whose checksums notice a damaged bit."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpack(payload: bytes) -> dict[str, NDArray[Any]]:
    """Return the named arrays in bytes that `pack` made."""
    with np.load(io.BytesIO(payload), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def pack_tally(tally: Tally) -> bytes:
    """Return the evidence of a tally as bytes. What does not add, a plan for example, is not stored: an empty tally has
    it."""
    return pack({name: np.asarray(getattr(tally, name)) for name in _stored_fields(tally)})


def unpack_tally(payload: bytes, like: AnyTally) -> AnyTally:
    """Return a tally like another, with the evidence stored."""
    stored = unpack(payload)
    wanted = _stored_fields(like)
    if set(stored) != set(wanted):
        raise ValueError(
            f"The stored evidence must have the fields {sorted(wanted)} of {type(like).__name__}, "
            f"got {sorted(stored)}. It belongs to another certifier, or to another version of it."
        )
    return replace(like, **stored)


def _stored_fields(tally: Tally) -> list[str]:
    return [name for name in tally.additive if getattr(tally, name) is not None]
