"""Scorers sample what their scores need and no more; scores warn of what was not asked."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smoothcert import (
    Certificates,
    FirstOrderCertifier,
    SmoothedClassifier,
    UnaskedRadiusWarning,
    UnreachableRadiusWarning,
    certify,
    metrics,
    read_journal,
)
from smoothcert._pipelines import certify_to_choose
from smoothcert.metrics import (
    _scorers,
    abstention_rate,
    average_certified_radius,
    certificate_gain,
    certified_accuracy_curve,
    certified_accuracy_score,
    class_probability,
    make_certified_scorer,
)
from smoothcert.metrics._reach import samples_to_reach, unanimous_radius

X, Y = load_digits(return_X_y=True)
X = X / 16


def digits(n_samples=10_000, sigma=0.25, **settings):
    base = LogisticRegression(C=0.3, max_iter=500)
    settings = {"n_augment": 2, "random_state": 0, "certifier": FirstOrderCertifier(n_samples), **settings}
    return SmoothedClassifier(base, sigma=sigma, **settings).fit(X[:600], Y[:600])


@pytest.fixture(scope="module")
def model():
    return digits()


@pytest.fixture
def made(monkeypatch):
    """Certificates that scorers made."""
    found = []

    def record(*arguments, **settings):
        found.append(certify_to_choose(*arguments, **settings))
        return found[-1]

    monkeypatch.setattr(_scorers, "certify_to_choose", record)
    return found


ROWS, TRUTH = X[600:640], Y[600:640]


@pytest.mark.parametrize(
    ("wanted", "asked", "skips_wrong"),
    [
        (0.25, (0.25,), True),
        ([0.5, 0, 0.25, 0.25], (0.0, 0.25, 0.5), True),
        ("certified_share", (0.0,), False),
        ([0.25, "certified_share"], (0.0, 0.25), False),
        ("average_radius", None, True),
        ([0.25, "average_radius"], None, True),
        ([0.25, "average_radius", "certified_share"], None, False),
    ],
)
def test_scorers_ask_for_what_they_need(wanted, asked, skips_wrong, model, made):
    score = make_certified_scorer(wanted)(model, ROWS, TRUTH)
    [certificates] = made
    assert certificates.asked_radii == asked
    wrong = certificates.prediction != TRUTH
    assert 0 < wrong.sum() < 20
    assert np.all(certificates.abstained[wrong]) == skips_wrong
    if skips_wrong:
        assert np.all(certificates.samples_used[wrong] == 100)
        assert np.all(certificates.stopped[wrong] == "wrong candidate")
    if asked is None:
        assert np.all(certificates.samples_used[~wrong] == 10_100)
    elif asked != (0.0, 0.25, 0.5):
        assert certificates.samples_used.mean() < 5000
    fixed = certify_to_choose(model, ROWS)
    scores = score if isinstance(score, dict) else {str(wanted): score}
    for name, value in scores.items():
        if name == "average_radius":
            assert value == average_certified_radius(TRUTH, fixed)
        elif name == "certified_share":
            assert value == pytest.approx(1 - abstention_rate(fixed), abs=0.026)
        else:
            radius = float(name.removeprefix("accuracy_at_"))
            assert value == pytest.approx(certified_accuracy_score(TRUTH, fixed, radius), abs=0.026)


def test_search_chooses_as_with_all_samples(made):
    def fixed(estimator, X, y):
        return certified_accuracy_score(y, certify_to_choose(estimator, X), 0.25)

    searches = [
        GridSearchCV(digits(5000), {"sigma": [0.1, 0.2, 0.4]}, scoring=scoring, cv=[(range(400), range(600, 640))])
        for scoring in (make_certified_scorer(0.25), fixed)
    ]
    asked, all_samples = (search.fit(X, Y) for search in searches)
    assert asked.best_params_ == all_samples.best_params_
    np.testing.assert_allclose(
        asked.cv_results_["mean_test_score"], all_samples.cv_results_["mean_test_score"], atol=0.026
    )
    assert np.mean([certificates.samples_used.mean() for certificates in made]) < 2500


def test_pipelines_are_asked_in_the_units_of_the_data(made):
    pipeline = make_pipeline(StandardScaler(), digits(5000, sigma=0.5)).fit(X[:600, :3] + 5, Y[:600])
    score = make_certified_scorer(0.01)(pipeline, X[600:640, :3] + 5, Y[600:640])
    [certificates] = made
    assert certificates.asked_radii == (0.01,)
    assert 0.0 < score == certified_accuracy_score(Y[600:640], certificates, 0.01)


def test_labels_that_were_not_trained_are_wrong(model, made):
    unknown = np.where(np.arange(40) < 10, 77, TRUTH)
    score = make_certified_scorer(0.25)(model, ROWS, unknown)
    [certificates] = made
    assert score == certified_accuracy_score(unknown, certificates, 0.25)
    assert score == pytest.approx(0.75 * make_certified_scorer(0.25)(model, ROWS[10:], TRUTH[10:]), abs=0.026)


def test_rare_labels_do_not_stop_cross_validation():
    rare = np.array([0, 1] * 29 + [1, 2])
    smoothed = SmoothedClassifier(GaussianNB(), certifier=FirstOrderCertifier(1000), random_state=0)
    scores = cross_val_score(
        smoothed, np.c_[rare, rare] * 1.0, rare, scoring=make_certified_scorer(0.1), cv=[(range(58), range(50, 60))]
    )
    assert scores == [0.9]


def test_labels_of_the_wrong_kind_are_told():
    with pytest.raises(ValueError, match="Use the labels that were given to fit"):
        make_certified_scorer(0.25)(digits(1000), ROWS[:3], ["a", "b", "c"])


def test_exact_certificates_are_scored():
    soft = SmoothedClassifier(GaussianNB(), voting="soft", sigma=0.25).fit(X[:600, :5], Y[:600])
    certificates = certify(soft, ROWS[:, :5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for radius in (0.01, 1e9):
            score = make_certified_scorer(radius)(soft, ROWS[:, :5], TRUTH)
            assert score == certified_accuracy_score(TRUTH, certificates, radius)


@pytest.mark.parametrize("given", [0.5, "run.sqlite"])
def test_radius_and_journal_are_given_by_name(given, model):
    with pytest.raises(ValueError, match="Give radius and journal by name"):
        model.certify(ROWS[:3], given)


def test_view_of_a_journal_counts_decided_inputs(model, tmp_path):
    answer = model.certify(ROWS[:3], TRUTH[:3], radius=0.25, journal=tmp_path / "run.sqlite")
    samples = int(answer.samples_used.sum())
    assert f"3 of 3 inputs decided, {samples} samples" in repr(read_journal(tmp_path / "run.sqlite"))


# A radius that is too large.


class Always(ClassifierMixin, BaseEstimator):
    """Votes for one class whatever it sees."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def always(n_samples, sigma, alpha=0.001):
    certifier = FirstOrderCertifier(n_samples, alpha=alpha)
    return SmoothedClassifier(Always(), sigma=sigma, certifier=certifier, n_augment=0, random_state=0)


