"""The order in which a certifier looks at noise: selection, pilots, each of which makes a plan, then the estimation.

`certifier_stages` yields one request after the other and is sent the answers. Where the evidence comes from, fresh
sampling or a journal, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .._noise import ESTIMATION, SELECTION, pilot_stage
from ..tallies import IntArray, Tally, VoteTally


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A request for evidence; answered by the rows whose evidence is complete and their tally, None without rows.

    Attributes
    ----------
    number : int
        Which noise is drawn.
    draws : mapping of int to int
        Rows, and the number of draws of noise for each.
    sides : int
        On how many sides of the row each draw is used.
    observes : {"votes", "gradients"} or callable
        What is counted, as in `smoothcert.certifiers.Pilot`.
    new_tally : callable
        Makes the empty tally of a row.
    """

    number: int
    draws: Mapping[int, int]
    sides: int = 1
    observes: Literal["votes", "gradients"] | Callable[..., Any] = "votes"
    new_tally: Callable[[int], Tally]

    @property
    def n_samples(self) -> int:
        """Number of votes in all."""
        return 0 if callable(self.observes) else self.sides * sum(self.draws.values())


@dataclass(frozen=True)
class Planning:
    """A request for plans; answered by one plan for each row of the tally."""

    plan: Callable[[Tally], Any]
    tally: Tally


@dataclass(frozen=True)
class Evidence:
    """What is known at the end: rows that came through all stages, their candidate classes, and their tally."""

    rows: Sequence[int]
    candidate: IntArray
    tally: Tally | None


Stages = Generator[Stage | Planning, Any, Evidence]


def certifier_stages(certifier: Any, gradients: bool, n_rows: int, n_features: int, n_classes: int) -> Stages:
    """Yield the requests of a certifier, in order, and return the evidence they were answered with.

    Parameters
    ----------
    certifier : BaseCertifier
    gradients : bool
        Whether the base can be asked for input gradients.
    n_rows, n_features, n_classes : int
    """
    rows, votes = yield vote_stage(SELECTION, range(n_rows), certifier.n_selection, n_classes)
    if votes is None:
        return Evidence((), np.empty(0, dtype=np.int64), None)
    candidate = dict(zip(rows, np.argmax(votes.counts, axis=1), strict=True))
    plans: dict[int, Any] = dict.fromkeys(rows)
    left = dict.fromkeys(rows, certifier.n_samples)
    sides = 2 if certifier.pairing == "antithetic" else 1

    def with_plan(new_tally: Callable[..., Tally]) -> Callable[[int], Tally]:
        return lambda row: new_tally(1, n_features, n_classes, np.atleast_1d(candidate[row]), plan=plans[row])

    for number, pilot in enumerate(certifier.pilots(gradients)):
        needed = [row for row in plans if pilot.needed is None or pilot.needed(plans[row])]
        if not needed:
            continue
        given = callable(pilot.observes)
        rows, tally = yield Stage(
            number=pilot_stage(number),
            draws=dict.fromkeys(needed, 1 if given else pilot.n_samples // sides),
            sides=1 if given else sides,
            observes=pilot.observes,
            new_tally=with_plan(pilot.new_tally),
        )
        for row in set(needed) - set(rows):
            del plans[row]
        if tally is not None:
            made = yield Planning(pilot.plan, tally)
            plans.update(zip(rows, made, strict=True))
        for row in rows:
            left[row] -= pilot.n_samples
    rows, tally = yield Stage(
        number=ESTIMATION,
        draws={row: left[row] // sides for row in plans},
        sides=sides,
        new_tally=with_plan(certifier.new_tally),
    )
    return Evidence(rows, np.array([candidate[row] for row in rows], dtype=np.int64), tally)


def vote_stage(number: int, rows: Iterable[int], n_votes: int, n_classes: int) -> Stage:
    """Return the stage that counts votes for each class."""
    return Stage(number=number, draws=dict.fromkeys(rows, n_votes), new_tally=lambda row: VoteTally.empty(1, n_classes))


def plan_serially(plan: Callable[[Tally], Any], tally: Tally) -> Sequence[Any]:
    """Make the plans of all rows of a tally in this process."""
    plans = plan(tally)
    return [plans[row] for row in range(len(tally))]


def run_stages(
    stages: Stages,
    collect: Callable[[Stage], tuple[Sequence[int], Tally | None]],
    make_plans: Callable[[Callable[[Tally], Any], Tally], Sequence[Any]] = plan_serially,
) -> Evidence:
    """Answer one request after the other until the stages are through."""
    answer: Any = None
    while True:
        try:
            request = stages.send(answer)
        except StopIteration as end:
            evidence: Evidence = end.value
            return evidence
        answer = make_plans(request.plan, request.tally) if isinstance(request, Planning) else collect(request)
