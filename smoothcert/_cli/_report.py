"""The verb ``report``."""

from __future__ import annotations

import argparse
import sys

from .. import Certificates
from .._certificates._files import write_file
from .._certificates._tables import headline
from ..metrics import certified_report


def run_report(arguments: argparse.Namespace) -> int:
    """Print a report of a result file, and write it as a page if asked to."""
    certificates = Certificates.load(arguments.result)
    if len(certificates) == 0:
        raise ValueError(f"RESULT must hold at least one certificate, got {arguments.result!r} with none.")
    report = certified_report(None, certificates, radii=arguments.radii)
    checked = certificates.verify()
    sys.stdout.write(f"{headline(certificates)}\n\n{report}\n\n")
    if certificates.label is None:
        sys.stdout.write("True labels are not known, so this is about the share of inputs that are certified.\n")
    sys.stdout.write(f"{checked.message}\n")
    if arguments.html:
        from ._html import page

        write_file(arguments.html, lambda file: file.write(page(certificates, report, checked).encode()))
        sys.stdout.write(f"written to {arguments.html}\n")
    return 1 if checked.differs.any() else 0
