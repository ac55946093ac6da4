"""Journals: what is stored is continued to the last bit, what belongs to another run is refused."""

import itertools
import json
import os
import sqlite3
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from helpers import long_runs
from helpers.long_runs import INPUTS, X, Y, assert_same
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from smoothcert import DipoleCertifier, FirstOrderCertifier, SmoothedClassifier, certify, read_journal
from smoothcert._engine._evidence_store import EvidenceStore, add_span, bundle_spans, count_draws, missing_spans
from smoothcert._journal import _writer
from smoothcert._journal._schema import acquire_lock, release_lock
from smoothcert._journal._serialisation import pack_tally, unpack_tally
from smoothcert._journal._writer import Journal
from smoothcert.certifiers import Pilot
from smoothcert.tallies import PairTally, VoteTally


class StoppedError(Exception):
    """Raised by a model that has had enough."""


class Stubborn(DecisionTreeClassifier):
    """Stops after a number of calls of `predict`."""

    calls_left = 10**9

    def predict(self, X):
        Stubborn.calls_left -= 1
        if Stubborn.calls_left < 0:
            raise StoppedError
        return super().predict(X)


@pytest.fixture(autouse=True)
def _fresh():
    Stubborn.calls_left = 10**9


def smoothed(certifier=None, **parameters):
    certifier = FirstOrderCertifier(n_samples=20_000) if certifier is None else certifier
    settings = {"sigma": 0.4, "n_augment": 1, "random_state": 5, "batch_size": 2048, **parameters}
    base = settings.pop("estimator", Stubborn(max_depth=3, random_state=0))
    return SmoothedClassifier(base, certifier=certifier, **settings).fit(X, Y)


# Spans.


def blocks(row, span):
    return span[1] - span[0]


@given(st.permutations(range(12)), st.integers(1, 12), st.integers(1, 5))
def test_spans_and_gaps_make_up_the_whole(order, n_done, length):
    done = ()
    for block in order[:n_done]:
        done = add_span(done, (block, block + 1))
    covered = [block for first, last in done for block in range(first, last)]
    assert covered == sorted(order[:n_done])
    assert all(a[1] < b[0] for a, b in itertools.pairwise(done))
    bundles = list(bundle_spans({0: missing_spans(done, 12)}, blocks, lambda left: length))
    rest = [span for bundle in bundles for _, span in bundle]
    assert sorted(covered + [block for first, last in rest for block in range(first, last)]) == list(range(12))
    assert all(0 < sum(blocks(*part) for part in bundle) <= length for bundle in bundles)
    assert count_draws(done, 10, 115) + count_draws(rest, 10, 115) == 115


