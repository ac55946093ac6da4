"""Files of certificates: whole or refused, with one clear error for each kind of damage."""

import io
import json
import os
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from smoothcert import Certificates, FirstOrderCertifier, SmoothedClassifier


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    X, y = load_iris(return_X_y=True)
    clf = SmoothedClassifier(GaussianNB(), certifier=FirstOrderCertifier(1000), random_state=0).fit(X, y)
    path = tmp_path_factory.mktemp("files") / "run.npz"
    clf.certify(X[::10]).save(path)
    return path


def members(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def npy(array, **options):
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(array), **options)
    return content.getvalue()


def rewritten(path, target, changes=(), about=None):
    """The same file with other members; None leaves one out. Declarations follow unless told."""
    content = {**members(path), **dict(changes)}
    text = json.loads(str(np.load(path)["about"][()]))
    if about is not None:
        about(text)
        content["about.npy"] = npy(np.array(json.dumps(text)))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in content.items():
            if value is not None:
                file.writestr(name, value)
    return target


def test_the_helper_itself_changes_nothing(saved, tmp_path):
    assert Certificates.load(rewritten(saved, tmp_path / "same.npz", about=lambda text: None)).verify()


def refused(path, message):
    with pytest.raises(ValueError, match=message) as caught:
        Certificates.load(path)
    assert "allow_pickle" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_not_a_zip(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    refused(tmp_path / "text.npz", "is not a zip archive")
    (tmp_path / "empty.npz").write_bytes(b"")
    refused(tmp_path / "empty.npz", "is not a zip archive")
    np.save(tmp_path / "array.npy", np.ones(3))
    refused(tmp_path / "array.npy", "is not a zip archive")
    with pytest.raises(FileNotFoundError):
        Certificates.load(tmp_path / "missing.npz")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_cut_off(saved, tmp_path, part):
    content = saved.read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: int(part * len(content))])
    refused(tmp_path / "cut.npz", "cut off or damaged")


def test_every_damaged_byte_is_noticed_or_harmless(saved, tmp_path):
    """Some bytes of an archive mean nothing, dates for example; no others may change without an error."""
    content, whole = bytearray(saved.read_bytes()), Certificates.load(saved)
    noticed = 0
    for place in range(0, len(content), max(1, len(content) // 150)):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / "bad.npz").write_bytes(damaged)
        try:
            found = Certificates.load(tmp_path / "bad.npz")
        except ValueError:
            noticed += 1
            refused(tmp_path / "bad.npz", r"written by Certificates\.save")
        else:
            np.testing.assert_array_equal(found.radius, whole.radius)
            assert found.verify()
    assert noticed > 100


def test_files_of_others(saved, tmp_path):
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    refused(tmp_path / "other.npz", "file of another program")
    np.savez(tmp_path / "future.npz", about=np.array('{"format": 99, "provenance": {"version": "9.9"}}'))
    refused(tmp_path / "future.npz", r"format 4, got 99.*9\.9")
    np.savez(tmp_path / "words.npz", about=np.array("words"))
    refused(tmp_path / "words.npz", "not a description")
    np.savez(tmp_path / "numbers.npz", about=np.ones(3))
    refused(tmp_path / "numbers.npz", "must be a text")
    for name in ("arrays", "provenance", "evidence"):
        path = rewritten(saved, tmp_path / f"no_{name}.npz", about=lambda text, name=name: text.pop(name))
        refused(path, name if name != "evidence" else "not complete")


@pytest.mark.parametrize("name", ["radius", "prediction", "abstained", "limits/p", "evidence/sigma"])
def test_missing_array(saved, tmp_path, name):
    refused(rewritten(saved, tmp_path / "a.npz", {f"{name}.npy": None}), f"the array '{name}' is missing")


def test_missing_array_that_is_not_declared(saved, tmp_path):
    path = rewritten(saved, tmp_path / "a.npz", about=lambda text: text["arrays"].pop("radius"))
    refused(path, "the array 'radius' is missing")
    path = rewritten(saved, tmp_path / "b.npz", about=lambda text: text["arrays"].pop("evidence/sigma"))
    refused(path, "sigma")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("radius", np.ones(14), "'radius' is declared"),
        ("radius", np.array(["x"] * 15), "'radius' is declared"),
        ("abstained", np.zeros(15), "'abstained' is declared"),
        ("radius", np.array([None] * 15), "holds pickled objects, which are never loaded"),
    ],
)
def test_wrong_type_or_shape(saved, tmp_path, name, value, message):
    refused(rewritten(saved, tmp_path / "a.npz", {f"{name}.npy": npy(value, allow_pickle=True)}), message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("radius", np.array(["x"] * 15), "of type <U1"),
        ("abstained", np.zeros(15), "of type float64"),
        ("prediction", np.zeros(14, int), r"'prediction' has shape \(14,\)"),
        ("limits/p", np.zeros(3), r"'limits/p' has shape \(3,\)"),
        ("radius", -np.ones(15), "radius must be at least 0"),
        ("evidence/0/rows", np.arange(15) + 1, "the same rows as the certificates"),
    ],
)
def test_wrong_also_where_it_is_declared(saved, tmp_path, name, value, message):
    def declare(text):
        text["arrays"][name] = [value.dtype.str, list(value.shape)]

    refused(rewritten(saved, tmp_path / "a.npz", {f"{name}.npy": npy(value)}, declare), message)


