"""The promise itself: radii above the true one are no more frequent than alpha."""

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from hoeffding_certifier import HoeffdingCertifier
from sklearn.base import clone

from smoothcert import FirstOrderCertifier
from smoothcert.testing import check_certifier

RUNS = {
    "DirectionalCertifier": 100,
    "SecondOrderCertifier": 1000,
    "SecondOrderDipoleCertifier": 300,
    "DipoleCertifier": 1000,
}
"""Fewer for those that take long; they have coverage tests of their own."""


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_radii_above_the_truth_are_rare(certifier, n_features):
    n_runs = RUNS.get(type(certifier).__name__, 3000)
    check_certifier(under_test.with_samples(certifier, 200), n_features=[n_features], n_runs=n_runs, n_pilots=10)


@pytest.mark.slow
def test_the_promise_is_used_where_it_is_tight():
    """The coverage test can fail: on its own worst case the first-order certificate errs about as often as allowed."""
    errors = check_certifier(FirstOrderCertifier(n_samples=200, **under_test.AGAINST_HALF), n_features=[2], n_runs=3000)
    assert 0.5 * 0.05 < errors["half-space, 2 features"] <= 0.06


class Careless(FirstOrderCertifier):
    """Takes the observed frequency for the truth."""

    def infer(self, tally):
        return {"p": np.minimum(tally.hits / tally.n, 0.999)}


class Forgetful(FirstOrderCertifier):
    def check_params(self):
        pass


class Undecided(HoeffdingCertifier):
    against = "everybody"


class ByCompany(FirstOrderCertifier):
    def infer(self, tally):
        return {"p": np.full(len(tally), super().infer(tally)["p"].min())}


@pytest.mark.parametrize(
    ("certifier", "message"),
    [
        (Careless, "Radii must exceed the truth in at most alpha"),
        (Forgetful, "check_params must refuse"),
        (Undecided, "against must be"),
        (ByCompany, "Rows are not alone"),
    ],
)
def test_certifiers_that_break_the_contract_are_found(certifier, message):
    with pytest.raises(AssertionError, match=message):
        check_certifier(certifier(n_samples=200), n_runs=200)


def test_check_leaves_the_certifier_as_it_was():
    certifier = FirstOrderCertifier(n_samples=200)
    before = clone(certifier).get_params()
    check_certifier(certifier, n_features=[2], n_runs=50)
    assert certifier.get_params() == before
