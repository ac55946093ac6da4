"""A page for a browser: everything about a result in one file, without scripts and without the network."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from .. import Certificates, Verification
from .._certificates import round_digits
from .._certificates._tables import headline, probability_lower
from .._validation import FloatArray
from ..metrics._report import CertifiedReport
from ._svg import histogram, step_curve

_MOST_ROWS = 500
"""Inputs that are listed one by one."""

_STYLE = """
:root { color-scheme: light dark; --text: #1d2530; --soft: #5b6675; --page: #ffffff; --panel: #f5f7fa; --line: #d8dee6;
  --curve: #1f6fb2; --bar: #4b93cf; --good: #1c7a43; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ee; --soft: #a3adba; --page: #14181d; --panel: #1d232b;
  --line: #38424e; --curve: #6cb6f5; --bar: #4b8fc9; --good: #63c78b; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 1.25rem 1rem 3rem; color: var(--text); background: var(--page);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0 .75rem; overflow-wrap: anywhere; } .soft { color: var(--soft); font-size: .9rem; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.6rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .55rem .8rem; }
.tile b { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .85rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 1rem; }
figure { margin: 0; background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem; }
figcaption { font-size: .9rem; color: var(--soft); padding: 0 .3rem .3rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--text); font-size: 15px; }
.grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
.curve { fill: none; stroke: var(--curve); stroke-width: 2.2; } .bar { fill: var(--bar); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .35rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { background: var(--panel); font-weight: 600; } tbody tr:last-child > * { border-bottom: 0; }
tr.overall > * { font-weight: 600; border-top: 2px solid var(--line); }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--page); }
thead th:first-child { background: var(--panel); }
.facts th, .facts td { text-align: left; white-space: normal; vertical-align: top; }
.facts td { overflow-wrap: anywhere; } summary { cursor: pointer; margin: 1rem 0 .5rem; font-weight: 600; }
"""


def page(certificates: Certificates, report: CertifiedReport, checked: Verification) -> str:
    """Return the page about a result.

    Parameters
    ----------
    certificates : Certificates
    report : CertifiedReport
        Its table is shown.
    checked : Verification
        What came out when radii were computed again.
    """
    body = [
        "<h1>Certified robustness</h1>",
        f'<p class="soft">{html.escape(headline(certificates))}</p>',
        _tiles(certificates, report),
        f'<p class="{_verdict(checked)}" id="verification">{html.escape(checked.message)}</p>',
        f'<div class="figures">{_figures(certificates)}</div>',
        "<h2>By class</h2>",
        f'<div class="scroll" id="report">{report.to_html()}</div>',
        f'<p class="soft">{_explanation(certificates)}</p>',
        "<h2>How the certificates were made</h2>",
        f'<div class="scroll">{_facts(certificates)}</div>',
        _inputs(certificates),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Certified robustness: {len(certificates)} inputs</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _verdict(checked: Verification) -> str:
    return "good" if checked else "bad" if checked.differs.any() else "soft"


def _tiles(certificates: Certificates, report: CertifiedReport) -> str:
    row = report.overall
    names, cells = report.header()[2:], row.cells()[2:]
    words = {"certified": "right and certified" if row.right is not None else "certified"}
    labels = [f"certified {name}" if name.startswith("at ") else words.get(name, name) for name in names]
    shown = [("inputs", str(len(certificates))), *zip(labels, cells, strict=True)]
    tiles = (
        f'<div class="tile"><b>{html.escape(cell)}</b><span>{html.escape(name)}</span></div>' for name, cell in shown
    )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _figures(certificates: Certificates) -> str:
    labels = certificates.prediction if certificates.label is None else certificates.label
    counted = ~certificates.abstained & (certificates.prediction == labels)
    unit = _unit(certificates)
    what = "certified" if certificates.label is None else "right and certified"
    finite = np.isfinite(certificates.radius)
    reached = np.sort(certificates.radius[counted & finite])
    radii = np.unique(np.concatenate([[0.0], reached]))
    beyond = int(np.sum(counted & ~finite))
    shares = (len(reached) - np.searchsorted(reached, radii, side="left") + beyond) / len(certificates)
    figures = [
        (
            f"Share of all inputs that are {what} up to each radius",
            step_curve(radii, shares, f"radius{unit}", what, "Certified accuracy against the radius"),
        ),
        (
            "How far inputs are certified, right or not; those with a radius of 0 are abstentions",
            histogram(certificates.radius[finite], f"radius{unit}", "inputs", "Distribution of radii"),
        ),
    ]
    probability = probability_lower(certificates)
    if np.any(~np.isnan(probability)):
        figures.append(
            (
                "How sure the votes are: a lower confidence bound of the probability of the predicted class",
                histogram(
                    probability[~np.isnan(probability)],
                    "probability under noise, at least",
                    "inputs",
                    "Distribution of the probability of the class",
                    1.0,
                ),
            )
        )
    return "".join(f"<figure><figcaption>{html.escape(c)}</figcaption>{d}</figure>" for c, d in figures)


def _unit(certificates: Certificates) -> str:
    if certificates.feature_scale is not None:
        return " (in units of each feature)"
    return " (Euclidean)" if certificates.space == "input" else f" (Euclidean, in {certificates.space})"


def _explanation(certificates: Certificates) -> str:
    words = "Shares are rounded down, abstentions up. "
    if certificates.label is None:
        words += "True labels are not known: classes are predicted ones, and certified does not mean right. "
    if certificates.asked_radii is not None:
        words += "Sampling ended as soon as the radii that were asked for were decided; radii beyond may be larger. "
    alpha = certificates.provenance.get("alpha")
    if alpha:
        words += f"Each certificate is wrong with a probability of at most {alpha:g}."
    return html.escape(words)


def _facts(certificates: Certificates) -> str:
    norm = "Euclidean" if certificates.feature_scale is None else "Euclidean, in units of each feature"
    facts: dict[str, Any] = {"space of radii": certificates.space, "norm": norm}
    if certificates.n_features is not None:
        facts["features with noise"] = certificates.n_features
    facts |= certificates.provenance
    if certificates.samples_used is not None:
        facts["samples used"] = int(certificates.samples_used.sum())
    rows = "".join(
        f'<tr><th scope="row">{html.escape(str(name).replace("_", " "))}</th><td>{html.escape(_short(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f'<table class="facts" id="provenance"><tbody>{rows}</tbody></table>'


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={each!r}" for name, each in value.items())
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 400 else f"{text[:397]}..."


def _inputs(certificates: Certificates) -> str:
    n = min(len(certificates), _MOST_ROWS)
    names = range(len(certificates)) if certificates.index is None else certificates.index
    probability: FloatArray = probability_lower(certificates)
    labelled = certificates.label is not None
    head = ["input", "prediction", *(["label"] if labelled else []), "radius", "abstained", "probability at least"]
    lines = []
    for i in range(n):
        cells = [str(certificates.prediction[i])]
        if certificates.label is not None:
            cells.append(str(certificates.label[i]))
        known = "" if np.isnan(probability[i]) else round_digits(probability[i], 4)
        cells += [round_digits(certificates.radius[i], 4), "yes" if certificates.abstained[i] else "", known]
        numbers = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{html.escape(str(names[i]))}</th>{numbers}</tr>')
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    table = f'<table id="inputs"><thead><tr>{columns}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    title = f"All {n} inputs" if n == len(certificates) else f"The first {n} of {len(certificates)} inputs"
    return f'<details><summary>{title}</summary><div class="scroll">{table}</div></details>'