def header(shape):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return content.getvalue()


def test_header_that_declares_a_huge_array(saved, tmp_path):
    huge = (10**14,)

    def declare(text):
        text["arrays"]["radius"] = ["<f8", list(huge)]

    path = rewritten(saved, tmp_path / "a.npz", {"radius.npy": header(huge) + bytes(120)}, declare)
    refused(path, "should take 800000000000000 bytes by its header")


def test_member_that_expands_beyond_what_is_declared(saved, tmp_path):
    """Zeros that would take 64 MB are refused without being read."""
    path = rewritten(saved, tmp_path / "a.npz", {"radius.npy": header((15,)) + bytes(2**26)})
    assert path.stat().st_size < 2**20
    refused(path, "should take 120 bytes by its header, and 671")


def test_archive_that_lies_about_the_size_of_a_member(saved, tmp_path):
    path = rewritten(saved, tmp_path / "a.npz", {"radius.npy": header((15,)) + bytes(2**20)})
    size = len(header((15,))) + 120
    content = path.read_bytes().replace((len(header((15,))) + 2**20).to_bytes(4, "little"), size.to_bytes(4, "little"))
    path.write_bytes(content)
    refused(path, "cut off or damaged")


def test_large_description(saved, tmp_path):
    path = rewritten(saved, tmp_path / "a.npz", {"about.npy": npy(np.array("x" * 2**25))})
    refused(path, "a text of at most")


def test_certifier_that_is_not_loaded(saved, tmp_path):
    """Radii can be read; that they cannot be computed again is said where it is asked."""

    def rename(text):
        text["evidence"][0]["certifier"][0] = "elsewhere.FarAwayCertifier"

    found = Certificates.load(rewritten(saved, tmp_path / "a.npz", about=rename))
    np.testing.assert_array_equal(found.radius, Certificates.load(saved).radius)
    assert not found.verify()
    assert "its certifier is not imported" in found.verify().message


def test_save_leaves_what_a_link_points_to(saved, tmp_path):
    certificates = Certificates.load(saved)
    (tmp_path / "precious").write_text("mine")
    link = tmp_path / "run.npz"
    link.symlink_to(tmp_path / "precious")
    certificates.save(link)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not link.is_symlink()
    assert Certificates.load(link).verify()
    log = tmp_path / "log.tsv"
    log.symlink_to(tmp_path / "precious")
    certificates.to_tsv(log)
    assert (tmp_path / "precious").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.tsv", "precious", "run.npz"]


def test_save_is_whole_or_not_there(saved, tmp_path, monkeypatch):
    certificates = Certificates.load(saved)
    certificates.save(tmp_path / "run.npz")
    before = (tmp_path / "run.npz").read_bytes()

    def full(*arguments, **arrays):
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space"):
        certificates.save(tmp_path / "run.npz")
    assert (tmp_path / "run.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_saved_files_have_the_usual_permissions(saved, tmp_path):
    (tmp_path / "plain").write_text("")
    Certificates.load(saved).save(tmp_path / "run.npz")
    assert (tmp_path / "run.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode
