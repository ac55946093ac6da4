"""Certified radii against the smallest attack that can be found, 50 digits, and each other."""

import mpmath
import numpy as np
import pytest
from helpers.exact_cases import ADDITIVE, ALL, LINEAR, load_scaled, smallest_attacks
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from smoothcert._exact import exact_certificates
from smoothcert._exact._registry import read_model
from smoothcert.bounds import first_order_radius


def radii_and_attacks(model, X, sigma, **search):
    _, prediction, radius = exact_certificates(model, X, sigma)
    spread = np.broadcast_to(np.asarray(sigma, dtype=float), X.shape[1])
    return radius, smallest_attacks(read_model(model), X, spread, prediction, **search)


@pytest.mark.parametrize("data", ["iris", "wine", "cancer"])
@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_against_attacks(name, data):
    X, y = load_scaled(data)
    model = clone(LINEAR[name]).fit(X, y)
    radius, attack = radii_and_attacks(model, X[::3][:50], 0.5, starts=1, steps=3)
    # The attack is itself found in floating point.
    assert np.all(radius <= attack * (1.0 + 1e-9))
    assert np.median(radius / attack) > 0.999


@pytest.mark.parametrize("data", ["iris", "wine", "cancer"])
def test_naive_bayes_against_attacks(data):
    X, y = load_scaled(data)
    model = GaussianNB(var_smoothing=1e-2).fit(X, y)
    radius, attack = radii_and_attacks(model, X[::3][:50], 0.5, starts=4, steps=60)
    assert np.all(radius <= attack * (1.0 + 1e-9))
    assert np.median(radius / attack) > 0.999


@pytest.mark.parametrize("data", ["iris", "wine"])
@pytest.mark.parametrize("name", ADDITIVE)
def test_additive_models_against_attacks(name, data):
    X, y = load_scaled(data)
    model = clone(ADDITIVE[name]).fit(X, y)
    radius, attack = radii_and_attacks(model, X[::3][:60], 0.5)
    assert np.all(radius <= attack)
    assert np.median(radius / attack) > 0.95
    assert np.all(radius[attack < np.inf] < np.inf)


@pytest.mark.parametrize(
    ("data", "name", "n_inputs"), [("cancer", "HistGradientBoosting", 50), ("digits", "RandomForest", 12)]
)
def test_larger_additive_models_against_attacks(data, name, n_inputs):
    X, y = load_scaled(data)
    model = clone(ADDITIVE[name]).fit(X, y)
    radius, attack = radii_and_attacks(model, X[::7][:n_inputs], 0.5, starts=3, steps=20)
    assert np.all(radius <= attack)
    assert np.median(radius / attack) > 0.95


@pytest.mark.parametrize("sigma", [0.25, 1.0])
@pytest.mark.parametrize("data", ["iris", "wine"])
def test_a_tree_against_attacks(data, sigma):
    X, y = load_scaled(data)
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    radius, attack = radii_and_attacks(model, X[::3][:50], sigma, starts=3, steps=15)
    assert np.all(radius <= attack)
    assert np.median(radius / attack) > 0.5
    # The gradient helps: never below the first order from the same probabilities.
    scores = exact_certificates(model, X[::3][:50], sigma).scores
    ordered = np.sort(scores, axis=1)
    assert np.all(radius >= np.minimum(first_order_radius(ordered[:, -1], ordered[:, -2]), 6.0) * (1.0 - 1e-6))


def test_unequal_noise_against_attacks():
    X, y = load_scaled("iris")
    sigma = np.array([0.2, 0.0, 1.0, 0.5])
    for name in ("LogisticRegression", "GaussianNB", "HistGradientBoosting", "RandomForest", "DecisionTree"):
        model = clone(ALL[name]).fit(X, y)
        radius, attack = radii_and_attacks(model, X[::3], sigma)
        assert np.all(radius <= attack * (1.0 + 1e-9)), name
        assert np.median(np.where(attack < np.inf, radius / attack, 1.0)) > 0.5, name


