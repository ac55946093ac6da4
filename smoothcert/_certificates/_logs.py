"""Reading tables in the layout of the published certification logs."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray
from .._version import __version__
from ..certifiers import BaseCertifier
from ..tallies import GradientTally, PairTally, Tally, VoteTally
from ._building import certificates_from_tally
from ._result import Certificates

_PRINTED = 5.1e-6
"""Relative rounding of a number that is printed with six digits, and a little more."""


def certificates_from_log(
    path: str | Path, *, sigma: float, certifier: BaseCertifier | None, n_features: int | None
) -> Certificates:
    """Return the certificates in a table, see `Certificates.from_tsv`."""
    columns = _read(Path(path))
    radius = _numbers(columns, "radius", path)
    # A class may be labelled -1 as well; then it has a radius.
    abstained = (np.array(columns["predict"]) == "-1") & (radius == 0.0)
    prediction, index = _labels(columns["predict"]), _labels(columns["idx"])
    truth = columns.get("label", [])
    known: dict[str, Any] = {"index": index, "label": _labels(truth) if truth and all(truth) else None}
    if certifier is None:
        provenance = {"sigma": float(sigma), "certifier": f"a table ({Path(path).name})", "version": __version__}
        counts = {"hits": _counts(columns, "raw_count", path)} if "raw_count" in columns else {}
        return Certificates(
            prediction, radius, abstained, counts=counts, provenance=provenance, n_features=n_features, **known
        )
    rows = np.flatnonzero(~abstained)
    if len(rows) == 0:
        raise ValueError(f"path must have at least one row that is certified, got {str(path)!r} with none.")
    tally = _tally(columns, certifier, float(sigma), n_features, path)[rows]
    made = certificates_from_tally(
        tally, certifier, sigma=sigma, prediction=prediction, classes=None, n_features=n_features, counted=rows.tolist()
    )
    return replace(made, **known)


def _read(path: Path) -> dict[str, list[str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            table = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except UnicodeDecodeError as error:
        raise ValueError(
            f"path must be a text file of columns separated by tabs, got {str(path)!r}: {error}."
        ) from None
    header, rows = (table[0], table[1:]) if table else ([], [])
    missing = [name for name in ("idx", "predict", "radius") if name not in header]
    if missing or not rows:
        fault = f"no column {missing[0]!r}" if missing else "no rows"
        raise ValueError(
            f"path must be a table with the columns idx, predict and radius, as Certificates.to_tsv writes it, got "
            f"{str(path)!r} with {fault}."
        )
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(
                f"path must be a table with {len(header)} columns, got {len(row)} in line {number} of {str(path)!r}. "
                "Was the file cut off?"
            )
    return {name: [row[place] for row in rows] for place, name in enumerate(header)}


def _labels(column: list[str]) -> NDArray[Any]:
    for kind in (np.int64, np.float64):
        try:
            return np.array(column, dtype=kind)
        except ValueError:
            continue
    return np.array(column)


def _numbers(columns: Mapping[str, list[str]], name: str, path: Any) -> FloatArray:
    if name not in columns:
        raise ValueError(
            f"path must be a table with the column {name} for this certifier, got {str(path)!r}, which does not have "
            "it."
        )
    try:
        return np.array(columns[name], dtype=np.float64)
    except ValueError as error:
        raise ValueError(
            f"path must be a table with numbers in the column {name}, got {str(path)!r}: {error}."
        ) from None


def _counts(columns: Mapping[str, list[str]], name: str, path: Any) -> NDArray[np.int64]:
    numbers = _numbers(columns, name, path)
    if not np.all(numbers == np.floor(numbers)):
        raise ValueError(
            f"path must be a table with whole numbers in the column {name}, got {str(path)!r}, which has "
            "other values in it."
        )
    return numbers.astype(np.int64)


def _tally(
    columns: Mapping[str, list[str]], certifier: BaseCertifier, sigma: float, n_features: int | None, path: Any
) -> Tally:
    """Return the counts of a table as the evidence that a certifier wants."""
    n = int(certifier.n_samples)
    if issubclass(VoteTally, certifier.tally_type):
        return VoteTally(_counts(columns, "raw_count", path), n)  # type: ignore[arg-type]
    if certifier.tally_type is PairTally and getattr(certifier, "inference", None) == "paper":
        both = _counts(columns, "raw_count_symmetric", path)
        plus = _counts(columns, "raw_count_asymmetric", path)
        # Pairs of the other orientation are not in the table, and the published certificate does not use them.
        return PairTally(both, plus, n // 2, one_plus=plus)  # type: ignore[arg-type]
    if certifier.tally_type is GradientTally and getattr(certifier, "gradient_bound", None) == "paper":
        if n_features is None:
            raise ValueError("n_features must be given for SecondOrderCertifier, got None. Give the size of an input.")
        raw = _numbers(columns, "raw_grad_norm", path) * sigma
        raw = raw + _PRINTED * np.abs(raw)
        hits = _counts(columns, "raw_count", path)
        return GradientTally.from_norm_sq(hits, n, np.sign(raw) * np.square(raw), n_features, centre=0.0)
    raise ValueError(
        f"certifier must be one whose counts are in published logs, got {certifier!r}. Use FirstOrderCertifier, "
        "DipoleCertifier(inference='paper') or SecondOrderCertifier(gradient_bound='paper')."
    )
