"""Certificates: frozen, sliceable, storable, readable."""

import dataclasses
import pickle

import numpy as np
import pytest

from smoothcert import Certificates, DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier, SmoothedClassifier
from smoothcert._certificates import round_digits


def example(labels=(0, 2, 1), seed=0, **provenance):
    return Certificates(
        np.array(labels),
        np.array([0.123456, 0.98, 0.0]),
        np.array([False, False, True]),
        {"p": np.array([0.7, 0.99999, 0.4])},
        {"hits": np.array([70, 100, 40]), "n": np.array([100, 100, 100])},
        {"sigma": 0.25, "certifier": "FirstOrderCertifier()", "seed": seed, "seconds": 3.0, **provenance},
    )


def assert_equal(one, other):
    for name in ("prediction", "radius", "abstained"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert dict(one.provenance) == dict(other.provenance)
    assert one.space == other.space
    for group in ("limits", "counts"):
        mine, theirs = getattr(one, group), getattr(other, group)
        assert set(mine) == set(theirs)
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])


def test_are_frozen():
    certificates = example()
    with pytest.raises(AttributeError):
        certificates.radius = np.ones(3)
    with pytest.raises(ValueError, match="read-only"):
        certificates.radius[0] = 1.0
    with pytest.raises(TypeError):
        certificates.limits["p"] = np.ones(3)


def test_slice_and_concatenate():
    certificates = example()
    assert len(certificates) == 3
    assert len(certificates[1]) == 1
    assert certificates[certificates.abstained].prediction.tolist() == [1]
    assert certificates[::-1].counts["hits"].tolist() == [40, 100, 70]
    both = Certificates.concatenate([certificates[:1], certificates[1:]])
    np.testing.assert_array_equal(both.radius, certificates.radius)
    assert both.provenance["seed"] == 0
    assert Certificates.concatenate([example(seed=1), example(seed=2)]).provenance["seed"] == [1, 2]
    with pytest.raises(ValueError, match="share their settings, got sigma="):
        Certificates.concatenate([example(), example(sigma=0.5)])
    with pytest.raises(ValueError, match="at least one"):
        Certificates.concatenate([])


@pytest.mark.parametrize("labels", [(0, 2, 1), (-1.5, 0.0, 3.0), ("a", "b", "c"), (True, False, True)])
def test_save_and_load_without_pickle(tmp_path, labels):
    for array in (np.array(labels), np.array(labels, dtype=object) if isinstance(labels[0], str) else np.array(labels)):
        certificates = example(array)
        certificates.save(tmp_path / "run.npz")
        assert_equal(Certificates.load(tmp_path / "run.npz"), certificates)
    assert_equal(pickle.loads(pickle.dumps(certificates)), certificates)


def test_mixed_labels_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="one plain type"):
        example(np.array(["a", 1, None], dtype=object)).save(tmp_path / "mixed.npz")
    assert list(tmp_path.iterdir()) == []


def certified(certifier):
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = (X[:, 0] > 0).astype(int)
    from sklearn.linear_model import LogisticRegression

    return X, y, SmoothedClassifier(LogisticRegression(), certifier=certifier, random_state=0).fit(X, y).certify(X[:6])


@pytest.mark.parametrize(
    ("certifier", "columns"),
    [
        (FirstOrderCertifier(1000), ["raw_count", "p_A_bar"]),
        (SecondOrderCertifier(1000), ["raw_count", "p_A_bar", "raw_grad_norm", "grad_norm_bound"]),
        (
            DipoleCertifier(1000, inference="paper"),
            ["raw_count_symmetric", "raw_count_asymmetric", "p_A_symmetric_bar", "p_A_asymmetric_bar"],
        ),
    ],
)
def test_log_has_the_published_columns_and_rounds_down(tmp_path, certifier, columns):
    _, y, certificates = certified(certifier)
    text = certificates.to_tsv(tmp_path / "log.tsv", y[:6])
    assert (tmp_path / "log.tsv").read_text() == text
    header, *rows = [line.split("\t") for line in text.splitlines()]
    assert header == ["idx", "label", "predict", "radius", *columns, "correct", "time"]
    for i, row in enumerate(rows):
        shown = dict(zip(header, row, strict=True))
        assert float(shown["radius"]) <= certificates.radius[i]
        assert float(shown["radius"]) >= certificates.radius[i] * (1 - 1e-2)
        assert int(shown["predict"]) == (-1 if certificates.abstained[i] else certificates.prediction[i])
        assert int(shown["correct"]) == (not certificates.abstained[i] and certificates.prediction[i] == y[i])
        if "p_A_bar" in shown:
            assert float(shown["p_A_bar"]) <= certificates.limits["p"][i]
        if "grad_norm_bound" in shown:
            assert float(shown["grad_norm_bound"]) >= certificates.limits["grad_norm"][i] / 0.25
    with pytest.raises(ValueError, match="one label for each of the 6"):
        certificates.to_tsv(y=[1, 2])
    assert certificates.to_tsv().splitlines()[1].split("\t")[1] == ""


@pytest.mark.parametrize("value", [0.123456, 0.9999, 1.0, 9.996e-7, 123456.7, 0.1, 1e-30, 0.0])
@pytest.mark.parametrize("digits", [1, 3, 6])
def test_rounding_never_promises_more(value, digits):
    down, up = float(round_digits(value, digits)), float(round_digits(value, digits, up=True))
    assert down <= value <= up
    assert up - down <= 1.001 * 10.0 ** (np.floor(np.log10(value)) - digits + 1) if value else up == down == 0
    assert round_digits(np.inf, digits) == "inf"


def test_can_be_read():
    certificates = example()
    assert repr(certificates).splitlines()[0] == (
        "Certificates(3 inputs, 66% certified, median radius 0.551, FirstOrderCertifier())"
    )
    assert "abstained" in repr(certificates)
    shown = example(("<b>", "y", "z"))._repr_html_()
    assert "<table>" in shown
    assert "&lt;b&gt;" in shown
    # Limits from above are shown rounded up.
    limits = {"p": np.full(3, 0.765432), "p_rival": np.full(3, 0.765432), "grad_norm": np.full(3, 0.765432)}
    shown = dataclasses.replace(certificates, limits=limits, upper_limits={"p_rival", "grad_norm"})._repr_html_()
    assert shown.count("<td>0.7654</td>") == 3
    assert shown.count("<td>0.7655</td>") == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0.1], [False, False]), "radius must have one entry for each of the 2"),
        (([0], [-0.1], [False]), "radius must be at least 0, got -0.1"),
        (([0], [np.nan], [False]), "radius must be at least 0, got nan"),
        (([0], [0.1], [False], {"p": np.ones(2)}), "p must have one entry"),
    ],
)
def test_impossible_certificates_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Certificates(*arguments)
