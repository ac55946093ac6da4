"""A frozen classifier that was trained on a frame gets names with every row, and does not complain."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from smoothcert import FirstOrderCertifier, SmoothedClassifier

X, Y = load_iris(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(5, random_state=0).fit(X, Y)


def test_arrays_get_the_names_of_the_frame(forest):
    clf = SmoothedClassifier(FrozenEstimator(forest), sigma=0.3, certifier=FirstOrderCertifier(300), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of_arrays = clf.fit(X.to_numpy(), Y).certify(X.to_numpy()[::30])
        shares = clf.predict_proba(X.to_numpy()[:3])
        of_frames = clf.fit(X, Y).certify(X[::30])
    np.testing.assert_array_equal(of_arrays.radius, of_frames.radius)
    np.testing.assert_array_equal(shares, clf.predict_proba(X[:3]))


SCRIPT = """
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from smoothcert import FirstOrderCertifier, SmoothedClassifier
X, y = load_iris(return_X_y=True, as_frame=True)
forest = RandomForestClassifier(5, random_state=0).fit(X, y)
clf = SmoothedClassifier(FrozenEstimator(forest), certifier=FirstOrderCertifier(300), random_state=0)
clf.fit(X.to_numpy(), y).certify(X.to_numpy()[::50])
"""


def test_nothing_is_written_to_the_terminal():
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert "feature names" not in result.stderr
