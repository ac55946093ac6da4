"""The evidence behind certificates, as much of it as their radii can be computed from again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._validation import FloatArray, IndexArray
from ..certifiers import BaseCertifier
from ..tallies import Tally
from ._rounding import issue_radius, radius_before_steps


@dataclass(frozen=True, eq=False)
class EvidencePart:
    """Inputs that were certified together, by the same certifier at the same level.

    Attributes
    ----------
    rows : ndarray of int
        Which certificates they are.
    certifier : BaseCertifier
        Its `alpha` is the level, which is only a part of the whole where radii were asked for.
    tally : Tally
        What was counted, without sums of noise.
    """

    rows: IndexArray
    certifier: BaseCertifier
    tally: Tally


@dataclass(frozen=True, eq=False)
class StoredEvidence:
    """What was counted, and how radii in units of sigma become those of the certificates.

    Attributes
    ----------
    parts : tuple of EvidencePart
        Certificates in no part have a radius of 0.
    sigma : ndarray of shape (n,)
        What radii are multiplied with.
    lost : ndarray of shape (n,)
        What radii lose by a cast of the inputs; NaN where there was none.
    shift, factor : ndarray of shape (n, n_conversions)
        How far apart steps of a pipeline may send inputs, see `radius_before_steps`.
    """

    parts: tuple[EvidencePart, ...]
    sigma: FloatArray
    lost: FloatArray
    shift: FloatArray
    factor: FloatArray

    @classmethod
    def start(
        cls, parts: Sequence[EvidencePart], n: int, sigma: float, lost: FloatArray | None = None
    ) -> StoredEvidence:
        """Return the evidence about `n` inputs, in the space where noise was added."""
        known = np.full(n, np.nan) if lost is None else np.asarray(lost, dtype=np.float64)
        return cls(tuple(parts), np.full(n, float(sigma)), known, np.zeros((n, 0)), np.ones((n, 0)))

    def __getitem__(self, rows: IndexArray) -> StoredEvidence:
        """Return the evidence about some of the certificates, given by number."""
        parts = []
        for part in self.parts:
            place = np.full(len(self.sigma), -1)
            place[part.rows] = np.arange(len(part.rows))
            chosen = place[rows]
            if np.any(chosen >= 0):
                kept = part.tally[chosen[chosen >= 0]]
                parts.append(EvidencePart(np.flatnonzero(chosen >= 0), part.certifier, kept))
        return StoredEvidence(tuple(parts), self.sigma[rows], self.lost[rows], self.shift[rows], self.factor[rows])

    @classmethod
    def concatenate(cls, several: Sequence[StoredEvidence]) -> StoredEvidence:
        """Return the evidence of several runs, one after the other."""
        starts = np.cumsum([0, *(len(each.sigma) for each in several)])
        parts = [
            EvidencePart(part.rows + start, part.certifier, part.tally)
            for start, each in zip(starts, several, strict=False)
            for part in each.parts
        ]
        most = max(each.shift.shape[1] for each in several)
        shift = [np.pad(each.shift, [(0, 0), (0, most - each.shift.shape[1])]) for each in several]
        factor = [
            np.pad(each.factor, [(0, 0), (0, most - each.factor.shape[1])], constant_values=1.0) for each in several
        ]
        return cls(
            tuple(parts),
            np.concatenate([each.sigma for each in several]),
            np.concatenate([each.lost for each in several]),
            np.concatenate(shift),
            np.concatenate(factor),
        )

    def before_steps(self, shift: FloatArray, factor: float) -> StoredEvidence:
        """Return the same evidence for radii before steps of a pipeline."""
        column = np.broadcast_to(np.asarray(shift, dtype=np.float64), self.sigma.shape)[:, None]
        return StoredEvidence(
            self.parts,
            self.sigma,
            self.lost,
            np.column_stack([self.shift, column]),
            np.column_stack([self.factor, np.full(column.shape, float(factor))]),
        )

    @property
    def levels(self) -> FloatArray:
        """Error probability at which each input was certified; NaN where nothing was counted."""
        levels = np.full(len(self.sigma), np.nan)
        for part in self.parts:
            levels[part.rows] = part.certifier.alpha
        return levels

    def issue(self, proved: FloatArray) -> FloatArray:
        """Return radii in the units of the certificates for radii in units of sigma."""
        plain = issue_radius(proved, self.sigma, None)
        radius = np.where(np.isnan(self.lost), plain, issue_radius(proved, self.sigma, np.nan_to_num(self.lost)))
        for step in range(self.shift.shape[1]):
            radius = radius_before_steps(radius, self.shift[:, step], self.factor[:, step])
        return radius
