"""Certificates as tables and as text."""

from __future__ import annotations

import html
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import BoolArray, FloatArray
from ..confidence import binomial_lower, stratified_share_upper
from ._rounding import round_digits

if TYPE_CHECKING:
    import pandas

    from ._result import Certificates


def as_frame(certificates: Certificates, y: ArrayLike | None, evidence: bool) -> pandas.DataFrame:
    """Return certificates as a data frame, see `Certificates.to_frame`."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame needs pandas; install smoothcert[plot].") from error
    columns: dict[str, Any] = {"prediction": certificates.prediction}
    labels = true_labels(certificates, y)
    if labels is not None:
        columns |= {"label": labels, "correct": certificates.prediction == labels}
    columns |= {"radius": certificates.radius, "abstained": certificates.abstained}
    columns["probability_lower"] = probability_lower(certificates)
    if certificates.runner_up is not None and certificates.classes is not None:
        columns["runner_up"] = _labels_or_none(certificates.classes, certificates.runner_up)
    for name in ("samples_used", "stopped"):
        if getattr(certificates, name) is not None:
            columns[name] = getattr(certificates, name)
    if evidence:
        for group in (certificates.limits, certificates.counts):
            for name, value in group.items():
                label = name if name not in columns else f"{name}_count"
                columns[label] = value if value.ndim == 1 else list(value)
    return pandas.DataFrame(columns, index=certificates.index)


def true_labels(certificates: Certificates, y: ArrayLike | None) -> NDArray[Any] | None:
    """Return the labels given, or those that certificates have."""
    if y is None:
        return certificates.label
    labels = np.asarray(y)
    if labels.shape != (len(certificates),):
        raise ValueError(
            f"y must have one label for each of the {len(certificates)} certificates, got shape {labels.shape}. Give "
            "the labels of the inputs that were certified, in the same order."
        )
    return labels


def probability_lower(certificates: Certificates) -> FloatArray:
    """Return a lower confidence bound of the probability of each class under noise, from its votes alone.

    Where sampling could end early it is at the level of the look at which it ended, so all looks together keep to
    `alpha`. Of pairs, whose two votes depend on each other, only those on one side are used. NaN where there are no
    votes, or where their level is not known.
    """
    n, counts = len(certificates), certificates.counts
    if certificates.evidence is not None:
        levels = certificates.evidence.levels
    elif certificates.asked_radii is None and certificates.provenance.get("alpha"):
        levels = np.full(n, float(certificates.provenance["alpha"]))
    else:
        levels = np.full(n, np.nan)
    bound = np.full(n, np.nan)
    for hits, trials in _votes(counts):
        counted = np.flatnonzero((trials > 0) & ~np.isnan(levels))
        for level in np.unique(levels[counted]):
            rows = counted[levels[counted] == level]
            bound[rows] = binomial_lower(hits[rows], trials[rows], float(level))
    if "designed" in counts:
        for row in np.flatnonzero(counts["designed"]):
            bound[row] = _lower_by_bins(counts, int(row), levels[row])
    return bound


_GUESSED_MISSES = 0.03
"""Share of misses for which the bound of designed noise is made; any number is valid."""


def _lower_by_bins(counts: Any, row: int, level: float) -> float:
    """Return the bound from votes in bins: on designed noise, the share of all votes says nothing by itself."""
    if np.isnan(level):
        return float("nan")
    hits, trials, mass = counts["bin_hits"][row, 0], counts["bin_trials"][row], counts["bin_mass"][row]
    return 1.0 - float(stratified_share_upper(trials - hits, trials, mass, _GUESSED_MISSES, float(level)))


def _votes(counts: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return votes for the class and samples, by each way in which they were counted."""
    found = []
    if {"both", "one_plus", "pairs"} <= counts.keys():
        found.append((counts["both"] + counts["one_plus"], counts["pairs"]))
    if {"hits", "n"} <= counts.keys():
        found.append((counts["hits"], counts["n"]))
    return found


def _labels_or_none(classes: NDArray[Any], places: NDArray[np.int64]) -> Any:
    """Return labels by their places, in a type of pandas that has missing values if a place is -1."""
    import pandas

    if np.all(places >= 0):
        return classes[places]
    labels = [None if place < 0 else classes[place] for place in places]
    return pandas.array(labels, dtype="Int64" if classes.dtype.kind in "iu" else "object")


def as_log(certificates: Certificates, y: ArrayLike | None) -> str:
    """Return certificates in the layout of published logs, see `Certificates.to_tsv`."""
    labels = true_labels(certificates, y)
    truth = [""] * len(certificates) if labels is None else labels.tolist()
    evidence = _log_columns(certificates)
    abstained, prediction = certificates.abstained, certificates.prediction
    each = timedelta(seconds=certificates.provenance.get("seconds", 0.0) / max(len(certificates), 1))
    lines = ["\t".join(["idx", "label", "predict", "radius", *evidence, "correct", "time"])]
    for i in range(len(certificates)):
        predicted = "-1" if abstained[i] else str(prediction[i])
        correct = "" if labels is None else str(int(not abstained[i] and truth[i] == prediction[i]))
        shown = [column[i] for column in evidence.values()]
        radius = round_digits(certificates.radius[i], 3)
        lines.append("\t".join([str(i), str(truth[i]), predicted, radius, *shown, correct, str(each)]))
    return "\n".join(lines) + "\n"


