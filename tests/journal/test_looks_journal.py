"""Journals of runs that were asked for radii: continued to the last bit, and by other questions."""

import json
import sqlite3

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier, certify, read_journal
from smoothcert._noise import LOOKS, SCREEN
from smoothcert.certifiers._looks import plan_looks

X, Y = load_iris(return_X_y=True)
INPUTS = np.linspace(X[60], X[110], 12)
LABELS = np.array([1] * 6 + [2] * 6)
RADII = [0.1, 0.35]


class StoppedError(Exception):
    """Raised by a model that has had enough."""


class Stubborn(DecisionTreeClassifier):
    """Stops after a number of calls of `predict`."""

    calls_left = 10**9
    rows = 0

    def predict(self, X):
        Stubborn.calls_left -= 1
        if Stubborn.calls_left < 0:
            raise StoppedError
        Stubborn.rows += len(X)
        return super().predict(X)


@pytest.fixture(autouse=True)
def _fresh():
    Stubborn.calls_left, Stubborn.rows = 10**9, 0


BASE = Stubborn(max_depth=4, random_state=0).fit(X, Y)
CERTIFIERS = [FirstOrderCertifier(8000), DirectionalCertifier(8000, n_bins=12)]


def smoothed(certifier=None, **parameters):
    certifier = FirstOrderCertifier(8000) if certifier is None else certifier
    settings = {"sigma": 0.4, "random_state": 5, "batch_size": 500, **parameters}
    return SmoothedClassifier(FrozenEstimator(BASE), certifier=certifier, **settings).fit(X, Y)


