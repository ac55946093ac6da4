"""Asking for radii: sampling ends when they are decided, and what is decided depends on nothing but the row."""

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from smoothcert import (
    Certificates,
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SmoothedClassifier,
    UnreachableRadiusWarning,
    certify,
)
from smoothcert._engine import Question, find_thresholds
from smoothcert._pipelines import certify_to_choose
from smoothcert.metrics import certified_accuracy_score

X, Y = load_iris(return_X_y=True)
# From one flower to another of the next kind: all radii from one end to nothing and up again. Two labels are wrong.
INPUTS = np.linspace(X[60], X[110], 30)
LABELS = np.array([1] * 15 + [2] * 15)
LABELS[[3, 25]] = 0
REASONS = {"certified", "hopeless", "wrong candidate", "out of samples"}


def model(certifier=None, **parameters):
    certifier = FirstOrderCertifier(n_samples=8000) if certifier is None else certifier
    base = DecisionTreeClassifier(max_depth=4, random_state=0)
    return SmoothedClassifier(base, sigma=0.4, certifier=certifier, random_state=3, **parameters).fit(X, Y)


def assert_same(one, other):
    for name in ("prediction", "radius", "abstained", "samples_used", "stopped"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for group in ("limits", "counts"):
        mine, theirs = getattr(one, group), getattr(other, group)
        assert set(mine) == set(theirs)
        for name, value in mine.items():
            np.testing.assert_array_equal(value, theirs[name])


@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_answers_are_those_of_a_fixed_number_of_samples(certifier):
    certifier = under_test.with_samples(certifier, 4000)
    if hasattr(certifier, "n_bins"):
        certifier.set_params(n_bins=12)  # quick plans
    before = certifier.get_params()
    clf = model(certifier)
    fixed, asked = clf.certify(INPUTS), clf.certify(INPUTS, LABELS, radius=[0.1, 0.4])
    assert certifier.get_params() == before
    assert asked.asked_radii == (0.1, 0.4)
    assert fixed.asked_radii is None
    assert fixed.stopped is None
    assert set(asked.stopped) <= REASONS
    assert asked.samples_used.mean() < 0.7 * fixed.samples_used.mean()
    np.testing.assert_array_equal(asked.prediction, fixed.prediction)
    right = fixed.prediction == LABELS
    assert (asked.stopped[~right] == "wrong candidate").all()
    assert asked.abstained[~right].all()
    for radius in asked.asked_radii:
        different = (asked.radius >= radius) != (right & (fixed.radius >= radius))
        assert different.mean() <= 0.1
    everything = asked.radius >= 0.4
    np.testing.assert_array_equal(asked.stopped == "certified", everything)


def test_why_inputs_stopped_and_what_they_took():
    certifier = FirstOrderCertifier(n_samples=8000)
    contested = float(model(certifier).certify(INPUTS).radius[8])
    found = model(certifier).certify(INPUTS, LABELS, radius=contested)
    assert set(found.stopped) == REASONS
    sizes = [100 + 500 * 2**look for look in range(5)]
    assert set(found.samples_used) <= {100, *sizes}
    assert (found.samples_used[found.stopped == "wrong candidate"] == 100).all()
    assert (found.samples_used[found.stopped == "out of samples"] == 8100).all()
    sampled = found.samples_used > 100
    np.testing.assert_array_equal(found.counts["n"][sampled], found.samples_used[sampled] - 100)
    assert (found.counts["n"][~sampled] == 0).all()
    assert np.isnan(found.limits["p"][~sampled]).all()


def test_certificates_are_those_of_the_last_look():
    """At its own level, from its own votes; not the best of all looks."""
    from smoothcert.certifiers._looks import plan_looks
    from smoothcert.tallies import VoteTally

    certifier = FirstOrderCertifier(n_samples=8000)
    found = model(certifier).certify(INPUTS, radius=0.3)
    looks = plan_looks(8000, 1, 2048, certifier.alpha)
    for row in np.flatnonzero(found.counts["n"] > 0):
        look = looks.at_least(int(found.counts["n"][row]))
        candidate = [int(found.prediction[row])]
        tally = VoteTally(found.counts["votes"][row][None], found.counts["n"][row], candidate)
        radius = certifier.at_level(looks.level(look)).certify_tally(tally).radius[0]
        assert found.radius[row] == (np.nextafter(radius * 0.4, 0) if radius else 0.0)


CERTIFIERS = [FirstOrderCertifier(8000), DipoleCertifier(8000), DirectionalCertifier(8000, n_bins=12)]


@pytest.mark.parametrize("certifier", CERTIFIERS, ids=lambda certifier: type(certifier).__name__)
def test_same_bits_however_the_work_is_done(certifier, monkeypatch):
    question = {"radius": [0.1, 0.35]}
    rows = slice(1, None, 3)
    reference = model(certifier).certify(INPUTS[rows], LABELS[rows], **question)
    assert len(set(reference.stopped)) >= 3
    for backend in ("threading", "loky"):
        # Short tasks, so that there are enough for workers.
        monkeypatch.setattr("smoothcert._engine._collect._NOT_WORTH_SENDING", 0.0)
        monkeypatch.setattr("smoothcert._engine._collect._TASK_SECONDS", 0.01)
        with parallel_config(backend=backend, n_jobs=2):
            assert_same(model(certifier).certify(INPUTS[rows], LABELS[rows], **question), reference)
    for batch_size in (300, 5000):
        clf = model(certifier, batch_size=batch_size)
        assert_same(clf.certify(INPUTS[rows], LABELS[rows], **question), reference)
    backwards = model(certifier).certify(INPUTS[rows][::-1], LABELS[rows][::-1], **question)
    assert_same(backwards[::-1], reference)
    alone = model(certifier).certify(INPUTS[rows][3:4], LABELS[rows][3:4], **question)
    assert alone.radius[0] == reference.radius[3]
    assert alone.samples_used[0] == reference.samples_used[3]


def test_nets():
    torch = pytest.importorskip("torch")
    from skorch import NeuralNetClassifier

    layer = torch.nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[0.0, 0, 0, 0], [0.0, 0, 1, 1], [0.0, 0, 2, 2]])
        layer.bias[:] = torch.tensor([0.0, -3.0, -9.7])
    net = NeuralNetClassifier(layer, criterion=torch.nn.CrossEntropyLoss).initialize()
    certifier = DirectionalCertifier(8000, n_bins=12)
    clf = SmoothedClassifier(FrozenEstimator(net), sigma=0.4, certifier=certifier, random_state=3)
    clf.fit(X.astype(np.float32), Y)
    rows = INPUTS[::3].astype(np.float32)
    reference = clf.certify(rows, radius=[0.2, 0.5])
    assert len(set(reference.stopped)) >= 2
    assert (reference.samples_used > 3000).any()  # the pilot's gradients and looks along the direction, too
    assert_same(clf.set_params(batch_size=700).certify(rows[::-1], radius=[0.2, 0.5])[::-1], reference)


