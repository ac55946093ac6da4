"""The contract of a certifier, as checks that anybody can run on their own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtri
from sklearn.base import clone

from .. import bounds, worst_case
from ..certifiers import BaseCertifier
from ..tallies import Tally
from ._simulation import sample_tally

FALSE_ALARM = 1e-4
"""Probability that a certifier whose error rate is exactly `alpha` fails one coverage check. There is one for each
situation and dimension, so that a correct certifier seldom fails any; a smaller number would let larger errors pass."""


@dataclass(frozen=True)
class Situation:
    """A classifier whose smoothed boundary is known.

    Attributes
    ----------
    name : str
    classify : callable
        Maps noise to class indices; the candidate is class 0.
    half, rivals : float
        Distance in units of sigma at which class 0 no longer has more than half of the votes, and at which another
        class catches up with it.
    """

    name: str
    classify: Callable[[Any], Any]
    half: float
    rivals: float

    def truth(self, against: str) -> float:
        """Return the true radius of what a certifier speaks about."""
        return self.half if against == "half" else self.rivals


def check_certifier(
    certifier: BaseCertifier,
    *,
    alpha: float = 0.05,
    n_features: Sequence[int] = (2, 20),
    n_runs: int = 1000,
    n_pilots: int = 25,
    seed: int = 0,
) -> dict[str, float]:
    """Check that a certifier keeps the contract, and that its radii exceed the truth no more often than promised.

    Parameters
    ----------
    certifier : BaseCertifier
        With few samples, some hundreds, limits are wide and errors show. What the checks need to know is declared by
        the certifier: `against` ("half" or "rivals"), `pairing`, `tally_type`, `upper_limits`.
    alpha : float, default=0.05
        Error probability at which coverage is checked.
    n_features : sequence of int, default=(2, 20)
        Dimensions of the noise.
    n_runs : int, default=1000
        Independent certifications of each classifier.
    n_pilots : int, default=25
        Different pilots among them.
    seed : int, default=0

    Returns
    -------
    dict of str to float
        Share of radii above the truth on each classifier.

    Raises
    ------
    AssertionError
        If a check fails; the message says which. Were the error rate exactly `alpha`, one coverage check would fail by
        chance with probability 1e-4.

    Examples
    --------
    >>> from smoothcert import FirstOrderCertifier
    >>> from smoothcert.testing import check_certifier
    >>> errors = check_certifier(FirstOrderCertifier(n_samples=200), n_runs=500)
    >>> max(errors.values()) < 0.1
    True
    """
    _check_declarations(certifier)
    _check_parameters(certifier)
    _check_evidence(certifier, seed)
    errors = {}
    for dimension in n_features:
        for situation in situations():
            tally = sample_tally(
                clone(certifier).set_params(alpha=alpha),
                situation.classify,
                n_classes=3,
                n_rows=n_runs,
                n_features=dimension,
                seed=seed + dimension,
                n_pilots=n_pilots,
            )
            radius = clone(certifier).set_params(alpha=alpha).certify_tally(tally).radius
            wrong = int(np.sum(radius > situation.truth(certifier.against) + 1e-12))
            errors[f"{situation.name}, {dimension} features"] = wrong / n_runs
            assert wrong <= stats.binom.ppf(1 - FALSE_ALARM, n_runs, alpha), (
                f"Radii must exceed the truth in at most alpha={alpha} of all runs, but {wrong} of {n_runs} did on "
                f"{situation.name!r} in {dimension} dimensions."
            )
    return errors


def situations() -> Iterator[Situation]:
    """Yield classifiers with known radii, the worst cases of the bounds among them."""

    def of(intervals: Any) -> Callable[[Any], Any]:
        return lambda z: np.where(intervals.contains(z[..., 0]), 0, 1)

    def slabs(z: Any) -> Any:
        # The worst case for a class with a rival, who meet half-way between the two edges.
        return np.where(z[..., 0] <= 0.3, 0, np.where(z[..., 0] >= 1.1, 1, 2))

    for name, intervals, radius in (
        ("half-space", worst_case.first_order_worst_case(0.75), bounds.first_order_radius(0.75)),
        ("slab", worst_case.second_order_worst_case(0.75, 0.15), bounds.second_order_radius(0.75, 0.15)),
        ("slab and half-space", worst_case.dipole_worst_case(0.6, 0.15), bounds.dipole_radius(0.6, 0.15)),
        (
            "pieces",
            worst_case.second_order_dipole_worst_case(0.65, 0.12, 0.12),
            bounds.second_order_dipole_radius(0.65, 0.12, 0.12),
        ),
        ("nearly even", worst_case.first_order_worst_case(0.5), 0.0),
        ("easy", worst_case.first_order_worst_case(0.999), ndtri(0.999)),
    ):
        yield Situation(name, of(intervals), float(radius), float(radius))
    yield Situation("two rivals", slabs, 0.3, 0.7)


def _check_declarations(certifier: BaseCertifier) -> None:
    assert isinstance(certifier, BaseCertifier), f"A certifier must be a BaseCertifier, got {certifier!r}."
    assert certifier.against in ("half", "rivals"), (
        f"against must be 'half' or 'rivals', got {certifier.against!r}: what does the radius speak about?"
    )
    assert isinstance(certifier.tally_type, type), "tally_type must be the class of tallies it certifies."
    assert issubclass(certifier.tally_type, Tally), f"tally_type must be a Tally, got {certifier.tally_type!r}."
    assert certifier.pairing in (None, "antithetic"), f"pairing must be None or 'antithetic', got {certifier.pairing}."


def _check_parameters(certifier: BaseCertifier) -> None:
    assert clone(certifier).get_params() == certifier.get_params(), "clone must keep all parameters."
    assert repr(pickle.loads(pickle.dumps(certifier))) == repr(certifier), "A certifier must survive pickling."
    for bad in ({"alpha": 0.0}, {"alpha": 1.5}, {"n_samples": 1}, {"n_selection": 0}):
        try:
            clone(certifier).set_params(**bad).check_params()
        except ValueError:
            continue
        raise AssertionError(f"check_params must refuse {bad} with a ValueError; call super().check_params().")


def _three_classes(z: Any) -> Any:
    return np.where(z[..., 0] > 1.2, 1, np.where(z[..., 0] < -1.5, 2, 0))


def _always(vote: int, z: Any) -> Any:
    return np.full(z.shape[:-1], vote)


def _check_evidence(certifier: BaseCertifier, seed: int) -> None:
    """Check that rows are independent, that evidence adds, and that extreme votes give numbers."""
    settings: dict[str, Any] = {"n_classes": 3, "n_features": 3, "seed": seed}
    tally = sample_tally(certifier, _three_classes, n_rows=3, **settings)
    assert isinstance(tally, certifier.tally_type), f"new_tally must make a {certifier.tally_type.__name__}."
    inference = certifier.certify_tally(tally)
    _check_inference(certifier, inference, 3)
    for row in range(3):
        alone = certifier.certify_tally(tally[row]).radius
        np.testing.assert_allclose(alone, inference.radius[row : row + 1], rtol=1e-9, err_msg="Rows are not alone.")
    joined = type(tally).concatenate([tally[2], tally[:2]])
    again = certifier.certify_tally(joined).radius
    np.testing.assert_allclose(again, inference.radius[[2, 0, 1]], rtol=1e-9, err_msg="Rows do not concatenate.")
    double, reverse = tally.merge(tally).merge(tally), tally.merge(tally.merge(tally))
    one, other = (certifier.certify_tally(merged).radius for merged in (double, reverse))
    np.testing.assert_array_equal(one, other, err_msg="Evidence must add to the same bits in any order.")
    for vote in (0, 1, 2):
        constant = sample_tally(certifier, partial(_always, vote), n_rows=2, **settings)
        found = certifier.certify_tally(constant)
        _check_inference(certifier, found, 2)
        if vote != 0:
            assert np.all(found.radius == 0.0), "A class without votes must not be certified."


def _check_inference(certifier: BaseCertifier, inference: Any, n_rows: int) -> None:
    radius = inference.radius
    assert radius.shape == (n_rows,), f"radius must have one entry for each row, got shape {radius.shape}."
    assert radius.dtype == np.float64, f"radius must be in float64, got {radius.dtype}."
    assert np.all(radius >= 0.0), f"radius must be at least 0 and not NaN, got {radius}."
    assert np.all(np.isfinite(radius)), f"radius must be finite with finitely many samples, got {radius}."
    for name, limit in inference.limits.items():
        assert len(limit) == n_rows, f"The limit {name} must have one entry for each row, got {len(limit)}."
        assert not np.isnan(limit).any(), f"The limit {name} must not be NaN."
    np.testing.assert_array_equal(radius, certifier.radius(inference.limits), err_msg="radius must follow from limits.")
