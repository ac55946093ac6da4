"""Evidence that adds: the counts and sums a certifier keeps of its samples.

A tally has one entry for each input, along its leading axis. It can be built from plain numbers, for example from a
published log, or filled by ``update(noise, votes)``. ``merge`` adds the evidence of two tallies of the same inputs in
any order; ``concatenate`` puts different inputs side by side.
"""

from __future__ import annotations

from ._base import AnyTally as AnyTally
from ._base import IntArray as IntArray
from ._base import Tally
from ._directional import DirectionalEvidence, DirectionalPlan, DirectionalTally
from ._gradients import GradientTally
from ._input_gradients import InputGradientTally, ScoreTally
from ._pairs import PairTally
from ._rivals import RivalPlan, RivalTally
from ._votes import VoteTally

__all__ = [
    "DirectionalEvidence",
    "DirectionalPlan",
    "DirectionalTally",
    "GradientTally",
    "InputGradientTally",
    "PairTally",
    "RivalPlan",
    "RivalTally",
    "ScoreTally",
    "Tally",
    "VoteTally",
]
