"""The command line: what it does, what it says, and how it ends."""

import os
import re
import subprocess
import sys
import tomllib
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from helpers import long_runs
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import smoothcert
from smoothcert import Certificates, FirstOrderCertifier, SmoothedClassifier, certify, read_journal
from smoothcert._cli import main
from smoothcert.metrics import certified_accuracy_score

skops_io = pytest.importorskip("skops.io")

X, Y = load_iris(return_X_y=True, as_frame=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
ROWS = slice(0, None, 6)
FEW = ["--certifier", "first-order", "--n-samples", "1000", "--seed", "3", "--quiet"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with a model and data, as the working directory."""
    monkeypatch.chdir(tmp_path)
    skops_io.dump(GaussianNB().fit(X.to_numpy(), NAMES), "model.skops")
    np.savez("data.npz", X=X.to_numpy()[ROWS], y=NAMES[ROWS])
    return tmp_path


def run(*arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        return main(list(arguments))


def refused(capsys, *arguments):
    """The one line that says what is wrong."""
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    *_, last = said.splitlines()
    assert last.startswith(f"smoothcert {arguments[0]}: error: ")
    return last


def test_frozen_model_is_certified_as_in_python(files, capsys):
    assert run("certify", "model.skops", "data.npz", "--sigma", "0.5", "--out", "result.npz", *FEW) == 0
    assert "25 inputs" in capsys.readouterr().out
    found = Certificates.load("result.npz")
    from sklearn.frozen import FrozenEstimator

    model = FrozenEstimator(GaussianNB().fit(X.to_numpy(), NAMES))
    clf = SmoothedClassifier(model, sigma=0.5, certifier=FirstOrderCertifier(1000), random_state=3)
    expected = clf.fit(X.to_numpy(), NAMES).certify(X.to_numpy()[ROWS])
    np.testing.assert_array_equal(found.radius, expected.radius)
    np.testing.assert_array_equal(found.prediction, expected.prediction)
    assert found.label.tolist() == NAMES[ROWS].tolist()
    assert found.verify()


def test_several_radii_and_no_labels(files, capsys):
    np.save("data.npy", X.to_numpy()[ROWS])
    assert (
        run("certify", "model.skops", "data.npy", "--sigma", "0.5", "--radius", "0.5", "0.25", "--out", "r.npz", *FEW)
        == 0
    )
    found = Certificates.load("r.npz")
    assert found.asked_radii == (0.25, 0.5)
    assert found.label is None
    assert run("report", "r.npz", "--html", "r.html") == 0
    said = capsys.readouterr().out
    assert "True labels are not known" in said
    assert "accuracy" not in said
    assert "at 0.5" in said


def test_smoothed_models_are_used_as_they_are(files):
    own = SmoothedClassifier(
        LogisticRegression(max_iter=1000), sigma=0.4, certifier=FirstOrderCertifier(800), random_state=5
    )
    pipeline = make_pipeline(StandardScaler(), own).fit(X.to_numpy(), NAMES)
    for name, model in (("alone", own.fit(X.to_numpy(), NAMES)), ("pipeline", pipeline)):
        skops_io.dump(model, f"{name}.skops")
        assert run("certify", f"{name}.skops", "data.npz", "--out", "r.npz", "--quiet") == 0
        found, expected = Certificates.load("r.npz"), certify(model, X.to_numpy()[ROWS])
        np.testing.assert_array_equal(found.radius, expected.radius)
        assert found.provenance["n_samples"] == 800
    assert run("certify", "alone.skops", "data.npz", "--out", "r.npz", "--sigma", "0.2", "--n-samples", "500") == 0
    changed = Certificates.load("r.npz").provenance
    assert (changed["sigma"], changed["n_samples"], changed["seed"]) == (0.2, 500, 5)


def test_tables_with_and_without_names(files):
    X.assign(kind=NAMES)[ROWS].to_csv("data.csv", index=False)
    skops_io.dump(GaussianNB().fit(X, NAMES), "named.skops")
    for model in ("model.skops", "named.skops"):
        command = ["certify", model, "data.csv", "--label", "kind", "--sigma", "0.5", "--out", "r.npz", *FEW]
        assert run(*command) == 0
        assert Certificates.load("r.npz").label.tolist() == NAMES[ROWS].tolist()


def test_joblib_files_need_a_flag(files, capsys):
    joblib.dump(GaussianNB().fit(X.to_numpy(), NAMES), "model.joblib")
    command = ["certify", "model.joblib", "data.npz", "--sigma", "0.5", "--out", "r.npz", *FEW]
    said = refused(capsys, *command)
    assert "can run any code" in said
    assert "--trust-joblib" in said
    assert not Path("r.npz").exists()
    assert run(*command, "--trust-joblib") == 0
    assert Path("r.npz").exists()
    Path("text.joblib").write_text("hello")
    assert "could not be loaded by joblib" in refused(
        capsys, "certify", "text.joblib", "data.npz", "--sigma", "1", "--out", "r.npz", "--trust-joblib"
    )


def test_unknown_types_in_skops_files_are_named(files, capsys):
    model = long_runs.SlowGaussianNB().fit(X.to_numpy(), NAMES)
    skops_io.dump(model, "own.skops")
    command = ["certify", "own.skops", "data.npz", "--sigma", "0.5", "--out", "r.npz", *FEW]
    assert "--trust helpers.long_runs" in refused(capsys, *command)


def test_without_skops_it_is_named(files, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    said = refused(capsys, "certify", "model.skops", "data.npz", "--sigma", "1", "--out", "r.npz")
    assert "pip install skops" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.skops", "data.npz", "--sigma", "1"], "MODEL must be a file"),
        (["model.skops", "missing.npz", "--sigma", "1"], "DATA must be a file"),
        (["model.skops", "data.npz"], "--sigma must be given for a GaussianNB"),
        (["model.skops", "data.npz", "--sigma", "-1"], "sigma must be"),
        (["model.skops", "data.npz", "--sigma", "1", "--radius", "-1"], "radius must be at least 0"),
        (["model.skops", "data.npz", "--sigma", "1", "--alpha", "2"], "alpha"),
        (["model.skops", "data.npz", "--sigma", "1", "--n-samples", "1"], "n_samples must be"),
        (["model.skops", "text.npz", "--sigma", "1"], "DATA could not be read"),
        (["model.skops", "objects.npz", "--sigma", "1"], "no plain arrays"),
        (["model.skops", "other.npz", "--sigma", "1"], "must hold the array X"),
        (["model.skops", "data.txt", "--sigma", "1"], r"must be an \.npz, \.npy or \.csv file"),
        (["model.skops", "narrow.npz", "--sigma", "1"], "features"),
        (["model.skops", "data.npz", "--sigma", "1", "--label", "kind"], "--label must be left out"),
        (["model.skops", "data.csv", "--sigma", "1", "--label", "kind"], "--label must name a column"),
        (["text.npz", "data.npz", "--sigma", "1", "--trust-joblib"], "could not be loaded by joblib"),
    ],
)
def test_bad_input_is_one_line(files, capsys, arguments, message):
    Path("text.npz").write_text("hello")
    Path("data.txt").write_text("hello")
    np.savez("objects.npz", X=np.array([None, "a"], dtype=object))
    np.savez("other.npz", A=np.ones(3))
    np.savez("narrow.npz", X=np.ones((3, 2)))
    pd.DataFrame({"a": [1.0]}).to_csv("data.csv", index=False)
    said = refused(capsys, "certify", *arguments, "--out", "r.npz", "--certifier", "first-order", "--quiet")
    assert re.search(message, said), said
    assert "allow_pickle" not in said
    assert not Path("r.npz").exists()


def test_folder_of_the_result_is_checked_before_anything_else(files, capsys):
    said = refused(capsys, "certify", "missing", "missing", "--out", "nowhere/r.npz")
    assert "--out must be in a directory that exists" in said


def test_traceback_on_request(files):
    with pytest.raises(FileNotFoundError):
        run("certify", "missing.skops", "data.npz", "--out", "r.npz", "--traceback")


def test_bad_results_are_one_line(files, capsys):
    Path("bad.npz").write_text("hello")
    assert "not a zip archive" in refused(capsys, "report", "bad.npz")
    assert "No such file" in refused(capsys, "report", "missing.npz")
    assert "does not exist" in refused(capsys, "watch", "missing.sqlite")
    assert "whole file written by certify" in refused(capsys, "watch", "bad.npz")
    assert "--interval must be above 0" in refused(capsys, "watch", "bad.npz", "--interval", "0")


@pytest.mark.parametrize(
    "arguments", [[], ["certify"], ["dance"], ["certify", "a", "b", "--out", "c", "--certifier", "x"]]
)
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: smoothcert" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["smoothcert certify model.skops data.npz", "watch run.sqlite", "--html report.html"]),
        (["certify", "--help"], ["can run any code", "the same command continues", "exit codes", "array X"]),
        (["watch", "--help"], ["ends when the run is complete"]),
        (["report", "--help"], ["complete in one file", "exit codes"]),
    ],
)
def test_help_teaches(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    for word in words:
        assert word in said


def test_the_command_is_installed_under_its_name():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["scripts"]["smoothcert"] == "smoothcert._cli:main"
    command = [sys.executable, "-m", "smoothcert", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == (
        f"smoothcert {smoothcert.__version__}\n"
    )


class Page(HTMLParser):
    """Cells of all tables by the id around them, and attributes of all tags."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.tags, self.inside, self.cell = {}, [], None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.inside = attrs.get("id", self.inside)
        if tag == "tr":
            self.tables.setdefault(self.inside, []).append([])
        elif tag in ("td", "th"):
            self.cell = ""

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.tables[self.inside][-1].append(self.cell)
            self.cell = None


@pytest.fixture
def result(files):
    assert run("certify", "model.skops", "data.npz", "--sigma", "0.5", "--out", "result.npz", *FEW) == 0
    assert run("report", "result.npz", "--html", "report.html", "--radii", "0", "0.5", "1") == 0
    return Certificates.load("result.npz"), Path("report.html").read_text()


def test_numbers_of_the_page_are_those_of_the_frame(result):
    certificates, text = result
    page, frame = Page(text), certificates.to_frame()
    head, *rows = page.tables["inputs"]
    assert head == ["input", "prediction", "label", "radius", "abstained", "probability at least"]
    shown = pd.DataFrame(rows, columns=head)
    assert shown["prediction"].tolist() == frame["prediction"].tolist()
    assert shown["label"].tolist() == frame["label"].tolist()
    for column, exact in (("radius", "radius"), ("probability at least", "probability_lower")):
        numbers = shown[column].astype(float)
        assert (numbers <= frame[exact]).all()
        np.testing.assert_allclose(numbers, frame[exact], rtol=1e-3)
    assert (shown["abstained"] == "yes").tolist() == frame["abstained"].tolist()
    head, *rows = page.tables["report"]
    assert head == ["", "support", "accuracy", "certified", "at 0.5", "at 1", "median radius", "abstained"]
    for name, support, accuracy, *certified, median, abstained in rows:
        group = frame if name == "overall" else frame[frame["label"] == name]
        right = group["correct"] & ~group["abstained"]
        assert int(support) == len(group)
        assert 0 <= group["correct"].mean() - float(accuracy) < 1e-3
        for radius, share in zip((0.0, 0.5, 1.0), certified, strict=True):
            assert 0 <= (right & (group["radius"] >= radius)).mean() - float(share) < 1e-3
        assert float(median) <= group["radius"].where(right, 0.0).median() <= float(median) * 1.01 + 1e-12
        assert 0 <= float(abstained) - group["abstained"].mean() < 1e-3
    facts = dict(page.tables["provenance"])
    assert facts["sigma"] == "0.5"
    assert facts["certifier"] == "FirstOrderCertifier(n_samples=1000)"
    assert facts["seed"] == "3"


def test_curve_of_the_page_is_the_certified_accuracy(result):
    from smoothcert._cli._svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH

    certificates, text = result
    drawing = next(attrs for tag, attrs in Page(text).tags if tag == "svg")
    line = next(attrs for tag, attrs in Page(text).tags if tag == "polyline")
    points = np.array([point.split(",") for point in line["points"].split()], dtype=float)
    radii = (points[:, 0] - LEFT) / (WIDTH - LEFT - RIGHT) * float(drawing["data-x-max"])
    shares = (HEIGHT - BOTTOM - points[:, 1]) / (HEIGHT - TOP - BOTTOM)
    for radius in (0.1, 0.33, 0.77, 1.0):
        # Levels of a falling step function, to the resolution of the drawing.
        level = shares[np.flatnonzero(radii >= radius)[0]]
        expected = certified_accuracy_score(certificates.label, certificates, radius)
        assert abs(level - expected) < 2e-4


def test_the_page_is_complete_in_one_file(result):
    _, text = result
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    for tag, attrs in Page(text).tags:
        assert tag not in ("script", "link", "img", "iframe")
        assert not {"src", "href"} & attrs.keys()
    assert "url(" not in text
    assert "http" not in text


def test_labels_cannot_write_into_the_page(files):
    certificates = Certificates(["<b>", "y"], [0.5, 0.25], [False, False], label=["<b>", "<i>"], n_features=2)
    certificates.save("odd.npz")
    assert run("report", "odd.npz", "--html", "odd.html") == 0
    assert "<b>&lt;" not in Path("odd.html").read_text().replace("<b>0", "").replace("<b>1", "").replace("<b>2", "")
    tags = {tag for tag, _ in Page(Path("odd.html").read_text()).tags}
    assert "i" not in tags


def test_changed_results_are_told(files, capsys):
    assert run("certify", "model.skops", "data.npz", "--sigma", "0.5", "--out", "result.npz", *FEW) == 0
    certificates = Certificates.load("result.npz")
    replace(certificates, radius=certificates.radius * 1.5).save("forged.npz")
    assert run("report", "forged.npz", "--html", "forged.html") == 1
    assert "differ from what their evidence proves" in capsys.readouterr().out
    assert 'class="bad"' in Path("forged.html").read_text()


def test_watching_a_complete_run(files, capsys):
    for more in ([], ["--radius", "0.5"]):
        command = ["certify", "model.skops", "data.npz", "--sigma", "0.5", "--out", "r.npz", "--journal", "run.sqlite"]
        assert run(*command, *FEW, *more) == 0
        capsys.readouterr()
        for once in ([], ["--once"]):
            assert run("watch", "run.sqlite", *once) == 0
            (line,) = capsys.readouterr().out.splitlines()
            assert "100%  25 of 25 inputs" in line
            assert line.endswith("complete")
        os.unlink("run.sqlite")


def environment(pause):
    here = Path(long_runs.__file__)
    paths = [str(here.parents[1]), str(here.parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LONG_RUN_PAUSE": str(pause)}


def slow_run(pause, more=()):
    """A run in a process of its own, that takes its time, and its command."""
    joblib.dump(long_runs.SlowGaussianNB().fit(X.to_numpy(), NAMES), "slow.joblib")
    command = ["certify", "slow.joblib", "data.npz", "--trust-joblib", "--sigma", "0.8", "--out", "r.npz"]
    command += ["--journal", "run.sqlite", "--quiet", *more]
    here = Path(long_runs.__file__)
    paths = [str(here.parents[1]), str(here.parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LONG_RUN_PAUSE": str(pause)}
    started = [sys.executable, "-m", "smoothcert", *command]
    return subprocess.Popen(started, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE), command


@pytest.mark.parametrize("more", [[], ["--radius", "0.3"]], ids=["all samples", "asked"])
def test_killed_run_continues_with_the_same_command(files, capsys, more):
    """Killed without warning, and then the same bits as a run that was not stopped."""
    process, command = slow_run(0.2, ["--certifier", "dipole", "--n-samples", "20000", *more])
    try:
        view = long_runs.wait_for_evidence("run.sqlite", least=-1.0 if more else 0.02)
    finally:
        process.kill()
        process.communicate()
    assert view.fraction_done < 1.0
    assert not Path("r.npz").exists()
    before = int(read_journal("run.sqlite").samples.sum())
    assert run("watch", "run.sqlite", "--once") == 0
    assert re.fullmatch(r"\[[#-]{24}\] \d+%  \d+ of 25 inputs .*\n", capsys.readouterr().out)
    assert run(*command) == 0
    found = Certificates.load("r.npz")
    assert int(read_journal("run.sqlite").samples.sum()) > before
    whole = [each for each in command if each not in ("--journal", "run.sqlite")]
    whole[whole.index("r.npz")] = "whole.npz"
    assert run(*whole, "--seed", str(found.provenance["seed"])) == 0
    long_runs.assert_same(found, Certificates.load("whole.npz"))
    assert found.verify()


def test_watching_until_the_end(files, capsys):
    process, _ = slow_run(0.05, ["--certifier", "first-order", "--n-samples", "1000"])
    try:
        long_runs.wait_for_evidence("run.sqlite", least=-1.0)
        assert run("watch", "run.sqlite", "--interval", "0.1") == 0
        process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("complete")
