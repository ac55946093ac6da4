"""The engine: noise, votes and tallies of rows, stage by stage."""

from __future__ import annotations

from ..certifiers import BaseCertifier
from ._collect import Run, collect_evidence, count_votes
from ._evidence_store import Entry, EvidenceStore, Span, count_draws, last_block, missing_spans
from ._looks import look_stages
from ._progress import Progress, show_progress
from ._question import Question, find_thresholds
from ._sampler import Sampler
from ._stages import Counted, Evidence, Part, Stage, Stages, certifier_stages, run_stages

__all__ = [
    "Counted",
    "Entry",
    "Evidence",
    "EvidenceStore",
    "Part",
    "Progress",
    "Question",
    "Run",
    "Sampler",
    "Span",
    "Stage",
    "Stages",
    "certifier_stages",
    "collect_evidence",
    "count_draws",
    "count_votes",
    "find_thresholds",
    "last_block",
    "look_stages",
    "missing_spans",
    "run_stages",
    "show_progress",
    "stages_for",
]


def stages_for(
    certifier: BaseCertifier, question: Question, gradients: bool, n_rows: int, n_features: int, n_classes: int
) -> Stages:
    """Return the stages of a run: looks if radii are asked for, all samples otherwise."""
    stages = certifier_stages if question.thresholds is None else look_stages
    return stages(certifier, question, gradients, n_rows, n_features, n_classes)