@pytest.mark.parametrize("certifier", CERTIFIERS, ids=lambda certifier: type(certifier).__name__)
def test_labels_at_a_fixed_number_of_samples(certifier):
    """Wrong candidates stop after the selection; all others have the bits they have without labels."""
    clf = model(certifier)
    rows = slice(None, None, 2)
    whole, some = clf.certify(INPUTS[rows]), clf.certify(INPUTS[rows], LABELS[rows])
    right = whole.prediction == LABELS[rows]
    assert not right.all()
    np.testing.assert_array_equal(some.stopped, np.where(right, "complete", "wrong candidate"))
    # The same votes, to the last bit. Some certifiers round the last digit differently in other company.
    np.testing.assert_allclose(some.radius, np.where(right, whole.radius, 0.0), rtol=1e-14)
    assert (some.samples_used[~right] == 100).all()
    assert (some.samples_used[right] == 8100).all()
    for name in whole.counts:
        if whole.counts[name].ndim == 1:
            np.testing.assert_array_equal(some.counts[name][right], whole.counts[name][right])
    accuracy = [certified_accuracy_score(LABELS[rows], certificates, 0.2) for certificates in (whole, some)]
    assert accuracy[0] == accuracy[1]


def test_all_candidates_wrong():
    labels = (LABELS + 1) % 3
    clf = model()
    candidates = clf.certify(INPUTS, radius=0.3).prediction
    wrong = candidates != labels
    for question in ({"radius": 0.3}, {}):
        found = clf.certify(INPUTS[wrong], labels[wrong], **question)
        assert (found.stopped == "wrong candidate").all()
        assert found.abstained.all()
        assert dict(found.limits) == {}
        assert len(Certificates.concatenate([found, found])) == 2 * wrong.sum()


