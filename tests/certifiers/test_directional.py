"""The directional certificate end to end: its promise, its pilots, its journals, its mistakes."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from helpers.long_runs import assert_same
from helpers.planar import SHAPES
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier, read_journal
from smoothcert.tallies import DirectionalTally, RivalTally, VoteTally

ALPHA = 0.05
FALSE_ALARM = 1e-4
REPETITIONS = 250
ALLOWED = stats.binom.ppf(1 - FALSE_ALARM, REPETITIONS, ALPHA)
X, Y = load_iris(return_X_y=True)
INPUTS = X[::25]


# The promise.


def classifier(name):
    shape = SHAPES[name]
    return lambda z: np.where(shape(z[..., 0], z[..., 1]), 0, 1)


def wedge_probability(x):
    """Of ``z1 + 0.4 |z2| <= 1.3`` at a distance along the first axis."""
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    return float(weight @ ndtr(1.3 - x - 0.4 * np.abs(z)) / weight.sum())


def distance(probability):
    return brentq(lambda x: probability(x) - 0.5, 0.0, 3.0)


# True distances in units of sigma; all these shapes are symmetric, and nearest straight ahead.
DISTANCES = {
    "half-space": 0.8,
    "slab": distance(lambda x: ndtr(1.0 - x) - ndtr(-1.6 - x)),
    "wedge": distance(wedge_probability),
    "disk": distance(lambda x: stats.ncx2.cdf(2.2**2, 2, (x + 0.4) ** 2)),
}


def ahead(X, labels):
    """The best direction there is for the shapes."""
    return np.eye(1, X.shape[1]).repeat(len(X), axis=0)


def anywhere(X, labels):
    """A direction that has nothing to do with the classifier; another one for each row."""
    return np.random.default_rng(7).normal(size=X.shape)


class AlwaysMeasures(DirectionalCertifier):
    """Measures also where the pilot sees no gain; every plan is valid."""

    def _plan_along(self, tally):
        plan = super()._plan_along(tally)
        if isinstance(tally, RivalTally):
            return under_test.forced(plan, tally, self)
        return replace(plan, measured=np.ones(len(plan), dtype=bool), radius=np.maximum(plan.radius, 0.02))


def failures_of(certifier, name, n_features, repetitions=REPETITIONS, n_pilots=20):
    """How often the radius was too large, and the mean radius in units of the distance.

    The promise holds for each pilot, so that a pilot may serve several repetitions.
    """
    tally = under_test.sample_tally(
        certifier, classifier(name), 2, certifier.n_samples, repetitions, n_features, seed=1, n_pilots=n_pilots
    )
    radius = certifier.certify_tally(tally).radius
    return int(np.sum(radius > DISTANCES[name])), radius.mean() / DISTANCES[name]


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.parametrize(
    "certifier",
    [
        DirectionalCertifier(2000, alpha=ALPHA, direction="score", n_bins=12),
        AlwaysMeasures(2000, alpha=ALPHA, direction=ahead, n_bins=12),
    ],
    ids=["score", "ahead"],
)
@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("name", DISTANCES)
def test_radii_above_the_truth_are_rare(name, n_features, certifier):
    """Seen, where 5% are allowed: 6.2% and 2.2% (31 and 11 of 500) for the half-space, where the pilot prefers plain
    first order, which is exact there; at most 1.4% for the others with the score; none where all is measured."""
    failures, share = failures_of(certifier, name, n_features)
    assert failures <= ALLOWED
    assert share > 0.6


@pytest.mark.slow
def test_a_flat_boundary_is_certified_nearly_to_its_edge_and_no_further():
    """With many bins and samples little is left between radius and truth, so that mistakes would show."""
    certifier = AlwaysMeasures(20_000, alpha=ALPHA, direction=ahead, n_bins=60)
    failures, share = failures_of(certifier, "half-space", 2, repetitions=100, n_pilots=4)
    assert failures <= stats.binom.ppf(1 - FALSE_ALARM, 100, ALPHA)
    assert share > 0.975


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_features"), [("half-space", 20), ("disk", 2)])
def test_a_useless_direction_costs_radius_but_not_soundness(name, n_features):
    """No failure was seen, where 5% are allowed."""
    certifier = AlwaysMeasures(2000, alpha=ALPHA, direction=anywhere, n_bins=12)
    failures, _ = failures_of(certifier, name, n_features)
    assert failures <= ALLOWED


def test_a_good_direction_pays():
    radii = []
    for direction in (ahead, anywhere):
        certifier = DirectionalCertifier(10_000, alpha=ALPHA, direction=direction, n_bins=20)
        tally = under_test.sample_tally(certifier, classifier("slab"), 2, 10_000, 4, 20, seed=0)
        radii.append(certifier.certify_tally(tally).radius)
    assert np.all(radii[0] > radii[1] + 0.01)


def test_a_useless_direction_is_not_used():
    """Where the pilot sees no gain, plain first order is certified with what the pilot has left."""
    certifier = DirectionalCertifier(10_000, alpha=ALPHA, direction=anywhere, n_bins=20)
    tally = under_test.sample_tally(certifier, classifier("half-space"), 2, 10_000, 4, 20, seed=0)
    assert not np.any(tally.plan.measured)
    votes = VoteTally(np.stack([tally.hits, tally.n - tally.hits], axis=1), tally.n, tally.candidate)
    plain = FirstOrderCertifier(alpha=ALPHA).certify_tally(votes)
    np.testing.assert_array_equal(certifier.certify_tally(tally).radius, plain.radius)


# Through the classifier.


def smoothed(certifier=None, base=None, **parameters):
    certifier = DirectionalCertifier(8000, n_bins=20) if certifier is None else certifier
    base = DecisionTreeClassifier(max_depth=4, random_state=0) if base is None else base
    settings = {"sigma": 0.4, "n_augment": 1, "random_state": 5, **parameters}
    return SmoothedClassifier(base, certifier=certifier, **settings).fit(X, Y)


def tilted(X, labels):
    """A direction for each input, from the input and its label."""
    return np.asarray(X) - 3.0 + np.asarray(labels)[:, None]


@pytest.fixture(scope="module")
def reference():
    return smoothed().certify(INPUTS)


def test_what_the_pilot_chose_is_reported(reference):
    counts = reference.counts
    names = {"hits", "n", "votes", "measured", "rivals", "planned_radius", "direction", "bin_hits", "bin_trials"}
    assert names | {"share", "designed", "bin_mass"} == set(counts)
    measured = counts["measured"]
    assert measured.dtype == bool
    assert np.any(measured)
    np.testing.assert_allclose(np.linalg.norm(counts["direction"][measured], axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(counts["n"][measured], 8000 - 1600)
    np.testing.assert_array_equal(counts["bin_trials"].sum(axis=1)[measured], counts["n"][measured])
    np.testing.assert_array_equal(measured, np.any(counts["rivals"] >= 0, axis=1))
    np.testing.assert_array_equal(counts["bin_hits"][:, 0].sum(axis=1)[measured], counts["hits"][measured])
    for row in np.flatnonzero(measured):
        rivals = counts["rivals"][row]
        of_rivals = counts["bin_hits"][row, 1:].sum(axis=1)
        np.testing.assert_array_equal(of_rivals, np.where(rivals >= 0, counts["votes"][row, rivals], 0))
    assert np.all(counts["bin_trials"][~measured] == 0)
    assert np.all(counts["planned_radius"][measured] > 0.0)
    # Limits hold together at alpha; those of single cells would not.
    assert set(reference.limits) == {"distance"}
    assert np.any(reference.radius > 0.0)


@pytest.mark.parametrize("change", [{"batch_size": 100}, {"batch_size": 10**6}, {"n_jobs": 2}], ids=str)
def test_how_the_work_is_done_does_not_show(reference, change):
    assert_same(smoothed(**change).certify(INPUTS), reference)


def test_order_and_company_of_rows_do_not_show(reference):
    order = np.random.default_rng(0).permutation(len(INPUTS))
    assert_same(smoothed().certify(INPUTS[order]), reference[order])
    assert_same(smoothed().certify(INPUTS[2:4]), reference[2:4])


@pytest.mark.parametrize("direction", ["auto", "score", tilted], ids=["auto", "score", "tilted"])
def test_a_stopped_run_continues_to_the_same_bits(direction, tmp_path, monkeypatch):
    certifier = DirectionalCertifier(8000, n_bins=20, direction=direction)
    expected = smoothed(certifier).certify(INPUTS)
    path = tmp_path / "run.sqlite"
    vote, left = DecisionTreeClassifier.predict, {"calls": 0}

    class StoppedError(Exception):
        pass

    def stubborn(self, X, **parameters):
        left["calls"] -= 1
        if left["calls"] < 0:
            raise StoppedError
        return vote(self, X, **parameters)

    clf = smoothed(certifier, batch_size=1024)
    monkeypatch.setattr(DecisionTreeClassifier, "predict", stubborn)
    monkeypatch.setattr("smoothcert._engine._collect._TASK_SECONDS", 1e-4)
    shares = []
    # In the selection, in the pilots, in the estimation.
    for calls in (2, 10, 6, 12):
        left["calls"] = calls
        with pytest.raises(StoppedError):
            clf.certify(INPUTS, journal=path)
        shares.append(read_journal(path).fraction_done)
    assert shares == sorted(shares)
    assert 0.0 < shares[-1] < 1.0
    left["calls"] = 10**9
    assert_same(clf.certify(INPUTS, journal=path), expected)
    left["calls"] = 0  # nothing is sampled again
    assert_same(clf.certify(INPUTS, journal=path), expected)
    view = read_journal(path)
    assert_same(view.certificates, expected)
    assert view.fraction_done == 1.0


def test_another_direction_is_another_run(tmp_path):
    path = tmp_path / "run.sqlite"
    smoothed(DirectionalCertifier(2000, n_bins=10, direction=tilted)).certify(INPUTS[:1], journal=path)
    for other in ("score", ahead):
        with pytest.raises(ValueError, match="different run: certifier is"):
            smoothed(DirectionalCertifier(2000, n_bins=10, direction=other)).certify(INPUTS[:1], journal=path)


class Sure(ClassifierMixin, BaseEstimator):
    """Says 0 left of ten, and so to every vote in reach."""

    def __init__(self, edge=10.0):
        self.edge = edge

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (X[:, 0] > self.edge).astype(int)


def test_what_is_never_contested_falls_back_to_first_order_with_nearly_all_samples():
    rows = np.zeros((2, 3))
    base = FrozenEstimator(Sure().fit(rows, [0, 1]))
    certifier = DirectionalCertifier(20_000, direction="score", n_bins=20)
    clf = SmoothedClassifier(base, sigma=1.0, certifier=certifier, random_state=0).fit(rows, [0, 1])
    found = clf.certify(rows[:1])
    assert not found.counts["measured"][0]
    assert found.counts["n"] == 20_000 - 2000  # the first pilot was a tenth
    plain = clf.set_params(certifier=FirstOrderCertifier(18_000)).certify(rows[:1])
    assert found.radius == plain.radius


def test_a_half_space_is_certified_further_than_by_first_order():
    rows = np.zeros((2, 3))
    base = FrozenEstimator(Sure(0.9).fit(rows, [0, 1]))
    radii = {}
    for certifier in (FirstOrderCertifier(20_000), DirectionalCertifier(20_000, n_bins=30)):
        clf = SmoothedClassifier(base, sigma=1.0, certifier=certifier, random_state=0).fit(rows, [0, 1])
        radii[type(certifier).__name__] = clf.certify(rows[:1]).radius[0]
    assert radii["FirstOrderCertifier"] > 0.8
    assert 0.85 < radii["DirectionalCertifier"] < 0.9


# Mistakes.


def zero(X, labels):
    return np.zeros_like(X)


def infinite(X, labels):
    return np.full_like(X, np.inf)


def one_for_all(X, labels):
    return np.ones(X.shape[1])


def words(X, labels):
    return np.full(X.shape, "up")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pilot_fraction": 0.0}, r"pilot_fraction must be a number in \(0, 1\), got 0.0"),
        ({"pilot_fraction": 1.0}, r"pilot_fraction must be a number in \(0, 1\), got 1.0"),
        ({"pilot_fraction": "some"}, r"pilot_fraction must be a number in \(0, 1\), got 'some'"),
        ({"pilot_fraction": True}, r"pilot_fraction must be a number in \(0, 1\), got True"),
        ({"direction": "downhill"}, r"direction must be one of .*'score'.* got 'downhill'"),
        ({"direction": None}, "direction must be one of .* got None"),
        ({"direction": "gradient"}, "direction must be 'score', 'auto' or a callable .* got 'gradient'"),
        ({"n_bins": 7}, "n_bins must be an integer of at least 8, got 7"),
        ({"n_bins": 20.0}, "n_bins must be an integer .* got 20.0. Write 20"),
        ({"n_samples": 300}, "n_samples must be at least 400 for 20 bins and a pilot_fraction of 0.2, got 300"),
        (
            {"pilot_fraction": 0.01},
            "n_samples must be at least 8000 for 20 bins and a pilot_fraction of 0.01, got 2000",
        ),
        (
            {"direction": zero},
            "direction must be .* finite vectors that are not zero, got a vector of length 0",
        ),
        ({"direction": infinite}, "direction must be a function that returns finite vectors .* length inf"),
        (
            {"direction": one_for_all},
            r"direction must be .* real numbers in the shape \(1, 4\).* got shape \(4,\)",
        ),
        ({"direction": words}, r"direction must be a function that returns real numbers"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "-".join(map(str, value)),
)
def test_mistakes_get_clear_errors(change, message, tmp_path):
    clf = smoothed(DirectionalCertifier(2000, n_bins=20)).set_params(
        **{f"certifier__{name}": value for name, value in change.items()}
    )
    with pytest.raises(ValueError, match=message):
        clf.certify(INPUTS[:1])
    with pytest.raises(ValueError, match=message):
        clf.certify(INPUTS[:1], journal=tmp_path / "run.sqlite")


def test_evidence_without_a_plan_is_refused():
    certifier = DirectionalCertifier()
    directed = certifier._direction_of_score(certifier._score(1, 2, 2, [0]))
    bare = DirectionalTally.empty(type(directed).towards(directed.edges, [1.0, 0.0]))
    with pytest.raises(ValueError, match="must have a plan with multipliers, got a direction only"):
        certifier.certify_tally(bare)