def test_bundles_get_smaller_towards_the_end():
    missing = {4: [(0, 50)], 2: [(10, 20), (30, 70)]}
    bundles = list(bundle_spans(missing, blocks, lambda left: max(2, left // 8)))
    sizes = [sum(blocks(*part) for part in bundle) for bundle in bundles]
    assert sum(sizes) == 100
    assert max(sizes[:3]) > 8
    assert sizes[-1] <= 2
    assert max(sizes[-10:]) <= 4
    rows = [row for bundle in bundles for row, _ in bundle]
    assert rows == sorted(rows, reverse=True)


def test_short_rows_share_a_bundle():
    missing = {row: [(0, 1)] for row in range(10)}
    bundles = list(bundle_spans(missing, lambda row, span: 500, lambda left: 2000))
    assert [len(bundle) for bundle in bundles] == [4, 4, 2]
    assert [row for bundle in bundles for row, _ in bundle] == list(range(10))


def test_no_block_counts_twice():
    with pytest.raises(ValueError, match="got block 3 twice"):
        add_span(((0, 4),), (3, 5))
    ledger = EvidenceStore()
    ledger.add(3, 0, (0, 2), VoteTally([[5, 0]], 5))
    with pytest.raises(ValueError, match="twice"):
        ledger.add(3, 0, (1, 2), VoteTally([[5, 0]], 5))
    assert ledger.entry(3, 0, partial(VoteTally.empty, 1, 2)).tally.n == 5


# Payloads.


@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_tallies_survive_being_stored(certifier):
    tally = under_test.sample_tally(certifier, lambda z: (z[..., 0] > 0.3).astype(int), 3, 400, 1, 5, seed=0)
    # A plan is not stored: it is made again from the pilot, and given to the empty tally.
    plan = getattr(tally, "plan", None)
    empty = certifier.new_tally(1, 5, 3, np.zeros(1, int), plan)
    again = unpack_tally(pack_tally(tally), empty)
    assert type(again) is type(tally)
    assert getattr(again, "plan", None) is plan
    for name, value in vars(tally).items():
        found = getattr(again, name)
        if name == "plan":
            continue
        assert type(found) is type(value)
        np.testing.assert_array_equal(found, value)
        assert np.asarray(found).dtype == np.asarray(value).dtype


def test_evidence_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="must have the fields"):
        unpack_tally(pack_tally(VoteTally([[1, 2]], 3)), PairTally.empty(1))


# Continuing.


@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_a_stopped_run_continues_to_the_same_bits(certifier, tmp_path, monkeypatch):
    certifier = clone(certifier).set_params(n_samples=20_000)
    reference = smoothed(certifier).certify(INPUTS)
    path = tmp_path / "run.sqlite"
    shares = []
    # Stops in the selection, in the middle of an input, and between two; the cut differs from call to call.
    for calls, seconds in ((3, 0.5), (17, 0.002), (9, 0.01), (20, 0.0001)):
        monkeypatch.setattr("smoothcert._engine._collect._TASK_SECONDS", seconds)
        Stubborn.calls_left = calls
        with pytest.raises(StoppedError):
            smoothed(certifier).certify(INPUTS, journal=path)
        shares.append(read_journal(path).fraction_done)
    assert shares == sorted(shares)
    assert 0 < shares[1] < shares[-1] < 1
    Stubborn.calls_left = 10**9
    assert_same(smoothed(certifier).certify(INPUTS, journal=path), reference)
    # Nothing is sampled again once all is there.
    Stubborn.calls_left = 0
    again = smoothed(certifier).certify(INPUTS, journal=path)
    assert_same(again, reference)
    assert_same(read_journal(path).certificates, reference)
    assert again.provenance["seed"] == 5


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_another_backend_may_take_over(backend, tmp_path):
    reference = smoothed().certify(INPUTS)
    Stubborn.calls_left = 30
    with pytest.raises(StoppedError):
        smoothed().certify(INPUTS, journal=tmp_path / "run.sqlite")
    Stubborn.calls_left = 10**9
    with parallel_config(backend=backend, n_jobs=2):
        assert_same(smoothed(batch_size=500).certify(INPUTS, journal=tmp_path / "run.sqlite"), reference)


def test_a_pilot_is_stored_like_the_rest(tmp_path):
    class PilotCertifier(FirstOrderCertifier):
        """Spends a fifth of its samples on a pilot, whose plan it must see again."""

        def pilots(self, gradients):
            def empty(n_rows, n_features, n_classes, candidate, plan):
                return VoteTally.empty(n_rows, n_classes, candidate)

            return [Pilot(self.n_samples // 5, empty, lambda tally: [int(hits) for hits in tally.hits])]

        def new_tally(self, n_rows, n_features, n_classes, candidate, plan=None):
            assert plan in self.plans_expected
            return super().new_tally(n_rows, n_features, n_classes, candidate)

    path = tmp_path / "run.sqlite"
    PilotCertifier.plans_expected = range(10**9)
    reference = smoothed(PilotCertifier(n_samples=20_000)).certify(INPUTS)
    for calls in (8, 20, 30):
        Stubborn.calls_left = calls
        with pytest.raises(StoppedError):
            smoothed(PilotCertifier(n_samples=20_000)).certify(INPUTS, journal=path)
    Stubborn.calls_left = 10**9
    assert_same(smoothed(PilotCertifier(n_samples=20_000)).certify(INPUTS, journal=path), reference)
    view = read_journal(path)
    assert_same(view.certificates, reference)
    assert view.samples_per_row == 20_100
    assert (view.samples == 20_100).all()


def test_without_random_state_the_seed_is_kept(tmp_path):
    clf = smoothed(random_state=None, estimator=GaussianNB())
    first = clf.certify(INPUTS, journal=tmp_path / "run.sqlite")
    assert_same(clf.certify(INPUTS, journal=tmp_path / "run.sqlite"), first)
    other = clf.certify(INPUTS, journal=tmp_path / "other.sqlite")
    assert other.provenance["seed"] != first.provenance["seed"]
    assert not np.array_equal(other.counts["hits"], first.counts["hits"])
    assert clf.set_params(random_state=first.provenance["seed"]).certify(INPUTS).counts["hits"].tolist() == (
        first.counts["hits"].tolist()
    )


def test_generators_that_draw_another_seed_are_refused(tmp_path):
    clf = smoothed(random_state=np.random.default_rng(0), estimator=GaussianNB())
    clf.certify(INPUTS[:1], journal=tmp_path / "run.sqlite")
    with pytest.raises(ValueError, match="different run: random_state is"):
        clf.certify(INPUTS[:1], journal=tmp_path / "run.sqlite")


def test_seconds_add_up(tmp_path):
    path = tmp_path / "run.sqlite"
    Stubborn.calls_left = 30
    with pytest.raises(StoppedError) as stopped:
        smoothed().certify(INPUTS, journal=path)
    assert f"call certify again with journal={str(path)!r}" in stopped.value.__notes__[0]
    Stubborn.calls_left = 10**9
    before = read_journal(path).provenance["seconds"]
    whole = smoothed().certify(INPUTS, journal=path).provenance["seconds"]
    stored = read_journal(path).provenance["seconds"]
    assert 0 < before < stored <= whole
    # To read a run that is complete is no work on it.
    for _ in range(2):
        assert smoothed().certify(INPUTS, journal=path).provenance["seconds"] == stored
    assert read_journal(path).provenance["seconds"] == stored


# Refusing.


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"sigma": 0.5}, r"sigma is 0\.4 in the journal, 0\.5 now"),
        ({"certifier": FirstOrderCertifier(n_samples=10_000)}, "certifier .*20000.* in the journal.*10000.* now"),
        ({"certifier": FirstOrderCertifier(n_samples=20_000, alpha=0.01)}, "certifier .*alpha"),
        ({"certifier": DipoleCertifier(n_samples=20_000)}, "certifier .*DipoleCertifier"),
        ({"random_state": 6}, r"random_state is 5 in the journal, 6 now"),
        ({"random_state": None}, r"random_state is 5 in the journal, None now"),
        ({"estimator": DecisionTreeClassifier(max_depth=3, random_state=0)}, "model .*fingerprint"),
    ],
    ids=str,
)
def test_another_run_is_refused_by_what_differs(change, named, tmp_path):
    path = tmp_path / "run.sqlite"
    reference = smoothed().certify(INPUTS[:2], journal=path)
    other = smoothed(estimator=Stubborn(max_depth=3, random_state=0))
    if "estimator" in change:
        other = smoothed(**change)
    else:
        other.set_params(**change)
    with pytest.raises(ValueError, match=f"different run: {named}") as caught:
        other.certify(INPUTS[:2], journal=path)
    assert ";" not in str(caught.value)  # nothing else differs
    assert_same(smoothed().certify(INPUTS[:2], journal=path), reference)


