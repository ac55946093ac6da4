"""The real images, where they are available."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("SMOOTHCERT_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def needs(*names):
    """Skip, visibly, unless all files are there."""
    absent = [name for name in names if not (FOLDER / name).is_file()]
    return pytest.mark.skipif(bool(absent), reason=f"no {', '.join(absent)} in {FOLDER}")


MNIST_TEST = ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz")
MNIST = (*MNIST_TEST, "mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz")
CIFAR10_TEST = ("cifar10/cifar10_test.npz",)
