"""The IDX format in which MNIST was published."""

from __future__ import annotations

import gzip
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_UNSIGNED_BYTE = 8
"""The number of this type in the format."""


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return an array of unsigned bytes from a gzipped IDX file.

    Two zero bytes, the type, the number of axes, the length of each axis as a big-endian integer, the values.
    """
    try:
        raw = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError) as error:
        raise _damaged(path, str(error)) from error
    if len(raw) < 4 or raw[:3] != bytes([0, 0, _UNSIGNED_BYTE]):
        raise _damaged(path, f"it begins with {list(raw[:4])}")
    start = 4 + 4 * raw[3]
    shape = tuple(int(n) for n in np.frombuffer(raw[4:start], dtype=">u4"))
    values = np.frombuffer(raw, dtype=np.uint8, offset=min(start, len(raw)))
    if len(shape) != raw[3] or values.size != prod(shape):
        raise _damaged(path, f"it holds {values.size} values for shape {shape}")
    return values.reshape(shape)


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(
        f"{path} must be a gzipped IDX file of unsigned bytes, got another one: {what}. Download it again."
    )
