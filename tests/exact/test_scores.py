"""Expected scores against the model itself, quadrature and samples; thresholds in single precision."""

import numpy as np
import pytest
from helpers.exact_cases import ADDITIVE, ALL, load_scaled, own_scores
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from smoothcert._exact import exact_certificates, exact_probabilities, exact_scores
from smoothcert._exact._registry import read_model


@pytest.mark.parametrize("data", ["wine", "cancer"])
@pytest.mark.parametrize("name", ALL)
def test_without_noise_scores_are_those_of_the_model(name, data):
    X, y = load_scaled(data)
    model = clone(ALL[name]).fit(X[::2], y[::2])
    scores = read_model(model).expected_scores(X, np.zeros(X.shape[1]))
    np.testing.assert_allclose(scores, own_scores(model, X), rtol=1e-10, atol=1e-11)
    np.testing.assert_array_equal(model.classes_[np.argmax(scores, axis=1)], model.predict(X))


@pytest.mark.parametrize("name", ALL)
def test_against_a_million_samples(name):
    X, y = load_scaled("iris")
    # Boosting has a tree for each class; two classes save time.
    model = clone(ALL[name]).fit(X, y > 1 if "GradientBoosting" in name else y)
    sigma, x = np.array([0.5, 0.0, 1.0, 0.2]), X[70]
    exact = exact_scores(model, x[None], sigma)[0]
    total, squares, n = 0.0, 0.0, 0
    for seed in range(10):
        noise = np.random.default_rng(seed).standard_normal((100_000, 4))
        scores = own_scores(model, x + sigma * noise)
        total, squares, n = total + scores.sum(axis=0), squares + np.square(scores).sum(axis=0), n + len(scores)
    mean = total / n
    deviation = np.sqrt(np.maximum(squares / n - mean**2, 0.0) / n)
    assert np.all(np.abs(exact - mean) <= 4.5 * deviation + 5e-6)  # the last for events that rare
    assert np.any(deviation > 1e-6)


@pytest.mark.parametrize("name", [*ADDITIVE, "GaussianNB", "DecisionTree", "LogisticRegression"])
def test_against_quadrature_in_one_feature(name):
    X, y = load_scaled("wine")
    model = clone(ALL[name]).fit(X[:, [0]], y)
    sigma, x, n = 0.4, 0.13, 200_000
    edges = np.linspace(-9.0, 9.0, n + 1)
    z = 0.5 * (edges[1:] + edges[:-1])
    weights = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) * (edges[1] - edges[0])
    expected = weights @ own_scores(model, (x + sigma * z)[:, None])
    np.testing.assert_allclose(
        exact_scores(model, [[x]], sigma)[0], expected, atol=2e-3 if name == "AdaBoost" else 2e-4
    )


def test_a_tree_against_quadrature_in_two_features():
    X, y = load_scaled("wine")
    model = DecisionTreeClassifier(random_state=0).fit(X[:, [0, 6]], y)
    sigma, x = np.array([0.7, 0.3]), np.array([0.1, -0.2])
    edges = np.linspace(-6.0, 6.0, 1201)
    z = 0.5 * (edges[1:] + edges[:-1])
    one = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) * (edges[1] - edges[0])
    grid = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    expected = np.outer(one, one).ravel() @ own_scores(model, x + sigma * grid)
    np.testing.assert_allclose(exact_scores(model, x[None], sigma)[0], expected, atol=3e-3)
    assert model.get_n_leaves() > 8


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=1),
        RandomForestClassifier(max_depth=1, n_estimators=1, bootstrap=False, max_features=None),
        GradientBoostingClassifier(max_depth=1, n_estimators=1),
        AdaBoostClassifier(n_estimators=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_thresholds_in_single_precision(model):
    """Trees compare float32(x): noise of the size of its spacing shows where they really change their mind."""
    spacing = float(np.spacing(np.float32(16.0)))
    X = np.array([[16.0], [16.0 + 2.0 * spacing]])
    model.fit(X, [0, 1])
    changes = 16.0 + 1.5 * spacing  # the stored threshold is 16 + spacing
    just_below, just_above = np.nextafter(changes, 0.0), np.nextafter(changes, 20.0)
    assert model.predict([[just_below], [just_above]]).tolist() == [0, 1]
    sigma = 0.3 * spacing
    scores = exact_scores(model, [[changes], [changes - sigma], [changes + sigma]], sigma)
    low, high = own_scores(model, X)
    share = (scores[:, 1] - low[1]) / (high[1] - low[1])
    np.testing.assert_allclose(share, [0.5, 0.15865525, 0.84134475], atol=1e-7)


def test_a_threshold_between_two_single_precision_numbers():
    """The stored threshold is a double; what counts is the midpoint of its float32 neighbours."""
    X, y = load_scaled("iris")
    model = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, y)
    t, j = model.tree_.threshold[0], int(model.tree_.feature[0])
    below = np.float32(t) if np.float32(t) <= t else np.nextafter(np.float32(t), np.float32(-np.inf))
    above = np.nextafter(below, np.float32(np.inf))
    middle = 0.5 * (float(below) + float(above))
    rows = np.tile(X[0], (2, 1))
    rows[:, j] = np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)
    assert len(set(model.apply(rows))) == 2
    rows[0, j] = middle
    sigma = np.zeros(4)
    sigma[j] = 1e-3 * float(above - below)
    left = model.classes_[0]
    assert exact_scores(model, rows[:1], sigma)[0, left] == pytest.approx(0.5, abs=1e-9)


