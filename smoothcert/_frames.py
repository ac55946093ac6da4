"""Rows of data frames as arrays of numbers, and back.

Noise is added to numbers. Columns without noise may hold anything: they are left as they are, and a row of numbers has
in their place the number of the row of the frame it was made from.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from ._validation import FloatArray, IndexArray


def is_frame(X: Any) -> bool:
    """Return whether data are a pandas DataFrame; pandas is never imported to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def plain_columns(frame: Any) -> list[NDArray[Any]]:
    """Return the columns of a frame as arrays, those of numbers that may be missing as floating point."""
    columns = []
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        nullable = not isinstance(column.dtype, np.dtype) and getattr(column.dtype, "kind", "O") in "fiu"
        columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan) if nullable else column.to_numpy())
    return columns


def as_frame(X: Any, columns: Any) -> Any:
    """Return an array as a frame with these columns; a frame stays as it is."""
    return X if is_frame(X) else sys.modules["pandas"].DataFrame(X, columns=columns)


@dataclass(frozen=True, eq=False)
class FrameRows:
    """The rows of a frame, those of its columns that have noise as numbers.

    Attributes
    ----------
    frame : DataFrame
        As it was given.
    noisy : ndarray of int
        Columns with noise.
    """

    frame: Any
    noisy: IndexArray

    @property
    def _all_noisy(self) -> bool:
        return len(self.noisy) == int(self.frame.shape[1])

    def numbers(self) -> FloatArray:
        """Return rows of numbers: columns with noise and, if there are others, the number of the row."""
        columns = [self._column(j) for j in self.noisy]
        if self._all_noisy and all(column.dtype == np.float32 for column in columns):
            return np.stack(columns, axis=1)
        if not self._all_noisy:
            columns.append(np.arange(len(self.frame), dtype=np.float64))
        return np.stack([column.astype(np.float64) for column in columns], axis=1)

    def _column(self, j: int) -> FloatArray:
        column = self.frame.iloc[:, j]
        name = self.frame.columns[j]
        try:
            if column.dtype.kind not in "fiub":
                raise TypeError
            numbers = column.to_numpy()
            if numbers.dtype.kind not in "fiub":
                numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise ValueError(
                f"X must hold numbers in columns with noise, got {column.dtype} in column {name!r}. Set sigma to 0 for "
                "this column, for example with a mapping that does not name it, and encode it inside the base."
            ) from None
        finite = np.isfinite(numbers)
        if not np.all(finite):
            kind = "NaN" if np.isnan(numbers[~finite][0]) else "infinity"
            raise ValueError(
                f"Input X contains {kind} in column {name!r}, which has noise: noise cannot be added to "
                "such a value. Replace it first, or set sigma to 0 for this column and let the base handle it."
            )
        checked: FloatArray = numbers if numbers.dtype == np.float32 else numbers.astype(np.float64)
        return checked

    def decode(self, rows: FloatArray) -> Any:
        """Return rows of numbers, noisy or not, as a frame like the one given."""
        pandas = sys.modules["pandas"]
        if self._all_noisy:
            return pandas.DataFrame(rows, columns=self.frame.columns)
        decoded = self.frame.take(rows[:, -1].astype(np.intp)).reset_index(drop=True)
        for place, j in enumerate(self.noisy):
            decoded.isetitem(int(j), rows[:, place])
        return decoded

    def keys(self, numbers: FloatArray) -> list[int] | None:
        """Return numbers that stand for the content of the rows, whatever their place; None if numbers say it all."""
        if self._all_noisy:
            return None
        fixed = self.frame.iloc[:, np.setdiff1d(np.arange(self.frame.shape[1]), self.noisy)]
        keys = []
        for row, values in zip(numbers, fixed.itertuples(index=False, name=None), strict=True):
            content = np.ascontiguousarray(row[:-1], dtype=np.float64) + 0.0  # so that -0.0 counts as 0.0
            digest = hashlib.blake2b(content.tobytes(), digest_size=16)
            # Of each cell its type and content, not its text: long arrays print in parts, and "1" is not 1.
            digest.update("".join(joblib.hash(value) for value in values).encode())
            keys.append(int.from_bytes(digest.digest(), "little"))
        return keys
