"""The data sets of the examples: a generated swiss roll, and MNIST and CIFAR-10 from a folder or from OpenML.

A folder is given as `data_home` or by the environment variable ``SMOOTHCERT_DATA``. Files may lie in it directly or in
a subfolder named after the data set.
"""

from __future__ import annotations

from ._cifar10 import load_cifar10
from ._mnist import load_mnist
from ._swiss_roll import make_swiss_roll_classes

__all__ = ["load_cifar10", "load_mnist", "make_swiss_roll_classes"]
