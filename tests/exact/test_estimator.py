"""Soft voting in the estimator: one classifier behind predict, predict_proba and certify."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from smoothcert import Certificates, SmoothedClassifier, certify
from smoothcert.metrics import certified_accuracy_score, make_certified_scorer

X, NUMBERS = load_iris(return_X_y=True)
Y = np.array(["setosa", "versicolor", "virginica"])[NUMBERS]
MODELS = [
    LogisticRegression(max_iter=1000),
    GaussianNB(),
    DecisionTreeClassifier(max_depth=3, random_state=0),
    RandomForestClassifier(20, max_depth=1, random_state=0),
    HistGradientBoostingClassifier(max_iter=10, interaction_cst="no_interactions", random_state=0),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


def soft(model, **parameters):
    return SmoothedClassifier(model, **{"sigma": 0.3, "voting": "soft", "random_state": 0, "n_augment": 2} | parameters)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_one_classifier_predicts_and_is_certified(model):
    clf = soft(model).fit(X, Y)
    certificates = clf.certify(X)
    np.testing.assert_array_equal(certificates.prediction, clf.predict(X))
    np.testing.assert_array_equal(clf.classes_[np.argmax(clf.predict_proba(X), axis=1)], clf.predict(X))
    assert np.mean(clf.predict(X) == Y) > 0.6
    assert np.median(certificates.radius) > 0.1
    np.testing.assert_array_equal(clf.certify(X).radius, certificates.radius)  # nothing is drawn


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_no_perturbation_within_the_radius_changes_the_answer(model):
    clf = soft(model).fit(X, Y)
    certificates = clf.certify(X[::10])
    rng = np.random.default_rng(0)
    for x, radius, answer in zip(X[::10], certificates.radius, certificates.prediction, strict=True):
        directions = rng.standard_normal((300, 4))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        assert np.all(clf.predict(x + 0.999 * min(radius, 10.0) * directions) == answer)


def test_radii_of_a_linear_model_are_divisions():
    data, labels = load_breast_cancer(return_X_y=True)
    data = StandardScaler().fit_transform(data)
    clf = soft(LogisticRegression(max_iter=1000), sigma=0.5).fit(data, labels)
    model = clf.estimator_
    expected = np.abs(model.decision_function(data)) / np.linalg.norm(model.coef_)
    found = clf.certify(data).radius
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.all(found <= expected)


def test_radii_pass_through_pipelines_and_files(tmp_path):
    pipeline = make_pipeline(StandardScaler(), soft(LogisticRegression())).fit(X, Y)
    certificates = certify(pipeline, X[:5])
    assert certificates.space == "input"
    scale = pipeline[0].scale_.min()
    inner = pipeline[-1].certify(pipeline[:-1].transform(X[:5]))
    np.testing.assert_allclose(certificates.radius, inner.radius * scale, rtol=1e-9)
    assert "exact" in repr(certificates)
    assert certificates.provenance["alpha"] == 0.0
    certificates.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(Certificates.load(tmp_path / "run.npz").radius, certificates.radius)


def test_searches_choose_how_to_vote():
    grid = {"voting": ["soft"], "sigma": [0.1, 0.3]}
    search = GridSearchCV(soft(GaussianNB()), grid, scoring=make_certified_scorer(0.25), cv=3, error_score="raise")
    search.fit(X, Y)
    assert 0.3 < search.best_score_ <= 1.0
    assert certified_accuracy_score(Y, certify(search, X), 0.25) > 0.3


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must be additive .* or use voting=.hard"):
        soft(RandomForestClassifier(5, max_depth=4)).fit(X, Y)
    with pytest.raises(TypeError, match=r"closed form .* KNeighborsClassifier"):
        soft(KNeighborsClassifier()).fit(X, Y)
    with pytest.raises(ValueError, match="voting must be one of"):
        soft(GaussianNB(), voting="loud").fit(X, Y)
    clf = soft(GaussianNB()).fit(X, Y)
    with pytest.raises(ValueError, match="journal must be None for voting='soft'"):
        clf.certify(X, journal=tmp_path / "run.sqlite")
    frozen = soft(FrozenEstimator(GaussianNB().fit(X, Y))).fit(X, Y)
    assert frozen.certify(X[:2]).prediction.tolist() == ["setosa", "setosa"]
