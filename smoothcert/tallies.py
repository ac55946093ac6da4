"""Evidence that adds: the counts and sums a certifier keeps of its samples.

A tally has one entry for each input, along its leading axis. It can be built from plain numbers, from a published log
say, or filled by ``update(noise, votes)``. ``merge`` adds the evidence of two tallies of the same inputs in any
order; ``concatenate`` puts different inputs side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._validation import FloatArray, as_float_array, check_counts

IntArray = NDArray[np.int64]
AnyTally = TypeVar("AnyTally", bound="Tally")

__all__ = ["GradientTally", "PairTally", "Tally", "VoteTally"]

# Sums of each update are rounded to these steps of a unit. Whole multiples of a power of two add without rounding in
# float64 (up to 2^31 and 2^43, more than any run reaches), so that merging is exact in every order. What is rounded
# off is far below the error of the estimate.
_SUM_STEPS = 2.0**22
_SQUARE_STEPS = 2.0**10


@dataclass(eq=False)
class Tally:
    """What all tallies share: merging, concatenation and selection of rows, field by field."""

    _additive: ClassVar[tuple[str, ...]] = ()

    @property
    def uses_noise(self) -> bool:
        """Whether `update` looks at the noise."""
        return False

    def __len__(self) -> int:
        raise NotImplementedError

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add the votes on noisy copies of the inputs."""
        raise NotImplementedError

    def counts_by_name(self) -> dict[str, NDArray[Any]]:
        """The plain numbers of the evidence, for a report."""
        raise NotImplementedError

    def _same(self, other: Any) -> dict[str, Any]:
        """What two tallies must have in common to be merged."""
        return {"kind": type(self).__name__, "rows": len(self)}

    def merge(self: AnyTally, other: AnyTally) -> AnyTally:
        """Evidence of both, as a new tally. Counts add exactly, sums in float64."""
        mine = self._same(other)
        theirs = other._same(self) if isinstance(other, Tally) else {"kind": type(other).__name__}
        for what, value in mine.items():
            if not np.array_equal(np.asarray(value), np.asarray(theirs.get(what))):
                raise ValueError(
                    f"Tallies to merge must have the same {what}, got {value} and {theirs.get(what)}. "
                    "Merge evidence about the same inputs, classes and features only."
                )
        kept = [name for name in self._additive if getattr(self, name) is not None]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in kept})

    def __getitem__(self: AnyTally, rows: Any) -> AnyTally:
        index = np.atleast_1d(np.arange(len(self))[rows])
        picked = {}
        for f in fields(self):
            value = getattr(self, f.name)
            picked[f.name] = value[index] if isinstance(value, np.ndarray) and value.ndim else value
        return replace(self, **picked)

    @classmethod
    def concatenate(cls: type[AnyTally], tallies: Sequence[AnyTally]) -> AnyTally:
        """One tally for the inputs of all."""
        if not tallies:
            raise ValueError("tallies must hold at least one tally, got none. Nothing was sampled.")
        first = tallies[0]
        joined = {}
        for f in fields(first):
            values = [getattr(tally, f.name) for tally in tallies]
            whole = isinstance(values[0], np.ndarray) and values[0].ndim
            joined[f.name] = np.concatenate(values) if whole else values[0]
        return replace(first, **joined)


