"""What a radius costs on the published networks, by the benchmark's own functions."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from smoothcert import FirstOrderCertifier

PATH = Path(__file__).parents[2] / "benchmarks" / "looks.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_of_looks", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not module.FOLDER.is_dir():
        pytest.skip(f"no published logs in {module.FOLDER}")
    return module


@pytest.mark.slow
@pytest.mark.parametrize("data", ["small_mnist", "cifar10"])
def test_a_radius_takes_some_thousand_samples(benchmark, data):
    log = next(setting for setting in benchmark.settings() if setting[0] == data)
    certifier = FirstOrderCertifier(against="half")
    found = [benchmark.compare(*log[3:], radius, certifier, seed=0) for radius in (0.25, 0.5, 1.0, 1.5, 2.0)]
    samples, accuracy, fixed, different = np.transpose(found)
    assert (samples < 4000).all()
    assert 100 * np.mean(fixed - accuracy) < 0.1
    assert (different < 0.01).all()
