"""Where data come from: a local folder first, then OpenML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "SMOOTHCERT_DATA"
"""Environment variable with the folder of the data."""


def check_split(split: str) -> str:
    """Require the name of one of the two parts of a data set."""
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', got {split!r}.")
    return split


def data_folder(data_home: str | Path | None) -> Path | None:
    """Return the folder asked for, by argument or by the environment; None if there is none."""
    named = os.environ.get(VARIABLE) if data_home is None else data_home
    return Path(named).expanduser() if named else None


def local_files(folder: Path | None, dataset: str, names: Sequence[str]) -> list[Path] | None:
    """Return all the named files, from the folder or from its subfolder called like the data set; None unless all
    exist."""
    if folder is None:
        return None
    for place in (folder, folder / dataset):
        found = [place / name for name in names]
        if all(path.is_file() for path in found):
            return found
    return None


def from_openml(
    openml_name: str, n_train: int, split: str, folder: Path | None, names: Sequence[str]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return rows and labels of one part of a data set on OpenML, whose first `n_train` rows are the training set."""
    from sklearn.datasets import fetch_openml

    # Everything that goes wrong on the way to a server: no network, a server's own error, a broken transfer.
    try:
        X, y = fetch_openml(openml_name, version=1, as_frame=False, return_X_y=True, n_retries=1)
    except (OSError, HTTPException, ValueError) as error:
        raise FileNotFoundError(_neither(openml_name, folder, names, error)) from error
    part = slice(0, n_train) if split == "train" else slice(n_train, None)
    return np.asarray(X[part]).astype(np.uint8), np.asarray(y[part]).astype(np.int64)


def _neither(openml_name: str, folder: Path | None, names: Sequence[str], error: Exception) -> str:
    tried = f"{folder} does not hold them" if folder else f"data_home is None and {VARIABLE} is not set"
    reason: Any = getattr(error, "reason", error)
    return (
        f"The data must come from a folder or from OpenML, got neither. Folder: {tried}. OpenML: {reason}. "
        f"Put {' and '.join(names)} into a folder and give it as data_home or in {VARIABLE}, "
        f"or connect to the network, so that fetch_openml({openml_name!r}) can download them."
    )
