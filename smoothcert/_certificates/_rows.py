"""Arrays with one entry for each input, put together of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray


def put_together(
    parts: Sequence[tuple[Any, Mapping[str, NDArray[Any]]]], n: int, fill: Mapping[str, float] = MappingProxyType({})
) -> dict[str, NDArray[Any]]:
    """Return arrays of `n` rows by name, put together of parts with places for their rows.

    Parts may lack a name or have shorter rows: in place of what is missing, real numbers are NaN and others zero, or
    what `fill` says.
    """
    if len(parts) == 1 and np.array_equal(parts[0][0], np.arange(n)):
        return dict(parts[0][1])
    joined: dict[str, NDArray[Any]] = {}
    for name in dict.fromkeys(name for _, arrays in parts for name in arrays):
        having = [(places, np.asarray(arrays[name])) for places, arrays in parts if name in arrays]
        kind = np.result_type(*(values.dtype for _, values in having))
        shape = np.max([values.shape[1:] for _, values in having], axis=0).astype(int)
        empty = fill.get(name, np.nan if kind.kind == "f" else 0)
        joined[name] = np.full((n, *shape), empty, dtype=kind)
        for places, values in having:
            joined[name][(places, *(slice(0, length) for length in values.shape[1:]))] = values
    return joined
