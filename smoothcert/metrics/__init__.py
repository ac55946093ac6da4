"""Scores of certificates, and scorers that make them for model selection."""

from __future__ import annotations

from ._gain import PAPER_EDGES, certificate_gain, gain_histogram
from ._probability import class_probability, class_probability_curve
from ._report import CertifiedReport, certified_report
from ._scorers import CertifiedScorer, make_certified_scorer
from ._scores import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy_curve,
    certified_accuracy_score,
)

__all__ = [
    "PAPER_EDGES",
    "CertifiedReport",
    "CertifiedScorer",
    "abstention_rate",
    "average_certified_radius",
    "certificate_gain",
    "certified_accuracy_curve",
    "certified_accuracy_score",
    "certified_report",
    "class_probability",
    "class_probability_curve",
    "gain_histogram",
    "make_certified_scorer",
]