@dataclass(eq=False)
class VoteTally(Tally):
    """Votes for each class.

    Parameters
    ----------
    counts : array-like of int, shape (n_rows, n_classes) or (n_rows,)
        Votes for each class; or, one-dimensional, for the candidate class alone.
    n : array-like of int, shape (n_rows,) or a number
        Samples drawn. May exceed the sum of the counts: a model may fail to vote.
    candidate : array-like of int, shape (n_rows,), optional
        Column of the class to be certified. It must come from other samples than those counted here.

    Examples
    --------
    >>> from smoothcert.tallies import VoteTally
    >>> VoteTally([[90, 7, 3]], 100, candidate=[0]).hits
    array([90])
    """

    _additive: ClassVar = ("counts", "n")

    counts: IntArray
    n: IntArray
    candidate: IntArray | None = None

    def __post_init__(self) -> None:
        counts = check_counts("counts", self.counts).astype(np.int64)
        if counts.ndim < 2:
            counts = np.atleast_1d(counts)[:, None]
        if counts.ndim != 2:
            raise ValueError(
                f"counts must have shape (n_rows, n_classes), got {counts.shape}. Give one row for each input."
            )
        self.counts = counts
        self.n = _rows_of_counts("n", self.n, len(counts))
        _require(counts.sum(axis=1) <= self.n, "counts must sum to at most n in every row", counts.sum(axis=1), self.n)
        if self.candidate is None and counts.shape[1] == 1:
            self.candidate = np.zeros(len(counts), dtype=np.int64)
        if self.candidate is not None:
            self.candidate = _rows_of_counts("candidate", self.candidate, len(counts))
            if np.any(self.candidate >= counts.shape[1]):
                raise ValueError(
                    f"candidate must be a column of counts, from 0 to {counts.shape[1] - 1}, "
                    f"got {int(self.candidate.max())}."
                )

    @classmethod
    def empty(cls, n_rows: int, n_classes: int, candidate: ArrayLike | None = None) -> VoteTally:
        """A tally with no votes yet."""
        return cls(np.zeros((n_rows, n_classes), np.int64), np.zeros(n_rows, np.int64), candidate)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.n)

    def counts_by_name(self) -> dict[str, NDArray[Any]]:
        return {"hits": self.hits, "n": self.n, "votes": self.counts}

    def _same(self, other: Any) -> dict[str, Any]:
        return {**super()._same(other), "classes": self.counts.shape[1], "candidate": self.candidate}

    @property
    def hits(self) -> IntArray:
        """Votes for the candidate class."""
        return np.take_along_axis(self.counts, self._candidate()[:, None], axis=1)[:, 0]

    @property
    def rivals(self) -> IntArray:
        """Votes for the strongest other class, shape (n_rows,)."""
        others = self.counts.copy()
        np.put_along_axis(others, self._candidate()[:, None], -1, axis=1)
        return np.maximum(others.max(axis=1), 0)

    def _candidate(self) -> IntArray:
        if self.candidate is None:
            raise ValueError(
                "candidate must name the class to certify, got None. Choose it from other samples: "
                "the winner among the very votes that prove it is wrong more often than alpha."
            )
        return self.candidate

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Count votes.

        Parameters
        ----------
        noise : ignored
        votes : array-like of int, shape (n_rows, n)
            Class index of each vote; numbers outside the classes are no vote.
        """
        votes = np.asarray(votes)
        for row, of_row in enumerate(votes):
            chosen = of_row.astype(np.intp, copy=False)
            if chosen.size and (chosen.min() < 0 or chosen.max() >= self.counts.shape[1]):
                chosen = chosen[(chosen >= 0) & (chosen < self.counts.shape[1])]
            self.counts[row] += np.bincount(chosen, minlength=self.counts.shape[1])
            self.n[row] += of_row.shape[0]


@dataclass(eq=False)
class GradientTally(Tally):
    """Hits, and the sums that estimate the gradient of the smoothed probability.

    With noise `Z` and hits `f` the vectors summed are ``X = Z (f - centre)``.

    Parameters
    ----------
    hits : array-like of int, shape (n_rows,) or (n_rows, n_classes)
        Votes for the candidate class, or for every class.
    n : array-like of int, shape (n_rows,) or a number
        Samples drawn.
    grad_sum : array-like, shape (n_rows, n_features) or (n_rows, n_classes, n_features)
        Sum of the vectors.
    grad_sq : array-like, shape (n_rows,) or (n_rows, n_classes)
        Sum of their squared lengths.
    centre : float, default=0.5
        0.5 for the limit ``"centred"``, 0 for the limit ``"paper"``.
    candidate : array-like of int, shape (n_rows,), optional
        With several classes, the column of the class to be certified; otherwise the class index that counts as a hit
        in `update`, 1 (or ``True``) if not given.

    Examples
    --------
    >>> import numpy as np
    >>> from smoothcert.tallies import GradientTally
    >>> noise = np.random.default_rng(0).standard_normal((1, 1000, 2))
    >>> tally = GradientTally.empty(1, n_features=2)
    >>> tally.update(noise, noise[:, :, 0] < 1.0)
    >>> tally.hits, tally.norm_sq.round(2)
    (array([846]), array([0.06]))
    """

    _additive: ClassVar = ("hits", "n", "grad_sum", "grad_sq")

    hits: IntArray
    n: IntArray
    grad_sum: FloatArray
    grad_sq: FloatArray
    centre: float = 0.5
    candidate: IntArray | None = None

    def __post_init__(self) -> None:
        hits = np.atleast_1d(check_counts("hits", self.hits)).astype(np.int64)
        if hits.ndim > 2:
            raise ValueError(f"hits must have shape (n_rows,) or (n_rows, n_classes), got {hits.shape}.")
        self.hits = hits
        self.n = _rows_of_counts("n", self.n, len(hits))
        total = hits.sum(axis=1) if hits.ndim == 2 else hits
        _require(total <= self.n, "hits must be at most n in every row", total, self.n)
        self.grad_sum = as_float_array("grad_sum", self.grad_sum)
        if self.grad_sum.ndim != hits.ndim + 1 or self.grad_sum.shape[:-1] != hits.shape or self.grad_sum.shape[-1] < 1:
            raise ValueError(
                f"grad_sum must have shape {(*hits.shape, 'n_features')} to go with hits, got {self.grad_sum.shape}."
            )
        self.grad_sq = _finite("grad_sq", np.broadcast_to(as_float_array("grad_sq", self.grad_sq), hits.shape).copy())
        _finite("grad_sum", self.grad_sum)
        if self.candidate is not None:
            self.candidate = _rows_of_counts("candidate", self.candidate, len(hits))

    @classmethod
    def empty(
        cls,
        n_rows: int,
        n_features: int,
        *,
        n_classes: int | None = None,
        centre: float = 0.5,
        candidate: ArrayLike | None = None,
    ) -> GradientTally:
        """A tally with no samples yet; with `n_classes`, one gradient for every class."""
        shape = (n_rows,) if n_classes is None else (n_rows, n_classes)
        zeros = np.zeros(shape, np.int64), np.zeros(n_rows, np.int64), np.zeros((*shape, n_features)), np.zeros(shape)
        return cls(*zeros, centre, candidate)  # type: ignore[arg-type]

    @classmethod
    def from_norm_sq(
        cls, hits: ArrayLike, n: ArrayLike, norm_sq: ArrayLike, n_features: int, *, centre: float = 0.5
    ) -> GradientTally:
        """A tally with a given unbiased estimate of the squared gradient norm, as published logs print it."""
        hits = np.atleast_1d(check_counts("hits", hits))
        n = np.broadcast_to(check_counts("n", n, least=2), hits.shape)
        norm_sq = np.broadcast_to(as_float_array("norm_sq", norm_sq), hits.shape)
        pairs = n * (n - 1.0)
        grad_sum = np.zeros((*hits.shape, n_features))
        grad_sum[:, 0] = np.sqrt(np.maximum(norm_sq, 0.0) * pairs)
        return cls(hits, n, grad_sum, np.maximum(-norm_sq, 0.0) * pairs, centre)

    def __len__(self) -> int:
        return len(self.n)

    def counts_by_name(self) -> dict[str, NDArray[Any]]:
        if self.hits.ndim == 1:
            return {"hits": self.hits, "n": self.n, "norm_sq": self.norm_sq}
        own = (np.arange(len(self)), self._candidate())
        return {"hits": self.hits[own], "n": self.n, "votes": self.hits, "norm_sq": self.norm_sq[own]}

    def _candidate(self) -> IntArray:
        if self.candidate is None:
            raise ValueError("candidate must name the class to certify, got None. Give one column for each row.")
        return self.candidate

    def _same(self, other: Any) -> dict[str, Any]:
        shape = self.grad_sum.shape
        classes = shape[1] if self.hits.ndim == 2 else 1
        same = {"features": shape[-1], "classes": classes, "centre": self.centre, "candidate": self.candidate}
        return {**super()._same(other), **same}

    @property
    def n_features(self) -> int:
        """Dimension of the noise."""
        return self.grad_sum.shape[-1]

    @property
    def norm_sq(self) -> FloatArray:
        """Unbiased estimate of the squared gradient norm, over all pairs of samples; inf with fewer than two."""
        n = self.n if self.hits.ndim == 1 else self.n[:, None]
        return _norm_sq(self.grad_sum, self.grad_sq, n)

    @property
    def uses_noise(self) -> bool:
        return True

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add votes and the noise they were cast on.

        Parameters
        ----------
        noise : array-like, shape (n_rows, n, n_features)
        votes : array-like of int or bool, shape (n_rows, n)
            Class index of each vote.
        """
        votes = np.asarray(votes)
        for row, (z, of_row) in enumerate(zip(noise, votes, strict=True)):
            if self.hits.ndim == 2:
                hit = of_row[None, :] == np.arange(self.hits.shape[1])[:, None]
            else:
                hit = of_row == (1 if self.candidate is None else self.candidate[row])
            self.hits[row] += np.count_nonzero(hit, axis=-1)
            self.n[row] += of_row.shape[0]
            total, square = _gradient_sums(z, hit - self.centre)
            self.grad_sum[row] += total
            self.grad_sq[row] += square


