"""Radii are rounded towards zero wherever they are computed, printed, stored or converted; limits to the safe side."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler

from smoothcert import (
    Certificates,
    FirstOrderCertifier,
    RadiusSpaceWarning,
    SecondOrderCertifier,
    SmoothedClassifier,
    certify,
)
from smoothcert._certificates import build_certificates, effective_sigma, round_digits
from smoothcert._engine import Evidence, Part
from smoothcert._engine._stages import Selected
from smoothcert._lipschitz import lipschitz_bound
from smoothcert.tallies import VoteTally

X, Y = load_iris(return_X_y=True)
positive = st.floats(min_value=0.0, allow_infinity=False, allow_nan=False)


def certificates_of(certifier, tally, sigma):
    evidence = Evidence.collect(Selected({0: 0}, None, {}), {0: 0}, {0: "complete"}, [Part([0], certifier, tally)])
    return build_certificates(evidence, np.array([0, 1]), sigma=sigma, provenance={})


@given(positive, st.integers(1, 8))
@example(0.99996, 3)
@example(9.9999999, 4)
@example(5e-324, 3)
@example(1.7976931348623157e308, 3)
@example(0.3, 3)
@example(1e22, 3)
def test_digits(value, digits):
    down, up = float(round_digits(value, digits)), float(round_digits(value, digits, up=True))
    assert down <= value <= up
    if value > 1e-300:
        assert down >= value * (1 - 2 * 10.0 ** (1 - digits))
        assert up <= value * (1 + 2 * 10.0 ** (1 - digits)) or up == np.inf


@given(st.lists(st.floats(1e-3, 20), min_size=1, max_size=8))
def test_everything_printed_promises_no_more(radii):
    radii = np.array(radii)
    limits = {"p": np.linspace(0.51234567, 0.98765432, len(radii)), "grad_norm": np.linspace(0.1, 0.3, len(radii)) / 3}
    counts = {"hits": np.arange(len(radii)), "norm_sq": np.full(len(radii), 0.01)}
    certificates = Certificates(
        np.zeros(len(radii), int),
        radii,
        np.zeros(len(radii), bool),
        limits,
        counts,
        {"sigma": 0.7},
        upper_limits=frozenset({"grad_norm"}),
    )
    shown = re.findall(r"^  \d+: 0  radius (\S+)$", repr(certificates), re.M)
    assert len(shown) == min(len(radii), 5)
    assert all(float(text) <= radius for text, radius in zip(shown, radii, strict=False))
    cells = [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", certificates._repr_html_())[1:]]
    for i, (_, _, radius, _, p, grad_norm) in enumerate(cells):
        assert float(radius) <= radii[i]
        assert float(p) <= limits["p"][i]
        assert float(grad_norm) >= limits["grad_norm"][i]
    head, *lines = certificates.to_tsv().splitlines()
    columns = head.split("\t")
    for i, line in enumerate(lines):
        row = dict(zip(columns, line.split("\t"), strict=True))
        assert float(row["radius"]) <= radii[i]
        assert float(row["p_A_bar"]) <= limits["p"][i]
        assert Fraction(row["grad_norm_bound"]) * Fraction(0.7) >= Fraction(float(limits["grad_norm"][i]))
    np.testing.assert_array_equal(certificates.to_frame()["radius"], radii)


def test_stored_radii_are_the_same_bits(tmp_path):
    radii = np.random.default_rng(0).random(100)
    Certificates(np.zeros(100, int), radii, np.zeros(100, bool)).save(tmp_path / "run.npz")
    assert Certificates.load(tmp_path / "run.npz").radius.tobytes() == radii.tobytes()


@given(st.integers(500, 1000), st.floats(1e-6, 1e6), st.sampled_from([np.float32, np.float64]))
def test_units_of_the_input(hits, sigma, dtype):
    """Never beyond the radius in units of sigma times the noise that was really added."""
    certifier, tally = FirstOrderCertifier(), VoteTally([[hits, 1000 - hits]], 1000, [0])
    exact = Fraction(float(certifier.certify_tally(tally).radius[0]))
    unit = effective_sigma(sigma, dtype)
    found = certificates_of(certifier, tally, unit).radius[0]
    assert Fraction(float(found)) <= exact * Fraction(sigma)
    assert Fraction(float(found)) <= exact * Fraction(float(dtype(sigma)))
    assert float(found) >= float(exact) * sigma * (1 - 1e-6)


def test_single_precision_never_promises_more():
    """0.7 is a little less in single precision, so the noise is a little smaller."""
    assert float(np.float32(0.7)) < 0.7
    clf = SmoothedClassifier(GaussianNB(), sigma=0.7, certifier=FirstOrderCertifier(1000), random_state=0).fit(X, Y)
    certificates = clf.certify(X[:1].astype(np.float32))
    bound = FirstOrderCertifier(1000).certify_tally(VoteTally(certificates.counts["votes"], 1000, [0])).radius[0]
    assert 0 < certificates.radius[0] < float(np.float32(0.7)) * bound
    with pytest.raises(ValueError, match="sigma must be a finite number in the precision of the data, float32"):
        clf.set_params(sigma=1e300).certify(X[:1].astype(np.float32))


def test_what_rounds_to_nothing_is_an_abstention():
    tally = VoteTally([[1000, 0]], 1000, [0])
    certificates = certificates_of(FirstOrderCertifier(), tally, 5e-324)
    assert certificates.radius[0] < 3e-323
    assert certificates.abstained[0] == (certificates.radius[0] == 0)
    nothing = certificates_of(FirstOrderCertifier(), tally, 0.0)
    assert nothing.radius[0] == 0
    assert nothing.abstained[0]


def smoothed():
    return SmoothedClassifier(GaussianNB(), sigma=0.3, certifier=SecondOrderCertifier(500), random_state=0, n_augment=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("repeats", [1, 3])
def test_conversion_through_scalers(repeats, dtype):
    data = (X * [0.37, 1.3, 0.11, 3.3]).astype(dtype)
    steps = [StandardScaler(), MaxAbsScaler(), StandardScaler()][:repeats]
    pipeline = make_pipeline(*steps, smoothed()).fit(data, Y)
    of_features = [Fraction(1)] * 4
    for _, step in pipeline.steps[:-1]:
        of_features = [f / Fraction(float(scale)) for f, scale in zip(of_features, step.scale_, strict=True)]
    stretch = max(of_features)
    outer = certify(pipeline, data[::30]).radius
    inner = pipeline[-1].certify(pipeline[:-1].transform(data[::30])).radius
    assert (inner > 0).any()
    assert all(Fraction(float(a)) * stretch <= Fraction(float(b)) for a, b in zip(outer, inner, strict=True))
    # Of the radius what the steps may round is subtracted: some roundings of numbers of size ten or so.
    np.testing.assert_allclose(outer * float(stretch), inner, rtol=1e-12 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("whiten", [False, True])
def test_principal_components_stretch_no_more_than_said(whiten, dtype):
    mpmath = pytest.importorskip("mpmath")
    pca = PCA(3, whiten=whiten).fit(X.astype(dtype))
    with mpmath.workdps(50):
        rows = mpmath.matrix([[mpmath.mpf(float(v)) for v in row] for row in pca.components_])
        if whiten:
            for i in range(3):
                for j in range(4):
                    rows[i, j] /= mpmath.sqrt(mpmath.mpf(float(pca.explained_variance_[i])))
        exact = max(mpmath.svd_r(rows, compute_uv=False))
        assert mpmath.mpf(lipschitz_bound([pca])) >= exact
        # The scale of whitening is computed in the type of the variances.
        rounded = 1e-6 if whiten and dtype == np.float32 else 1e-12
        assert mpmath.mpf(lipschitz_bound([pca])) <= exact * (1 + mpmath.mpf(rounded))


def test_steps_that_do_nothing_change_nothing():
    pipeline = make_pipeline("passthrough", VarianceThreshold(), smoothed()).fit(X, Y)
    np.testing.assert_array_equal(certify(pipeline, X[::30]).radius, pipeline[-1].certify(X[::30]).radius)
    centred = make_pipeline(StandardScaler(with_std=False), smoothed()).fit(X, Y)
    inner = centred[-1].certify(X[::30] - X.mean(axis=0)).radius
    outer = certify(centred, X[::30]).radius
    assert np.all(outer <= inner)
    np.testing.assert_allclose(outer, inner, rtol=1e-12)  # but for the rounding of the difference
    unknown = make_pipeline(FunctionTransformer(), smoothed()).fit(X, Y)
    with pytest.warns(RadiusSpaceWarning, match="distances in the output of functiontransformer, not in X"):
        assert certify(unknown, X[:1]).space == "the output of functiontransformer"
    assert certify(unknown, X[:1], space="smoothed").space == "the output of functiontransformer"