def test_other_data_are_refused(tmp_path):
    path = tmp_path / "run.sqlite"
    smoothed().certify(INPUTS, journal=path)
    for other in (INPUTS[:-1], INPUTS + 1e-9, INPUTS[::-1], INPUTS.astype(np.float32)):
        with pytest.raises(ValueError, match="different run: X is"):
            smoothed().certify(other, journal=path)


def test_a_refused_journal_is_left_as_it_is(tmp_path):
    path = tmp_path / "run.sqlite"
    smoothed().certify(INPUTS[:2], journal=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="different run"):
        smoothed(sigma=1.0).certify(INPUTS[:2], journal=path)
    assert path.read_bytes() == before


def test_models_are_recognised_across_processes(tmp_path):
    """Fingerprints depend neither on the process nor on the seed of Python's own hashes."""
    code = (
        "import sys; sys.path.insert(0, {tests!r})\n"
        "from sklearn.datasets import load_iris\n"
        "from sklearn.ensemble import RandomForestClassifier\n"
        "from sklearn.neighbors import KNeighborsClassifier\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import FunctionTransformer\n"
        "from smoothcert._journal._fingerprints import fingerprint\n"
        "X, y = load_iris(return_X_y=True)\n"
        "factor = 2.0\n"
        "bases = [RandomForestClassifier(3, random_state=0), KNeighborsClassifier(),\n"
        "         make_pipeline(FunctionTransformer(lambda x: x * {factor}), KNeighborsClassifier())]\n"
        "names = [['a', 'b', 'c'][i] for i in y]\n"
        "print([fingerprint((b.fit(X, names), frozenset(names), set(names))) for b in bases])\n"
    )

    def run(seed, factor=2.0):
        program = code.format(tests=os.path.dirname(os.path.dirname(__file__)), factor=factor)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
        ).stdout

    first = run("1")
    assert first == run("2")
    one, other = json.loads(first.replace("'", '"')), json.loads(run("1", factor=3.0).replace("'", '"'))
    assert one[:2] == other[:2]
    assert one[2] != other[2]