@dataclass(eq=False)
class PairTally(Tally):
    """How antithetic pairs ``x + noise``, ``x - noise`` vote, and optionally the sums that estimate the gradient.

    Parameters
    ----------
    both : array-like of int, shape (n_rows,)
        Pairs with both votes for the candidate class.
    one : array-like of int, shape (n_rows,)
        Pairs with exactly one, on either side.
    pairs : array-like of int, shape (n_rows,) or a number
        All pairs.
    one_plus : array-like of int, shape (n_rows,), optional
        Pairs where only the ``+`` side votes for the class: what published logs count.
    grad_sum, grad_sq : array-like, shapes (n_rows, n_features) and (n_rows,), optional
        Sum of the vectors ``X = Z (f(x+Z) - f(x-Z)) / 2``, one for each pair, and of their squared lengths.
    candidate : array-like of int, shape (n_rows,), optional
        Class index that counts as a hit in `update`; 1 (or ``True``) if not given.

    Examples
    --------
    >>> from smoothcert.tallies import PairTally
    >>> tally = PairTally(both=44_963, one=5_030, pairs=50_000)
    >>> tally.merge(tally).both
    array([89926])
    """

    _additive: ClassVar = ("both", "one", "pairs", "one_plus", "grad_sum", "grad_sq")

    both: IntArray
    one: IntArray
    pairs: IntArray
    one_plus: IntArray | None = None
    grad_sum: FloatArray | None = None
    grad_sq: FloatArray | None = None
    candidate: IntArray | None = None

    def __post_init__(self) -> None:
        self.both = np.atleast_1d(check_counts("both", self.both)).astype(np.int64)
        if self.both.ndim != 1:
            raise ValueError(f"both must have shape (n_rows,), got {self.both.shape}. Give one count for each input.")
        rows = len(self.both)
        self.one = _rows_of_counts("one", self.one, rows)
        self.pairs = _rows_of_counts("pairs", self.pairs, rows)
        _require(
            self.both + self.one <= self.pairs, "both + one must be at most pairs", self.both + self.one, self.pairs
        )
        if self.one_plus is not None:
            self.one_plus = _rows_of_counts("one_plus", self.one_plus, rows)
            _require(self.one_plus <= self.one, "one_plus must be at most one", self.one_plus, self.one)
        if (self.grad_sum is None) != (self.grad_sq is None):
            raise ValueError("grad_sum and grad_sq must be given together, got one of them. Give both or neither.")
        if self.grad_sum is not None:
            self.grad_sum = _finite("grad_sum", as_float_array("grad_sum", self.grad_sum))
            if self.grad_sum.ndim != 2 or len(self.grad_sum) != rows:
                raise ValueError(f"grad_sum must have shape ({rows}, n_features), got {self.grad_sum.shape}.")
            self.grad_sq = _finite(
                "grad_sq", np.broadcast_to(as_float_array("grad_sq", np.asarray(self.grad_sq)), (rows,)).copy()
            )
        if self.candidate is not None:
            self.candidate = _rows_of_counts("candidate", self.candidate, rows)

    @classmethod
    def empty(cls, n_rows: int, n_features: int | None = None, candidate: ArrayLike | None = None) -> PairTally:
        """A tally with no pairs yet; with `n_features`, gradient sums are kept too."""
        both, one, pairs, one_plus = np.zeros((4, n_rows), np.int64)
        sums = (None, None) if n_features is None else (np.zeros((n_rows, n_features)), np.zeros(n_rows))
        return cls(both, one, pairs, one_plus, sums[0], sums[1], candidate)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.pairs)

    def counts_by_name(self) -> dict[str, NDArray[Any]]:
        counts = {"both": self.both, "one": self.one, "pairs": self.pairs}
        if self.one_plus is not None:
            counts["one_plus"] = self.one_plus
        return counts if self.grad_sum is None else {**counts, "norm_sq": self.norm_sq}

    def _same(self, other: Any) -> dict[str, Any]:
        features = None if self.grad_sum is None else self.grad_sum.shape[1]
        same = {"features": features, "orientation counts": self.one_plus is not None, "candidate": self.candidate}
        return {**super()._same(other), **same}

    @property
    def norm_sq(self) -> FloatArray:
        """Unbiased estimate of the squared gradient norm; inf with fewer than two pairs."""
        if self.grad_sum is None or self.grad_sq is None:
            raise ValueError(
                "The tally must hold gradient sums, got none. Give grad_sum and grad_sq, "
                "or make it with PairTally.empty(n_rows, n_features)."
            )
        return _norm_sq(self.grad_sum, self.grad_sq, self.pairs)

    @property
    def uses_noise(self) -> bool:
        return self.grad_sum is not None

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add pairs of votes and the noise they were cast on.

        Parameters
        ----------
        noise : array-like, shape (n_rows, n, n_features)
        votes : array-like of int or bool, shape (n_rows, 2, n)
            Class index of the votes on ``x + noise`` and on ``x - noise``.
        """
        votes = np.asarray(votes)
        for row, of_row in enumerate(votes):
            plus, minus = of_row == (1 if self.candidate is None else self.candidate[row])
            both = int(np.count_nonzero(plus & minus))
            plus_hits = int(np.count_nonzero(plus))
            self.both[row] += both
            self.one[row] += plus_hits + int(np.count_nonzero(minus)) - 2 * both
            self.pairs[row] += plus.shape[0]
            if self.one_plus is not None:
                self.one_plus[row] += plus_hits - both
            if self.grad_sum is not None and self.grad_sq is not None:
                z = noise[row]
                mixed = np.flatnonzero(plus != minus)
                sign = np.where(plus[mixed], 0.5, -0.5)
                total, square = _gradient_sums(z[mixed], sign)
                self.grad_sum[row] += total
                self.grad_sq[row] += square


def _norm_sq(grad_sum: FloatArray, grad_sq: FloatArray, n: IntArray) -> FloatArray:
    count = n.astype(np.float64)
    pairs = np.maximum(count * (count - 1.0), 1.0)
    return np.where(count >= 2, (np.sum(np.square(grad_sum), axis=-1) - grad_sq) / pairs, np.inf)


def _gradient_sums(noise: Any, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum of ``weight * noise`` and of its squared length over samples.

    In float64: the order of a sum depends on how many threads share it, and in float32 that would show. Tensors stay on
    their device; what comes back is one vector and one number.
    """
    if isinstance(noise, np.ndarray):
        wide = noise.astype(np.float64, copy=False)
        total, square = weight @ wide, _weighted_square(weight, wide)
    else:
        wide = noise.double()
        on_device = wide.new_tensor(weight)
        total = (on_device @ wide).cpu().numpy()
        found = _weighted_square(weight, wide)
        square = found.cpu().numpy()
    return np.rint(total * _SUM_STEPS) / _SUM_STEPS, np.rint(square * _SQUARE_STEPS) / _SQUARE_STEPS