def _log_columns(certificates: Certificates) -> dict[str, list[str]]:
    counts, limits = certificates.counts, certificates.limits
    sigma = certificates.provenance.get("sigma", 1.0) if certificates.feature_scale is None else 1.0
    columns: dict[str, list[str]] = {}
    if "both" in counts:
        columns["raw_count_symmetric"] = [str(v) for v in counts["both"]]
        columns["raw_count_asymmetric"] = [str(v) for v in counts["one_plus"]]
        columns["p_A_symmetric_bar"] = [round_digits(v, 6) for v in limits["both"]]
        columns["p_A_asymmetric_bar"] = [round_digits(v, 6) for v in limits["one_sided"]]
    elif "hits" in counts and not np.any(counts.get("designed", False)):
        columns["raw_count"] = [str(v) for v in counts["hits"]]
        if "p" in limits:  # some certificates are about more than one share
            columns["p_A_bar"] = [round_digits(v, 6) for v in limits["p"]]
    if "norm_sq" in counts and "grad_norm" in limits:
        raw = counts["norm_sq"]
        columns["raw_grad_norm"] = [f"{np.sign(v) * np.sqrt(abs(v)) / sigma:.6g}" for v in raw]
        bound = np.nextafter(limits["grad_norm"] / sigma, np.inf)
        columns["grad_norm_bound"] = [round_digits(v, 6, up=True) for v in bound]
    return columns


def headline(certificates: Certificates) -> str:
    """Return what certificates say, in one line."""
    where = "" if certificates.space == "input" else f", radius in {certificates.space}"
    certifier = certificates.provenance.get("certifier", "unknown certifier")
    return f"{len(certificates)} inputs, {_outcome(certificates)}, {certifier}{where}"


def _outcome(certificates: Certificates) -> str:
    unit = " times feature_scale" if isinstance(certificates.provenance.get("sigma"), list) else ""
    if certificates.asked_radii is not None:
        # The median of radii that were not sampled further says nothing.
        shares = ", ".join(
            f"{_percent(certificates, certificates.radius >= radius)}% at {radius:g}"
            for radius in certificates.asked_radii
        )
        used = certificates.samples_used
        samples = f", {np.mean(used):.0f} samples an input" if used is not None else ""
        return f"certified {shares}{unit}{samples if len(certificates) else ''}"
    certified = ~certificates.abstained
    median = float(np.median(certificates.radius[certified])) if certified.any() else 0.0
    share = _percent(certificates, certified)
    return f"{share}% certified, median radius {round_digits(median, 3)}{unit}"


def _percent(certificates: Certificates, which: BoolArray) -> int:
    """Return the share of inputs that are certified, rounded down, like everything that promises."""
    return 100 * int(np.sum(which & ~certificates.abstained)) // max(len(certificates), 1)


def as_text(certificates: Certificates) -> str:
    """Return the headline and the first certificates as text."""
    lines = [f"Certificates({headline(certificates)})"]
    for i in range(min(len(certificates), 5)):
        radius = "abstained" if certificates.abstained[i] else f"radius {round_digits(certificates.radius[i], 3)}"
        why = "" if certificates.stopped is None else f"  {certificates.stopped[i]}"
        lines.append(f"  {i}: {certificates.prediction[i]!s}  {radius}{why}")
    if len(certificates) > 5:
        lines.append(f"  ... {len(certificates) - 5} more")
    return "\n".join(lines)


def as_html(certificates: Certificates) -> str:
    """Return the headline and the first certificates as a table for notebooks."""
    limits = [name for name, value in certificates.limits.items() if value.ndim == 1]
    of_inputs: dict[str, Any] = {}
    if certificates.stopped is not None:
        of_inputs = {"samples_used": certificates.samples_used, "stopped": certificates.stopped}
        of_inputs = {name: value for name, value in of_inputs.items() if value is not None}
    names = ["prediction", "radius", "abstained", *of_inputs, *limits]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ["", *names])
    body = []
    for i in range(min(len(certificates), 10)):
        cells = [
            str(i),
            str(certificates.prediction[i]),
            round_digits(certificates.radius[i], 4),
            "yes" if certificates.abstained[i] else "",
        ]
        cells += [str(value[i]) for value in of_inputs.values()]
        cells += [
            round_digits(certificates.limits[name][i], 4, up=name in certificates.upper_limits) for name in limits
        ]
        body.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    more = f"<p>... {len(certificates) - 10} more</p>" if len(certificates) > 10 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f"<p>{html.escape(headline(certificates))}</p>{table}{more}"