def test_more_samples_for_those_who_need_them():
    certifier = FirstOrderCertifier(n_samples=2000)
    contested = float(model(FirstOrderCertifier(n_samples=20_000)).certify(INPUTS).radius[8])
    short, long = (model(certifier).certify(INPUTS, radius=contested, max_samples=most) for most in (2000, 20_000))
    assert short.samples_used.max() == 2100
    assert long.samples_used.max() == 16_100
    assert np.mean(long.stopped == "out of samples") < np.mean(short.stopped == "out of samples")
    assert long.provenance["max_samples"] == 20_000


def test_radius_zero_asks_whether_there_is_any():
    found = model().certify(INPUTS, radius=0.0)
    np.testing.assert_array_equal(found.stopped == "certified", found.radius > 0)
    fixed = model().certify(INPUTS)
    assert np.mean(fixed.abstained != found.abstained) <= 0.1


def test_issued_radii_are_compared_in_pipelines():
    """The radius after division by the Lipschitz constant counts, and in float32 what the cast takes off."""
    smoothed = SmoothedClassifier(
        LogisticRegression(max_iter=500), sigma=0.6, certifier=FirstOrderCertifier(n_samples=8000), random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), PCA(3), smoothed).fit(X, Y)
    fixed = certify(pipeline, INPUTS)
    radius = float(np.median(fixed.radius))
    found = certify(pipeline, INPUTS, LABELS, radius=radius)
    assert found.space == "input"
    assert found.asked_radii == (radius,)
    np.testing.assert_array_equal(found.stopped == "certified", found.radius >= radius)
    assert set(found.stopped) == REASONS
    right = fixed.prediction == LABELS
    assert np.mean((found.radius >= radius) != (right & (fixed.radius >= radius))) <= 0.1
    inner = smoothed.fit(pipeline[:-1].transform(X), Y).certify(pipeline[:-1].transform(INPUTS), radius=radius)
    assert (inner.radius >= radius).sum() != (found.radius >= radius).sum()
    chosen = certify_to_choose(pipeline, INPUTS, LABELS, radius=radius)
    np.testing.assert_array_equal(chosen.stopped == "certified", chosen.radius >= radius)
    assert not np.array_equal(chosen.radius, found.radius)


@settings(max_examples=40)
@given(st.floats(1e-3, 1e3), st.floats(0.0, 5.0), st.floats(0.01, 3.0), st.floats(0.1, 7.0))
def test_thresholds_are_the_first_numbers_that_suffice(sigma, asked, shift, factor):
    def convert(radius):
        left = np.nextafter(np.nextafter(radius * sigma, 0.0) - shift, -np.inf)
        return np.where(left > 0, np.nextafter(left / factor, 0.0), 0.0)

    (threshold,) = find_thresholds((asked,), convert, 1)
    least = max(asked, 5e-324)
    assert convert(threshold) >= least
    assert convert(np.nextafter(threshold, 0.0)) < least


def test_a_radius_out_of_every_reach():
    thresholds = find_thresholds((0.5, 2.0), lambda radius: np.minimum(radius, 1.0), 2)
    assert np.isinf(thresholds[:, 1]).all()
    np.testing.assert_array_equal(thresholds[:, 0], 0.5)
    again = Question.from_plain(Question(asked=(0.5, 2.0), thresholds=thresholds).to_plain())
    np.testing.assert_array_equal(again.thresholds, thresholds)
    with pytest.warns(UnreachableRadiusWarning):
        found = model().certify(INPUTS, radius=50.0)
    assert not (found.stopped == "certified").any()


def test_kept_in_files_tables_and_texts(tmp_path):
    pytest.importorskip("pandas")
    found = model(DirectionalCertifier(8000, n_bins=12)).certify(INPUTS, LABELS, radius=[0.1, 0.3])
    found.save(tmp_path / "run.npz")
    again = Certificates.load(tmp_path / "run.npz")
    assert_same(again, found)
    assert again.asked_radii == (0.1, 0.3)
    frame = found.to_frame()
    assert frame["stopped"].tolist() == found.stopped.tolist()
    assert frame["samples_used"].sum() == found.samples_used.sum()
    text = repr(found)
    assert "% at 0.1" in text
    assert f"{found.samples_used.mean():.0f} samples an input" in text
    assert "median" not in text
    assert found.stopped[0] in text
    assert f"<td>{found.stopped[0]}</td>" in found._repr_html_()
    both = Certificates.concatenate([found[:7], found[7:]])
    assert_same(both, found)
    with pytest.raises(ValueError, match="share their settings, got asked_radii"):
        Certificates.concatenate([found, model(DirectionalCertifier(8000, n_bins=12)).certify(INPUTS, radius=0.1)])
    found.to_tsv()
    assert (found.counts["rivals"][found.stopped == "wrong candidate"] == -1).all()