def test_voting_does_not_change_a_fingerprint():
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neighbors import KNeighborsClassifier

    from smoothcert._journal._fingerprints import fingerprint

    for base in (KNeighborsClassifier(), HistGradientBoostingClassifier(max_iter=2), DecisionTreeClassifier()):
        base.fit(X, Y)
        before = fingerprint(base)
        base.predict(X)
        assert fingerprint(base) == before
        import pickle

        assert fingerprint(pickle.loads(pickle.dumps(base))) == before


def test_what_cannot_be_recognised_is_refused(tmp_path):
    class Guarded(GaussianNB):
        def __reduce__(self):
            raise RuntimeError("not for sale")

    clf = smoothed(estimator=GaussianNB())
    clf.estimator_ = Guarded().fit(X, Y)
    with pytest.raises(TypeError, match=r"must be picklable to be recognised by a journal.*not for sale"):
        clf.certify(INPUTS, journal=tmp_path / "run.sqlite")


@pytest.mark.parametrize("bad", [3, True, "", b"", ["run.sqlite"]])
def test_paths_that_are_none(bad):
    with pytest.raises(TypeError, match="journal must be the path of a file"):
        smoothed().certify(INPUTS, journal=bad)


def test_paths_without_a_place(tmp_path):
    with pytest.raises(ValueError, match="journal must be a file, got the directory"):
        smoothed().certify(INPUTS, journal=tmp_path)
    with pytest.raises(FileNotFoundError, match="in a directory that exists"):
        smoothed().certify(INPUTS, journal=tmp_path / "nowhere" / "run.sqlite")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_journal(tmp_path / "run.sqlite")


def test_labels_of_any_plain_kind(tmp_path):
    for i, names in enumerate(
        (np.array(["a", "b", "c"]), np.array(["a", "b", "c"], dtype=object), np.array([-1, 5, 9]))
    ):
        clf = SmoothedClassifier(GaussianNB(), certifier=FirstOrderCertifier(500), random_state=0).fit(X, names[Y])
        certificates = clf.certify(INPUTS, journal=tmp_path / f"{i}.sqlite")
        found = read_journal(tmp_path / f"{i}.sqlite").certificates
        assert_same(found, certificates)
        assert found.prediction.dtype == certificates.prediction.dtype


# Through pipelines.


def test_a_pipeline_keeps_a_journal_in_its_own_space(tmp_path):
    clf = SmoothedClassifier(LogisticRegression(), certifier=FirstOrderCertifier(500), random_state=0, n_augment=1)
    pipeline = make_pipeline(PCA(2, random_state=0), clf).fit(X, Y)
    expected = certify(pipeline, INPUTS)
    assert_same(certify(pipeline, INPUTS, journal=tmp_path / "run.sqlite"), expected)
    assert_same(certify(pipeline, INPUTS, journal=tmp_path / "run.sqlite"), expected)
    view = read_journal(tmp_path / "run.sqlite")
    assert view.certificates.space == "the output of pca"
    np.testing.assert_array_equal(view.certificates.counts["hits"], expected.counts["hits"])


# Looking in.


def test_partial_results(tmp_path, monkeypatch):
    monkeypatch.setattr("smoothcert._engine._collect._Pace.room", lambda self, left: 20_000)  # a row at a time
    path = tmp_path / "run.sqlite"
    reference = smoothed().certify(INPUTS)
    Stubborn.calls_left = 1 + 25
    with pytest.raises(StoppedError):
        smoothed().certify(INPUTS, journal=path)
    view = read_journal(path)
    assert view.samples_per_row == 20_100
    assert 0 < len(view.finished) < len(INPUTS)
    assert_same(view.certificates, reference[view.finished])
    assert (view.samples[view.finished] == 20_100).all()
    assert (view.samples >= 100).all()
    assert view.samples.max() == 20_100
    assert view.samples.min() < 20_100
    assert view.provenance["seed"] == 5
    assert f"{len(view.finished)} of 6 inputs finished" in repr(view)
    with sqlite3.connect(path) as file:  # before the first row is finished
        file.execute("DELETE FROM evidence WHERE stage = 3")
    file.close()
    assert read_journal(path).certificates is None


def test_certifiers_of_others_must_be_loaded_to_read_their_journals(tmp_path):
    path = tmp_path / "run.sqlite"
    smoothed().certify(INPUTS, journal=path)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE about SET value = replace(value, 'FirstOrderCertifier', 'FarAwayCertifier')")
    file.close()
    with pytest.raises(ValueError, match=r"needs the certifier .*FarAwayCertifier, which is not imported"):
        read_journal(path)


