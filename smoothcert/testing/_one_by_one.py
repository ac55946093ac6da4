"""Votes cast together and one by one."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from .._models import Voter
from .._noise import seed_for_purpose, seed_from
from .._smoothed import SmoothedClassifier
from .._validation import IndexArray


class VoteComparison(NamedTuple):
    """How many votes were cast both ways, and how many of them differ."""

    n_votes: int
    n_different: int


def compare_votes(
    classifier: SmoothedClassifier, X: Any, *, n_rows: int = 10, n_votes: int = 100, random_state: Any = None
) -> VoteComparison:
    """Cast votes on noisy copies of some rows as `predict` does, many in one call, and again with one row a call.

    Certificates assume that the vote of the base on a row depends on nothing but the row. Libraries for linear algebra
    may sum in another order in larger batches, and where two classes are nearly level the last bit decides.

    Parameters
    ----------
    classifier : SmoothedClassifier
        Fitted.
    X : array-like
        Rows, of which some are chosen at random.
    n_rows : int, default=10
        How many, at most.
    n_votes : int, default=100
        Votes on each of them.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the choice and of the noise, which is independent of that of `predict` and `certify`.

    Returns
    -------
    VoteComparison

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smoothcert import SmoothedClassifier
    >>> from smoothcert.testing import compare_votes
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SmoothedClassifier(LogisticRegression(max_iter=1000), sigma=0.5, random_state=0).fit(X, y)
    >>> compare_votes(clf, X, random_state=0)
    VoteComparison(n_votes=1000, n_different=0)
    """
    entropy = seed_from(random_state)
    chosen = np.random.default_rng(entropy).permutation(np.shape(X)[0])[:n_rows]
    rows = X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]
    trial = copy(classifier)
    trial.random_state, trial.n_votes = seed_for_purpose(entropy, "one by one"), n_votes
    voters: list[_VotesTwice] = []

    def wrap(voter: Voter) -> Voter:
        voters.append(_VotesTwice(voter))
        return voters[0]  # type: ignore[return-value]

    trial._votes(rows, wrap)
    return VoteComparison(voters[0].n_votes, voters[0].n_different)


class _VotesTwice:
    """Casts every vote twice, together with others and alone."""

    def __init__(self, voter: Voter) -> None:
        self._voter = voter
        self.arrays = voter.arrays
        self.n_votes = self.n_different = 0

    def evaluation_mode(self) -> Any:
        return self._voter.evaluation_mode()

    def vote(self, rows: Any) -> IndexArray:
        together = self._voter.vote(rows)
        alone = np.concatenate([self._voter.vote(rows[i : i + 1]) for i in range(len(rows))])
        self.n_votes += len(together)
        self.n_different += int(np.count_nonzero(together != alone))
        return together
