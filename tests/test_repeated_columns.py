"""A ColumnTransformer may list a column several times; what it does to all of them adds up."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from smoothcert import FirstOrderCertifier, SmoothedClassifier, certify

X = np.random.default_rng(0).normal(size=(400, 2))
Y = (X[:, 0] > 0).astype(int)
POINT = np.array([[1.0, 0.0]])


def repeated(times):
    return ColumnTransformer([("a", "passthrough", [0] * times), ("b", "passthrough", [1])])


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("sigma", [0.5, np.full(7, 0.5)], ids=["one", "for each feature"])
def test_before_the_smoothed_step(voting, sigma):
    smoothed = SmoothedClassifier(
        LogisticRegression(C=10), sigma=sigma, voting=voting, certifier=FirstOrderCertifier(5000), random_state=0
    )
    pipeline = make_pipeline(repeated(6), smoothed).fit(X, Y)
    certificates = certify(pipeline, POINT)
    far = certificates.radius_per_feature[0, 0] if np.ndim(sigma) else certificates.radius[0]
    moved = np.linspace(0.0, 2.0, 401)
    answers = pipeline.predict(POINT - moved[:, None] * [1.0, 0.0])
    flips = moved[np.argmax(answers != answers[0])]
    assert 0.5 * flips < far <= flips


def test_inside_an_exact_base_it_is_refused():
    base = make_pipeline(repeated(4), LogisticRegression())
    with pytest.raises(TypeError, match="use each column with noise once"):
        SmoothedClassifier(base, sigma=0.5, voting="soft", random_state=0).fit(X, Y)
