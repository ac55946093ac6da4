"""Data frames: columns by name, columns without noise that hold anything, bases that are given frames."""

import numpy as np
import pandas as pd
import pytest
from helpers.exact_cases import smallest_attacks
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures, StandardScaler

from smoothcert import ColumnSigma, DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier
from smoothcert._exact import exact_certificates
from smoothcert._exact._certify import _prepare

NUMBERS, Y = load_iris(return_X_y=True)


def mixed():
    """Four columns of numbers, one of strings, one of categories with missing values, one of whole numbers."""
    frame = pd.DataFrame(NUMBERS, columns=["a", "b", "c", "d"])
    frame.insert(1, "place", np.where(np.arange(150) % 3 == 0, "town", "village"))
    frame["kind"] = pd.Categorical(np.array(["x", "y", "z"])[(Y + np.arange(150) // 40) % 3])
    frame.loc[::10, "kind"] = np.nan
    frame["count"] = np.arange(150) % 5
    frame.index = np.arange(1000, 1150)
    return frame


FRAME = mixed()
SIGMA = {"a": 0.3, "b": 0.2, "c": 0.1, "d": 0.1}
ENCODED = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["place", "kind"]),
    (StandardScaler(), ["a", "c", "d"]),
    ("passthrough", ["count", "b"]),
)


def smoothed(base, sigma=SIGMA, **parameters):
    settings = {"certifier": FirstOrderCertifier(n_samples=500), "n_augment": 2, "random_state": 0, "n_votes": 200}
    return SmoothedClassifier(base, sigma=sigma, **settings | parameters)


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what it is given."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.fitted_on_ = X
        return self

    def predict(self, X):
        self.seen.append(X)
        return np.full(len(X), self.classes_[0])


def test_the_base_is_given_frames_like_that_of_fit():
    Recorder.seen.clear()
    clf = smoothed(Recorder()).fit(FRAME, Y)
    assert clf.feature_names_in_.tolist() == list(FRAME.columns)
    assert clf.n_features_in_ == 7
    trained = clf.estimator_.fitted_on_
    assert trained.dtypes.tolist() == FRAME.dtypes.tolist()
    assert len(trained) == 300
    for name in ("place", "kind", "count"):
        assert trained[name].astype(str).tolist() == 2 * FRAME[name].astype(str).tolist()
    assert np.std(trained["a"][:150].to_numpy() - FRAME["a"].to_numpy()) == pytest.approx(0.3, rel=0.2)
    clf.predict(FRAME[5:6])
    (rows,) = Recorder.seen
    assert rows.dtypes.tolist() == FRAME.dtypes.tolist()
    assert rows["place"].unique().tolist() == [FRAME["place"].iloc[5]]
    assert rows["d"].nunique() == 200
    Recorder.seen.clear()


def test_strings_categories_and_missing_values_pass_through():
    clf = smoothed(make_pipeline(ENCODED, LogisticRegression(max_iter=500))).fit(FRAME, Y)
    certificates = clf.certify(FRAME[::15])
    assert np.mean(certificates.prediction == Y[::15]) > 0.8
    assert np.mean(certificates.radius > 1.0) > 0.5
    np.testing.assert_array_equal(certificates.feature_scale, [0.3, 0.0, 0.2, 0.1, 0.1, 0.0, 0.0])
    # Each row by its content: neither its neighbours, its place nor its label in the index matter, nor where it runs.
    again = clf.certify(FRAME[::15].iloc[::-1].reset_index(drop=True))
    np.testing.assert_array_equal(again.radius[::-1], certificates.radius)
    np.testing.assert_array_equal(clf.set_params(n_jobs=2).certify(FRAME[::15]).radius, certificates.radius)
    # Rows that differ in a fixed column have noise of their own.
    pair = FRAME.iloc[[60, 60]].copy()
    pair.iloc[1, pair.columns.get_loc("count")] += 1
    first, second = clf._ready(pair).keys(clf._ready(pair).rows)
    assert first != second
    unseen = FRAME[:1].assign(place="sea")
    assert len(clf.certify(unseen)) == 1


def test_boosting_with_categories_from_types():
    base = HistGradientBoostingClassifier(max_iter=15, categorical_features="from_dtype", random_state=0)
    numbers = FRAME.drop(columns="place")
    clf = smoothed(base, ColumnSigma(0.2, fixed=["count"])).fit(numbers, Y)
    assert clf.estimator_.is_categorical_.tolist() == [False] * 4 + [True, False]
    assert clf.sigma_[4] == clf.sigma_[5] == 0.0
    assert np.mean(clf.certify(numbers[::15]).prediction == Y[::15]) > 0.8


def test_frames_of_numbers_give_the_radii_of_arrays():
    frame = pd.DataFrame(NUMBERS, columns=["a", "b", "c", "d"])
    base = LogisticRegression(max_iter=500)
    on_frame, on_array = smoothed(base, 0.3).fit(frame, Y), smoothed(base, 0.3).fit(NUMBERS, Y)
    assert hasattr(on_frame.estimator_, "feature_names_in_")
    np.testing.assert_array_equal(on_frame.certify(frame[:9]).radius, on_array.certify(NUMBERS[:9]).radius)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        certificates = on_frame.certify(NUMBERS[:9])
    np.testing.assert_array_equal(certificates.radius, on_array.certify(NUMBERS[:9]).radius)
    small = frame.astype(np.float32)
    assert smoothed(base, 0.3).fit(small, Y)._ready(small).rows.dtype == np.float32


def test_frozen_bases_are_given_what_they_were_fitted_on():
    frame = pd.DataFrame(NUMBERS, columns=["a", "b", "c", "d"])
    for data in (frame, NUMBERS):
        base = LogisticRegression(max_iter=500).fit(data, Y)
        clf = smoothed(FrozenEstimator(base), {"a": 0.3, "d": 0.1}).fit(frame, Y)
        assert clf.certify(frame[:2]).radius.min() > 0.5  # without a warning about names: those are errors here


def test_numbers_of_any_type_have_a_spread():
    frame = pd.DataFrame(NUMBERS, columns=["a", "b", "c", "d"])
    frame["whole"] = pd.array(np.arange(150), dtype="Int64")
    frame["flag"] = Y == 1
    frame["when"] = pd.date_range("2020-01-01", periods=150)
    clf = smoothed(Recorder(), ColumnSigma(1.0)).fit(frame, Y)
    np.testing.assert_allclose(clf.sigma_, [*NUMBERS.std(axis=0), np.arange(150).std(), 0.0, 0.0])
    assert clf.estimator_.fitted_on_["whole"].dtype == np.float64
    frame.loc[3, "whole"] = pd.NA
    with pytest.raises(ValueError, match="contains NaN in column 'whole', which has noise"):
        clf.fit(frame, Y)
    with pytest.raises(ValueError, match=r"numbers in columns with noise, got datetime64.* in column 'when'"):
        smoothed(Recorder(), {"when": 1.0}).fit(frame, Y)


def test_wrong_frames_are_refused():
    clf = smoothed(make_pipeline(ENCODED, LogisticRegression(max_iter=500))).fit(FRAME, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        clf.certify(FRAME.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(FRAME[FRAME.columns[::-1]])
    with pytest.raises(
        ValueError, match=r"must hold numbers in columns with noise, got .* in column 'place'. Set sigma"
    ):
        smoothed(LogisticRegression(), 0.5).fit(FRAME, Y)
    with pytest.raises(ValueError, match=r"in column 'kind'. Set sigma to 0 for this column"):
        smoothed(LogisticRegression(), {"kind": 0.5}).fit(FRAME, Y)
    holes = FRAME.copy()
    holes.iloc[3, 0] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN in column 'a', which has noise"):
        clf.certify(holes)
    holes.iloc[3, 0] = np.inf
    with pytest.raises(ValueError, match="Input X contains infinity in column 'a'"):
        clf.fit(holes, Y)
    given = DirectionalCertifier(n_samples=2000, direction=lambda X, labels: np.ones(X.shape))
    with pytest.raises(ValueError, match="direction must not be a function if X is a DataFrame"):
        smoothed(make_pipeline(ENCODED, LogisticRegression()), certifier=given).fit(FRAME, Y).certify(FRAME[:1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clf.fit(FRAME, Y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(FRAME, np.where(Y == 0, np.nan, Y))


def test_missing_values_are_the_affair_of_a_base_that_knows_them():
    """In columns without noise; a base that does not know them says so itself."""
    holes = pd.DataFrame(NUMBERS, columns=["a", "b", "c", "d"])
    holes.loc[::7, "b"] = np.nan
    sigma = {"a": 0.1, "c": 0.1}
    boosted = smoothed(HistGradientBoostingClassifier(max_iter=10, random_state=0), sigma).fit(holes, Y)
    assert np.mean(boosted.certify(holes[:7]).prediction == 0) > 0.8
    with pytest.raises(ValueError, match="contains NaN"):
        smoothed(LogisticRegression(), sigma).fit(holes, Y)
    soft = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=2, random_state=0)
    with pytest.raises(ValueError, match="contains NaN"):
        smoothed(soft, sigma, voting="soft").fit(holes, Y)


# Without sampling -------------------------------------------------------------------------------------------------

SOFT = {
    "linear": make_pipeline(ENCODED, LogisticRegression(max_iter=500)),
    "boosted stumps": make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["place", "kind"]), remainder="passthrough"
        ),
        HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=2, random_state=0),
    ),
    "codes and scalers": make_pipeline(
        make_column_transformer(
            (OrdinalEncoder(encoded_missing_value=-1), ["place", "kind"]),
            (make_pipeline(StandardScaler(), "passthrough"), ["d", "c", "b", "a"]),
        ),
        StandardScaler(),
        LogisticRegression(max_iter=500),
    ),
}


@pytest.mark.parametrize("name", SOFT)
def test_exact_scores_of_mixed_tables(name):
    """Means of the model's own scores over noise, and radii below the smallest attack."""
    clf = smoothed(SOFT[name], voting="soft").fit(FRAME, Y)
    rows = FRAME.iloc[[10, 70, 120]]
    certificates = clf.certify(rows)
    rng = np.random.default_rng(0)
    for i, expected in enumerate(exact_certificates(clf.estimator_, clf._ready(rows).given, clf.sigma_).scores):
        noisy = rows.iloc[np.full(20_000, i)].reset_index(drop=True)
        for column, sigma in SIGMA.items():
            noisy[column] += sigma * rng.standard_normal(len(noisy))
        scores = clf.estimator_.decision_function(noisy)
        assert np.all(np.abs(scores.mean(axis=0) - expected) < 1e-3 + 5.0 * scores.std(axis=0) / np.sqrt(len(noisy)))
    front = _prepare(clf.estimator_, clf._ready(rows).given, clf.sigma_)
    prediction = np.searchsorted(clf.classes_, certificates.prediction)
    attack = smallest_attacks(front.form, front.X, front.sigma, prediction, starts=3, steps=15)
    assert np.all(certificates.radius <= attack * (1.0 + 1e-9))
    assert np.median(certificates.radius / attack) > 0.95
    # What was promised about the frame itself.
    many = np.repeat(np.arange(3), 50)
    step = rng.standard_normal((150, 4))
    step *= 0.999 * certificates.radius[many, None] / np.linalg.norm(step, axis=1, keepdims=True)
    moved = rows.iloc[many].reset_index(drop=True)
    moved[list(SIGMA)] += step * list(SIGMA.values())
    np.testing.assert_array_equal(clf.predict(moved), certificates.prediction[many])


def test_exact_certificates_of_boosting_with_categories():
    base = HistGradientBoostingClassifier(
        max_iter=15, interaction_cst="no_interactions", categorical_features="from_dtype", random_state=0
    )
    frame = FRAME.drop(columns="place")
    clf = smoothed(base, SIGMA, voting="soft").fit(frame, Y)
    certificates = clf.certify(frame)
    assert np.mean(certificates.prediction == Y) > 0.9
    # Almost without noise the expected scores are the model's own.
    quiet = clf.set_params(sigma=dict.fromkeys(SIGMA, 1e-9))
    found = exact_certificates(quiet.estimator_, quiet._ready(frame).given, quiet._ready(frame).sigma).scores
    np.testing.assert_allclose(found, clf.estimator_.decision_function(frame), atol=1e-9)
    with pytest.raises(ValueError, match="columns with noise, got category in column 'kind'"):
        clf.set_params(sigma=SIGMA | {"kind": 0.1}).certify(frame)


def test_what_has_no_closed_form_in_a_column_transformer_is_refused():
    twice = make_column_transformer((StandardScaler(), ["a", "b"]), ("passthrough", ["a"]))
    with pytest.raises(TypeError, match="use each column with noise once"):
        smoothed(make_pipeline(twice, LogisticRegression()), voting="soft").fit(FRAME, Y)
    bent = make_column_transformer((PolynomialFeatures(), ["a", "b"]))
    with pytest.raises(TypeError, match=r"columns with noise one by one .* got the step 'polynomialfeatures'"):
        smoothed(make_pipeline(bent, LogisticRegression(max_iter=2000)), voting="soft").fit(FRAME, Y)
    weighted = make_column_transformer((StandardScaler(), ["a", "b"]))
    weighted.set_params(transformer_weights={"standardscaler": 2.0})
    with pytest.raises(TypeError, match="without transformer_weights"):
        smoothed(make_pipeline(weighted, LogisticRegression()), voting="soft").fit(FRAME, Y)
    # Of columns without noise anything may be made.
    free = make_column_transformer((PolynomialFeatures(), ["count"]), (StandardScaler(), ["a", "b"]))
    assert smoothed(make_pipeline(free, LogisticRegression()), voting="soft").fit(FRAME, Y).certify(FRAME[:2]).radius[0]