def test_a_column_without_noise_is_outside_the_promise():
    X, y = load_scaled("iris")
    model = LogisticRegression().fit(X, y)
    sigma = np.array([0.5, 0.5, 0.0, 0.5])
    _, prediction, radius = exact_certificates(model, X[:1], sigma)
    moved = X[:1] + np.array([0.0, 0.0, 8.0, 0.0])
    assert exact_certificates(model, moved, sigma).prediction != prediction
    # About the other columns it is the certificate of the model with this column held.
    held = LogisticRegression()
    held.classes_, held.n_features_in_ = model.classes_, 3
    held.coef_ = np.delete(model.coef_, 2, axis=1)
    held.intercept_ = model.intercept_ + model.coef_[:, 2] * X[0, 2]
    np.testing.assert_allclose(radius, exact_certificates(held, np.delete(X[:1], 2, axis=1), 0.5).radius, rtol=1e-9)


def test_linear_radius_against_fifty_digits():
    mpmath.mp.dps = 50
    X, y = load_scaled("wine")
    model = LogisticRegression().fit(X, y)
    sigma = np.linspace(0.1, 1.3, X.shape[1])
    _, prediction, radius = exact_certificates(model, X[:20], sigma)
    for x, own, found in zip(X[:20], prediction, radius, strict=True):
        scores = [
            mpmath.fdot(map(mpmath.mpf, w), map(mpmath.mpf, x)) + mpmath.mpf(b)
            for w, b in zip(model.coef_.tolist(), model.intercept_.tolist(), strict=True)
        ]
        exact = min(
            (scores[own] - scores[c])
            / mpmath.norm([(mpmath.mpf(a) - mpmath.mpf(b)) * mpmath.mpf(s) for a, b, s in zip(*rows, strict=True)])
            for c in range(3)
            if c != own
            for rows in [(model.coef_[own].tolist(), model.coef_[c].tolist(), sigma.tolist())]
        )
        assert mpmath.mpf(found) <= exact
        assert found >= float(exact) * (1.0 - 1e-10)


def test_naive_bayes_radius_against_fifty_digits():
    """The nearest zero of a parabola in two features, by its secular equation."""
    mpmath.mp.dps = 50
    X, y = load_scaled("cancer")
    model = GaussianNB().fit(X[:, :2], y)
    sigma = [mpmath.mpf(0.5), mpmath.mpf(0.25)]
    _, prediction, radius = exact_certificates(model, X[:30, :2], [0.5, 0.25])
    for x, own, found in zip(X[:30, :2], prediction, radius, strict=True):
        margin, bend, slope = mpmath.mpf(0), [mpmath.mpf(0)] * 2, [mpmath.mpf(0)] * 2
        for c, sign in ((own, 1), (1 - own, -1)):
            margin += sign * mpmath.log(mpmath.mpf(float(model.class_prior_[c])))
            for j in range(2):
                v, t = mpmath.mpf(float(model.var_[c, j])), mpmath.mpf(float(model.theta_[c, j]))
                at = mpmath.mpf(float(x[j])) - t
                margin -= sign * (mpmath.log(2 * mpmath.pi * v) + (at**2 + sigma[j] ** 2) / v) / 2
                bend[j] -= sign * sigma[j] ** 2 / (2 * v)
                slope[j] -= sign * sigma[j] * at / v
        least = max(0, -min(bend))

        def at_displacement(lam, margin=margin, bend=bend, slope=slope):
            d = [-s / (2 * (a + lam)) for a, s in zip(bend, slope, strict=True)]
            value = margin + sum(a * q * q + s * q for a, s, q in zip(bend, slope, d, strict=True))
            return value, mpmath.sqrt(sum(q * q for q in d))

        low, high = mpmath.log(mpmath.mpf(10) ** -40), mpmath.log(mpmath.mpf(10) ** 8)
        if at_displacement(least + mpmath.exp(low))[0] > 0:
            continue  # no zero in this direction, or the hard case
        for _ in range(250):
            middle = (low + high) / 2
            positive = at_displacement(least + mpmath.exp(middle))[0] > 0
            low, high = (low, middle) if positive else (middle, high)
        exact = at_displacement(least + mpmath.exp(high))[1]
        assert mpmath.mpf(found) <= exact
        assert found >= float(exact) * (1.0 - 1e-9)


