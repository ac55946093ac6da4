"""The order in which a certifier looks at noise: selection, pilots, each of which makes a plan, then the estimation.

`certifier_stages` yields one request after the other and is sent the answers. Where the evidence comes from, fresh
sampling or a journal, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._noise import ESTIMATION, SELECTION, block_size, pilot_stage
from ..certifiers import BaseCertifier, Inference
from ..tallies import IntArray, Tally, VoteTally
from ._question import Question

WRONG_CANDIDATE, COMPLETE = "wrong candidate", "complete"
"""Why the sampling of an input ended, where no radius was asked for."""


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
    blocks : mapping of int to int
        Draws in a block of noise of each row, where that is not what its number of features says.
    before : mapping of int to int
        Draws of each row that an earlier request has asked for already.
    """

    number: int
    draws: Mapping[int, int]
    sides: int = 1
    observes: Literal["votes", "gradients"] | Callable[..., Any] = "votes"
    new_tally: Callable[[int], Tally]
    blocks: Mapping[int, int] = field(default_factory=dict)
    before: Mapping[int, int] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """Number of votes in all, without those asked for before."""
        if callable(self.observes):
            return 0
        return self.sides * sum(n - self.before.get(row, 0) for row, n in self.draws.items())

    def block_size(self, row: int, n_features: int) -> int:
        """Return the draws in a block of noise of a row."""
        return self.blocks.get(row) or block_size(n_features)


@dataclass(frozen=True)
class Planning:
    """A request for plans; answered by one plan for each row of the tally."""

    plan: Callable[[Tally], Any]
    tally: Tally


@dataclass(frozen=True)
class Counted:
    """A request for what there is already; answered by the number of blocks of each row up to the last one of which
    something was counted."""

    number: int
    rows: Sequence[int]


@dataclass(frozen=True)
class Decided:
    """A notice that no more samples are needed of some rows; it has no answer."""

    rows: Sequence[int]


