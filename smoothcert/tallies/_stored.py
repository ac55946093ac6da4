"""Tallies and plans as named arrays and a description in plain values, for files without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._base import RowArrays


class UnknownKind(ValueError):
    """A file names a class that no module has defined so far."""


def rows_to_plain(value: RowArrays, prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return a description of a tally or plan, and add its arrays under names that begin with `prefix`.

    Raises TypeError if it shares settings among its rows that are neither numbers nor text.
    """
    nested, names = {}, []
    for name, each in value._rows().items():
        if isinstance(each, RowArrays):
            nested[name] = rows_to_plain(each, f"{prefix}{name}/", arrays)
        else:
            arrays[f"{prefix}{name}"] = np.asarray(each)
            names.append(name)
    shared = {name: _plain(getattr(value, name)) for name in value.shared}
    return {"type": _name(type(value)), "arrays": names, "nested": nested, "shared": shared}


def rows_from_plain(plain: Mapping[str, Any], prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the tally or plan that `rows_to_plain` described."""
    kinds: list[type[RowArrays]] = [RowArrays]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
        if _name(kind) == plain["type"]:
            break
    else:
        raise UnknownKind(f"The file needs the tally {plain['type']}, which is not imported. Import its module first.")
    values: dict[str, Any] = dict.fromkeys(kind.per_row)
    values |= {name: arrays[f"{prefix}{name}"] for name in plain["arrays"]}
    for name, each in plain["nested"].items():
        values[name] = rows_from_plain(each, f"{prefix}{name}/", arrays)
    values |= {name: tuple(each) if isinstance(each, list) else each for name, each in plain["shared"].items()}
    return kind(**values)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    raise TypeError(f"Settings of a tally must be numbers or text to be stored, got {value!r}.")
