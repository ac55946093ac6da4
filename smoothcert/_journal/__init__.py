"""Journals: evidence kept in a file, so that a run survives a kill and continues with the same bits."""

from __future__ import annotations

from ._reader import JournalView, read_journal
from ._run_description import RunDescription
from ._writer import Journal

__all__ = ["Journal", "JournalView", "RunDescription", "read_journal"]
