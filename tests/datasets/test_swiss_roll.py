"""The swiss roll is the published one."""

import numpy as np
import pytest
from helpers import published_logs

from smoothcert.datasets import make_swiss_roll_classes


def test_classes_are_the_inner_and_the_outer_part():
    X, y = make_swiss_roll_classes(400, noise=0.0, random_state=0)
    distance = np.linalg.norm(X, axis=1) * 10  # on the bare roll the distance from the axis is the angle
    np.testing.assert_array_equal(y, distance > 3 * np.pi)
    assert 0 < y.sum() < 400


def test_labels_of_the_published_log():
    path = published_logs.FOLDER / "swiss_roll_sigma_0.50" / "N_100000000.tsv"
    if not path.exists():
        pytest.skip(f"no published log {path}")
    _, y = make_swiss_roll_classes(100, noise=1.0, random_state=2)
    np.testing.assert_array_equal(published_logs.Log(path)["label"], y)
