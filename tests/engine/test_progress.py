"""How far a run is, how long it takes, and what the user is told."""

import re
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from smoothcert import FirstOrderCertifier, LongRunWarning, SmoothedClassifier
from smoothcert._engine import Stage, _collect, _progress, show_progress
from smoothcert._engine._progress import Progress, _expect_more, describe_seconds
from smoothcert.metrics import make_certified_scorer

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


def model(n_samples=1000, **parameters):
    settings = {"sigma": 0.5, "n_augment": 0, "batch_size": 2048, "random_state": 0, **parameters}
    return SmoothedClassifier(GaussianNB(), certifier=FirstOrderCertifier(n_samples), **settings).fit(X, Y)


class Clock:
    """Stands for the module `time`: what is timed takes the seconds given, the last of them again and again."""

    def __init__(self, *seconds):
        self.seconds, self.calls = list(seconds), 0

    def perf_counter(self):
        self.calls += 1
        ended = self.calls // 2  # a start and an end for each
        return sum(self.seconds[:ended]) + max(0, ended - len(self.seconds)) * self.seconds[-1]


@pytest.fixture
def always_long(monkeypatch):
    monkeypatch.setattr(_collect, "time", Clock(1000.0))


def long_runs(call, *arguments):
    """Return the warnings of long runs that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments)
    assert all(issubclass(each.category, LongRunWarning) for each in caught)
    return caught


def timed(bar):
    """Return a list with the time that a bar takes for now, in seconds since it began."""
    now = [0.0]
    bar._time, bar.start_t, bar.last_print_t, bar.mininterval = lambda: now[0], 0.0, 0.0, 0.0
    return now


def stage_of(draws, blocks=None, before=None):
    return Stage(number=0, draws=draws, new_tally=lambda row: None, blocks=blocks or {}, before=before or {})


def test_samples_of_a_journal_do_not_count_in_the_rate():
    pytest.importorskip("tqdm")
    with show_progress(1, n_rows=1, samples_per_row=1000) as progress:
        now = timed(progress.bar)
        progress.begin(stage_of({0: 520}), missing=20)
        for second in range(1, 5):
            if second == 3:
                progress.begin(stage_of({0: 480}), missing=80)  # another stage finds more in the journal
            now[0] = float(second)
            progress.advance(10)
        shown = str(progress.bar)
    assert "94%" in shown
    assert "940/1.00k [00:04<00:06, 10.0 samples/s]" in shown


def test_inputs_that_are_given_up_are_not_waited_for():
    pytest.importorskip("tqdm")
    with show_progress(1, n_rows=4, samples_per_row=1100) as progress:
        now = timed(progress.bar)
        progress.begin(stage_of(dict.fromkeys(range(4), 100)), missing=400)
        now[0] = 4.0
        progress.advance(400)
        progress.decide([1, 3])
        shown = str(progress.bar)
    assert re.search(r"400/2.40k \[00:04<00:(19|20), 100 samples/s\]", shown)


def test_bar_of_inputs_shows_those_decided_and_the_time_left():
    pytest.importorskip("tqdm")
    with show_progress(1, n_rows=10, samples_per_row=8000, by_looks=True) as progress:
        now, rows = timed(progress.bar), range(10)
        assert "0/10 inputs decided [00:00<?, 0.00 samples]" in str(progress.bar)
        progress.begin(stage_of(dict.fromkeys(rows, 100)), missing=1000)
        now[0] = 1.0
        progress.advance(1000)
        progress.begin(stage_of(dict.fromkeys(rows, 1000), blocks=dict.fromkeys(rows, 1000)), missing=10_000)
        # All of this look, and half of it again at each of the three looks to come.
        assert "0/10 inputs decided [00:01<00:25, 1.00k samples]" in str(progress.bar)
        now[0] = 11.0
        progress.advance(10_000)
        progress.decide(rows[:8])
        assert "8/10 inputs decided [00:11" in str(progress.bar)
        before = {8: 1000, 9: 1000}
        progress.begin(stage_of({8: 2000, 9: 2000}, blocks={8: 1000, 9: 1000}, before=before), missing=2000)
        assert "8/10 inputs decided [00:11<00:06, 11.0k samples]" in str(progress.bar)
        now[0] = 13.0
        progress.advance(2000)
        progress.decide(rows[8:])
        shown = str(progress.bar)
    assert "certify: 100%" in shown
    assert "10/10 inputs decided [00:13<00:00, 13.0k samples]" in shown


def test_time_to_read_a_journal_is_not_the_time_to_sample():
    pytest.importorskip("tqdm")
    with show_progress(1, n_rows=1, samples_per_row=8000, by_looks=True) as progress:
        now = timed(progress.bar)
        now[0] = 50.0
        progress.begin(stage_of({0: 4000}, blocks={0: 1000}), missing=1000)
        assert "0/1 inputs decided [00:50<?, 3.00k samples]" in str(progress.bar)
        now[0] = 51.0
        progress.advance(1000)
        assert "[00:51<00:02, 4.00k samples]" in str(progress.bar)  # the last look, if it comes to that


def test_asking_for_a_radius_shows_inputs(tmp_path, capsys):
    pytest.importorskip("tqdm")
    ask = {"radius": [0.2, 0.6], "journal": tmp_path / "run.sqlite"}
    smoothed = model(verbose=1)
    first = smoothed.certify(X, Y, **ask)
    shown = capsys.readouterr().err.split("\r")
    assert re.search(r"certify: +0%.* 0/40 inputs decided \[00:00<\?, 0.00 samples\]", shown[1])
    samples = f"{int(first.samples_used.sum()) / 1000:.1f}k samples"
    assert re.search(rf"100%.* 40/40 inputs decided \[\d+:\d+<00:00, {samples}\]", shown[-1])
    again = smoothed.certify(X, Y, **ask)
    np.testing.assert_array_equal(first.radius, again.radius)
    assert f"40/40 inputs decided [00:00<00:00, {samples}]" in capsys.readouterr().err.split("\r")[-1]


def test_expected_samples_of_looks():
    # 500 at first, and half as many at each of the looks at 1000, 2000, ... 64,000 on average.
    assert _expect_more(0, 64_000) == 500 + 7 * 250
    assert _expect_more(32_000, 64_000) == 16_000
    assert _expect_more(64_000, 64_000) == 0
    assert _expect_more(0, 300) == 300


def test_resumed_run_shows_what_was_done_before(tmp_path, capsys):
    pytest.importorskip("tqdm")
    certified = model().certify(X[:2], journal=tmp_path / "run.sqlite")
    again = model(verbose=1).certify(X[:2], journal=tmp_path / "run.sqlite")
    np.testing.assert_array_equal(certified.radius, again.radius)
    last = capsys.readouterr().err.split("\r")[-1]
    assert "2.20k/2.20k" in last
    assert "? samples/s" in last  # nothing was drawn, so there is no rate


def test_progress_counts_everything_once(tmp_path, monkeypatch):
    made = []

    class Recorded(Progress):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            made.append(self)

    monkeypatch.setattr(_progress, "Progress", Recorded)
    smoothed = model()
    for _ in range(2):
        smoothed.certify(X[:3], journal=tmp_path / "run.sqlite")
    smoothed.predict(X[:3])
    assert [each.done for each in made] == [3300, 3300, 3000]
    assert [each.drawn for each in made] == [3300, 0, 3000]
    assert [each.samples_left for each in made] == [0, 0, 0]


@pytest.mark.usefixtures("always_long")
@pytest.mark.parametrize("method", ["certify", "predict"])
def test_long_run_is_told_once_and_says_how_to_shorten_it(method):
    smoothed = model(5000, n_votes=5000)
    [warning] = long_runs(getattr(smoothed, method), X)
    text = str(warning.message)
    assert re.match(rf"{method} is expected to take about [\d.]+ (hours|days)\. To shorten it, ", text)
    for cure in ("n_jobs=-1", "fewer rows", "n_samples" if method == "certify" else "n_votes", "verbose=1"):
        assert cure in text
    assert ("radius=" in text) == (method == "certify")
    assert warning.filename == __file__


def test_one_category_can_be_silenced(always_long):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LongRunWarning)
        model(5000).certify(X)
    assert issubclass(LongRunWarning, UserWarning)


def test_short_runs_say_nothing():
    assert long_runs(model(5000).certify, X[:2]) == []


def test_estimate_comes_from_the_timed_tasks(monkeypatch):
    # Of the selection the first task fills a call with 20 rows, the second takes half a second with 5 of them.
    monkeypatch.setattr(_collect, "time", Clock(2.0, 0.5))
    [warning] = long_runs(model(5000).certify, X)
    left = 40 * 5100 - 2000 - 500
    assert f"about {left * 0.001 / 60:.2g} minutes" in str(warning.message)


def test_asking_for_a_radius_is_expected_to_take_less(monkeypatch):
    for radius, words in ((None, "about 17 minutes. To shorten it, ask for the radius"), (0.3, "about 78 seconds")):
        monkeypatch.setattr(_collect, "time", Clock(2.0, 0.5))
        smoothed = model(25_000)
        [warning] = long_runs(lambda: smoothed.certify(X, radius=radius))  # noqa: B023
        assert words in str(warning.message)
    assert "ask for fewer radii" in str(warning.message)


@pytest.mark.parametrize(("n_jobs", "told"), [(1, True), (4, False)])
def test_workers_share_the_time(n_jobs, told):
    progress = Progress(n_rows=2, samples_per_row=100_000, workers=n_jobs, silent=False)
    assert progress.seconds_left(0.001) == pytest.approx(200 / n_jobs)
    assert progress.is_long(0.001) == told


def test_slow_first_call_is_not_a_long_run(monkeypatch):
    monkeypatch.setattr(_collect, "time", Clock(100.0, 1e-6))
    assert long_runs(model(10_000).certify, X) == []


def test_small_call_is_not_taken_for_the_speed(monkeypatch):
    # One row has 100 draws in the selection, a fraction of a call.
    monkeypatch.setattr(_collect, "time", Clock(1.0, 1e-6))
    assert long_runs(model(10_000).certify, X[:1]) == []


@pytest.mark.usefixtures("always_long")
def test_bar_takes_the_place_of_the_warning(capsys):
    pytest.importorskip("tqdm")
    assert long_runs(model(5000, verbose=1).certify, X) == []
    assert "samples/s" in capsys.readouterr().err


def is_silent():
    with show_progress(0, n_rows=1, samples_per_row=1) as progress:
        return progress.silent


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_workers_do_not_warn(backend):
    assert not is_silent()
    with parallel_config(backend=backend, n_jobs=2):
        assert all(Parallel()(delayed(is_silent)() for _ in range(2)))
    assert not is_silent()


@pytest.mark.usefixtures("always_long")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_search_that_runs_in_workers_does_not_warn(n_jobs):
    search = GridSearchCV(model(5000), {"sigma": [0.5]}, scoring=make_certified_scorer("average_radius"), cv=2)
    with parallel_config(backend="threading"):
        caught = long_runs(search.set_params(n_jobs=n_jobs).fit, X, Y)
    assert len(caught) == (2 if n_jobs == 1 else 0)  # one for each call


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (70.4, "about 70 seconds"),
        (125, "about 2.1 minutes"),
        (3600, "about 60 minutes"),
        (5400, "about 1.5 hours"),
        (86400, "about 24 hours"),
        (40 * 86400, "about 40 days"),
    ],
)
def test_times_in_words(seconds, words):
    assert describe_seconds(seconds) == words
