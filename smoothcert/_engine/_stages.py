"""In which order a certifier looks at noise: pilots, each of which makes a plan for what follows, then the estimation.

Where the evidence comes from, fresh sampling or a journal, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._noise._seeds import ESTIMATION, pilot_stage
from ..tallies import IntArray, Tally


@dataclass(frozen=True)
class Stage:
    """One stage of a certifier.

    Attributes
    ----------
    stage : int
        Its noise.
    draws : callable
        Number of draws for a row.
    sides : int
        On how many sides of the row each draw is used.
    observes : {"votes", "gradients"} or callable
        What is seen there, as in `smoothcert.certifiers.Pilot`.
    empty : callable
        Empty tally for a row.
    """

    stage: int
    draws: Callable[[int], int]
    sides: int
    observes: Any
    empty: Callable[[int], Tally]


Collect = Callable[[Stage, Sequence[int]], tuple[Sequence[int], Tally | None]]
"""Gives the rows for which all evidence of a look is there, and their tally."""


def plan_serially(plan: Callable[[Tally], Any], tally: Tally) -> Iterable[Any]:
    """Plans of all rows of a tally, made at once."""
    made = plan(tally)
    return (made[row] for row in range(len(tally)))


def run_stages(
    certifier: Any,
    gradients: bool,
    candidate: IntArray,
    n_features: int,
    n_classes: int,
    collect: Collect,
    make_plans: Callable[[Callable[[Tally], Any], Tally], Iterable[Any]] = plan_serially,
) -> tuple[Sequence[int], Tally | None]:
    """Rows that came through all stages, and the evidence about them."""
    sides = 2 if certifier.pairing == "antithetic" else 1
    plans: dict[int, Any] = dict.fromkeys(range(len(candidate)))
    left = dict.fromkeys(plans, certifier.n_samples)

    def with_plan(new_tally: Callable[..., Tally]) -> Callable[[int], Tally]:
        return lambda row: new_tally(1, n_features, n_classes, candidate[row : row + 1], plan=plans[row])

    for number, pilot in enumerate(certifier.pilots(gradients)):
        rows = [row for row in plans if pilot.needed is None or pilot.needed(plans[row])]
        if not rows:
            continue
        given = callable(pilot.observes)
        draws = dict.fromkeys(rows, 1 if given else pilot.n_samples // sides)
        stage = pilot_stage(number)
        look = Stage(stage, draws.__getitem__, 1 if given else sides, pilot.observes, with_plan(pilot.new_tally))
        done, tally = collect(look, rows)
        for row in set(rows) - set(done):
            del plans[row]
        if tally is not None:
            plans.update(zip(done, make_plans(pilot.plan, tally), strict=True))
        for row in done:
            left[row] -= pilot.n_samples
    look = Stage(ESTIMATION, lambda row: left[row] // sides, sides, "votes", with_plan(certifier.new_tally))
    return collect(look, list(plans))
