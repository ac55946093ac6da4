"""What every certifier promises, whichever it is."""

import pickle

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from sklearn.base import clone

from smoothcert.certifiers import BaseCertifier, Inference
from smoothcert.tallies import Tally

every_certifier = pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)


def halves(z):
    """Three classes: a slab and what is on either side of it."""
    return np.where(z[..., 0] > 1.2, 1, np.where(z[..., 0] < -1.5, 2, 0))


def test_there_are_certifiers_to_test():
    assert len(under_test.exported_certifiers()) >= 4


@every_certifier
def test_behaves_as_an_estimator(certifier):
    again = clone(certifier)
    assert again.get_params() == certifier.get_params()
    assert repr(pickle.loads(pickle.dumps(certifier))) == repr(certifier)
    assert certifier.set_params(alpha=0.01).alpha == 0.01
    certifier.set_params(alpha=0.001)
    assert (certifier.n_samples, certifier.n_selection, certifier.alpha) == (100_000, 100, 0.001)
    assert type(certifier).__doc__.count("alpha") >= 2  # how it is spent is written down


@every_certifier
def test_certifies_evidence(certifier):
    tally = under_test.sample_tally(certifier, halves, 3, n_samples=2000, n_rows=3, n_features=2, seed=0)
    assert isinstance(tally, Tally)
    assert isinstance(tally, certifier.tally_type)
    inference = certifier.certify_tally(tally)
    assert isinstance(inference, Inference)
    assert inference.radius.shape == (3,)
    assert inference.radius.dtype == np.float64
    assert np.all((inference.radius > 0.5) & (inference.radius < 1.35))
    assert all(len(limit) == 3 for limit in inference.limits.values())
    np.testing.assert_array_equal(inference.radius, certifier.radius(inference.limits))
    with pytest.raises(TypeError):
        inference.limits["p"] = 0.0
    # Rows are independent of each other.
    for row in range(3):
        alone = certifier.certify_tally(tally[row]).radius
        np.testing.assert_allclose(alone, inference.radius[row : row + 1], rtol=1e-9)


@every_certifier
def test_more_evidence_certifies_more_and_less_risk_certifies_less(certifier):
    few, many = (
        certifier.certify_tally(
            under_test.sample_tally(certifier, halves, 3, n_samples=n, n_rows=20, n_features=2, seed=1, n_pilots=4)
        ).radius
        for n in (400, 20_000)
    )
    assert few.mean() < many.mean()
    tally = under_test.sample_tally(certifier, halves, 3, n_samples=1000, n_rows=1, n_features=2, seed=2)
    radii = [clone(certifier).set_params(alpha=alpha).certify_tally(tally).radius[0] for alpha in (0.2, 0.01, 1e-6)]
    assert radii[0] > radii[1] > radii[2]


@every_certifier
def test_a_minority_is_not_certified_without_rivals(certifier):
    tally = under_test.extreme_tally(certifier, 400, 1000, 2)
    radius = certifier.certify_tally(tally).radius
    assert radius == 0.0


@every_certifier
@pytest.mark.parametrize(("n", "n_features"), [(2, 1), (2, 3072), (4, 1), (100, 1), (100, 3072), (10**7, 3072)])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_no_counts_raise_warn_or_give_nan(certifier, n, share, n_features):
    hits = round(share * n)
    tally = under_test.extreme_tally(certifier, hits, n, n_features)
    inference = certifier.certify_tally(tally)
    assert np.all(np.isfinite(inference.radius))
    assert np.all(inference.radius >= 0)
    assert not any(np.isnan(limit).any() for limit in inference.limits.values())


@every_certifier
def test_no_counts_raise_in_high_dimension(certifier):
    tally = under_test.extreme_tally(certifier, 99_000, 100_000, 150_528)
    assert 0 <= certifier.certify_tally(tally).radius[0] < 3


@every_certifier
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.0}, r"alpha must lie in \(0, 1\), got 0"),
        ({"alpha": 1.5}, r"alpha must lie in \(0, 1\), got 1.5"),
        ({"alpha": np.nan}, "alpha"),
        ({"alpha": "small"}, "alpha must be a number"),
        ({"n_samples": 1}, "n_samples must be an integer of at least 2, got 1"),
        ({"n_samples": 1e5}, "n_samples must be an integer"),
        ({"n_selection": 0}, "n_selection must be an integer of at least 1, got 0"),
    ],
)
def test_bad_parameters_are_refused_at_use(certifier, parameters, message):
    tally = under_test.extreme_tally(certifier, 90, 100, 2)
    broken = clone(certifier).set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        broken.certify_tally(tally)


@every_certifier
def test_odd_samples_are_refused_for_pairs(certifier):
    odd = clone(certifier).set_params(n_samples=10_001)
    if certifier.pairing == "antithetic":
        with pytest.raises(ValueError, match=r"n_samples must be even .* got 10001. Use 10002"):
            odd.check_params()
    else:
        odd.check_params()


@every_certifier
def test_modes_are_checked_at_use(certifier):
    tally = under_test.extreme_tally(certifier, 90, 100, 2)
    for mode in set(under_test.MODES) & set(certifier.get_params()):
        with pytest.raises(ValueError, match=f"{mode} must be one of .* got 'nonsense'"):
            clone(certifier).set_params(**{mode: "nonsense"}).certify_tally(tally)


@every_certifier
def test_the_wrong_kind_of_evidence_is_refused(certifier):
    for other in under_test.ALL:
        if other.tally_type is not certifier.tally_type:
            with pytest.raises(TypeError, match=f"tally must be a {certifier.tally_type.__name__}"):
                certifier.certify_tally(under_test.extreme_tally(other, 90, 100, 2))
    with pytest.raises(TypeError, match="got ndarray"):
        certifier.certify_tally(np.array([90, 10]))


def test_base_class_is_abstract():
    with pytest.raises(TypeError):
        BaseCertifier()