def test_inputs_exactly_at_thresholds_without_noise_in_their_column():
    X, y = load_scaled("wine")
    for name in (*ADDITIVE, "DecisionTree"):
        model = clone(ALL[name]).fit(X, y)
        form = read_model(model)
        j, at = (
            (int(form.feature[0]), form.compared_at[0])
            if name == "DecisionTree"
            else next((j, steps.compared_at[0]) for j, steps in form.features.items())
        )
        rows = np.tile(X[:1], (5, 1))
        single = np.float32(at)
        rows[:, j] = (
            at,
            np.nextafter(at, -np.inf),
            np.nextafter(at, np.inf),
            single,
            np.nextafter(single, np.float32(9)),
        )
        np.testing.assert_allclose(
            form.expected_scores(rows, np.zeros(X.shape[1])), own_scores(model, rows), atol=1e-11, err_msg=name
        )


def test_histogram_thresholds_are_obeyed_in_double_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    model = HistGradientBoostingClassifier(max_iter=1, max_leaf_nodes=2).fit(X, X[:, 0] > 0.3)
    t = float(model._predictors[0][0].nodes["num_threshold"][0])
    scores = own_scores(model, [[t], [np.nextafter(t, np.inf)]])
    assert scores[0, 1] != scores[1, 1]
    exact = exact_scores(model, [[t]], 1e-12)[0]
    np.testing.assert_allclose(exact, scores.mean(axis=0), atol=1e-4 * np.ptp(scores))


def test_categories_without_noise():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 5, 300) * 10.0, rng.normal(size=300)])
    y = (X[:, 0] + np.isin(X[:, 1], [0, 30]) + 0.3 * rng.normal(size=300) > 0.5).astype(int)
    model = HistGradientBoostingClassifier(
        categorical_features=[1], interaction_cst="no_interactions", max_iter=20, random_state=0
    ).fit(X, y)
    rows = X[:40].copy()
    rows[0, 1] = 25.0  # a category never seen
    form = read_model(model)
    found = form.expected_scores(form.encode(rows), np.zeros(3))
    np.testing.assert_allclose(found, own_scores(model, rows), atol=1e-12)
    noise = rng.standard_normal((200_000, 3)) * [0.5, 0.0, 0.2]
    exact = exact_certificates(model, rows[:1], [0.5, 0.0, 0.2])
    sampled = own_scores(model, rows[0] + noise)
    assert abs(exact.scores[0] - sampled.mean(axis=0))[0] < 4.5 * sampled.std(axis=0)[0] / np.sqrt(len(noise))
    with pytest.raises(ValueError, match="sigma must be 0 in feature 1, which is categorical"):
        exact_scores(model, rows, 0.5)


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_probabilities_of_boosting_without_noise(loss):
    X, y = load_scaled("cancer")
    model = GradientBoostingClassifier(loss=loss, max_depth=1, n_estimators=20, random_state=0).fit(X, y)
    probabilities = exact_probabilities(model, X, 1e-12)

    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-9)


def test_probabilities_rank_classes_as_scores_do():
    X, y = load_scaled("wine")
    for name, model in ALL.items():
        fitted = clone(model).fit(X, y)
        scores, prediction, _ = exact_certificates(fitted, X, 0.3)
        probabilities = exact_probabilities(fitted, X, 0.3)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(np.argmax(probabilities, axis=1), prediction, err_msg=name)
        np.testing.assert_array_equal(np.argmax(scores, axis=1), prediction)
    X, y = load_scaled("cancer")
    logistic = LogisticRegression().fit(X, y)
    np.testing.assert_allclose(exact_probabilities(logistic, X, 0.3)[:, 1], expit(logistic.decision_function(X)))
