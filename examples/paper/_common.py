"""What the scripts of this folder share: options, tables, pictures, published logs, and the list of certifiers."""

from __future__ import annotations

import argparse
import csv
import os
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from smoothcert import (
    Certificates,
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    certify,
)
from smoothcert.metrics import average_certified_radius, certificate_gain
from smoothcert.plotting import CertificateGainDisplay, CertifiedAccuracyDisplay

BASELINE = "first order"
CERTIFIERS = {
    BASELINE: lambda n: FirstOrderCertifier(n, against="half"),
    "second order, as published": lambda n: SecondOrderCertifier(n, gradient_bound="paper"),
    "dipole, as published": lambda n: DipoleCertifier(n, inference="paper"),
    "second order": lambda n: SecondOrderCertifier(n, against="half"),
    "dipole": lambda n: DipoleCertifier(n),
    "second-order dipole": lambda n: SecondOrderDipoleCertifier(n),
    "directional": lambda n: DirectionalCertifier(n, against="half"),
}
"""Every certifier that figures 5 and 6 compare, made for a number of samples; like the paper, against one half of the
votes. Another one is another line."""

AGAINST_RIVALS = {
    BASELINE: lambda n: FirstOrderCertifier(n),
    "second order": lambda n: SecondOrderCertifier(n),
    "directional": lambda n: DirectionalCertifier(n),
    "first order, one half": lambda n: FirstOrderCertifier(n, against="half"),
}
"""What `--against rivals` compares: certificates that the class keeps more votes than every other one."""


SUMMARY = (
    "certificate",
    "inputs",
    "certified_by_both",
    "average_radius",
    "change_of_average",
    "median_change",
    "median_change_below_99_percent_of_votes",
    "inputs_below_99_percent_of_votes",
    "more_than_1_percent_below",
)
"""Columns of the table that says in one line for each certifier what it proves."""


def options(description, **defaults):
    """A parser with the options that have a default here: n_samples and with it n_jobs, n_inputs, certifiers and with
    them against; seed and out always."""
    parser = argparse.ArgumentParser(description=description, formatter_class=_Help)
    if "n_samples" in defaults:
        parser.add_argument("--n-samples", type=count, default=defaults["n_samples"], help="noisy copies of each input")
    if "n_inputs" in defaults:
        parser.add_argument("--n-inputs", type=count, default=defaults["n_inputs"], help="inputs to certify")
    if "n_samples" in defaults:
        parser.add_argument("--n-jobs", type=int, default=None, help="processes; the numbers do not depend on it")
    if "certifiers" in defaults:
        parser.add_argument(
            "--certifiers", nargs="+", choices=[*defaults["certifiers"], *list(AGAINST_RIVALS)[1:]], default=None,
            metavar="NAME", help=f"certificates to compare with the {BASELINE}, each in quotes; all if not given",
        )  # fmt: skip
        parser.add_argument(
            "--against", choices=("half", "rivals"), default="half",
            help="what the class is compared with: one half of the votes, as in the paper, or every other class",
        )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of all noise and of the training")
    parser.add_argument("--out", type=Path, default=Path("paper_figures"), help="folder for pictures and tables")
    return parser


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Descriptions as they are written, and defaults after every option."""


def count(text):
    """A whole number that may be written like 1e6."""
    value = float(text)
    if value != int(value) or value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text}")
    return int(value)


def power(n):
    """A number of samples for a title."""
    digits = len(str(n)) - 1
    return f"$10^{digits}$" if n == 10**digits else f"{n:,}"


def save(figure, out, name):
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print("picture:", path)


def write_table(out, name, columns):
    """A tab-separated table of the numbers that were drawn."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.tsv"
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([f"{v:.9g}" if isinstance(v, float) else v for v in row] for row in rows)
    print("table:  ", path)


def reference():
    """Folder of the published logs, if SMOOTHCERT_REFERENCE names one."""
    named = os.environ.get("SMOOTHCERT_REFERENCE")
    folder = Path(named) if named else None
    if folder is None or not folder.is_dir():
        print("(set SMOOTHCERT_REFERENCE to a folder of published logs to see them beside)")
        return None
    return folder


