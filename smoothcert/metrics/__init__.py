"""Scores of certificates, and scorers that make them for model selection."""

from __future__ import annotations

from ._scorers import CertifiedScorer, make_certified_scorer
from ._scores import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy_curve,
    certified_accuracy_score,
)

__all__ = [
    "CertifiedScorer",
    "abstention_rate",
    "average_certified_radius",
    "certified_accuracy_curve",
    "certified_accuracy_score",
    "make_certified_scorer",
]
