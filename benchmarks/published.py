"""The numbers behind the published figures, recomputed from the published counts. Run: python benchmarks/published.py

The logs are looked for where the environment variable SMOOTHCERT_REFERENCE says, by default in ../shared/reference
beside the project. Radii are recomputed from the raw counts at full precision; the published ones are printed with
three digits, and the column `misprints` counts those that do not come out the same.
"""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np

from smoothcert import DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier
from smoothcert.tallies import GradientTally, PairTally, VoteTally

PROJECT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("SMOOTHCERT_REFERENCE", PROJECT.parent / "shared" / "reference"))
FEATURES = {"small_mnist": 49, "cifar10": 3072, "swiss_roll": 2}
COLUMNS = [
    "data", "sigma", "n_samples", "certificate", "inputs", "counted", "mean_first", "mean", "median_first", "median",
    "median_change", "mean_change", "improved", "worse", "misprints",
]  # fmt: skip


def read(path):
    with path.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def first_order(log, n, n_features, sigma):
    return FirstOrderCertifier().certify_tally(VoteTally(log["raw_count"].astype(float), n)).radius * sigma


def second_order(log, n, n_features, sigma):
    """As published. The logged estimate is of vectors that are not centred, so the centred limit cannot be applied."""
    raw = log["raw_grad_norm"].astype(float) * sigma
    tally = GradientTally.from_norm_sq(log["raw_count"].astype(float), n, np.sign(raw) * raw**2, n_features, centre=0.0)
    return SecondOrderCertifier(gradient_bound="paper").certify_tally(tally).radius * sigma


def pairs_of(log, n):
    """The logs count one orientation; the other is taken to be as frequent, within what the pairs leave room for."""
    both, plus = log["raw_count_symmetric"].astype(float), log["raw_count_asymmetric"].astype(float)
    return PairTally(both, np.minimum(2 * plus, n // 2 - both), n // 2, one_plus=plus)


def dipole(log, n, n_features, sigma):
    return DipoleCertifier(inference="paper").certify_tally(pairs_of(log, n)).radius * sigma


def dipole_joint(log, n, n_features, sigma):
    return DipoleCertifier().certify_tally(pairs_of(log, n)).radius * sigma


CERTIFICATES = {
    "second_order": [("second order, published", second_order)],
    "dipole": [("dipole, published", dipole), ("dipole, joint inference", dipole_joint)],
}


def misprints(radius, printed):
    return sum(float(f"{ours:.3g}") != float(theirs) for ours, theirs in zip(radius, printed, strict=True))


def compare(base, log, before, after):
    """Statistics over inputs that are right and certified by one of the two, as in the paper's figures."""
    before_right = (base["correct"] == "1") & (before > 0)
    after_right = (log["correct"] == "1") & (after > 0)
    counted = before_right | after_right
    both = before_right & after_right
    change = after[both] / before[both] - 1
    before, after = np.where(before_right, before, 0.0)[counted], np.where(after_right, after, 0.0)[counted]
    return {
        "inputs": len(counted),
        "counted": int(counted.sum()),
        "mean_first": f"{before.mean():.4f}",
        "mean": f"{after.mean():.4f}",
        "median_first": f"{np.median(before):.4f}",
        "median": f"{np.median(after):.4f}",
        "median_change": f"{np.median(change):+.2%}",
        "mean_change": f"{after.mean() / before.mean() - 1:+.2%}",
        "improved": f"{np.mean(after > before):.1%}",
        "worse": f"{np.mean(after < before):.1%}",
    }


def rows():
    for folder in sorted(FOLDER.glob("*_sigma_*")):
        data, text = re.fullmatch(r"(\w+)_sigma_([\d.]+)", folder.name).groups()
        sigma = float(text)
        for kind, certificates in CERTIFICATES.items():
            for path in sorted(folder.glob(f"{kind}_N_*.tsv"), key=lambda path: int(path.stem.split("_")[-1])):
                n = int(path.stem.split("_")[-1])
                base, log = read(folder / f"N_{n}.tsv"), read(path)
                if not np.array_equal(base["idx"], log["idx"]):
                    raise ValueError(f"{path.name} and N_{n}.tsv must be about the same inputs; their idx differ.")
                before = first_order(base, n, FEATURES[data], sigma)
                for name, compute in certificates:
                    after = compute(log, n, FEATURES[data], sigma)
                    wrong = misprints(before, base["radius"])
                    if "published" in name:
                        wrong += misprints(after, log["radius"])
                    found = compare(base, log, before, after)
                    about = {"data": data, "sigma": sigma, "n_samples": n, "certificate": name}
                    yield {**about, **found, "misprints": wrong}


def main():
    if not FOLDER.is_dir():
        raise SystemExit(f"No published logs in {FOLDER}. Set SMOOTHCERT_REFERENCE to the folder that holds them.")
    lines = ["\t".join(COLUMNS)] + ["\t".join(str(row[column]) for column in COLUMNS) for row in rows()]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    (Path(__file__).parent / "results" / "published.tsv").write_text(text)


if __name__ == "__main__":
    main()
