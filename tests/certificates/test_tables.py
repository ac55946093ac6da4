"""Tables of certificates: one flat row for each input, in the order and with the index of what was certified."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from helpers.certifiers_under_test import ALL, IDS, with_samples
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smoothcert import Certificates, ColumnSigma, DipoleCertifier, FirstOrderCertifier, SmoothedClassifier, certify
from smoothcert.confidence import binomial_lower

X, Y = load_iris(return_X_y=True, as_frame=True)
X.index = [f"flower {i}" for i in range(len(X))]
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
ROWS = slice(0, None, 15)


def smoothed(certifier=None, **settings):
    certifier = FirstOrderCertifier(1000) if certifier is None else certifier
    settings = {"sigma": 0.5, "random_state": 0, **settings}
    return SmoothedClassifier(GaussianNB(), certifier=certifier, **settings)


def test_one_flat_row_for_each_input():
    certificates = smoothed().fit(X, NAMES).certify(X[ROWS])
    frame = certificates.to_frame(NAMES[ROWS])
    columns = "prediction label correct radius abstained probability_lower runner_up samples_used"
    assert list(frame.columns) == columns.split()
    assert list(frame.index) == list(X.index[ROWS])
    np.testing.assert_array_equal(frame["radius"], certificates.radius)
    np.testing.assert_array_equal(frame["correct"], certificates.prediction == NAMES[ROWS])
    assert (frame["samples_used"] == 1100).all()
    flat = [frame[name].map(lambda cell: np.ndim(cell) == 0).all() for name in frame]
    assert all(flat)
    assert "label" not in certificates.to_frame()
    with pytest.raises(ValueError, match="y must have one label for each of the 10"):
        certificates.to_frame([1, 2])


def test_index_and_labels_come_through_pipelines_slices_and_files(tmp_path):
    pipeline = make_pipeline(StandardScaler(), smoothed()).fit(X, NAMES)
    certificates = certify(pipeline, X[ROWS], NAMES[ROWS])
    certificates.save(tmp_path / "run.npz")
    read = Certificates.load(tmp_path / "run.npz")[::2]
    frame = read.to_frame()
    assert list(frame.index) == list(X.index[ROWS])[::2]
    assert frame["label"].tolist() == NAMES[ROWS][::2].tolist()
    both = Certificates.concatenate([certificates[:3], certificates[3:]]).to_frame()
    pd.testing.assert_frame_equal(both, certificates.to_frame())
    without = Certificates.concatenate([certificates[:3], smoothed_again(certificates)])
    assert list(without.to_frame().index) == list(range(10))


def smoothed_again(certificates):
    """The rest of the certificates, as if they had been of an array."""
    from dataclasses import replace

    return replace(certificates[3:], index=None, label=None)


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([10, 20, 30]),
        pd.date_range("2024-01-01", periods=3),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]),
        pd.Index(["a", None, 3], dtype=object),
    ],
    ids=["numbers", "dates", "pairs", "mixed"],
)
def test_any_index(index, tmp_path):
    certificates = smoothed().fit(X, Y).certify(X[:3].set_axis(index))
    assert certificates.to_frame().index.equals(index)
    certificates.save(tmp_path / "run.npz")
    kept = Certificates.load(tmp_path / "run.npz").to_frame().index
    assert [str(entry) for entry in kept] == [str(entry) for entry in index]


@pytest.mark.parametrize("certifier", ALL, ids=IDS)
def test_probability_is_bounded_by_the_votes_alone(certifier):
    certificates = smoothed(with_samples(certifier, 1000)).fit(X, Y).certify(X[ROWS])
    bound = certificates.to_frame()["probability_lower"].to_numpy()
    counts = certificates.counts
    if "both" in counts:
        expected = binomial_lower(counts["both"] + counts["one_plus"], counts["pairs"], certifier.alpha)
    else:
        expected = binomial_lower(counts["hits"], counts["n"], certifier.alpha)
    at_random = ~counts.get("designed", np.zeros(len(bound), dtype=bool))
    assert at_random.any()
    np.testing.assert_array_equal(bound[at_random], expected[at_random])
    assert np.all(bound[~at_random] < counts["share"][~at_random] if "share" in counts else True)


def test_probability_where_sampling_ends_early_is_at_the_level_of_its_look():
    certificates = smoothed().fit(X, Y).certify(X, Y, radius=0.4)
    frame = certificates.to_frame()
    assert frame.loc[frame["stopped"] == "wrong candidate", "probability_lower"].isna().all()
    levels = certificates.evidence.levels
    counted = certificates.counts["n"] > 0
    assert counted.any()
    assert (levels[counted] < 0.001).all()
    assert np.isnan(levels[~counted]).all()
    hits, n = (certificates.counts[name][counted] for name in ("hits", "n"))
    least = np.array([binomial_lower(h, k, a) for h, k, a in zip(hits, n, levels[counted], strict=True)])
    np.testing.assert_array_equal(frame["probability_lower"][counted], least.ravel())


def test_runner_up_is_the_second_in_the_votes():
    certificates = smoothed().fit(X, NAMES).certify(X)
    votes = certificates.counts["votes"]
    others = np.where(certificates.classes == certificates.prediction[:, None], 0, votes)
    second, known = others.argmax(axis=1), others.max(axis=1) > 0
    assert known.any()
    frame = certificates.to_frame()
    assert frame["runner_up"][known].tolist() == certificates.classes[second[known]].tolist()
    # Pairs are counted for the class alone; the votes that chose it name the runner-up.
    pairs = smoothed(DipoleCertifier(1000)).fit(X, Y).certify(X)
    assert pairs.to_frame()["runner_up"].dtype == "Int64"
    named = known & (pairs.runner_up >= 0)
    agree = pairs.runner_up[named] == second[named]
    assert agree.mean() > 0.8


def test_evidence_on_request():
    certificates = smoothed().fit(X, Y).certify(X[ROWS])
    frame = certificates.to_frame(evidence=True)
    assert {"p", "p_rival", "hits", "n", "votes"} <= set(frame.columns)
    np.testing.assert_array_equal(np.stack(frame["votes"]), certificates.counts["votes"])


def test_norms_are_rounded_down():
    radius = np.concatenate([np.random.default_rng(0).uniform(0, 5, 200), [0.0, np.inf, 1e-300]])
    for n_features in (1, 2, 3, 4, 784, 3072):
        made = Certificates(np.zeros(203), radius, radius == 0.0, n_features=n_features)
        np.testing.assert_array_equal(made.radius_in("l1"), radius)
        np.testing.assert_array_equal(made.radius_in("l2"), radius)
        largest = made.radius_in("linf")
        assert largest[-3] == 0.0
        assert largest[-2] == (np.inf if n_features == 1 else np.finfo(float).max)
        for whole, each in zip(radius[:200], largest[:200], strict=True):
            assert Fraction(each) ** 2 * n_features <= Fraction(whole) ** 2
            assert each >= whole / np.sqrt(n_features) * (1 - 1e-15)


def test_norms_of_certificates_know_the_features():
    assert smoothed().fit(X, Y).certify(X[:2]).n_features == 4
    certificates = certify(make_pipeline(StandardScaler(), smoothed()).fit(X, Y), X[:2])
    assert certificates.n_features == 4
    np.testing.assert_allclose(certificates.radius_in("linf"), certificates.radius / 2)
    # Columns without noise must stay as they are, so they do not count.
    some = smoothed(sigma=ColumnSigma(0.5, fixed=["sepal width (cm)"])).fit(X, Y).certify(X[:2])
    np.testing.assert_allclose(some.radius_in("linf"), some.radius / np.sqrt(3))
    with pytest.raises(ValueError, match=r"n_features must be known for norm='linf'"):
        Certificates([0], [0.1], [False]).radius_in("linf")
    with pytest.raises(ValueError, match="norm must be"):
        some.radius_in("l0")


def test_largest_change_within_the_radius_is_certified():
    """All features moved by less than the radius in the largest change: within the Euclidean ball."""
    certificates = smoothed().fit(X, Y).certify(X[ROWS])
    each = certificates.radius_in("linf")
    for radius, length in zip(certificates.radius, each, strict=True):
        assert np.linalg.norm(np.full(4, length)) <= radius
