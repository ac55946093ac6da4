"""Options of the command, and the words that explain them."""

from __future__ import annotations

import argparse
from typing import Any

from .._version import __version__

CERTIFIERS = ("directional", "first-order", "second-order", "dipole", "second-order-dipole")
"""Names of certifiers, the default first."""

_ABOUT = """Certified robustness of classifiers by randomized smoothing.

A certificate says how far an input may be moved, in Euclidean distance, before the majority vote of the classifier on
noisy copies of it can change."""

_EXAMPLES = """the three verbs together:
  smoothcert certify model.skops data.npz --sigma 0.25 --radius 0.5 --journal run.sqlite --out result.npz
  smoothcert watch run.sqlite                       (in another terminal)
  smoothcert report result.npz --html report.html

"smoothcert certify --help" explains what files are needed."""

_CERTIFY = """Certify every row of a data file with a model from a file.

MODEL is a fitted classifier in a skops file (skops.io.dump). A SmoothedClassifier, or a pipeline that ends in one, is
used with its own settings. Any other classifier becomes the base of a SmoothedClassifier with noise --sigma; it is not
trained again.
DATA is an .npz file with the array X, and y with true labels if they are known; or an .npy file with X alone; or a .csv
file with a header, in which --label names the column of labels."""

_CERTIFY_EXAMPLES = """examples:
  smoothcert certify model.skops test.npz --sigma 0.25 --out result.npz
      computes the largest radius that 100,000 samples can prove, for each input
  smoothcert certify model.skops test.npz --sigma 0.25 --radius 0.25 0.5 --out result.npz
      only decides which inputs are certified at these radii, with a few thousand samples for most
  smoothcert certify model.skops test.npz --sigma 0.25 --journal run.sqlite --out result.npz
      keeps progress in a file: after a kill or a power failure the same command continues where it was

exit codes: 0 done, 2 wrong arguments or files (a line on standard error explains the error), 130 stopped by Ctrl-C"""

_WATCH = """Show how far a run with a journal is, while it runs in another terminal or on another node.

The run is not disturbed. The command ends when the run is complete; Ctrl-C ends it before."""

_REPORT = """Print a report of a result file: a table by class, and whether the evidence in the file proves its radii.

True labels are those that "smoothcert certify" found in the data file."""

_TRUST = """load MODEL with joblib (or pickle). Loading such a file can run any code with your permissions:
use this only for files from people whose programs you would run"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="smoothcert", description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"smoothcert {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="{certify,watch,report}")
    _add_certify(verbs)
    _add_watch(verbs)
    _add_report(verbs)
    return parser


def _add_verb(verbs: Any, name: str, **words: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, formatter_class=argparse.RawDescriptionHelpFormatter, **words
    )
    parser.add_argument("--traceback", action="store_true", help="show where in the program an error came from")
    return parser


def _add_certify(verbs: Any) -> None:
    parser = _add_verb(
        verbs, "certify", help="certify the rows of a data file", description=_CERTIFY, epilog=_CERTIFY_EXAMPLES
    )
    parser.add_argument("model", metavar="MODEL", help="file of the fitted classifier")
    parser.add_argument("data", metavar="DATA", help="file of the inputs: .npz, .npy or .csv")
    parser.add_argument("--out", required=True, metavar="FILE", help="result file to write (.npz)")
    parser.add_argument(
        "--sigma",
        type=float,
        metavar="S",
        help="standard deviation of the noise, in the units of X; needed unless MODEL is a SmoothedClassifier",
    )
    parser.add_argument(
        "--radius",
        type=float,
        nargs="+",
        metavar="R",
        help="radii to decide, in the units of X; by default the largest radius that the samples can prove is computed "
        "for each input",
    )
    parser.add_argument(
        "--certifier",
        choices=CERTIFIERS,
        help=f"certifier that computes the radii (default: that of the SmoothedClassifier, or {CERTIFIERS[0]})",
    )
    parser.add_argument("--n-samples", type=int, metavar="N", help="noisy copies of each input (default: 100000)")
    parser.add_argument(
        "--alpha", type=float, metavar="A", help="largest probability that a certificate is wrong (default: 0.001)"
    )
    parser.add_argument("--journal", metavar="FILE", help="keep progress in this file, and continue from it")
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed of the noise; by default a new seed is drawn and recorded in the result file",
    )
    parser.add_argument("--n-jobs", type=int, metavar="N", help="processes to use, -1 for all cores (default: 1)")
    parser.add_argument("--label", metavar="NAME", help="column of a .csv file that holds the true labels")
    parser.add_argument("--trust-joblib", action="store_true", help=_TRUST)
    parser.add_argument(
        "--trust",
        nargs="+",
        default=[],
        metavar="TYPE",
        help="types in a skops file that you trust beyond those of scikit-learn, numpy and smoothcert",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")


def _add_watch(verbs: Any) -> None:
    parser = _add_verb(verbs, "watch", help="show how far a run is", description=_WATCH)
    parser.add_argument("journal", metavar="JOURNAL", help="file that was given to certify as --journal")
    parser.add_argument("--once", action="store_true", help="print one line and end")
    parser.add_argument(
        "--interval",
        type=float,
        default=1.0,
        metavar="S",
        help="smallest number of seconds between two updates (default: 1)",
    )


def _add_report(verbs: Any) -> None:
    parser = _add_verb(
        verbs,
        "report",
        help="report on a result file",
        description=_REPORT,
        epilog="exit codes: 0 done, 1 radii differ from what the evidence proves, 2 something given is wrong",
    )
    parser.add_argument("result", metavar="RESULT", help="file that certify wrote, or Certificates.save")
    parser.add_argument(
        "--radii", type=float, nargs="+", metavar="R", help="radii of the table (default: those asked for, or a few)"
    )
    parser.add_argument("--html", metavar="FILE", help="also write a page for a browser, complete in one file")
