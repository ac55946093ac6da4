"""MNIST, as it is or averaged to 7 x 7."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray
from ._idx import read_idx
from ._sources import check_split, data_folder, from_openml, local_files

_SIDE = 28
"""Height and width of the images as published."""


def mean_pool(images: FloatArray, side: int) -> FloatArray:
    """Average images of shape (..., height, width) over equal blocks, down to `side` x `side`."""
    height, width = images.shape[-2] // side, images.shape[-1] // side
    blocks = images.reshape(*images.shape[:-2], side, height, side, width)
    pooled: FloatArray = blocks.mean(axis=(-3, -1), dtype=images.dtype)
    return pooled


def load_mnist(
    split: str = "test", *, pool: int | None = None, flatten: bool = False, data_home: str | Path | None = None
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Load handwritten digits with values from 0 to 1.

    Parameters
    ----------
    split : {"test", "train"}, default="test"
        10,000 or 60,000 images.
    pool : int, optional
        Side of the images after averaging over equal blocks, a divisor of 28. The paper's small images have
        ``pool=7``. None leaves 28 x 28.
    flatten : bool, default=False
        Rows of numbers, for scikit-learn's classifiers, instead of images with one channel, for torch. Both have the
        same order of pixels and the same distances, so that radii mean the same.
    data_home : path-like, optional
        Folder with the four original gzipped IDX files, in it or in its subfolder ``mnist``. By default the
        environment variable ``SMOOTHCERT_DATA`` names it. Without the files the images come from OpenML.

    Returns
    -------
    X : ndarray of float32, shape (n, 1, side, side) or (n, side * side)
        Images in the original order.
    y : ndarray of int, shape (n,)
        Digits.

    Examples
    --------
    >>> from smoothcert.datasets import load_mnist
    >>> X, y = load_mnist("test", pool=7)  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (10000, 1, 7, 7)
    """
    check_split(split)
    if pool is not None and (isinstance(pool, bool) or pool not in (1, 2, 4, 7, 14, 28)):
        raise ValueError(f"pool must be None or a divisor of {_SIDE}, got {pool!r}. The paper uses 7.")
    prefix = "train" if split == "train" else "t10k"
    names = [f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"]
    folder = data_folder(data_home)
    files = local_files(folder, "mnist", names)
    if files is None:
        raw, y = from_openml("mnist_784", 60_000, split, folder, names)
    else:
        raw, y = read_idx(files[0]), read_idx(files[1]).astype(np.int64)
    if raw.size != len(y) * _SIDE**2:
        raise ValueError(f"MNIST must have one label for each image of 28 x 28, got {raw.shape} and {y.shape}.")
    images = raw.reshape(-1, 1, _SIDE, _SIDE).astype(np.float32) / np.float32(255.0)
    if pool is not None:
        images = mean_pool(images, int(pool))
    return (images.reshape(len(images), -1) if flatten else images), y
