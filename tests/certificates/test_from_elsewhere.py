"""Certificates from counts of others: tallies and published tables."""

import numpy as np
import pytest
from helpers import published_logs
from helpers.certifiers_under_test import ALL, IDS, extreme_tally

from smoothcert import Certificates, DipoleCertifier, DirectionalCertifier, FirstOrderCertifier, SecondOrderCertifier
from smoothcert.tallies import PairTally, VoteTally


@pytest.mark.parametrize("certifier", ALL, ids=IDS)
def test_tally_of_every_certifier(certifier, tmp_path):
    tally = extreme_tally(certifier, 9000, 10_000, 5)
    if tally is None:
        pytest.skip("no tally is known for it")
    certificates = Certificates.from_tally(tally, certifier, sigma=0.5, prediction=["a"])
    expected = certifier.certify_tally(tally).radius * 0.5
    np.testing.assert_allclose(certificates.radius, expected, rtol=1e-14)
    assert (certificates.radius <= expected).all()
    certificates.save(tmp_path / "run.npz")
    assert Certificates.load(tmp_path / "run.npz").verify()


def test_labels_come_from_candidates():
    tally = VoteTally([[900, 90, 10], [60, 900, 40]], 1000, candidate=[0, 1])
    certifier = FirstOrderCertifier(1000)
    assert Certificates.from_tally(tally, certifier, sigma=1.0).prediction.tolist() == [0, 1]
    named = Certificates.from_tally(tally, certifier, sigma=1.0, classes=["x", "y", "z"])
    assert named.prediction.tolist() == ["x", "y"]
    assert named.verify()
    with pytest.raises(ValueError, match="prediction must be given"):
        Certificates.from_tally(PairTally(400, 50, 500), DipoleCertifier(1000), sigma=1.0)
    with pytest.raises(ValueError, match="one label for each of the 2"):
        Certificates.from_tally(tally, certifier, sigma=1.0, prediction=["x"])
    with pytest.raises(TypeError, match="tally must be a VoteTally"):
        Certificates.from_tally(PairTally(400, 50, 500), certifier, sigma=1.0, prediction=["x"])
    with pytest.raises(ValueError, match="sigma must"):
        Certificates.from_tally(tally, certifier, sigma=0.0)


@pytest.mark.parametrize("path", published_logs.paths("N_*"))
def test_published_first_order_logs(path):
    log = published_logs.Log(path)
    printed = Certificates.from_tsv(path, sigma=log.sigma)
    np.testing.assert_array_equal(printed.radius, log["radius"])
    np.testing.assert_array_equal(printed.label, log["label"])
    np.testing.assert_array_equal(printed.index, log["idx"])
    again = Certificates.from_tsv(path, sigma=log.sigma, certifier=FirstOrderCertifier(log.n))
    assert log.mismatches("radius", again.radius) == []
    np.testing.assert_array_equal(again.abstained, log["predict"] == -1)
    assert again.verify(), again.verify().message


@pytest.mark.parametrize("path", published_logs.paths("dipole_N_*"))
def test_published_dipole_logs(path):
    log = published_logs.Log(path)
    again = Certificates.from_tsv(path, sigma=log.sigma, certifier=DipoleCertifier(log.n, inference="paper"))
    assert log.mismatches("radius", again.radius) == []
    assert again.verify()


@pytest.mark.parametrize("path", published_logs.paths("second_order_N_*"))
def test_published_second_order_logs(path):
    log = published_logs.Log(path)
    certifier = SecondOrderCertifier(log.n, gradient_bound="paper")
    again = Certificates.from_tsv(path, sigma=log.sigma, certifier=certifier, n_features=log.n_features)
    # Gradients were printed with six digits, and are taken to be as long as they may have been.
    np.testing.assert_allclose(again.radius, log["radius"], rtol=6e-3)
    assert again.verify()


LOG = "idx\tlabel\tpredict\tradius\traw_count\n0\tcat\tcat\t0.48\t837\n5\tdog\t-1\t0.0\t500\n"


def test_own_tables_come_back(tmp_path):
    (tmp_path / "log.tsv").write_text(LOG)
    read = Certificates.from_tsv(tmp_path / "log.tsv", sigma=0.5, certifier=FirstOrderCertifier(1000))
    assert read.prediction.tolist() == ["cat", "-1"]
    assert read.label.tolist() == ["cat", "dog"]
    assert read.index.tolist() == [0, 5]
    assert read.abstained.tolist() == [False, True]
    text = read.to_tsv(tmp_path / "again.tsv")
    again = Certificates.from_tsv(tmp_path / "again.tsv", sigma=0.5, certifier=FirstOrderCertifier(1000))
    np.testing.assert_array_equal(again.radius, read.radius)
    assert again.to_tsv() == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column 'idx'"),
        ("idx\tpredict\tradius\n", "no rows"),
        ("a\tb\n1\t2\n", "no column 'idx'"),
        (LOG + "7\tdog\tdog", "3 in line 4"),
        (LOG.replace("0.48", "far"), "numbers in the column radius"),
        (LOG.replace("837", "83.7"), "whole numbers in the column raw_count"),
        (LOG.replace("raw_count", "count"), "with the column raw_count"),
        (LOG.replace("cat\t0.48", "-1\t0.0"), "at least one row that is certified"),
        (LOG.replace("837", "1837"), "at most n"),
    ],
)
def test_tables_that_are_none(content, message, tmp_path):
    (tmp_path / "log.tsv").write_text(content)
    with pytest.raises(ValueError, match=message):
        Certificates.from_tsv(tmp_path / "log.tsv", sigma=0.5, certifier=FirstOrderCertifier(1000))


def test_what_tables_do_not_hold(tmp_path):
    (tmp_path / "log.tsv").write_text(LOG)
    with pytest.raises(ValueError, match="certifier must be one whose counts are in published logs"):
        Certificates.from_tsv(tmp_path / "log.tsv", sigma=0.5, certifier=DirectionalCertifier())
    with pytest.raises(ValueError, match="n_features must be given"):
        Certificates.from_tsv(tmp_path / "log.tsv", sigma=0.5, certifier=SecondOrderCertifier(gradient_bound="paper"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="text file"):
        Certificates.from_tsv(tmp_path / "bytes", sigma=0.5)
