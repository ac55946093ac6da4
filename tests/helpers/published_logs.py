"""Reading the certification logs that the paper's authors published, where they are available."""

import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(os.environ.get("SMOOTHCERT_REFERENCE", Path(__file__).resolve().parents[3] / "shared" / "reference"))
FEATURES = {"small_mnist": 49, "cifar10": 3072, "swiss_roll": 2}


class Log:
    """One file: its columns as printed and as numbers, and what its name says."""

    def __init__(self, path):
        with path.open() as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        self.printed = {key: [row[key] for row in rows] for key in rows[0]}
        data, sigma = re.fullmatch(r"(\w+)_sigma_([\d.]+)", path.parent.name).groups()
        self.sigma, self.n = float(sigma), int(re.search(r"N_(\d+)", path.stem).group(1))
        self.n_features = FEATURES[data]

    def __getitem__(self, column):
        return np.array(self.printed[column], dtype=float)

    def mismatches(self, column, values):
        """Rows where `values` do not print as the log does: 3 significant digits for radii, 6 otherwise, to nearest."""
        digits = 3 if column == "radius" else 6
        pairs = zip(values, self.printed[column], strict=True)
        return [row for row, (value, text) in enumerate(pairs) if float(f"{value:.{digits}g}") != float(text)]


def paths(pattern):
    found = sorted(FOLDER.glob(f"*/{pattern}.tsv"))
    if not found:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no published logs in {FOLDER}"))]
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in found]