@dataclass(frozen=True)
class Part:
    """Rows that are certified together, by the same certifier at the same level; and what was inferred about them, if
    it was."""

    rows: Sequence[int]
    certifier: BaseCertifier
    tally: Tally
    inference: Inference | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known at the end.

    Attributes
    ----------
    rows : sequence of int
        Rows that are finished.
    candidate : ndarray of int
        Their candidate classes.
    samples : ndarray of int
        Samples used for each.
    stopped : ndarray of str or None
        Why the sampling of each ended; None if none could end early.
    parts : sequence of Part
        What was counted for them. Rows in no part have not been estimated.
    selection : ndarray of int, shape (n_rows, n_classes), or None
        The votes by which candidates were chosen.
    """

    rows: Sequence[int]
    candidate: IntArray
    samples: IntArray
    stopped: NDArray[np.str_] | None
    parts: Sequence[Part]
    selection: IntArray | None = None

    @classmethod
    def collect(
        cls,
        chosen: Selected,
        samples: Mapping[int, int],
        stopped: Mapping[int, str],
        parts: Sequence[Part] = (),
    ) -> Evidence:
        """Return the evidence about all rows of which it is known why they stopped, in their order."""
        rows = sorted(stopped)
        place = {row: i for i, row in enumerate(chosen.candidate)}
        votes = None if chosen.votes is None else chosen.votes.counts[[place[row] for row in rows]]
        return cls(
            rows=rows,
            candidate=np.array([chosen.candidate[row] for row in rows], dtype=np.int64),
            samples=np.array([samples[row] for row in rows], dtype=np.int64),
            stopped=np.array([stopped[row] for row in rows], dtype=np.str_),
            parts=parts,
            selection=votes,
        )


Request = Stage | Planning | Counted | Decided
Stages = Generator[Request, Any, Evidence]


def certifier_stages(
    certifier: BaseCertifier, question: Question, gradients: bool, n_rows: int, n_features: int, n_classes: int
) -> Stages:
    """Yield the requests of a certifier that takes all its samples, in order, and return the evidence they were
    answered with.

    Parameters
    ----------
    certifier : BaseCertifier
    question : Question
        Without radii.
    gradients : bool
        Whether the base can be asked for input gradients.
    n_rows, n_features, n_classes : int
    """
    chosen = yield from selection_stage(certifier, question, n_rows, n_classes)
    candidate, stopped = chosen.candidate, dict(chosen.stopped)
    samples = dict.fromkeys(candidate, certifier.n_selection)
    rows = [row for row in candidate if row not in stopped]
    setting = Setting(candidate, n_features, n_classes)
    planned = yield from pilot_stages(certifier, gradients, rows, setting)
    draws = {row: planned.left[row] // setting.sides(certifier) for row in planned.plans}
    parts = []
    if draws:
        rows, tally = yield Stage(
            number=ESTIMATION,
            draws=draws,
            sides=setting.sides(certifier),
            new_tally=setting.with_plans(certifier.new_tally, planned.plans),
        )
        for row in rows:
            stopped[row] = COMPLETE
            samples[row] += planned.samples[row] + setting.sides(certifier) * draws[row]
        if tally is not None:
            parts.append(Part(rows, certifier, tally))
            yield Decided(rows)
    evidence = Evidence.collect(chosen, samples, stopped, parts)
    return evidence if question.labels is not None else replace(evidence, stopped=None)


@dataclass(frozen=True)
class Setting:
    """What all tallies of a run are made for."""

    candidate: Mapping[int, int]
    n_features: int
    n_classes: int

    @staticmethod
    def sides(certifier: BaseCertifier) -> int:
        """Return on how many sides of a row a certifier uses each draw."""
        return 2 if certifier.pairing == "antithetic" else 1

    def with_plans(self, new_tally: Callable[..., Tally], plans: Mapping[int, Any]) -> Callable[[int], Tally]:
        """Return what makes the empty tally of a row, for its candidate and its plan."""

        def make(row: int) -> Tally:
            candidate = np.atleast_1d(self.candidate[row])
            return new_tally(1, self.n_features, self.n_classes, candidate, plan=plans.get(row))

        return make


@dataclass(frozen=True)
class Selected:
    """Candidate classes, the votes they were chosen by, and rows that need no more."""

    candidate: Mapping[int, int]
    votes: VoteTally | None
    stopped: Mapping[int, str]


def selection_stage(
    certifier: BaseCertifier, question: Question, n_rows: int, n_classes: int
) -> Generator[Request, Any, Selected]:
    """Yield the request that chooses candidates; rows whose label is another one stop here."""
    rows, votes = yield vote_stage(SELECTION, range(n_rows), certifier.n_selection, n_classes)
    if votes is None:
        return Selected({}, None, {})
    candidate = dict(zip(rows, np.argmax(votes.counts, axis=1), strict=True))
    wrong = [] if question.labels is None else [row for row in rows if candidate[row] != question.labels[row]]
    if wrong:
        yield Decided(wrong)
    return Selected(candidate, votes, dict.fromkeys(wrong, WRONG_CANDIDATE))


@dataclass(frozen=True)
class Planned:
    """Plans of rows whose pilots are complete, samples that were used for them and samples that are left."""

    plans: Mapping[int, Any]
    samples: Mapping[int, int]
    left: Mapping[int, int]


def pilot_stages(
    certifier: BaseCertifier, gradients: bool, rows: Sequence[int], setting: Setting
) -> Generator[Request, Any, Planned]:
    """Yield the requests of a certifier's pilots."""
    sides = setting.sides(certifier)
    plans: dict[int, Any] = dict.fromkeys(rows)
    used, left = dict.fromkeys(rows, 0), dict.fromkeys(rows, int(certifier.n_samples))
    for number, pilot in enumerate(certifier.pilots(gradients)):
        needed = [row for row in plans if pilot.needed is None or pilot.needed(plans[row])]
        if not needed:
            continue
        given = callable(pilot.observes)
        stage = Stage(
            number=pilot_stage(number),
            draws=dict.fromkeys(needed, 1 if given else pilot.n_samples // sides),
            sides=1 if given else sides,
            observes=pilot.observes,
            new_tally=setting.with_plans(pilot.new_tally, plans),
        )
        done, tally = yield stage
        for row in set(needed) - set(done):
            del plans[row]
        if tally is not None:
            made = yield Planning(pilot.plan, tally)
            plans.update(zip(done, made, strict=True))
        for row in done:
            left[row] -= pilot.n_samples
            used[row] += 0 if given else sides * stage.draws[row]
    return Planned(plans, used, left)


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
    count: Callable[[Counted], Mapping[int, int]],
    make_plans: Callable[[Callable[[Tally], Any], Tally], Sequence[Any]] = plan_serially,
    decided: Callable[[Sequence[int]], object] = lambda rows: None,
) -> Evidence:
    """Answer one request after the other until the stages are through.

    Parameters
    ----------
    stages : Stages
    collect : callable
        Answers a `Stage`.
    count : callable
        Answers `Counted`.
    make_plans : callable
        Answers `Planning`.
    decided : callable
        Told of rows that need no more samples.
    """
    answer: Any = None
    while True:
        try:
            request = stages.send(answer)
        except StopIteration as end:
            evidence: Evidence = end.value
            return evidence
        match request:
            case Stage():
                answer = collect(request)
            case Planning():
                answer = make_plans(request.plan, request.tally)
            case Counted():
                answer = count(request)
            case Decided():
                answer = decided(request.rows)
