"""What has no closed form, and bad input, is refused with the rule, the value and the cure."""

import numpy as np
import pytest
from helpers.exact_cases import load_scaled
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, QuantileTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from smoothcert._exact import check_closed_form, exact_certificates, exact_scores


@pytest.fixture(scope="module")
def iris():
    return load_scaled("iris")


class OtherLogisticRegression(LogisticRegression):
    def decision_function(self, X):
        return -super().decision_function(X)


class OtherPipeline(Pipeline):
    def decision_function(self, X):
        return -super().decision_function(X)


class OtherScaler(StandardScaler):
    def transform(self, X):
        return np.sin(super().transform(X))


class OtherTree(DecisionTreeClassifier):
    def predict(self, X):
        return np.zeros(len(X), dtype=int)


class OtherStump(DecisionTreeClassifier):
    """A subclass that changes nothing, which nobody can know from outside."""


def test_a_model_without_a_closed_form(iris):
    model = KNeighborsClassifier().fit(*iris)
    with pytest.raises(TypeError, match="model must have a closed form under Gaussian noise, got KNeighbors") as error:
        exact_certificates(model, iris[0], 0.5)
    for name in ("LogisticRegression", "GaussianNB", "HistGradientBoostingClassifier", 'voting="hard"', "RobustScaler"):
        assert name in str(error.value)


@pytest.mark.parametrize(
    "model",
    [
        OtherLogisticRegression(),
        OtherPipeline([("model", LogisticRegression())]),
        make_pipeline(OtherScaler(), LogisticRegression()),
        OtherTree(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_subclasses(iris, model):
    with pytest.raises(TypeError, match="model must have a closed form"):
        check_closed_form(model.fit(*iris))


def test_a_subclass_is_named_with_its_parent(iris):
    with pytest.raises(TypeError, match="OtherTree, a subclass of DecisionTreeClassifier that may compute"):
        check_closed_form(OtherTree().fit(*iris))


def test_adaboost_of_a_subclass(iris):
    with pytest.raises(ValueError, match="model must boost decision trees for exact certificates, got OtherStump"):
        check_closed_form(AdaBoostClassifier(OtherStump(max_depth=1), n_estimators=2).fit(*iris))


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(3, max_depth=3, random_state=0),
        GradientBoostingClassifier(max_depth=2, n_estimators=3, random_state=0),
        HistGradientBoostingClassifier(max_iter=3),
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_ensembles_with_interactions(iris, model):
    with pytest.raises(ValueError, match=r"each tree may split on one feature, got tree .* max_depth=1"):
        check_closed_form(model.fit(*iris))


def test_boosting_from_a_model(iris):
    model = GradientBoostingClassifier(init=GaussianNB(), max_depth=1, n_estimators=2).fit(*iris)
    with pytest.raises(ValueError, match="model must start from a constant"):
        check_closed_form(model)


@pytest.mark.parametrize(
    "step", [PolynomialFeatures(2), QuantileTransformer(n_quantiles=20), MinMaxScaler(clip=True)], ids=str
)
def test_steps_without_a_formula(iris, step):
    model = make_pipeline(step, LogisticRegression(max_iter=500)).fit(*iris)
    with pytest.raises(TypeError, match=f"got a pipeline with the step .*{type(step).__name__}"):
        check_closed_form(model)


def test_a_scaler_that_clips(iris):
    scaler = MaxAbsScaler().fit(iris[0])
    scaler.clip = True
    model = LogisticRegression().fit(*iris)
    with pytest.raises(TypeError, match="got a pipeline with the step"):
        check_closed_form(Pipeline([("scaler", scaler), ("model", model)]))


def test_projections_before_what_is_not_linear(iris):
    model = make_pipeline(PCA(2), GaussianNB()).fit(*iris)
    with pytest.raises(TypeError, match="GaussianNB after the step 'pca', PCA, which mixes columns"):
        check_closed_form(model)


def test_several_labels(iris):
    X, y = iris
    several = np.stack([y == 0, y == 1], axis=1).astype(int)
    with pytest.raises(ValueError, match="model must predict one label"):
        check_closed_form(RidgeClassifier().fit(X, several))
    for model in (DecisionTreeClassifier(), RandomForestClassifier(2, max_depth=1)):
        with pytest.raises(ValueError, match="model must have one output, got 2"):
            check_closed_form(model.fit(X, several))


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(), make_pipeline(StandardScaler(), GaussianNB())],
)
def test_unfitted(iris, model):
    with pytest.raises(NotFittedError):
        exact_certificates(model, iris[0], 0.5)


@pytest.mark.parametrize(
    ("sigma", "message"),
    [
        ([0.5, 0.5, 0.5], "sigma must be a number or have one entry for each of the 4 features, got shape \\(3,\\)"),
        ([[0.5, 0.5, 0.5, 0.5]], "sigma must be a number or have one entry for each of the 4 features"),
        ([0.5, -0.1, 0.5, 0.5], "sigma must .*got -0.1 at index 1"),
        ([0.5, np.nan, 0.5, 0.5], "sigma must .*got nan at index 1"),
        (np.inf, "sigma must .*got inf"),
        (0.0, "sigma must be positive for at least one feature, got only zeros"),
        (np.zeros(4), "sigma must be positive for at least one feature"),
        ("large", "sigma must be a real number"),
    ],
)
def test_bad_sigma(iris, sigma, message):
    model = LogisticRegression().fit(*iris)
    with pytest.raises(ValueError, match=message):
        exact_certificates(model, iris[0], sigma)


def test_bad_inputs(iris):
    X, y = iris
    model = DecisionTreeClassifier().fit(X, y)
    with pytest.raises(ValueError, match="X must have the 4 features that the model was trained on, got 3"):
        exact_scores(model, X[:, :3], 0.5)
    for bad in (np.nan, np.inf):
        wrong = X.copy()
        wrong[3, 1] = bad
        with pytest.raises(ValueError, match="X contains"):
            exact_scores(model, wrong, 0.5)


def test_a_sigma_lost_behind_a_scaler(iris):
    X, y = iris
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(X * 1e100, y)
    with pytest.raises(ValueError, match="sigma must also be positive and finite"):
        exact_certificates(model, X, 1e-250)