POINTS, LABELS = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])


@pytest.mark.parametrize(("n_samples", "alpha"), [(1000, 0.001), (64_000, 0.05)])
def test_reach_is_what_is_proved_when_all_votes_agree(n_samples, alpha):
    smoothed = always(n_samples, 0.5, alpha).fit(POINTS, LABELS)
    most = 0.5 * unanimous_radius(n_samples, alpha)
    np.testing.assert_allclose(smoothed.certify(POINTS).radius, most, rtol=1e-12)
    assert samples_to_reach(most / 0.5, alpha) == pytest.approx(n_samples, rel=1e-6)


def unreachable(scorer, smoothed, rows=POINTS, labels=LABELS):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        score = scorer(smoothed, rows, labels)
    assert all(each.category is UnreachableRadiusWarning and each.filename == __file__ for each in caught)
    return score, [str(each.message) for each in caught]


def test_radius_beyond_all_votes_is_told_with_a_cure():
    smoothed = always(1000, 0.1).fit(POINTS, LABELS)
    assert unreachable(make_certified_scorer(0.2), smoothed) == (pytest.approx(2 / 3), [])
    scores, [message] = unreachable(make_certified_scorer([0.2, 0.5, 0.3]), smoothed)
    assert scores == {"accuracy_at_0.2": pytest.approx(2 / 3), "accuracy_at_0.5": 0.0, "accuracy_at_0.3": 0.0}
    assert message.startswith(
        "No input can be certified at radius 0.3: with sigma=0.1, n_samples=1,000 and alpha=0.001 the largest possible "
        "radius is about 0.246, even if all votes agree. Use sigma of at least 0.124, n_samples of at least 5,700, or "
        "a smaller radius."
    )
    # The advice is good.
    for cured in (always(1000, 0.124), always(5700, 0.1)):
        assert unreachable(make_certified_scorer(0.3), cured.fit(POINTS, LABELS)) == (pytest.approx(2 / 3), [])


def test_no_number_of_samples_is_advised_where_none_helps():
    _, [message] = unreachable(make_certified_scorer(5.0), always(1000, 0.1).fit(POINTS, LABELS))
    assert "n_samples of at least" not in message
    assert "Use sigma of at least 2.06, or a smaller radius." in message


def test_zero_for_other_reasons_is_not_told(model):
    wrong = (TRUTH + 1) % 10
    assert 0.25 * unanimous_radius(10_000, 0.001) > 0.75
    assert unreachable(make_certified_scorer(0.75), model, ROWS, wrong) == (0.0, [])


def test_reach_is_converted_through_a_pipeline():
    # Scaling by 4 makes distances before it a quarter of those after it.
    rows, labels = np.array([[-0.25], [0.25], [-0.25], [0.25]]), np.array([0, 0, 0, 1])
    pipeline = make_pipeline(StandardScaler(), always(1000, 0.4)).fit(rows, labels)
    score, [message] = unreachable(make_certified_scorer([0.2, 0.3]), pipeline, rows, labels)
    assert score == {"accuracy_at_0.2": 0.75, "accuracy_at_0.3": 0.0}
    assert "at radius 0.3: with sigma=0.4" in message
    assert "the largest possible radius is about 0.246" in message


# Scores of radii that were not asked for.

ASKED = Certificates(
    np.array([0, 1, 1]),
    [0.3, 0.1, 0.0],
    [False, False, True],
    counts={"hits": [9, 8, 5], "n": [10, 10, 10]},
    provenance={"asked_radii": [0.1, 0.25]},
    samples_used=[900, 900, 100],
    stopped=["certified", "hopeless", "hopeless"],
)
NO_QUESTION = Certificates(ASKED.prediction, ASKED.radius, ASKED.abstained, counts=ASKED.counts)
LABEL = [0, 1, 1]


@pytest.mark.parametrize(
    ("score", "told"),
    [
        (lambda c: certified_accuracy_score(LABEL, c, 0.25), False),
        (lambda c: certified_accuracy_score(LABEL, c, 0.1), False),
        (lambda c: certified_accuracy_score(LABEL, c), True),
        (lambda c: certified_accuracy_score(LABEL, c, 0.2), True),
        (lambda c: certified_accuracy_curve(LABEL, c, [0.1, 0.25]), False),
        (lambda c: certified_accuracy_curve(LABEL, c, [0.1, 0.2]), True),
        (lambda c: certified_accuracy_curve(LABEL, c), True),
        (lambda c: average_certified_radius(LABEL, c), True),
        (abstention_rate, True),
        (lambda c: certificate_gain(LABEL, NO_QUESTION, c), True),
        (lambda c: certificate_gain(LABEL, c, NO_QUESTION), True),
        (lambda c: class_probability(LABEL, c), True),
        (lambda c: metrics.class_probability_curve(LABEL, c), True),
    ],
)
def test_what_was_not_asked_is_told(score, told):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        of_asked, of_all = score(ASKED), score(NO_QUESTION)
    np.testing.assert_equal(of_asked, of_all)
    assert len(caught) == int(told)
    for warning in caught:
        assert warning.category is UnaskedRadiusWarning
        assert warning.filename == __file__
        assert "were computed with radius=0.1, 0.25, and" in str(warning.message)
        assert "certify without radius" in str(warning.message)


def test_share_of_certified_inputs_can_be_asked_for():
    asked = Certificates(ASKED.prediction, ASKED.radius, ASKED.abstained, provenance={"asked_radii": [0.0]})
    assert abstention_rate(asked) == pytest.approx(1 / 3)


def test_answers_that_stopped_early_are_warned_of(model):
    certificates = certify(model, ROWS, radius=0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certified_accuracy_score(TRUTH, certificates, 0.25)
    with pytest.warns(UnaskedRadiusWarning, match="computed with radius=0.25, and"):
        average = average_certified_radius(TRUTH, certificates)
    assert average < average_certified_radius(TRUTH, certify(model, ROWS))


def test_reach_in_units_of_a_sigma_for_each_feature():
    smoothed = always(1000, np.array([0.1])).fit(POINTS, LABELS)
    assert unreachable(make_certified_scorer(2.0), smoothed) == (pytest.approx(2 / 3), [])
    _, [message] = unreachable(make_certified_scorer(3.0), smoothed)
    assert "with this sigma" in message
    assert "the largest possible radius is about 2.46" in message
    assert "Use 1.24 times this sigma" in message
