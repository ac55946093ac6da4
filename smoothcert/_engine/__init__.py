"""The engine: noise, votes and tallies of rows, stage by stage."""

from __future__ import annotations

from ._collect import Run, collect_evidence, count_votes
from ._evidence_store import Entry, EvidenceStore, Span, count_draws, missing_spans
from ._progress import Progress, show_progress
from ._sampler import Sampler
from ._stages import Evidence, Stage, certifier_stages, run_stages

__all__ = [
    "Entry",
    "Evidence",
    "EvidenceStore",
    "Progress",
    "Run",
    "Sampler",
    "Span",
    "Stage",
    "certifier_stages",
    "collect_evidence",
    "count_draws",
    "count_votes",
    "missing_spans",
    "run_stages",
    "show_progress",
]
