"""SmoothedClassifier: right votes, right promises, good manners."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import ndtr, ndtri
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from smoothcert import (
    Certificates,
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    SmoothedClassifier,
    bounds,
)

IRIS = load_iris(return_X_y=True)


class Fixed(ClassifierMixin, BaseEstimator):
    """A classifier whose regions are known: class 1 where `low` < first feature < `high`."""

    def __init__(self, low=-np.inf, high=0.5):
        self.low = low
        self.high = high

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return ((X[:, 0] > self.low) & (X[:, 0] < self.high)).astype(int)


def fixed(certifier, sigma=0.5, **edges):
    model = SmoothedClassifier(Fixed(**edges), sigma=sigma, certifier=certifier, random_state=0)
    return model.fit(np.zeros((2, 3)), [0, 1])


CERTIFIERS = [
    FirstOrderCertifier,
    SecondOrderCertifier,
    DipoleCertifier,
    SecondOrderDipoleCertifier,
    DirectionalCertifier,
]


@pytest.mark.parametrize("certifier", CERTIFIERS)
def test_on_a_half_space_all_certificates_agree_with_the_truth(certifier):
    inputs = np.array([[0.0, 1.0, -1.0], [-0.3, 0.0, 2.0], [0.4, 0.0, 0.0]])
    certificates = fixed(certifier(n_samples=20_000)).certify(inputs)
    distance = 0.5 - inputs[:, 0]
    np.testing.assert_array_equal(certificates.prediction, 1)
    assert np.all(certificates.radius < distance)
    # Sampling error in the radius at 20,000 samples and alpha 0.001 is below 0.04 sigma for these probabilities.
    assert np.all(certificates.radius > distance - 0.05 * 0.5 - 0.02 * distance)
    p = ndtr(distance / 0.5)
    counts = certificates.counts
    hits = counts["hits"] / counts["n"] if "hits" in counts else (counts["both"] + counts["one"] / 2) / counts["pairs"]
    # Five standard deviations.
    assert np.all(np.abs(hits - p) < 5 * np.sqrt(p * (1 - p) / 10_000))
    if "p" in certificates.limits:
        assert np.all(certificates.limits["p"] < p)


@pytest.mark.parametrize("certifier", CERTIFIERS)
def test_on_a_slab_the_higher_orders_gain_what_the_theory_says(certifier):
    half_width, sigma = 0.5, 0.5
    model = fixed(certifier(n_samples=50_000), sigma, low=-half_width, high=half_width)
    radius = model.certify(np.zeros((1, 3))).radius[0] / sigma
    p = 2 * ndtr(half_width / sigma) - 1
    first, best = float(bounds.first_order_radius(p)), float(bounds.second_order_radius(p, 0.0))
    if certifier is FirstOrderCertifier:
        assert first - 0.03 < radius < first
    else:
        assert radius > first + 0.6 * (best - first)
    assert radius < best


def test_example_of_the_front_page():
    X, y = IRIS
    clf = SmoothedClassifier(
        LogisticRegression(max_iter=500), sigma=0.25, certifier=DipoleCertifier(n_samples=2000), random_state=0
    )
    certificates = clf.fit(X, y).certify(X[:3])
    assert isinstance(certificates, Certificates)
    assert clf.score(X, y) > 0.9
    np.testing.assert_array_equal(certificates.prediction, clf.predict(X[:3]))


@pytest.mark.parametrize(
    "base",
    [
        LogisticRegression(max_iter=500),
        RandomForestClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=5),
        SVC(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        CalibratedClassifierCV(LogisticRegression(max_iter=500), cv=2),
        TunedThresholdClassifierCV(LogisticRegression(), cv=2),
    ],
    ids=lambda base: type(base).__name__,
)
def test_any_base_with_string_labels(base):
    X, y = IRIS
    if isinstance(base, TunedThresholdClassifierCV):
        X, y = X[y > 0], y[y > 0] - 1
        labels = np.array(["no", "yes"])[y]
        base = clone(base).set_params(estimator=LogisticRegression())
        base.set_params(scoring="accuracy")
    else:
        labels = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    clf = SmoothedClassifier(base, sigma=0.2, certifier=FirstOrderCertifier(n_samples=500), n_augment=2, n_votes=50)
    clf.set_params(random_state=0).fit(X, labels)
    certificates = clf.certify(X[::30])
    assert set(certificates.prediction) <= set(labels)
    assert (certificates.prediction == labels[::30]).mean() > 0.5
    assert clf.predict_proba(X[:4]).shape == (4, len(clf.classes_))
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.certify(X[::30]).radius, certificates.radius)


def test_frames_images_and_negative_labels():
    pandas = pytest.importorskip("pandas")
    X, y = IRIS
    frame = pandas.DataFrame(X, columns=list("abcd"))
    clf = SmoothedClassifier(LogisticRegression(max_iter=500), certifier=FirstOrderCertifier(500), random_state=0)
    certificates = clf.fit(frame, y - 1).certify(frame.iloc[:3])
    assert list(clf.feature_names_in_) == list("abcd")
    np.testing.assert_array_equal(certificates.prediction, -1)
    assert not certificates.abstained.any()

    class Bright(Fixed):
        def predict(self, X):
            assert X.ndim == 4
            return (X.mean(axis=(1, 2, 3)) > 0).astype(int)

    images = np.random.default_rng(0).normal(0.2, 0.1, (4, 1, 5, 5)).astype(np.float32)
    votes = SmoothedClassifier(Bright(), certifier=FirstOrderCertifier(500), random_state=0).fit(images, [0, 1, 0, 1])
    assert votes.certify(images[:2]).prediction.tolist() == [1, 1]
    for wrong in (images[..., :4], images[0], images.transpose(0, 2, 3, 1), images.reshape(4, -1)):
        with pytest.raises(
            ValueError, match=r"rows of shape \(1, 5, 5\), as in fit, got an array of shape .* (X\[None\]|Reshape it)"
        ):
            votes.certify(wrong)


def test_augmentation_is_what_it_says():
    seen = []

    class Recorder(Fixed):
        def fit(self, X, y, sample_weight=None, tag=None):
            seen.append((X, y, sample_weight, tag))
            return super().fit(X, y)

    X, y = np.zeros((50, 40)), np.repeat([0, 1], 25)
    weight = np.arange(50.0)
    SmoothedClassifier(Recorder(), sigma=0.3, n_augment=4, random_state=0).fit(X, y, sample_weight=weight, tag="kept")
    noisy, labels, weights, tag = seen[0]
    assert noisy.shape == (200, 40)
    np.testing.assert_array_equal(labels, np.tile(y, 4))
    np.testing.assert_array_equal(weights, np.tile(weight, 4))
    assert tag == "kept"
    # 8000 normals: their standard deviation is known to 0.8%, five of those are 4%.
    assert abs(noisy.std() / 0.3 - 1) < 0.04
    assert len(np.unique(noisy)) == noisy.size
    SmoothedClassifier(Recorder(), n_augment=0).fit(X, y)
    np.testing.assert_array_equal(seen[1][0], X)
    SmoothedClassifier(Recorder(), n_augment=2, random_state=0).fit(X.astype(np.float32), y)
    assert seen[2][0].dtype == np.float32


def test_passes_give_fresh_noise_each_time():
    seen = []

    class Online(GaussianNB):
        def partial_fit(self, X, y, classes=None, sample_weight=None):
            seen.append((X, sample_weight))
            return super().partial_fit(X, y, classes=classes, sample_weight=sample_weight)

    X, y = IRIS
    clf = SmoothedClassifier(Online(), augmentation="passes", n_augment=3, random_state=0, n_votes=50)
    clf.fit(X, y, sample_weight=np.arange(150.0))
    assert len(seen) == 3
    assert not np.any(np.sort(seen[0][0], axis=0) == np.sort(seen[1][0], axis=0))
    assert sorted(seen[0][1]) == list(range(150))
    assert clf.score(X, y) > 0.85
    with pytest.raises(TypeError, match="partial_fit"):
        SmoothedClassifier(DecisionTreeClassifier(), augmentation="passes").fit(X, y)


def test_metadata_is_routed():
    X, y = IRIS
    with config_context(enable_metadata_routing=True):
        base = LogisticRegression(max_iter=500).set_fit_request(sample_weight=True)
        SmoothedClassifier(base, n_augment=2, random_state=0).fit(X, y, sample_weight=np.ones(150))
        with pytest.raises(TypeError, match=r"unexpected argument.*other"):
            SmoothedClassifier(base).fit(X, y, other=np.ones(150))


def test_a_frozen_base_is_left_alone():
    X, y = IRIS
    base = LogisticRegression(max_iter=500).fit(X, y)
    before = base.coef_.copy()
    clf = SmoothedClassifier(FrozenEstimator(base), certifier=FirstOrderCertifier(500), random_state=0)
    clf.fit(X[:60], y[:60])
    np.testing.assert_array_equal(base.coef_, before)
    assert list(clf.classes_) == [0, 1, 2]
    assert clf.certify(X[140:141]).prediction == 2


def test_predict_abstains_where_the_vote_is_close():
    X = np.array([[0.5, 0, 0], [0.0, 0, 0]])
    model = fixed(FirstOrderCertifier(), sigma=0.1).set_params(abstain_label=-1)
    assert model.predict(X).tolist() == [-1, 1]
    assert model.set_params(abstain_label="unsure").predict(X).tolist() == ["unsure", 1]
    assert model.set_params(abstain_label=None).predict(X)[1] == 1
    with pytest.raises(ValueError, match="abstain_label must not be one of the classes, got 1"):
        model.set_params(abstain_label=1).predict(X)


def test_votes_are_shares():
    proba = fixed(None, sigma=0.5).predict_proba(np.array([[0.0, 0, 0]]))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert abs(proba[0, 1] - ndtr(1.0)) < 5 * np.sqrt(0.16 * 0.84 / 1000)


def test_fresh_entropy_is_drawn_and_recorded():
    model = fixed(FirstOrderCertifier(n_samples=2000))
    model.set_params(random_state=None)
    first, second = model.certify(np.zeros((1, 3))), model.certify(np.zeros((1, 3)))
    assert first.provenance["seed"] != second.provenance["seed"]
    again = model.set_params(random_state=first.provenance["seed"]).certify(np.zeros((1, 3)))
    np.testing.assert_array_equal(first.radius, again.radius)
    np.testing.assert_array_equal(first.counts["hits"], again.counts["hits"])
    for state in (np.random.default_rng(0), np.random.RandomState(0)):
        assert model.set_params(random_state=state).certify(np.zeros((1, 3))).provenance["seed"] > 0


def test_certificates_tell_where_they_come_from():
    certificates = fixed(DipoleCertifier(n_samples=1000, alpha=0.01)).certify(np.zeros((2, 3)))
    provenance = certificates.provenance
    assert provenance["sigma"] == 0.5
    assert provenance["alpha"] == 0.01
    assert provenance["n_samples"] == 1000
    assert provenance["seed"] == 0
    assert "DipoleCertifier" in provenance["certifier"]
    assert provenance["version"]


def test_nothing_is_certified_where_classes_tie():
    certificates = fixed(FirstOrderCertifier(n_samples=1000)).certify(np.array([[0.5, 0.0, 0.0]]))
    assert certificates.abstained.all()
    assert certificates.radius == 0.0


def test_diagram_shows_the_certifier():
    shown = SmoothedClassifier(LogisticRegression(), certifier=DipoleCertifier())._repr_html_()
    assert "DipoleCertifier" in shown
    assert "LogisticRegression" in shown


def test_progress_counts_samples(capsys):
    pytest.importorskip("tqdm")
    model = fixed(FirstOrderCertifier(n_samples=2000)).set_params(verbose=1)
    model.certify(np.zeros((2, 3)))
    shown = capsys.readouterr().err
    assert "certify" in shown
    assert "4.20k/4.20k" in shown
    assert "samples/s" in shown


class NoPredict(BaseEstimator):
    def fit(self, X, y):
        return self


class Inventor(Fixed):
    def predict(self, X):
        return np.full(len(X), 7)


class Wide(Fixed):
    def predict(self, X):
        return np.zeros((len(X), 2))


GOOD = SmoothedClassifier(
    LogisticRegression(), certifier=FirstOrderCertifier(n_samples=100), n_votes=20, random_state=0
)
TWO = make_classification(n_samples=40, random_state=0)


@pytest.mark.parametrize("method", ["fit", "predict", "predict_proba", "certify"])
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"sigma": 0.0}, ValueError, "sigma must be a positive finite number, got 0.0"),
        ({"sigma": -1}, ValueError, "sigma must be a positive finite number, got -1"),
        ({"sigma": np.nan}, ValueError, "sigma"),
        ({"sigma": np.inf}, ValueError, "sigma"),
        ({"sigma": "0.25"}, ValueError, "sigma"),
        ({"certifier": "dipole"}, TypeError, "certifier must be a certifier such as .* got 'dipole'"),
        ({"certifier": DipoleCertifier}, TypeError, "add parentheses"),
        ({"certifier": FirstOrderCertifier(alpha=2.0)}, ValueError, "alpha"),
        ({"certifier": DipoleCertifier(n_samples=11)}, ValueError, "n_samples must be even"),
        ({"n_votes": 0}, ValueError, "n_votes must be an integer of at least 1, got 0"),
        ({"n_augment": -1}, ValueError, "n_augment must be an integer of at least 0, got -1"),
        ({"batch_size": 0}, ValueError, "batch_size must be None or an integer of at least 1, got 0"),
        ({"augmentation": "always"}, ValueError, "augmentation must be .* got 'always'"),
        ({"random_state": "seed"}, ValueError, "random_state must be None, a non-negative integer"),
        ({"random_state": -1}, ValueError, "random_state must be None, a non-negative integer"),
        ({"estimator": NoPredict()}, TypeError, "estimator must be a classifier with fit and predict"),
        ({"estimator": None}, TypeError, "estimator must be a classifier with fit and predict, got None"),
        ({"estimator": Ridge()}, TypeError, r"estimator must be a classifier .* got Ridge\(\)"),
        ({"estimator": LogisticRegression}, TypeError, "got the class LogisticRegression. Add parentheses"),
        ({"certifier": FirstOrderCertifier(n_samples=1e4)}, ValueError, "n_samples must be an integer .* Write 10000"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be None or a non-zero integer, got 0"),
        ({"verbose": "yes"}, ValueError, "verbose must be an integer, got 'yes'"),
    ],
)
def test_bad_parameters_are_refused_by_every_method(method, parameters, error, message):
    X, y = TWO
    model = clone(GOOD).fit(X, y).set_params(**parameters)
    with pytest.raises(error, match=message):
        model.fit(X, y) if method == "fit" else getattr(model, method)(X)


@pytest.mark.parametrize("method", ["fit", "predict", "predict_proba", "certify"])
@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda X: np.where(np.arange(X.size).reshape(X.shape) == 5, np.nan, X), ValueError, "NaN"),
        (lambda X: np.where(np.arange(X.size).reshape(X.shape) == 5, np.inf, X), ValueError, "infinity"),
        (lambda X: X[0], ValueError, "1D array"),
        (lambda X: sparse.csr_array(X), TypeError, "[Ss]parse"),
        (lambda X: X.astype(complex), ValueError, "[Cc]omplex"),
        (lambda X: X[:0], ValueError, "0 sample"),
    ],
)
def test_bad_inputs_are_refused_by_every_method(method, spoil, error, message):
    X, y = TWO
    model = clone(GOOD).fit(X, y)
    with pytest.raises(error, match=message):
        model.fit(spoil(X), y) if method == "fit" else getattr(model, method)(spoil(X))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "certify"])
def test_other_misuse_is_refused(method):
    X, y = TWO
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit' .*FrozenEstimator"):
        getattr(clone(GOOD), method)(X)
    model = clone(GOOD).fit(X, y)
    with pytest.raises(ValueError, match="expecting 20 features"):
        getattr(model, method)(X[:, :5])
    for base, message in ((Inventor(), "labels it was trained on, got .*7"), (Wide(), "one label for each row")):
        broken = SmoothedClassifier(base, certifier=FirstOrderCertifier(100), random_state=0).fit(X, y)
        with pytest.raises(ValueError, match=message):
            getattr(broken, method)(X)


def test_the_default_is_the_directional_certifier():
    clf = fixed(None)
    certificates = clf.certify(np.zeros((1, 3)))
    assert clf.certifier is None
    assert certificates.provenance["certifier"] == repr(DirectionalCertifier())
    named = fixed(DirectionalCertifier()).certify(np.zeros((1, 3)))
    np.testing.assert_array_equal(certificates.radius, named.radius)


def test_the_default_certifier_must_be_named_to_be_changed():
    with pytest.raises(ValueError, match=r"certifier must be set before certifier__alpha, got None"):
        SmoothedClassifier(LogisticRegression()).set_params(certifier__alpha=0.1)
    model = SmoothedClassifier(LogisticRegression()).set_params(certifier=DipoleCertifier(), certifier__alpha=0.1)
    assert model.certifier.alpha == 0.1


def test_an_untrained_frozen_base_is_refused():
    with pytest.raises(Exception, match="LogisticRegression instance is not fitted"):
        SmoothedClassifier(FrozenEstimator(LogisticRegression())).fit(*TWO)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="y must have at least 2 classes, got 1 class"):
        clone(GOOD).fit(TWO[0], np.zeros(40))
    with pytest.raises(ValueError, match="Unknown label type"):
        clone(GOOD).fit(TWO[0], np.linspace(0, 1, 40))


def test_cheap_and_expensive_stages_of_a_certifier_are_obeyed():
    """A certifier with a pilot gets a tally of its own noise, makes plans from it, and its tallies are built with
    them."""
    from smoothcert.certifiers import Pilot
    from smoothcert.tallies import VoteTally

    plans = []

    class Piloted(FirstOrderCertifier):
        def pilots(self, gradients):
            assert not gradients

            def empty(n_rows, n_features, n_classes, candidate, plan):
                return VoteTally.empty(n_rows, n_classes, candidate)

            def plan(pilot):
                assert pilot.n.tolist() == [300, 300]
                return [("plan", int(hits)) for hits in pilot.hits]

            return [Pilot(300, empty, plan)]

        def new_tally(self, n_rows, n_features, n_classes, candidate, plan=None):
            plans.append(plan)
            return super().new_tally(n_rows, n_features, n_classes, candidate)

    model = fixed(Piloted(n_samples=3000))
    certificates = model.certify(np.array([[0.0, 0, 0], [0.1, 0, 0]]))
    assert certificates.counts["n"].tolist() == [2700, 2700]
    assert {plan[0] for plan in plans} == {"plan"}
    # Both stages are random in their own right: the same share of hits would be a strange accident.
    assert all(plan[1] / 300 != hits / 2700 for plan, hits in zip(plans[:2], certificates.counts["hits"], strict=True))


def test_digits_are_certified():
    X, y = load_digits(return_X_y=True)
    clf = SmoothedClassifier(
        SGDClassifier(random_state=0), sigma=2.0, certifier=FirstOrderCertifier(2000), random_state=0
    )
    certificates = clf.fit(X[:1000], y[:1000]).certify(X[1000:1020])
    assert np.mean((certificates.prediction == y[1000:1020]) & ~certificates.abstained) > 0.6
    assert np.all(certificates.radius <= 2.0 * ndtri(0.001 ** (1 / 2000)))


def test_a_frozen_classifier_keeps_its_labels():
    X, Y = load_iris(return_X_y=True)
    base = LogisticRegression(max_iter=1000).fit(X, Y)
    with pytest.raises(ValueError, match=r"labels the frozen classifier was trained on, got .*'a'"):
        SmoothedClassifier(FrozenEstimator(base)).fit(X, np.array(["a", "b", "c"])[Y])
    assert SmoothedClassifier(FrozenEstimator(base)).fit(X[:60], Y[:60]).classes_.tolist() == [0, 1, 2]


def test_clusters_are_no_classes():
    X, Y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match="estimator must be a classifier with fit and predict, got KMeans"):
        SmoothedClassifier(KMeans(3)).fit(X, Y)


def test_so_few_samples_that_nothing_can_be_proved():
    X, Y = load_iris(return_X_y=True)
    clf = SmoothedClassifier(GaussianNB(), certifier=FirstOrderCertifier(9), random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match="n_samples=9 can prove nothing at alpha=0.001, .* At least 10"):
        assert clf.certify(X[:1]).abstained.all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not clf.set_params(certifier=FirstOrderCertifier(10)).certify(X[:1]).abstained.any()
