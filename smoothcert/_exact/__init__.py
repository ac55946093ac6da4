"""Certificates without sampling: models whose expected score under Gaussian noise is a formula."""

from __future__ import annotations

from ._certify import (
    ExactCertificates,
    check_closed_form,
    exact_certificates,
    exact_probabilities,
    exact_scores,
)

__all__ = ["ExactCertificates", "check_closed_form", "exact_certificates", "exact_probabilities", "exact_scores"]