def _weighted_square(weight: FloatArray, noise: Any) -> Any:
    """Sum of squared weights times squared lengths, for numpy arrays and tensors; shape of the leading axes of
    `weight`."""
    size = np.abs(weight).max(initial=0.0)
    if np.all(np.abs(weight) == size):  # then one dot product does
        flat = noise.reshape(-1)
        return size**2 * (flat @ flat)
    lengths = (noise * noise).sum(1)
    squares = np.square(weight) if isinstance(noise, np.ndarray) else noise.new_tensor(np.square(weight))
    return squares @ lengths


def _rows_of_counts(name: str, value: Any, rows: int) -> IntArray:
    counts = check_counts(name, value).astype(np.int64)
    if counts.ndim > 1 or (counts.ndim == 1 and len(counts) != rows):
        raise ValueError(
            f"{name} must be a number or have shape ({rows},), one for each input, got shape {counts.shape}."
        )
    return np.array(np.broadcast_to(counts, (rows,)))


def _require(holds: NDArray[np.bool_], rule: str, left: IntArray, right: IntArray) -> None:
    if not np.all(holds):
        at = int(np.argmin(holds))
        raise ValueError(
            f"{rule}, got {int(left[at])} and {int(right[at])} in row {at}. Check that they count the same samples."
        )


def _finite(name: str, value: FloatArray) -> FloatArray:
    if not np.all(np.isfinite(value)):
        raise ValueError(f"{name} must be finite, got {value[~np.isfinite(value)][0]}. A sum of noise never overflows.")
    return value
