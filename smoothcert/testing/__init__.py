"""Checks for certifiers of your own: the contract, and coverage on classifiers whose true radius is known."""

from __future__ import annotations

from ._certifier import check_certifier
from ._one_by_one import VoteComparison, compare_votes
from ._simulation import sample_tally

__all__ = ["VoteComparison", "check_certifier", "compare_votes", "sample_tally"]
