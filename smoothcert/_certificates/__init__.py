"""Certificates: the frozen result of a certification, with its evidence and its provenance; tables and files."""

from __future__ import annotations

from ._building import build_certificates, effective_sigma, with_rows_of
from ._files import plain_labels, plain_value
from ._result import Certificates
from ._rounding import issue_radius, radius_before_steps, round_digits
from ._verification import Verification

__all__ = [
    "Certificates",
    "Verification",
    "build_certificates",
    "effective_sigma",
    "issue_radius",
    "plain_labels",
    "plain_value",
    "radius_before_steps",
    "round_digits",
    "with_rows_of",
]
