"""Certifying through pipelines and searches, in the right units."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA, KernelPCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from smoothcert import DipoleCertifier, FirstOrderCertifier, SmoothedClassifier, certify
from smoothcert._lipschitz import lipschitz_bound
from smoothcert.metrics import make_certified_scorer

# Steps that are not known are tested here on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::smoothcert.RadiusSpaceWarning")

X, Y = load_iris(return_X_y=True)


def smoothed(**parameters):
    settings = {"sigma": 0.4, "certifier": FirstOrderCertifier(n_samples=500), "n_augment": 2, "random_state": 0}
    return SmoothedClassifier(LogisticRegression(max_iter=500), **{**settings, **parameters})


def test_the_classifier_itself_and_what_wraps_it():
    plain = smoothed().fit(X, Y)
    expected = plain.certify(X[:4])
    for wrapped in (plain, FrozenEstimator(plain), make_pipeline("passthrough", smoothed()).fit(X, Y)):
        certificates = certify(wrapped, X[:4])
        np.testing.assert_array_equal(certificates.radius, expected.radius)
        assert certificates.space == "input"


@pytest.mark.parametrize(
    "step",
    [
        PCA(2),
        PCA(3, whiten=True),
        TruncatedSVD(2, random_state=0),
        StandardScaler(),
        StandardScaler(with_std=False),
        RobustScaler(),
        MaxAbsScaler(),
        MinMaxScaler((-1, 2)),
        SelectKBest(k=2),
        VarianceThreshold(),
        make_pipeline(StandardScaler(), "passthrough", PCA(4)),
        make_pipeline(StandardScaler(), PCA(2), StandardScaler()),
        make_pipeline(PCA(3, whiten=True), SelectKBest(k=2), TruncatedSVD(2, random_state=0)),
        FrozenEstimator(PCA(2).fit(X)),
    ],
    ids=repr,
)
def test_radii_are_converted_by_the_largest_stretch(step):
    pipeline = make_pipeline(step, smoothed()).fit(X, Y)
    certificates = certify(pipeline, X[:5])
    assert certificates.space == "input"
    stretch = lipschitz_bound([pipeline.steps[0][1]])
    inner = pipeline[-1].certify(pipeline[:-1].transform(X[:5]))
    np.testing.assert_allclose(certificates.radius, inner.radius / stretch, rtol=1e-12)
    # No pair of points is stretched by more, and some direction by as much.
    rng = np.random.default_rng(0)
    points = rng.standard_normal((200, 4))
    moves = np.concatenate([rng.standard_normal((4000, 4)), np.eye(4)])
    lengths = np.linalg.norm(moves, axis=1)
    transform = pipeline[:-1].transform
    moved = transform(points[:1] + moves) - transform(points[:1])
    ratios = np.linalg.norm(moved, axis=1) / lengths
    assert ratios.max() <= stretch * (1 + 1e-9)
    assert ratios.max() >= stretch * 0.9


def test_unknown_steps_leave_the_radius_where_it_is():
    pipeline = make_pipeline(StandardScaler(), KernelPCA(3, kernel="rbf"), smoothed()).fit(X, Y)
    certificates = certify(pipeline, X[:5])
    assert certificates.space == "the output of kernelpca"
    assert "the output of kernelpca" in repr(certificates)
    inner = pipeline[-1].certify(pipeline[:-1].transform(X[:5]))
    np.testing.assert_array_equal(certificates.radius, inner.radius)


def test_what_a_step_stretches_another_may_throw_away():
    data = X * [1.0, 100.0, 1.0, 1e-3]  # the scaler enlarges the last feature most, and the selection drops it
    scaler, selection = StandardScaler(), SelectKBest(lambda X, y: np.arange(4)[::-1], k=2)
    first, second = (
        make_pipeline(*steps).fit(data, Y) for steps in ((scaler, selection), (clone(selection), clone(scaler)))
    )
    np.testing.assert_allclose(first.transform(data), second.transform(data), rtol=1e-12)
    assert lipschitz_bound([first]) == pytest.approx(lipschitz_bound([second]), rel=1e-12)
    assert lipschitz_bound([first]) < 0.01 * lipschitz_bound([first[0]])


def test_clipping_keeps_steps_apart():
    """Two moves that would cancel no longer do when one of them is clipped."""
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    copy, difference = TruncatedSVD(2).fit(rows), TruncatedSVD(1).fit(rows)
    copy.components_, difference.components_ = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, -1.0]])
    assert lipschitz_bound([copy, MinMaxScaler().fit(rows), difference]) < 1e-12
    assert lipschitz_bound([copy, MinMaxScaler(clip=True).fit(rows), difference]) == pytest.approx(2.0)


def test_scores_in_another_space_say_so():
    unknown = make_pipeline(KernelPCA(3, kernel="rbf"), smoothed()).fit(X, Y)
    with pytest.warns(UserWarning, match="distances in the output of kernelpca"):
        make_certified_scorer(0.25)(unknown, X[:5], Y[:5])
    known = make_pipeline(PCA(2), smoothed()).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_certified_scorer([0.25, "average_radius"])(known, X[:5], Y[:5])
        make_certified_scorer([0.0, "certified_share"])(unknown, X[:5], Y[:5])


def test_steps_of_other_types_are_not_taken_for_known_ones():
    class Tenfold(FrozenEstimator):
        def transform(self, X):
            return 10 * self.estimator.transform(X)

    class Own(Pipeline):
        pass

    frozen = make_pipeline(Tenfold(StandardScaler().fit(X)), smoothed()).fit(X, Y)
    assert certify(frozen, X[:2]).space == "the output of tenfold"
    own = Own([("scaler", StandardScaler()), ("clf", smoothed())]).fit(X, Y)
    assert certify(own, X[:2]).space == "the output of scaler"
    assert certify(Own([("clf", smoothed())]).fit(X, Y), X[:2]).space == "the input of clf"
    assert certify(make_pipeline(PCA(2), own).fit(X, Y), X[:2]).space == "the output of scaler"


def test_pipelines_within_pipelines():
    flat = make_pipeline(StandardScaler(), PCA(3, random_state=0), smoothed()).fit(X, Y)
    expected = certify(flat, X[:5])
    (_, scaler), (_, pca), (_, classifier) = flat.steps
    for nested in (
        Pipeline([("a", make_pipeline(scaler, pca)), ("b", classifier)]),
        make_pipeline(scaler, make_pipeline(pca, classifier)),
    ):
        found = certify(nested, X[:5])
        assert found.space == "input"
        np.testing.assert_allclose(found.radius, expected.radius, rtol=1e-12)
    hidden = make_pipeline(make_pipeline(scaler, KernelPCA(3, kernel="rbf")), smoothed()).fit(X, Y)
    assert certify(hidden, X[:5]).space == "the output of pipeline"


def test_preprocessing_inside_keeps_the_units():
    inside = smoothed()
    inside.set_params(estimator=make_pipeline(StandardScaler(), LogisticRegression()))
    assert certify(inside.fit(X, Y), X[:3]).space == "input"


def test_grid_search_over_sigma_and_alpha_in_a_pipeline():
    images, labels = load_digits(return_X_y=True)
    pooled = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)[:400]
    pipeline = make_pipeline(PCA(10, random_state=0), smoothed(certifier=DipoleCertifier(n_samples=200), sigma=1.0))
    grid = {"smoothedclassifier__sigma": [0.5, 1.0], "smoothedclassifier__certifier__alpha": [1e-3, 0.05]}
    scorer = make_certified_scorer([0.5, "average_radius"])
    search = GridSearchCV(pipeline, grid, scoring=scorer, refit="accuracy_at_0.5", cv=2, n_jobs=2, error_score="raise")
    search.fit(pooled, labels[:400])
    results = search.cv_results_
    assert np.isfinite(results["mean_test_accuracy_at_0.5"]).all()
    assert results["mean_test_average_radius"][1] != results["mean_test_average_radius"][0]
    certificates = certify(search, pooled[:3])
    assert certificates.space == "input"
    assert len(certificates) == 3


def test_what_cannot_be_walked_is_refused():
    with pytest.raises(TypeError, match=r"SmoothedClassifier\(LogisticRegression\(\.\.\.\)\)"):
        certify(LogisticRegression(max_iter=500).fit(X, Y), X)
    with pytest.raises(Exception, match="not fitted"):
        certify(make_pipeline(PCA(2), smoothed()), X)
    with pytest.raises(TypeError, match=r"got ndarray. The order is certify\(estimator, X\)"):
        certify(X, smoothed())
    with pytest.raises(ValueError, match="refit=False"):
        certify(GridSearchCV(smoothed(), {"sigma": [0.1]}, refit=False), X)
    with pytest.raises(Exception, match="not fitted"):
        certify(GridSearchCV(smoothed(), {"sigma": [0.1]}), X)
