"""CIFAR-10."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray
from ._sources import check_split, data_folder, from_openml, local_files

_SHAPE = (3, 32, 32)
"""Channels, height and width of the images as published."""


def load_cifar10(
    split: str = "test", *, flatten: bool = False, data_home: str | Path | None = None
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Load small colour photographs of ten classes, with values from 0 to 1.

    Parameters
    ----------
    split : {"test", "train"}, default="test"
        10,000 or 50,000 images.
    flatten : bool, default=False
        Rows of numbers instead of images with three channels.
    data_home : path-like, optional
        Folder with ``cifar10_test.npz`` and ``cifar10_train.npz``, in it or in its subfolder ``cifar10``; each holds
        ``images`` (uint8, n x 32 x 32 x 3) and ``labels``. By default the environment variable ``SMOOTHCERT_DATA``
        names it. Without the file the images come from OpenML, where the first 50,000 rows are taken as the training
        set.

    Returns
    -------
    X : ndarray of float32, shape (n, 3, 32, 32) or (n, 3072)
        Images.
    y : ndarray of int, shape (n,)
        0 airplane, 1 automobile, 2 bird, 3 cat, 4 deer, 5 dog, 6 frog, 7 horse, 8 ship, 9 truck.

    Examples
    --------
    >>> from smoothcert.datasets import load_cifar10
    >>> X, y = load_cifar10("test")  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (10000, 3, 32, 32)
    """
    names = [f"cifar10_{check_split(split)}.npz"]
    folder = data_folder(data_home)
    files = local_files(folder, "cifar10", names)
    if files is None:
        rows, y = from_openml("CIFAR_10", 50_000, split, folder, names)
        raw = rows.reshape(-1, *_SHAPE)
    else:
        images, y = _read(files[0])
        raw = images.transpose(0, 3, 1, 2)
    X = np.ascontiguousarray(raw, dtype=np.float32)
    X /= np.float32(255.0)
    return (X.reshape(len(X), -1) if flatten else X), y


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            images, labels = file["images"], file["labels"]
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} must be an npz file with the arrays images and labels, got another one: {error}. Write it again."
        ) from error
    if images.shape != (len(labels), 32, 32, 3) or images.dtype != np.uint8:
        raise ValueError(
            f"{path} must hold images of dtype uint8 and shape ({len(labels)}, 32, 32, 3), "
            f"got {images.dtype} and {images.shape}. Write it again."
        )
    return images, labels.astype(np.int64)