def read_log(path):
    """True labels and certificates from a table in the layout of the published logs, or from an npz file beside one."""
    path = Path(path)
    with path.with_suffix(".tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    y = np.array([int(row["label"]) for row in rows])
    if path.suffix == ".npz":
        return y, Certificates.load(path)
    prediction = np.array([int(row["predict"]) for row in rows])
    radius = np.array([float(row["radius"]) for row in rows])
    return y, Certificates(prediction, radius, (prediction == -1) | (radius == 0.0))


def slug(name):
    return re.sub(r"\W+", "_", name).strip("_")


def suffix(args):
    """What file names say about certificates that are not against one half."""
    return "_rivals" if args.against == "rivals" else ""


def certify_each(estimator, smoothed, X, y, args, folder, certifiers=CERTIFIERS):
    """Certificates by name, from `folder` if they were made before with the same settings.

    `smoothed` is the classifier itself or, if `estimator` is a pipeline, its last step. As in the paper every certifier
    draws samples of its own, unless ``args.same_noise`` is set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = {}
    for number, (name, make) in enumerate(certifiers.items()):
        if name != BASELINE and args.certifiers is not None and name not in args.certifiers:
            continue
        path = folder / f"{slug(name)}{suffix(args)}_N_{args.n_samples}.npz"
        seed = args.seed if args.same_noise else args.seed + number
        smoothed.set_params(certifier=make(args.n_samples), random_state=seed, n_jobs=args.n_jobs, verbose=1)
        if path.exists() and _made_alike(Certificates.load(path), smoothed, len(X)):
            print(f"{name}: found in {path}", flush=True)
            results[name] = Certificates.load(path)
            continue
        print(f"{name}: {len(X)} inputs, {args.n_samples} samples each", flush=True)
        results[name] = certify(estimator, X)
        results[name].save(path)
        results[name].to_tsv(path.with_suffix(".tsv"), y)
    return results


def _made_alike(certificates, smoothed, n):
    about = certificates.provenance
    mine = (repr(smoothed.certifier), float(smoothed.sigma), int(smoothed.random_state), n)
    return mine == (about["certifier"], about["sigma"], about["seed"], len(certificates))


def report(rows, out, name):
    """Print and write what certificates prove; each row is (name, true labels, baseline, certificates).

    Wrong predictions count as not certified. Changes are against the baseline; where only one of the two certifies, the
    input counts for the mean and not for the median.
    """
    table = {key: [] for key in SUMMARY}
    for label, y, base, each in rows:
        gain = certificate_gain(y, base, each)
        both = np.isfinite(gain) & (gain > -1.0)
        # Where nearly all votes agree the radius hangs on a handful of them. Published logs do not tell.
        contested = both & (base.counts["hits"] < 0.99 * base.counts["n"]) if "hits" in base.counts else both & False
        before, after = average_certified_radius(y, base), average_certified_radius(y, each)
        change, middle, middle_contested = (
            after / before - 1.0 if before else np.nan,
            *(np.median(gain[some]) if np.any(some) else np.nan for some in (both, contested)),
        )
        below = int(np.sum(gain < -0.01))
        counted = int(both.sum()), int(contested.sum())
        values = (label, len(y), counted[0], after, change, middle, middle_contested, counted[1], below)
        for key, value in zip(SUMMARY, values, strict=True):
            table[key].append(value)
        print(f"{label:40s} average radius {after:.4f} ({change:+.2%}), median change {middle:+.2%}")
    write_table(out, f"{name}_summary", table)


def draw_curves(y, results, title, out, name):
    """Certified accuracy against the radius, a curve for each of the certificates by name."""
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    CertifiedAccuracyDisplay.from_certificates(y, results, ax=ax)
    ax.set_title(title)
    save(figure, out, name)


def draw_gains(panels, title, out, name):
    """One histogram for each panel (title, true labels, baseline, certificates); picture and table."""
    columns = min(len(panels), 2 if len(panels) <= 4 else 3)
    rows = -(-len(panels) // columns)
    # Counts are compared by eye where there are about as many inputs; a published log may have many more.
    sizes = [len(y) for _, y, _, _ in panels]
    alike = max(sizes) < 2 * min(sizes)
    figure, axes = plt.subplots(
        rows, columns, figsize=(5.6 * columns, 3.6 * rows), layout="constrained", squeeze=False, sharey=alike
    )
    table = {}
    for ax, (label, y, baseline, certificates) in zip(axes.flat, panels, strict=False):
        display = CertificateGainDisplay.from_certificates(y, baseline, certificates, ax=ax, name=label)
        ax.set_title(f"{label} ({int(display.counts.sum())} inputs)", fontsize=11)
        table["change"] = [tick.get_text() for tick in ax.get_xticklabels()]
        table[label] = display.counts
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    for ax in axes[:, 1:].flat:
        ax.set_ylabel("")
    figure.suptitle(title)
    save(figure, out, name)
    write_table(out, name, table)