def test_a_parabola_with_its_nearest_zero_on_an_axis_without_slope():
    """The hard case of the S-lemma: the slope is 0 where the curvature is lowest."""
    model = GaussianNB()
    model.classes_, model.n_features_in_ = np.array([0, 1]), 2
    model.class_prior_ = np.array([0.5, 0.5])
    model.theta_ = np.array([[0.0, 0.0], [0.0, 0.3]])
    model.var_ = np.array([[0.5, 1.0], [8.0, 1.0]])
    radius, attack = radii_and_attacks(model, np.array([[0.0, -0.1]]), 0.3, starts=40, steps=60)
    assert radius <= attack
    assert radius > 0.999 * attack


def test_one_stump_has_the_radius_of_its_normal_curve():
    """A forest of one stump and one class boundary: the smoothed score crosses one half where the curve does."""
    X = np.array([[-1.0, 0.0], [1.0, 0.0]])
    model = RandomForestClassifier(n_estimators=1, max_depth=1, bootstrap=False, random_state=0).fit(X, [0, 1])
    _, prediction, radius = exact_certificates(model, [[0.5, 0.0], [-0.8, 3.0]], 0.25)
    assert prediction.tolist() == [1, 0]
    # Threshold 0, so the true distances are 2.0 and 3.2 sigma; the dual is a convex hull and may lose a little.
    assert np.all(radius <= [2.0, 3.2])
    assert np.all(radius > np.array([2.0, 3.2]) * 0.75)


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), RobustScaler(), MaxAbsScaler()])
@pytest.mark.parametrize("name", ["LogisticRegression", "GaussianNB", "GradientBoosting", "DecisionTree"])
def test_scaler_inside_and_noise_in_scaled_units_agree(name, scaler):
    X, y = load_scaled("wine")
    X = X * np.logspace(-2, 3, X.shape[1]) + 5.0
    scaler = clone(scaler).fit(X)
    pipeline = make_pipeline(scaler, clone(ALL[name])).fit(X, y)
    gain = scaler.scale_ if isinstance(scaler, MinMaxScaler) else 1.0 / scaler.scale_
    in_scaled_units = exact_certificates(pipeline[-1], scaler.transform(X), 0.4)
    in_input_units = exact_certificates(pipeline, X, 0.4 / gain)
    np.testing.assert_allclose(in_input_units.scores, in_scaled_units.scores, atol=1e-9)
    np.testing.assert_allclose(in_input_units.radius, in_scaled_units.radius, rtol=1e-6, atol=1e-9)
    assert np.median(in_input_units.radius) > 0.1


def test_selectors_nested_pipelines_and_frozen_estimators():
    X, y = load_scaled("wine")
    for name in ("LogisticRegression", "RandomForest", "DecisionTree"):
        inner = make_pipeline(VarianceThreshold(), SelectKBest(k=5), "passthrough")
        pipeline = make_pipeline(FrozenEstimator(inner.fit(X, y)), StandardScaler(), clone(ALL[name])).fit(X, y)
        chosen = inner[1].get_support(indices=True)
        direct = make_pipeline(StandardScaler(), clone(ALL[name])).fit(X[:, chosen], y)
        sigma = np.linspace(0.3, 0.9, X.shape[1])
        one = exact_certificates(FrozenEstimator(pipeline), X, sigma)
        other = exact_certificates(direct, X[:, chosen], sigma[chosen])
        np.testing.assert_allclose(one.radius, other.radius, rtol=1e-9)