def test_writes_are_batched(tmp_path, monkeypatch):
    flushes = []
    flush = Journal.flush
    monkeypatch.setattr(Journal, "flush", lambda self: (flushes.append(1), flush(self)))
    monkeypatch.setattr("smoothcert._engine._collect._TASK_SECONDS", 1e-6)
    monkeypatch.setattr("smoothcert._journal._writer._LEAST_SECONDS", 1e6)
    smoothed().certify(INPUTS, journal=tmp_path / "run.sqlite")
    assert len(flushes) == 1
    assert read_journal(tmp_path / "run.sqlite").fraction_done == 1.0


def test_helper_program_gives_the_same(tmp_path):
    """The program that other tests kill, when nobody kills it."""
    process = long_runs.start(tmp_path / "run.sqlite", n_jobs=2, pause=0.0)
    assert process.wait(600) == 0, process.stderr.read()
    long_runs.end(process)
    assert_same(read_journal(tmp_path / "run.sqlite").certificates, long_runs.model().certify(INPUTS))


# Nets.


def make_net(hidden=8, scale=1.0):
    torch, skorch = pytest.importorskip("torch"), pytest.importorskip("skorch")

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = scale
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 3))

        def forward(self, x):
            return self.layers(x) * self.scale

    torch.manual_seed(0)
    return skorch.NeuralNetClassifier(
        Scaled(), criterion=torch.nn.CrossEntropyLoss, max_epochs=2, train_split=None, verbose=0
    )


def test_nets_are_recognised_by_layers_and_numbers(tmp_path):
    def fitted(**parameters):
        certifier = FirstOrderCertifier(n_samples=5_000)
        clf = SmoothedClassifier(make_net(**parameters), certifier=certifier, random_state=0)
        return clf.fit(X.astype(np.float32), Y)

    path = tmp_path / "run.sqlite"
    first = fitted().certify(INPUTS, journal=path)
    again = fitted()  # trained again: same numbers, other times in its history
    again.estimator_.module_.train()
    assert_same(again.certify(INPUTS, journal=path), first)
    for other in (fitted(hidden=9), fitted(scale=2.0)):
        with pytest.raises(ValueError, match="different run: model is"):
            other.certify(INPUTS, journal=path)
    last = again.estimator_.module_.layers[2]
    last.bias.data[0] += 1e-6
    with pytest.raises(ValueError, match="different run: model is"):
        again.certify(INPUTS, journal=path)


# What is left beside the file, and how often it is written.


def test_nothing_is_left_beside_the_file(tmp_path):
    clf = SmoothedClassifier(LogisticRegression(), certifier=FirstOrderCertifier(500), random_state=0, n_augment=1)
    clf.fit(X, Y).certify(INPUTS, journal=tmp_path / "run.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["run.sqlite"]


def test_lock_on_a_file_that_was_removed_meanwhile_is_not_taken(tmp_path, monkeypatch):
    """Whoever opened the old file just before it was removed must not believe to hold the lock."""
    path, connect, removed = tmp_path / "run.sqlite", sqlite3.connect, []

    def connect_late(name, *arguments, **options):
        opened = connect(name, *arguments, **options)
        if not removed:
            opened.execute("PRAGMA schema_version")  # opens the file
            os.unlink(name)
            removed.append(name)
        return opened

    monkeypatch.setattr(sqlite3, "connect", connect_late)
    lock = acquire_lock(path)
    assert removed
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="in use by another run"):
        acquire_lock(path)
    release_lock(lock, path)
    release_lock(acquire_lock(path), path)
    assert list(tmp_path.iterdir()) == []


def test_commits_are_never_further_apart_than_two_seconds(tmp_path, monkeypatch):
    """Also where the disk is so slow that one percent of the time would be minutes."""
    clock = [0.0]
    monkeypatch.setattr(_writer.time, "perf_counter", lambda: clock[0])
    dump = json.dumps

    def slow(value, **options):
        clock[0] += 5.0
        return dump(value, **options)

    clf = SmoothedClassifier(LogisticRegression(), certifier=FirstOrderCertifier(500), random_state=0, n_augment=1)
    clf.fit(X, Y)
    waits = []
    flush = Journal.flush

    def flush_slowly(journal):
        monkeypatch.setattr(_writer.json, "dumps", slow)
        flush(journal)
        monkeypatch.setattr(_writer.json, "dumps", dump)
        waits.append(journal._wait)

    monkeypatch.setattr(Journal, "flush", flush_slowly)
    clf.certify(INPUTS, journal=tmp_path / "run.sqlite")
    assert waits
    assert max(waits) == 2.0
