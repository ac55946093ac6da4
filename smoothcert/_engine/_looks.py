"""Sampling until a question is answered: looks at growing evidence, and when to stop.

Looks and their levels are fixed in advance. Whether a row goes on is decided from its own tally and the question, so it
does not depend on other rows, nor on who sampled what when.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._noise import LOOKS, SCREEN, block_size
from .._validation import BoolArray, FloatArray
from ..certifiers import BaseCertifier
from ..certifiers._looks import Looks, plan_looks
from ..certifiers._prospect import scaled_prospect, unanimous_radius, votes_prospect
from ..tallies import Tally
from ._question import Question
from ._stages import Counted, Decided, Evidence, Part, Request, Setting, Stage, Stages, pilot_stages, selection_stage

CERTIFIED, HOPELESS, OUT_OF_SAMPLES = "certified", "hopeless", "out of samples"
"""Why the sampling of an input ended: all asked radii are certified; none of those that are not is within reach; there
are no more samples."""


_LEFT = "left"
"""Marks rows that a screen leaves to the certifier after it."""


def look_stages(
    certifier: BaseCertifier, question: Question, gradients: bool, n_rows: int, n_features: int, n_classes: int
) -> Stages:
    """Yield the requests that answer a question about radii, and return the evidence.

    Parameters
    ----------
    certifier : BaseCertifier
    question : Question
        With thresholds.
    gradients : bool
        Whether the base can be asked for input gradients.
    n_rows, n_features, n_classes : int
    """
    assert question.thresholds is not None
    thresholds, certifier = question.thresholds, certifier.for_looks(gradients)
    chosen = yield from selection_stage(certifier, question, n_rows, n_classes)
    stopped, samples = dict(chosen.stopped), dict.fromkeys(chosen.candidate, certifier.n_selection)
    parts: list[Part] = []
    rows = [row for row in chosen.candidate if row not in stopped]
    setting = Setting(chosen.candidate, n_features, n_classes)
    most = max(question.max_samples or 0, certifier.n_samples)
    most_radius = unanimous_radius(most, float(certifier.alpha))
    if rows:
        votes = _of_rows(chosen.votes, list(chosen.candidate), rows)
        votes.candidate = np.array([chosen.candidate[row] for row in rows])
        prospect = np.minimum(certifier.reach * votes_prospect(votes, certifier.against), most_radius)
        hopeless = [row for row, best in zip(rows, prospect, strict=True) if best < thresholds[row].min()]
        stopped |= dict.fromkeys(hopeless, HOPELESS)
        rows = [row for row in rows if row not in stopped]
        if hopeless:
            yield Decided(hopeless)

    def keep(taken: _Taken) -> None:
        stopped.update(taken.stopped)
        parts.extend(taken.parts)
        for row, used in taken.samples.items():
            samples[row] += used

    alpha = float(certifier.alpha)
    screen = certifier.screen()
    if screen is not None and rows:
        alpha, of_screen = (1.0 - screen.part) * alpha, screen.part * alpha
        sides = setting.sides(screen.certifier)
        looks = plan_looks(screen.certifier.n_samples // sides, sides, block_size(n_features), of_screen, equal=True)
        taken = yield from _take_looks(
            _Ladder(
                number=SCREEN,
                certifier=screen.certifier,
                looks=dict.fromkeys(rows, looks),
                last=dict.fromkeys(rows, looks.n_early),
                new_tally=setting.with_plans(screen.certifier.new_tally, {}),
                thresholds=thresholds,
                most_radius=most_radius,
                reach=certifier.reach,
            )
        )
        keep(taken)
        rows = taken.undecided
    sides = setting.sides(certifier)

    def looks_at(n_samples: int) -> Looks:
        return plan_looks(n_samples // sides, sides, block_size(n_features), alpha)

    # Plans are made for the level of the full look, whatever is asked: the question may change, evidence stays.
    full = looks_at(certifier.n_samples)
    planned = yield from pilot_stages(certifier.at_level(full.level(full.n_early)), gradients, rows, setting)
    ladders = {row: looks_at(planned.left[row]) for row in planned.plans}
    for row in ladders:
        samples[row] += planned.samples[row]
    taken = yield from _take_looks(
        _Ladder(
            number=LOOKS,
            certifier=certifier,
            looks=ladders,
            last={row: looks.last((most - planned.samples[row]) // sides) for row, looks in ladders.items()},
            new_tally=setting.with_plans(certifier.new_tally, planned.plans),
            thresholds=thresholds,
            most_radius=most_radius,
            before=planned.samples,
            max_samples=question.max_samples,
        )
    )
    keep(taken)
    parts = _certify_together(parts, np.arange(n_rows) if question.ranks is None else question.ranks)
    for part in parts:
        assert part.inference is not None
        reached = np.all(part.inference.radius[:, None] >= thresholds[part.rows], axis=1)
        stopped.update((row, CERTIFIED) for row, all_of_them in zip(part.rows, reached, strict=True) if all_of_them)
    return Evidence.collect(chosen, samples, stopped, parts)


def _certify_together(parts: Sequence[Part], ranks: NDArray[np.int64]) -> list[Part]:
    """Return parts with all rows of the same level, in the order of their ranks, and what is inferred about them.

    Which rows came to a look at the same time depends on what was in a journal; which rows stopped there does not.
    """

    def kind(i: int) -> tuple[Any, ...]:
        certifier = parts[i].certifier
        return type(certifier), certifier.alpha, certifier.against, certifier.n_samples

    joined = []
    for same in _groups(range(len(parts)), kind):
        rows = [row for i in same for row in parts[i].rows]
        order = np.argsort(ranks[rows])
        tallies = [parts[i].tally for i in same]
        certifier, tally = parts[same[0]].certifier, type(tallies[0]).concatenate(tallies)[order]
        joined.append(Part([rows[i] for i in order], certifier, tally, certifier.certify_tally(tally)))
    return joined


@dataclass(frozen=True, kw_only=True)
class _Ladder:
    """Looks to be taken, one after the other.

    Attributes
    ----------
    number : int
        Which noise is drawn.
    certifier : BaseCertifier
        Its level is that of each look.
    looks : mapping of int to Looks
        Rows, and their looks.
    last : mapping of int to int
        Number of the last look of each row.
    new_tally : callable
        Makes the empty tally of a row.
    thresholds : ndarray of shape (n_rows, n_radii)
        What is asked, for all rows.
    most_radius : float
        What all samples prove if they agree. No row is sampled for the sake of more.
    reach : float or None
        For a screen: how many times its own prospect the certifier after it may reach. Rows that only that one may
        certify, and those that are not decided at the last look, are left to it.
    before : mapping of int to int
        Samples that pilots have used.
    max_samples : int or None
        As the user gave it.
    """

    number: int
    certifier: BaseCertifier
    looks: Mapping[int, Looks]
    last: Mapping[int, int]
    new_tally: Callable[[int], Tally]
    thresholds: FloatArray
    most_radius: float
    reach: float | None = None
    before: Mapping[int, int] = field(default_factory=dict)
    max_samples: int | None = None

    @property
    def sides(self) -> int:
        return Setting.sides(self.certifier)


@dataclass(frozen=True)
class _Taken:
    """What looks led to: parts of the evidence, why rows stopped, samples used, and rows that are not decided."""

    parts: list[Part] = field(default_factory=list)
    stopped: dict[int, str] = field(default_factory=dict)
    samples: dict[int, int] = field(default_factory=dict)
    undecided: list[int] = field(default_factory=list)


def _take_looks(ladder: _Ladder) -> Generator[Request, Any, _Taken]:
    """Yield the requests of looks until every row is decided or has come to its last look."""
    taken = _Taken()
    if not ladder.looks:
        return taken
    counted = yield Counted(ladder.number, list(ladder.looks))
    # Evidence that goes further than a look cannot be taken apart again, so a row begins with the look that has all.
    at = {row: looks.at_least(counted.get(row, 0) * looks.block) for row, looks in ladder.looks.items()}
    last = dict(ladder.last) if ladder.max_samples is not None else {row: max(ladder.last[row], at[row]) for row in at}
    _check_enough(ladder, at)
    asked: dict[int, int] = {}
    active = list(ladder.looks)
    while active:
        draws = {row: ladder.looks[row].draws(at[row]) for row in active}
        rows, tally = yield Stage(
            number=ladder.number,
            draws=draws,
            sides=ladder.sides,
            new_tally=ladder.new_tally,
            blocks={row: ladder.looks[row].block for row in active},
            before={row: asked[row] for row in active if row in asked},
        )
        if tally is None:
            break
        asked.update(draws)
        active = []
        for group in _groups(rows, lambda row: (ladder.looks[row], at[row], last[row])):
            numbers = [rows[i] for i in group]
            looks, look, final = ladder.looks[numbers[0]], at[numbers[0]], last[numbers[0]]
            certifier = ladder.certifier.at_level(looks.level(look))
            why = _look(ladder, certifier, looks, look, final, numbers, tally[group])
            ended = np.flatnonzero((why != "") & (why != _LEFT))
            if len(ended):
                taken.parts.append(Part([numbers[i] for i in ended], certifier, tally[[group[i] for i in ended]]))
                taken.stopped.update((numbers[i], str(why[i])) for i in ended)
            taken.samples.update((row, ladder.sides * draws[row]) for row in numbers)
            going_on = [numbers[i] for i in np.flatnonzero(why == "")]
            (active if look < final else taken.undecided).extend(going_on)
            taken.undecided.extend(numbers[i] for i in np.flatnonzero(why == _LEFT))
        for row in active:
            at[row] += 1
        yield Decided([row for row in rows if row in taken.stopped])
    taken.undecided.sort()
    return taken


def _groups(rows: Sequence[int], key: Callable[[int], Any]) -> Iterator[list[int]]:
    """Yield the places of rows with the same key."""
    places: dict[Any, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(key(row), []).append(place)
    yield from places.values()


_CLEARLY = 1.0 + 1e-12
"""By how much a radius must exceed what is asked to stop before the last look: more than roundings that depend on which
rows are computed together."""


def _look(
    ladder: _Ladder,
    certifier: BaseCertifier,
    looks: Looks,
    look: int,
    final: int,
    rows: Sequence[int],
    tally: Tally,
) -> NDArray[np.str_]:
    """Return why the sampling of each row ends at a look, empty where it does not."""
    why = np.full(len(rows), "", dtype="U16")
    if look == final and ladder.reach is None:
        why[:] = OUT_OF_SAMPLES  # or certified, which is seen at the end
        return why
    radius, thresholds = certifier.certify_tally(tally).radius[:, None], ladder.thresholds[rows]
    certified = radius >= _CLEARLY * thresholds
    all_certified = np.all(certified, axis=1)
    why[all_certified] = CERTIFIED
    undecided = np.flatnonzero(~all_certified)
    if len(undecided):
        next_one = np.where(certified, np.inf, thresholds).min(axis=1)[undecided]
        if ladder.reach is None:
            within = _within_reach(ladder, looks, look, final, tally[undecided], next_one)
        else:
            prospect = votes_prospect(tally[undecided], certifier.against)
            why[undecided[prospect < next_one]] = _LEFT
            within = np.minimum(ladder.reach * prospect, ladder.most_radius) >= next_one
        why[undecided[~within]] = HOPELESS
    return why


def _within_reach(
    ladder: _Ladder, looks: Looks, look: int, final: int, tally: Tally, threshold: FloatArray
) -> BoolArray:
    """Return whether the next radius of each row may be certified by its last look."""
    provable = threshold <= ladder.most_radius
    within: BoolArray = provable & (votes_prospect(tally, ladder.certifier.against) >= threshold)
    # What the certificate itself promises takes time, so it is asked where the votes promise too little.
    rest = np.flatnonzero(provable & ~within)
    if len(rest):
        factor = looks.draws(final) // looks.draws(look)
        prospect = scaled_prospect(ladder.certifier, tally[rest], factor, looks.level(final))
        within[rest] = prospect >= threshold[rest]
    return within


def _check_enough(ladder: _Ladder, at: Mapping[int, int]) -> None:
    """Refuse a limit below what was counted already."""
    if ladder.max_samples is None:
        return
    most = 0
    for row, look in at.items():
        if look > ladder.last[row]:
            most = max(most, ladder.before.get(row, 0) + ladder.sides * ladder.looks[row].draws(look))
    if most:
        raise ValueError(
            f"max_samples must be at least {most}, the number of samples that the journal already has for some input, "
            f"got {ladder.max_samples}. Give a larger max_samples, or use a new journal."
        )


def _of_rows(tally: Any, rows: Sequence[int], wanted: Sequence[int]) -> Any:
    place = {row: i for i, row in enumerate(rows)}
    return tally[[place[row] for row in wanted]]
