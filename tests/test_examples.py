"""The examples run as they are, with fewer samples; the scripts of the paper's figures in a short version."""

import csv
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import local_data, published_logs

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))
SHORT = {
    "figure_1_bounds": ([], ["figure_1a", "figure_1b"]),
    "figure_2_swiss_roll": (["--n-samples=2000", "--n-inputs=10", "--passes=20", "--grid=8"], ["figure_2"]),
    "figure_3_worst_cases": ([], ["figure_3"]),
    "figure_4a_empirical": (["--n-samples", "1e6"], ["figure_4a"]),
}
TINY = ["--n-samples=1500", "--n-inputs=6", "--n-train=400"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::smoothcert.UnreachableRadiusWarning")  # with few samples radii are out of reach
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    if "import torch" in path.read_text():
        pytest.importorskip("skorch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOOTHCERT_EXAMPLE_SAMPLES", "2000")
    runpy.run_path(str(path), run_name="__main__")
    matplotlib.pyplot.close("all")
    assert capsys.readouterr().out
    assert list(tmp_path.glob("*.png"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a script of examples/paper and returns its tables by name."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(FOLDER / "paper"))
    monkeypatch.delenv("SMOOTHCERT_REFERENCE", raising=False)

    def run(name, *arguments):
        out = tmp_path / "out"
        monkeypatch.setattr(sys, "argv", [name, *arguments, "--out", str(out)])
        runpy.run_path(str(FOLDER / "paper" / f"{name}.py"), run_name="__main__")
        assert list(out.glob("*.png"))
        tables = {}
        for path in out.glob("*.tsv"):
            with path.open() as file:
                tables[path.stem] = list(csv.DictReader(file, delimiter="\t"))
        return tables

    return run


def total(table, column):
    return sum(int(row[column]) for row in table)


@pytest.fixture
def bright_or_dark(tmp_path, monkeypatch):
    """A folder with CIFAR-10 files of ten images of each class, told apart by their brightness."""
    folder = tmp_path / "data"
    folder.mkdir()
    labels = np.arange(100) % 10
    images = np.broadcast_to((labels * 28)[:, None, None, None], (100, 32, 32, 3)).astype(np.uint8)
    for split in ("train", "test"):
        np.savez(folder / f"cifar10_{split}.npz", images=images, labels=labels.astype(np.uint8))
    monkeypatch.setenv("SMOOTHCERT_DATA", str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_figure(name, run):
    arguments, tables = SHORT[name]
    made = run(name, *arguments)
    assert sorted(made) == tables
    assert all(made.values())


def test_worst_cases_are_even_at_the_radius(run):
    for row in run("figure_3_worst_cases")["figure_3"]:
        assert float(row["p"]) == pytest.approx(0.8)
        assert float(row["p_at_radius"]) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.slow
@local_data.needs(*local_data.MNIST)
@pytest.mark.parametrize("name", ["figure_5_mnist", "appendix_pca_mnist"])
def test_mnist_figure(name, run, monkeypatch, capsys):
    if name == "figure_5_mnist":
        pytest.importorskip("skorch")
    monkeypatch.setenv("SMOOTHCERT_DATA", str(local_data.FOLDER))
    passes = "--epochs=1" if name == "figure_5_mnist" else "--passes=1"
    tables = run(name, *TINY, passes)
    [(title, table)] = [(title, each) for title, each in tables.items() if not title.endswith("_summary")]
    assert len(table) == 11
    assert "second-order dipole" in table[0]
    first, *others = tables[f"{title}_summary"]
    assert first["certificate"] == "first order"
    assert first["change_of_average"] in ("0", "nan")  # nothing to compare where nothing is certified
    assert {"second-order dipole", "directional"} <= {row["certificate"] for row in others}
    assert "found in" not in capsys.readouterr().out
    assert run(name, *TINY, passes) == tables
    assert "second-order dipole: found in" in capsys.readouterr().out  # the second run certifies nothing again


@pytest.mark.slow
def test_figure_against_rivals(run, bright_or_dark):
    pytest.importorskip("skorch")
    tables = run("figure_6_cifar10", *TINY, "--epochs=60", "--sigma=0.05", "--against=rivals")
    assert set(tables) == {f"figure_6_cifar10_sigma_0.05_rivals_N_1500{end}" for end in ("", "_summary")}
    names = {row["certificate"] for row in tables["figure_6_cifar10_sigma_0.05_rivals_N_1500_summary"]}
    assert names == {"first order", "second order", "directional", "first order, one half"}


@pytest.mark.slow
def test_cifar10_figure(run, bright_or_dark):
    pytest.importorskip("skorch")
    tables = run("figure_6_cifar10", *TINY, "--epochs=60", "--sigma=0.05")
    [table] = [each for title, each in tables.items() if not title.endswith("_summary")]
    assert total(table, "dipole") > 0
    assert "second order, as published" not in table[0]


@pytest.mark.slow
def test_own_network_and_imagenet(run, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("skorch")
    from PIL import Image

    (tmp_path / "mynets.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        "    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    weights = {"module.2.weight": torch.tensor([[9.0, 0, 0], [0, 0, 9.0]]), "module.2.bias": torch.zeros(2)}
    torch.save({"arch": "mine", "state_dict": weights}, tmp_path / "mine.pt")
    for kind, colour in (("a_red", (200, 30, 30)), ("b_blue", (30, 30, 200))):
        (tmp_path / "val" / kind).mkdir(parents=True)
        Image.new("RGB", (300, 260), colour).save(tmp_path / "val" / kind / "1.png")
    arguments = ["--model=mynets:make", f"--weights={tmp_path / 'mine.pt'}", f"--imagenet={tmp_path / 'val'}"]
    short = ["--n-samples=1500", "--n-inputs=2", "--certifiers", "second order"]
    tables = run("figure_6_cifar10", *arguments, *short, "--sigma=0.5")
    [table] = [each for title, each in tables.items() if not title.endswith("_summary")]
    assert total(table, "second order") == 2  # red and blue are told apart, so the weights arrived


@pytest.mark.slow
def test_curves_of_the_appendix(run, tmp_path):
    from smoothcert import Certificates

    certificates = Certificates([0, 1, 1], [0.4, 0.25, 0.0], [False, False, True])
    certificates.save(tmp_path / "mine.npz")
    certificates.to_tsv(tmp_path / "mine.tsv", [0, 1, 1])
    tables = run("appendix_c_curves", f"exact={tmp_path / 'mine.npz'}", f"printed={tmp_path / 'mine.tsv'}")
    rows = [(row["curve"], float(row["radius"]), float(row["certified_accuracy"])) for row in tables["appendix_c"]]
    curve = [(0.0, 2 / 3), (0.25, 2 / 3), (0.4, 1 / 3)]
    assert rows == [(name, r, pytest.approx(a)) for name in ("exact", "printed") for r, a in curve]


@pytest.mark.slow
def test_curves_of_the_published_logs(run, monkeypatch):
    if not (published_logs.FOLDER / "small_mnist_sigma_0.25").exists():
        pytest.skip(f"no published logs in {published_logs.FOLDER}")
    monkeypatch.setenv("SMOOTHCERT_REFERENCE", str(published_logs.FOLDER))
    rows = run("appendix_c_curves")["appendix_c"]
    assert len({row["panel"] for row in rows}) == 8