def assert_same(one, other):
    for name in ("prediction", "radius", "abstained", "samples_used", "stopped"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name, value in one.counts.items():
        np.testing.assert_array_equal(value, other.counts[name])


@pytest.mark.parametrize("certifier", CERTIFIERS, ids=lambda certifier: type(certifier).__name__)
def test_a_stopped_run_continues_to_the_same_bits(certifier, tmp_path, monkeypatch):
    path = tmp_path / "run.sqlite"
    reference = smoothed(certifier).certify(INPUTS, LABELS, radius=RADII)
    assert len(set(reference.stopped)) >= 3
    monkeypatch.setattr("smoothcert._journal._writer._LEAST_SECONDS", 0.0)
    stops = 0
    for calls in (2, 11, 3, 14, 20):
        Stubborn.calls_left = calls
        try:
            smoothed(certifier).certify(INPUTS, LABELS, radius=RADII, journal=path)
        except StoppedError:
            stops += 1
            read_journal(path)  # whatever the state
    assert stops >= 3
    Stubborn.calls_left = 10**9
    final = smoothed(certifier, batch_size=None).certify(INPUTS, LABELS, radius=RADII, journal=path)
    assert_same(final, reference)
    Stubborn.calls_left = 0  # nothing is sampled again once all is there
    assert_same(smoothed(certifier).certify(INPUTS, LABELS, radius=RADII, journal=path), reference)
    view = read_journal(path)
    assert_same(view.certificates, reference)
    assert view.fraction_done == 1.0
    assert f"12 of 12 inputs decided, {reference.samples_used.sum()} samples" in repr(view)
    np.testing.assert_array_equal(view.samples, reference.samples_used)
    assert view.certificates.asked_radii == tuple(RADII)


def counted(path, stage):
    with sqlite3.connect(path) as file:
        rows = file.execute("SELECT row, spans FROM evidence WHERE stage = ?", (stage,)).fetchall()
    return {row: max(last for _, last in json.loads(spans)) for row, spans in rows}


def test_another_question_goes_on_with_what_is_there(tmp_path):
    path = tmp_path / "run.sqlite"
    clf = smoothed()
    few = clf.certify(INPUTS, LABELS, radius=0.05, journal=path)
    before, used = counted(path, LOOKS), Stubborn.rows
    more = clf.certify(INPUTS, radius=[0.05, 0.3], journal=path)  # without labels, and a larger radius
    after = counted(path, LOOKS)
    assert set(before) < set(after)
    assert all(after[row] >= blocks for row, blocks in before.items())
    looks = plan_looks(8000, 1, 2048, 0.001)
    # Only what was missing has been sampled, and every row is at a whole look.
    assert Stubborn.rows - used == looks.block * (sum(after.values()) - sum(before.values()))
    assert {blocks * looks.block for blocks in after.values()} <= {looks.draws(look) for look in range(5)}
    assert more.asked_radii == (0.05, 0.3)
    # The first question again: answered at once, by the last look of each row.
    Stubborn.calls_left = 0
    again = clf.certify(INPUTS, LABELS, radius=0.05, journal=path)
    sampled = again.counts["n"] > 0
    assert (again.counts["n"] >= few.counts["n"])[sampled].all()
    assert (again.samples_used[sampled] == 100 + again.counts["n"][sampled]).all()
    assert_same(read_journal(path).certificates, again)


def test_more_samples_later(tmp_path):
    path = tmp_path / "run.sqlite"
    clf = smoothed(FirstOrderCertifier(2000))
    contested = float(clf.certify(INPUTS).radius[2])
    short = clf.certify(INPUTS, radius=contested, journal=path)
    assert (short.stopped == "out of samples").any()
    long = clf.certify(INPUTS, radius=contested, journal=path, max_samples=10_000)
    assert_same(long, clf.certify(INPUTS, radius=contested, max_samples=10_000))
    assert long.samples_used.max() == 8100
    with pytest.raises(
        ValueError, match=r"max_samples must be at least 8000, .* the journal already has for some input, got 5000"
    ):
        clf.certify(INPUTS, radius=contested, journal=path, max_samples=5000)
    assert read_journal(path).provenance["max_samples"] == 10_000
    assert_same(read_journal(path).certificates, long)  # nothing lost, and the refused question left no trace
    # Without a limit, what is there is taken as it is.
    np.testing.assert_array_equal(clf.certify(INPUTS, radius=contested, journal=path).radius, long.radius)


def test_fixed_samples_and_looks_do_not_mix(tmp_path):
    """Each promises alpha by itself; both in one file would be taken for one promise."""
    clf = smoothed()
    clf.certify(INPUTS[:3], journal=tmp_path / "fixed.sqlite")
    with pytest.raises(ValueError, match=r"different run: sampling is of all samples .* until radii are decided now"):
        clf.certify(INPUTS[:3], radius=0.1, journal=tmp_path / "fixed.sqlite")
    clf.certify(INPUTS[:3], radius=0.1, journal=tmp_path / "looks.sqlite")
    with pytest.raises(ValueError, match="different run: sampling is until radii are decided in the journal"):
        clf.certify(INPUTS[:3], journal=tmp_path / "looks.sqlite")


@pytest.mark.parametrize("other", [FirstOrderCertifier(8000, alpha=0.01), FirstOrderCertifier(4000)])
def test_alpha_and_samples_belong_to_the_run(other, tmp_path):
    smoothed().certify(INPUTS[:2], radius=0.1, journal=tmp_path / "run.sqlite")
    with pytest.raises(ValueError, match="different run: certifier is"):
        smoothed(other).certify(INPUTS[:2], radius=0.1, journal=tmp_path / "run.sqlite")


def test_labels_at_a_fixed_number_of_samples_stay_out_of_the_file(tmp_path):
    path = tmp_path / "run.sqlite"
    clf = smoothed()
    some = clf.certify(INPUTS, LABELS, journal=path)
    assert (some.stopped == "wrong candidate").any()
    view = read_journal(path)
    np.testing.assert_array_equal(view.certificates.radius, some.radius)
    assert len(view.finished) == len(INPUTS)
    whole = clf.certify(INPUTS, journal=path)
    np.testing.assert_array_equal(whole.radius, clf.certify(INPUTS).radius)
    assert whole.stopped is None


def test_the_screen_is_kept_too(tmp_path):
    path = tmp_path / "run.sqlite"
    clf = smoothed(DirectionalCertifier(8000, n_bins=12))
    first = clf.certify(INPUTS, radius=0.2, journal=path)
    screened = counted(path, SCREEN)
    assert (first.samples_used > 3300).any()  # some went on to the certificate itself
    assert (first.samples_used < 2000).any()
    Stubborn.calls_left = 0
    assert_same(clf.certify(INPUTS, radius=0.2, journal=path), first)
    assert counted(path, SCREEN) == screened


def test_pipelines(tmp_path):
    path = tmp_path / "run.sqlite"
    smooth = SmoothedClassifier(
        Stubborn(max_depth=3, random_state=0), sigma=0.4, certifier=FirstOrderCertifier(8000), random_state=1
    )
    pipeline = make_pipeline(PCA(3), smooth).fit(X, Y)
    found = certify(pipeline, INPUTS, radius=0.2, journal=path)
    Stubborn.calls_left = 0
    assert_same(certify(pipeline, INPUTS, radius=0.2, journal=path), found)
    view = read_journal(path)
    np.testing.assert_array_equal(view.certificates.stopped, found.stopped)