def test_exact_certificates_know_every_radius():
    clf = SmoothedClassifier(LogisticRegression(max_iter=500), voting="soft").fit(X, Y)
    plain, asked = clf.certify(INPUTS), clf.certify(INPUTS, LABELS, radius=0.2)
    np.testing.assert_array_equal(asked.radius, plain.radius)
    assert asked.asked_radii is None  # nothing was left out, so nothing is biased
    with pytest.raises(ValueError, match="max_samples must be None for voting='soft'"):
        clf.certify(INPUTS, radius=0.2, max_samples=10**6)


BAD = [
    ({"radius": -0.1}, "radius must be at least 0 and finite, got -0.1"),
    ({"radius": np.nan}, "radius must be at least 0 and finite, got nan"),
    ({"radius": [0.1, np.inf]}, "radius must be at least 0 and finite, got inf"),
    ({"radius": []}, "radius must hold at least one number, got an empty sequence"),
    ({"radius": [0.5, 0.25]}, "radius must be an increasing sequence, got 0.5 before 0.25"),
    ({"radius": [0.5, 0.5]}, "radius must be an increasing sequence"),
    ({"radius": "0.5"}, "radius must be a number or a sequence of numbers, got '0.5'"),
    ({"radius": True}, "radius must be a number or a sequence"),
    ({"radius": [[0.5]]}, "radius must be a number or a sequence"),
    ({"radius": {0.5}}, "radius must be a number or a sequence"),
    ({"radius": 0.5, "y": [0, 1]}, r"y must have one label for each of the 30 inputs, got shape \(2,\)"),
    ({"y": np.zeros((30, 1))}, r"got shape \(30, 1\)"),
    ({"y": [*LABELS[:-1], 7]}, "y must hold labels that were seen in fit, got 7"),
    ({"y": [*LABELS[:-1], np.nan]}, "y must hold labels that were seen in fit, got nan"),
    ({"y": LABELS.astype(str)}, "y must hold labels that were seen in fit, got '1'"),
    ({"max_samples": 10**6}, "max_samples must be None unless radius is given, got 1000000"),
    ({"radius": 0.5, "max_samples": 7999}, "max_samples must be an integer of at least .* 8000, got 7999"),
    ({"radius": 0.5, "max_samples": 1e6}, "max_samples must be an integer of at least .* got 1000000.0"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_errors_name_the_argument(arguments, message, tmp_path):
    clf = clone(model()).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        clf.certify(INPUTS, **arguments, journal=tmp_path / "run.sqlite")
    assert not (tmp_path / "run.sqlite").exists()
    with pytest.raises(ValueError, match=message):
        certify(clf, INPUTS, **arguments)


@pytest.mark.parametrize("certifier", [FirstOrderCertifier(20_000), DirectionalCertifier(20_000)], ids=repr)
def test_no_samples_are_drawn_for_a_radius_that_no_votes_could_prove(certifier):
    clf, flowers = model(certifier), X[:10]
    with pytest.warns(UnreachableRadiusWarning, match=r"radius 2: with n_samples=20,000 and alpha=0\.001 the largest"):
        beyond = clf.certify(flowers, radius=2.0)
    assert set(beyond.stopped) == {"hopeless"}
    assert np.all(beyond.samples_used == 100)
    with pytest.warns(UnreachableRadiusWarning, match="radius 2"):
        both = clf.certify(flowers, radius=[0.3, 2.0])
    alone = clf.certify(flowers, radius=0.3)
    assert np.any(alone.radius > 0.3)
    np.testing.assert_array_equal(both.radius, alone.radius)
    np.testing.assert_array_equal(both.samples_used, alone.samples_used)
    far = X[:1] - [0.0, 0.0, 5.0, 5.0]  # all votes agree
    with pytest.warns(UnreachableRadiusWarning):
        assert clf.certify(far, radius=1.5).samples_used[0] == 100
    more = clf.certify(far, radius=1.5, max_samples=100_000)  # what 20,000 cannot prove, more samples may
    assert more.samples_used[0] > 100
