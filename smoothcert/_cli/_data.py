"""Inputs and labels from files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np


def load_data(path: str, label: str | None) -> tuple[Any, Any]:
    """Return inputs, and true labels or None.

    Parameters
    ----------
    path : str
        File ``.npz`` with X and perhaps y, ``.npy`` with X, or ``.csv`` with a header.
    label : str or None
        Column of a table that holds labels.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"DATA must be a file, got {path!r}, which does not exist.")
    kind = file.suffix.lower()
    if kind == ".csv":
        return _load_table(file, label)
    if label is not None:
        raise ValueError(f"--label must be left out unless DATA is a .csv file, got {label!r}. Labels are the array y.")
    if kind not in (".npz", ".npy"):
        raise ValueError(
            f"DATA must be an .npz, .npy or .csv file, got {path!r}. Save it with numpy.savez(file, X=X, y=y)."
        )
    try:
        loaded = np.load(file, allow_pickle=False)
        if kind == ".npy":
            return _as_array(loaded, "X", path), None
        with loaded:
            if "X" not in loaded.files:
                names = ", ".join(loaded.files) or "none"
                raise LookupError(
                    f"DATA must hold the array X, got {path!r} with {names}. Name it: numpy.savez(file, X=X)."
                )
            return loaded["X"], loaded["y"] if "y" in loaded.files else None
    except (EOFError, OSError, ValueError, zipfile.BadZipFile) as error:
        # Numpy would advise to load pickles.
        pickled = "pickle" in str(error).lower()
        reason = "it holds no plain arrays of numbers or text" if pickled else str(error)
        raise ValueError(f"DATA could not be read from {path!r}: {reason}.") from error


def _as_array(loaded: Any, name: str, path: str) -> Any:
    if not isinstance(loaded, np.ndarray):
        raise ValueError(f"it holds several arrays, and {name} should be the only one")
    return loaded


def _load_table(file: Path, label: str | None) -> tuple[Any, Any]:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "DATA in a .csv file needs pandas; install smoothcert[plot], or give an .npz file."
        ) from error
    try:
        table = pandas.read_csv(file)
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"DATA could not be read from {str(file)!r}: {error}") from error
    if label is None:
        return table, None
    if label not in table.columns:
        names = ", ".join(str(name) for name in table.columns)
        raise LookupError(f"--label must name a column of {str(file)!r}, got {label!r}. The columns are {names}.")
    labels = table[label].to_numpy()
    return table.drop(columns=label), labels
