"""Data from files, from OpenML (never over the network here) and from nowhere."""

import gzip
import urllib.error

import numpy as np
import pytest
import sklearn.datasets
from helpers import local_data

from smoothcert.datasets import load_cifar10, load_mnist


def write_idx(path, values):
    values = np.asarray(values, dtype=np.uint8)
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(head + values.tobytes()))


@pytest.fixture
def mnist_folder(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28))
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", [7, 2, 1])
    return tmp_path, images


@pytest.fixture
def cifar_folder(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    folder = tmp_path / "cifar10"
    folder.mkdir()
    np.savez_compressed(folder / "cifar10_train.npz", images=images, labels=np.array([6, 9, 9, 4], dtype=np.uint8))
    return tmp_path, images


@pytest.fixture
def offline(monkeypatch):
    def fail(*args, **kwargs):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
    monkeypatch.delenv("SMOOTHCERT_DATA", raising=False)


def test_mnist_from_a_folder(mnist_folder, offline):
    folder, images = mnist_folder
    X, y = load_mnist(data_home=folder)
    assert X.shape == (3, 1, 28, 28)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X[:, 0], (images / 255).astype(np.float32))
    assert y.tolist() == [7, 2, 1]


def test_mnist_pooled_is_the_mean_of_blocks(mnist_folder):
    folder, images = mnist_folder
    X, _ = load_mnist(pool=7, data_home=folder)
    assert X.shape == (3, 1, 7, 7)
    assert X.dtype == np.float32
    expected = [
        [[images[i, 4 * r : 4 * r + 4, 4 * c : 4 * c + 4].mean() for c in range(7)] for r in range(7)] for i in range(3)
    ]
    np.testing.assert_allclose(X[:, 0], np.array(expected) / 255, rtol=1e-6)
    rows, _ = load_mnist(pool=7, flatten=True, data_home=folder)
    np.testing.assert_array_equal(rows, X.reshape(3, 49))


def test_the_environment_names_the_folder(mnist_folder, monkeypatch):
    monkeypatch.setenv("SMOOTHCERT_DATA", str(mnist_folder[0]))
    assert len(load_mnist()[0]) == 3


def test_cifar10_from_a_subfolder(cifar_folder, offline):
    folder, images = cifar_folder
    X, y = load_cifar10("train", data_home=folder)
    assert X.shape == (4, 3, 32, 32)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X[2, 1, 5, 7], np.float32(images[2, 5, 7, 1]) / np.float32(255))
    assert y.tolist() == [6, 9, 9, 4]
    assert load_cifar10("train", flatten=True, data_home=folder)[0].shape == (4, 3072)


@pytest.mark.parametrize(
    ("load", "name", "n_train", "n_features"),
    [(load_mnist, "mnist_784", 60_000, 784), (load_cifar10, "CIFAR_10", 50_000, 3072)],
)
def test_openml_comes_after_the_folder(load, name, n_train, n_features, monkeypatch, tmp_path):
    asked = []

    def fetch(wanted, **kwargs):
        asked.append((wanted, kwargs["version"]))
        rows = np.broadcast_to(np.arange(n_train + 5)[:, None] % 200, (n_train + 5, n_features))
        return rows, (np.arange(n_train + 5) % 10).astype(str)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    X, y = load("test", data_home=tmp_path)
    assert asked == [(name, 1)]
    assert y.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(X.reshape(5, -1)[:, 0], np.arange(5) / 255, rtol=1e-6)


@pytest.mark.parametrize("load", [load_mnist, load_cifar10])
def test_neither_source_is_said_plainly(load, offline, tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"SMOOTHCERT_DATA is not set.*no route to host.*data_home.*fetch_openml"
    ):
        load()
    with pytest.raises(FileNotFoundError, match="does not hold them"):
        load(data_home=tmp_path)


def test_bad_files_are_named(mnist_folder, cifar_folder):
    folder, _ = mnist_folder
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x09abc"))
    with pytest.raises(ValueError, match=r"t10k-images.*3 values for shape \(9,\)"):
        load_mnist(data_home=folder)
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    with pytest.raises(ValueError, match="gzipped IDX"):
        load_mnist(data_home=folder)
    path = cifar_folder[0] / "cifar10" / "cifar10_train.npz"
    np.savez(path, images=np.zeros((1, 3, 32, 32), dtype=np.uint8), labels=[0])
    with pytest.raises(ValueError, match=r"must hold images.*\(1, 3, 32, 32\)"):
        load_cifar10("train", data_home=cifar_folder[0])
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="npz file"):
        load_cifar10("train", data_home=cifar_folder[0])


def test_bad_arguments():
    with pytest.raises(ValueError, match="split must be"):
        load_mnist("valid")
    with pytest.raises(ValueError, match="split must be"):
        load_cifar10("valid")
    with pytest.raises(ValueError, match=r"pool must be.*got 5"):
        load_mnist(pool=5)


@local_data.needs(*local_data.MNIST_TEST)
def test_real_mnist():
    X, y = load_mnist(pool=7, data_home=local_data.FOLDER)
    assert X.shape == (10_000, 1, 7, 7)
    assert y[::10][:2].tolist() == [7, 0]
    assert 0.0 <= X.min() < X.max() <= 1.0
    assert X.mean() == pytest.approx(0.1325, abs=0.0005)  # the mean of the test set, which averaging keeps


@local_data.needs(*local_data.CIFAR10_TEST)
def test_real_cifar10():
    X, y = load_cifar10(data_home=local_data.FOLDER)
    assert X.shape == (10_000, 3, 32, 32)
    assert np.bincount(y).tolist() == [1000] * 10
    assert y[[0, 20, 100]].tolist() == [3, 7, 4]  # as in the published logs
    np.testing.assert_allclose(X.mean(axis=(0, 2, 3)), [0.494, 0.485, 0.450], atol=0.001)
