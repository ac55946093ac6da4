"""How many samples a radius takes, from the published counts. Run: python benchmarks/looks.py

The logs are looked for where the environment variable SMOOTHCERT_REFERENCE says, by default in ../shared/reference
beside the project. A log tells how many of its votes were for the class. With these shares for probabilities, votes are
drawn again by the binomial law, at the looks of a first-order certifier. Compared are the answers, whether an input is
right and certified at the radius, with those of all samples: the votes at which an input stopped, and the rest that it
was spared. The selection is drawn from the same shares; a candidate that is not the published class is wrong.
"""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np

from smoothcert import FirstOrderCertifier
from smoothcert._engine import Counted, Question, Stage, look_stages, run_stages
from smoothcert._noise import LOOKS
from smoothcert.tallies import VoteTally

PROJECT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("SMOOTHCERT_REFERENCE", PROJECT.parent / "shared" / "reference"))
RADII = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
"""In units of sigma."""
N_SAMPLES = (100_000, 1_000_000)
REPETITIONS = 10
COLUMNS = [
    "data", "sigma", "votes", "inputs", "n_samples", "radius", "mean_samples", "accuracy", "accuracy_fixed", "loss",
    "different",
]  # fmt: skip


def read(path):
    with path.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


class Votes:
    """Votes for class 0 with given probabilities, drawn as they are asked for."""

    def __init__(self, p, seed):
        self.p, self.rng, self.known = p, np.random.default_rng(seed), {}

    def collect(self, stage: Stage):
        rows = list(stage.draws)
        hits, n = np.array([self.known.get((stage.number, row), (0, 0)) for row in rows]).T
        total = np.array(list(stage.draws.values()))
        hits = hits + self.rng.binomial(total - n, self.p[rows])
        self.known.update({(stage.number, row): (h, t) for row, h, t in zip(rows, hits, total, strict=True)})
        return rows, VoteTally(np.column_stack([hits, total - hits]), total, np.zeros(len(rows), int))

    def count(self, counted: Counted):
        return dict.fromkeys(counted.rows, 0)

    def complete(self, number, n_samples):
        """Hits of all rows after the rest of their samples."""
        hits, n = np.array([self.known.get((number, row), (0, 0)) for row in range(len(self.p))]).T
        return hits + self.rng.binomial(n_samples - n, self.p)


def compare(p, right, radius, certifier, seed):
    """Mean samples, and certified accuracies by looks and by all samples."""
    n_rows = len(p)
    labels = np.where(right, 0, 1)
    question = Question(asked=(radius,), thresholds=np.full((n_rows, 1), radius), labels=labels)
    votes = Votes(p, seed)
    evidence = run_stages(look_stages(certifier, question, False, n_rows, 2, 2), votes.collect, votes.count)
    by_looks = evidence.stopped == "certified"
    hits = votes.complete(LOOKS, certifier.n_samples)
    fixed = certifier.certify_tally(VoteTally(hits, certifier.n_samples)).radius
    by_all = right & (evidence.candidate == 0) & (fixed >= radius)
    return evidence.samples.mean(), by_looks.mean(), by_all.mean(), np.mean(by_looks != by_all)


def settings():
    for folder in sorted(FOLDER.glob("*_sigma_*")):
        data, sigma = re.fullmatch(r"(\w+)_sigma_([\d.]+)", folder.name).groups()
        for path in sorted(folder.glob("N_*.tsv"), key=lambda path: int(path.stem.split("_")[-1])):
            log, n = read(path), int(path.stem.split("_")[-1])
            right = (log["label"] == log["predict"]) | (log["correct"] == "1")
            yield data, sigma, n, log["raw_count"].astype(float) / n, right


def rows():
    for data, sigma, n, p, right in settings():
        for n_samples in N_SAMPLES:
            certifier = FirstOrderCertifier(n_samples=n_samples, against="half")
            for radius in RADII:
                found = [compare(p, right, radius, certifier, 100 * seed) for seed in range(REPETITIONS)]
                samples, accuracy, fixed, different = np.mean(found, axis=0)
                yield {
                    "data": data,
                    "sigma": sigma,
                    "votes": n,
                    "inputs": len(p),
                    "n_samples": n_samples,
                    "radius": radius,
                    "mean_samples": f"{samples:.0f}",
                    "accuracy": f"{accuracy:.4%}",
                    "accuracy_fixed": f"{fixed:.4%}",
                    "loss": f"{100 * (fixed - accuracy):+.3f}",
                    "different": f"{different:.3%}",
                }


def summary(lines):
    """What the table says of radii up to 2 sigma."""
    table = [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines[1:]]
    for n_samples in N_SAMPLES:
        some = [row for row in table if int(row["n_samples"]) == n_samples and float(row["radius"]) <= 2]
        samples, loss = ([float(row[name]) for row in some] for name in ("mean_samples", "loss"))
        below = np.mean(np.array(samples) < 4000)
        yield f"{n_samples}: {np.mean(samples):.0f} samples on average, below 4000 in {below:.0%} of {len(some)} cases"
        yield f"  loss of certified accuracy {np.mean(loss):.3f} points on average, {np.max(loss):.3f} at most"


def main():
    if not FOLDER.is_dir():
        raise SystemExit(f"No published logs in {FOLDER}. Set SMOOTHCERT_REFERENCE to the folder that holds them.")
    lines = ["\t".join(COLUMNS)]
    for row in rows():
        lines.append("\t".join(str(row[column]) for column in COLUMNS))
        print(lines[-1], flush=True)
    print("\n".join(summary(lines)))
    (Path(__file__).parent / "results" / "looks.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