@pytest.mark.parametrize(
    "steps",
    [
        (PCA(6, random_state=0),),
        (PCA(4, whiten=True, random_state=0), StandardScaler()),
        (MinMaxScaler(), TruncatedSVD(5, random_state=0)),
    ],
    ids=str,
)
def test_linear_models_behind_projections(steps):
    X, y = load_scaled("wine")
    X = X * 3.0 + 2.0
    pipeline = make_pipeline(*(clone(step) for step in steps), LogisticRegression()).fit(X, y)
    scores, prediction, radius = exact_certificates(pipeline, X, 0.7)
    np.testing.assert_allclose(scores, pipeline.decision_function(X), atol=1e-9)
    # The attack is a step along the difference of the gradients, found by differences of the whole pipeline.
    slopes = np.array([pipeline.decision_function(X[:1] + e) - pipeline.decision_function(X[:1]) for e in np.eye(13)])
    for x, own, found in zip(X[:40], prediction, radius, strict=False):
        s = pipeline.decision_function(x[None])[0]
        exact = min(
            (s[own] - s[c]) / np.linalg.norm(0.7 * (slopes[:, 0, own] - slopes[:, 0, c])) for c in range(3) if c != own
        )
        assert found <= exact * (1.0 + 1e-9)
        assert found >= exact * (1.0 - 1e-6)


def test_margins_within_rounding_certify_nothing():
    model = LogisticRegression()
    model.classes_, model.n_features_in_ = np.array([0, 1, 2]), 2
    model.coef_ = np.array([[1.0, 0.1], [0.1, 1.0], [-1.0, -1.0]])
    model.intercept_ = np.zeros(3)
    certificates = exact_certificates(model, [[1e6, 1e6], [1e6, 1e6 + 1e-9], [3.0, 1.0]], 1.0)
    assert certificates.prediction[0] == 0
    assert certificates.radius[:2].tolist() == [0.0, 0.0]
    assert certificates.radius[2] > 1.0


def test_certain_trees_are_capped_below_infinity():
    X, y = load_scaled("iris")
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    _, _, radius = exact_certificates(model, X, 1e-4)
    assert radius.max() < 9.0
    assert radius.max() > 6.0


def test_what_cannot_change_is_certified_everywhere():
    X, y = load_scaled("iris")
    sigma = np.array([0.0, 0.0, 0.0, 0.5])
    blind = make_pipeline(SelectKBest(lambda X, y: np.array([1.0, 1.0, 1.0, 0.0]), k=3), LogisticRegression())
    blind.fit(X, y)
    assert np.all(exact_certificates(blind, X, sigma).radius == np.inf)
    tree = DecisionTreeClassifier().fit(X, np.zeros(len(X)))
    assert np.all(exact_certificates(tree, X, 0.5).radius == np.inf)
    boosting = HistGradientBoostingClassifier(interaction_cst="no_interactions", max_iter=3).fit(X[:, :3], y)
    assert np.all(exact_certificates(boosting, X[:, :3], [0.5, 0.5, 0.5]).radius < np.inf)


def test_steps_against_fifty_digits():
    """On the whole certified circle the margin, computed with 50 digits from the model's trees, is positive."""
    mpmath.mp.dps = 50
    X, y = load_scaled("cancer")
    X, sigma = X[:, [2, 7]], np.array([0.5, 0.25])
    model = RandomForestClassifier(n_estimators=6, max_depth=1, max_features=1, random_state=1).fit(X, y)
    certificates = exact_certificates(model, X[:8], sigma)
    spread = [mpmath.mpf(float(s)) for s in sigma]

    def margin(point, own):
        total = mpmath.mpf(0)
        for tree in (tree.tree_ for tree in model.estimators_):
            j = int(tree.feature[0])
            below = np.float32(tree.threshold[0])
            below = below if below <= tree.threshold[0] else np.nextafter(below, np.float32(-np.inf))
            above = np.nextafter(below, np.float32(np.inf))
            at = (mpmath.mpf(float(below)) + mpmath.mpf(float(above))) / 2
            right = mpmath.ncdf((point[j] - at) / spread[j])
            values = [[mpmath.mpf(float(v)) for v in tree.value[n, 0]] for n in (1, 2)]
            total += (1 - right) * (values[0][own] - values[0][1 - own]) + right * (values[1][own] - values[1][1 - own])
        return total / 6

    for x, scores, own, radius in zip(X, *certificates, strict=False):
        centre = [mpmath.mpf(float(v)) for v in x]
        assert abs(float(margin(centre, own)) - (scores[own] - scores[1 - own])) < 1e-14
        around = [
            margin(
                [c + s * radius * f(a) for c, s, f in zip(centre, spread, (mpmath.cos, mpmath.sin), strict=True)], own
            )
            for a in np.linspace(0.0, 2.0 * np.pi, 120, endpoint=False)
        ]
        assert min(around) >= 0
        assert radius > 0.0


