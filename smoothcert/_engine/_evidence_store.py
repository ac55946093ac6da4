"""Which blocks of noise have been counted, and what they add up to.

A span ``(first, last)`` stands for blocks from `first` up to, not including, `last`. Since tallies merge exactly in any
order, spans and the merged tally are all there is to know about work done, however it was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..tallies import Tally

Span = tuple[int, int]


def add_span(spans: Sequence[Span], new: Span) -> tuple[Span, ...]:
    """Return disjoint spans in order, neighbours joined, with one more added."""
    joined: list[Span] = []
    for first, last in sorted([*spans, new]):
        if joined and first < joined[-1][1]:
            raise ValueError(
                f"Blocks must be counted once, got block {first} twice. Each block of noise may "
                "be added to the evidence of an input only once."
            )
        if joined and first == joined[-1][1]:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return tuple(joined)


def missing_spans(spans: Sequence[Span], n_blocks: int) -> list[Span]:
    """Return the spans of blocks that have not been counted yet."""
    edges = [0, *(edge for span in spans for edge in span), n_blocks]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def last_block(spans: Sequence[Span]) -> int:
    """Return the number of blocks up to the last one in spans, those missing in between included."""
    return max((last for _, last in spans), default=0)


def bundle_spans(
    missing: Mapping[int, Sequence[Span]], count: Callable[[int, Span], int], room: Callable[[int], int]
) -> Iterator[list[tuple[int, Span]]]:
    """Yield rows and their spans in bundles of about equal work.

    A span that is too long for a bundle is split into nearly equal parts; short ones share a bundle.

    Parameters
    ----------
    missing : mapping of int to sequence of Span
        Spans of each row.
    count : callable
        Draws of noise in a span of a row.
    room : callable
        Draws that make a bundle, given how many are left.
    """
    left = sum(count(row, span) for row, spans in missing.items() for span in spans)
    bundle: list[tuple[int, Span]] = []
    used = 0
    for row, spans in missing.items():
        for first, last in spans:
            while first < last:
                most = max(room(left), 1)
                parts = min(-(-count(row, (first, last)) // most), last - first)
                end = first - (first - last) // parts
                draws = count(row, (first, end))
                if bundle and used + draws > most:
                    yield bundle
                    bundle, used = [], 0
                    continue  # there may be more room, or less, in the next one
                bundle.append((row, (first, end)))
                used, left, first = used + draws, left - draws, end
    if bundle:
        yield bundle


def count_draws(spans: Iterable[Span], block: int, n_draws: int) -> int:
    """Return the draws of noise in spans of blocks of a given size, the last of which may be short."""
    return sum(min(last * block, n_draws) - first * block for first, last in spans)


class Entry(NamedTuple):
    """Evidence about one row in one stage."""

    spans: tuple[Span, ...]
    tally: Tally


class EvidenceStore:
    """Evidence so far, by stage and row.

    Attributes
    ----------
    seed : int
        Seed of the noise.
    seconds : float
        Time spent on the run before this call.
    grown : bool
        Whether anything was entered in this call.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.seconds = 0.0
        self.grown = False
        self._entries: dict[tuple[int, int], Entry] = {}

    def spans(self, stage: int, row: int) -> tuple[Span, ...]:
        """Return the blocks of a row that have been counted."""
        known = self._entries.get((stage, row))
        return () if known is None else known.spans

    def entry(self, stage: int, row: int, empty: Callable[[], Tally]) -> Entry | None:
        """Return evidence about a row, in a tally like an empty one; None if there is none."""
        return self._entries.get((stage, row))

    def add(self, stage: int, row: int, span: Span, tally: Tally) -> None:
        """Enter the evidence of a span of blocks."""
        self.grown = True
        known = self.entry(stage, row, lambda: tally)
        if known is None:
            self._entries[stage, row] = Entry((span,), tally)
        else:
            self._entries[stage, row] = Entry(add_span(known.spans, span), known.tally.merge(tally))