def test_a_tree_against_fifty_digits():
    mpmath.mp.dps = 50
    X, y = load_scaled("iris")
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    tree, form, sigma = model.tree_, read_model(model), np.array([0.3, 0.6, 0.2, 0.4])

    def votes(node, box, x):
        """Sum over the leaves below a node of products of intervals, each a pair of ends."""
        if tree.children_left[node] == -1:
            chance = mpmath.fprod(mpmath.ncdf(high) - mpmath.ncdf(low) for low, high in box)
            return [chance if c == np.argmax(tree.value[node, 0]) else mpmath.mpf(0) for c in range(3)]
        j, t = int(tree.feature[node]), tree.threshold[node]
        below = np.float32(t) if np.float32(t) <= t else np.nextafter(np.float32(t), np.float32(-np.inf))
        above = np.nextafter(below, np.float32(np.inf))
        at = ((mpmath.mpf(float(below)) + mpmath.mpf(float(above))) / 2 - x[j]) / mpmath.mpf(float(sigma[j]))
        low, high = box[j]
        left = votes(tree.children_left[node], [*box[:j], (low, min(high, at)), *box[j + 1 :]], x)
        right = votes(tree.children_right[node], [*box[:j], (max(low, at), high), *box[j + 1 :]], x)
        return [a + b for a, b in zip(left, right, strict=True)]

    whole = [(-mpmath.inf, mpmath.inf)] * 4
    rows = X[[0, 60, 75, 110]]
    probabilities, norms = form._probabilities_and_gradients(rows, sigma, with_gradients=True)
    for x, p, norm in zip(rows, probabilities, norms, strict=True):
        at = [mpmath.mpf(float(v)) for v in x]
        np.testing.assert_allclose(p, np.array(votes(0, whole, at), dtype=float), atol=1e-14)
        step = mpmath.mpf(10) ** -20
        gradient = []
        for j in range(4):
            moved = [
                [a + sign * step * mpmath.mpf(float(sigma[j])) * (i == j) for i, a in enumerate(at)] for sign in (1, -1)
            ]
            ahead, behind = (votes(0, whole, point) for point in moved)
            gradient.append([(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)])
        np.testing.assert_allclose(norm, np.linalg.norm(np.array(gradient, dtype=float), axis=0), atol=1e-13)


@pytest.mark.parametrize("sigma", [0.003, 0.05, 20.0])
def test_noise_much_smaller_and_larger_than_the_spacing_of_thresholds(sigma):
    X, y = load_scaled("iris")
    model = clone(ADDITIVE["HistGradientBoosting"]).fit(X, y)
    radius, attack = radii_and_attacks(model, X[::5], sigma)
    assert np.all(radius <= attack)
    assert np.median(radius) > 0.0


def test_columns_of_very_different_units():
    X, y = load_scaled("wine")
    units = np.logspace(-6, 6, X.shape[1])
    for name in ("HistGradientBoosting", "GaussianNB", "LogisticRegression"):
        plain = make_pipeline(StandardScaler(), clone(ALL[name])).fit(X, y)
        scaled = make_pipeline(StandardScaler(), clone(ALL[name])).fit(X * units, y)
        one = exact_certificates(plain, X, 0.5).radius
        other = exact_certificates(scaled, X * units, 0.5 * units).radius
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6)
