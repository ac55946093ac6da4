"""Certification rate of neural networks. Run: python benchmarks/throughput.py [--art] [--quick]

For each network, in samples a second and interleaved in one process:

- bare: the module's forward pass on noise that is already there;
- loop: the best hand-written loop of noise, forward pass, argmax and bincount, at its best block size;
- each certifier, through SmoothedClassifier.certify;
- ART: PyTorchRandomizedSmoothing.certify, if --art is given; the package comes with
  pip install -c constraints.txt -e ".[torch,benchmark]"

The ratios to the loop are the figures to look at. Two workers are compared with one, and, as what the machine has to
give, two loops in processes of their own with one. Then the cost against the number of samples.

The two small networks are trained on scikit-learn's digits, cut to 7 by 7 pixels; the large one has the weights it
starts with. The directional certificate is timed on inputs that it measures along a direction, not on those that it
leaves to the first order. It is also timed on small networks that were not trained, whose votes are nearly even: there
it has to plan for most inputs twice.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from skorch import NeuralNetClassifier
from torch import nn

from smoothcert import (
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    SmoothedClassifier,
)

SIGMA = 0.25
CERTIFIERS = {
    "first order": FirstOrderCertifier,
    "second order": SecondOrderCertifier,
    "dipole": DipoleCertifier,
    "second-order dipole": SecondOrderDipoleCertifier,
    "directional": DirectionalCertifier,
}


def mlp():
    return nn.Sequential(nn.Linear(49, 100), nn.ReLU(), nn.Linear(100, 10)), (49,)


def small_cnn():
    layers = [nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 100), nn.ReLU(), nn.Linear(100, 10)]
    return nn.Sequential(*layers), (1, 7, 7)


def cifar_cnn():
    layers = [
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 10),
    ]  # fmt: skip
    return nn.Sequential(*layers), (3, 32, 32)


# Network, samples for each input, inputs.
NETWORKS = {
    "MLP 49-100-10": (mlp, 100_000, 8),
    "CNN 1x7x7": (small_cnn, 100_000, 8),
    "CNN 3x32x32": (cifar_cnn, 4_000, 1),
}


def smoothed(make, certifier, trained=True):
    """A fitted classifier, its module, and 20 inputs."""
    torch.manual_seed(0)
    module, shape = make()
    options = {"criterion": nn.CrossEntropyLoss, "train_split": None, "verbose": 0}
    if trained and np.prod(shape) == 49:
        X, y = load_digits(return_X_y=True)
        X = (X.reshape(-1, 8, 8)[:, :7, :7] / 16).astype(np.float32).reshape(-1, *shape)
        net = NeuralNetClassifier(module, optimizer=torch.optim.Adam, lr=0.01, max_epochs=40, **options)
        model = SmoothedClassifier(net, sigma=SIGMA, certifier=certifier, random_state=0).fit(X[20:], y[20:])
        return model, model.estimator_.module_, X[:20]
    net = NeuralNetClassifier(module, **options).initialize()
    model = SmoothedClassifier(FrozenEstimator(net), sigma=SIGMA, certifier=certifier, random_state=0)
    X = np.random.default_rng(0).random((20, *shape), dtype=np.float32)
    return model.fit(X, np.arange(20) % 10), net.module_, X


def bare_forward(module, noise, n_samples):
    with torch.inference_mode():
        for _ in range(-(-n_samples // len(noise))):
            module(noise)


def hand_written_loop(module, x, n_samples, block):
    torch.set_num_threads(1)  # also where it runs in a process of its own
    x = torch.tensor(x)
    counts = torch.zeros(10, dtype=torch.long)
    with torch.inference_mode():
        for start in range(0, n_samples, block):
            noise = torch.randn(min(block, n_samples - start), *x.shape)
            counts += torch.bincount(module(noise.mul_(SIGMA).add_(x)).argmax(1), minlength=10)
    return counts


def seconds(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def best_block(module, x, n_samples):
    blocks = [b for b in (64, 128, 256, 512, 1024, 2048, 4096, 8192) if b <= n_samples]
    # Round after round, and the best of each: the speed of a machine drifts.
    rounds = [[seconds(hand_written_loop, module, x, n_samples // 4, b) for b in blocks] for _ in range(6)]
    return blocks[int(np.argmin(np.min(rounds, axis=0)))]


def rates(make, n_samples, n_inputs, repeats, with_art):
    model, module, X = smoothed(make, DirectionalCertifier(n_samples))
    module.eval()
    measured = model.certify(X[: 3 * n_inputs]).counts["measured"]
    X = np.resize(X[: len(measured)][measured], (n_inputs, *X.shape[1:]))
    block = best_block(module, X[0], n_samples)
    noise = SIGMA * torch.randn(block, *X.shape[1:]) + torch.from_numpy(X[0])
    jobs = {
        "bare": lambda: [bare_forward(module, noise, n_samples) for _ in range(n_inputs)],
        "loop": lambda: [hand_written_loop(module, x, n_samples, block) for x in X[:n_inputs]],
    }
    for name, certifier in CERTIFIERS.items():
        chosen = certifier(n_samples)
        jobs[name] = lambda chosen=chosen: model.set_params(certifier=chosen).certify(X[:n_inputs])
    if with_art:
        jobs["ART"] = art_job(module, X[:n_inputs], n_samples)
    times = {name: [] for name in jobs}
    for repeat in range(repeats + 1):
        for name, job in jobs.items():
            taken = seconds(job)
            if repeat:  # the first round warms up
                times[name].append(taken)
    # Ratios within a round, since the speed of a machine drifts.
    ratios = {name: float(np.median(np.divide(times["loop"], taken))) for name, taken in times.items()}
    return block, n_inputs * n_samples / np.median(times["loop"]), ratios


def art_job(module, X, n_samples):
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    model = PyTorchRandomizedSmoothing(
        model=module,
        loss=nn.CrossEntropyLoss(),
        input_shape=X.shape[1:],
        nb_classes=10,
        sample_size=100,
        scale=SIGMA,
        alpha=0.001,
    )
    return lambda: model.certify(X, n=n_samples)


def two_workers(make, n_samples, n_inputs):
    """Seconds of one process over those of two, on inputs enough for both."""
    model, _, X = smoothed(make, FirstOrderCertifier(n_samples))
    inputs = X[: max(12, min(20, 4 * n_inputs))]
    ratios = []
    with parallel_config(backend="loky"):
        model.set_params(n_jobs=2).certify(inputs)  # start the workers
        for _ in range(3):
            one = seconds(model.set_params(n_jobs=1).certify, inputs)
            ratios.append(one / seconds(model.set_params(n_jobs=2).certify, inputs))
    return float(np.median(ratios))


def machine_limit(make, n_samples, block):
    """What two workers could reach at best: two loops at the same time, in processes of their own, against one."""
    _, module, X = smoothed(make, FirstOrderCertifier(n_samples))
    loop = delayed(hand_written_loop)(module, X[0], 8 * n_samples, block)
    with Parallel(n_jobs=2, backend="loky") as parallel:
        parallel([loop, loop])  # start the workers
        pairs = [2 * seconds(parallel, [loop]) / seconds(parallel, [loop, loop]) for _ in range(3)]
    return float(np.median(pairs))


def directional_against_samples(make, sizes, trained=True, n_inputs=8, repeats=5):
    """Rate of the directional certificate over that of the loop: what it plans and computes is the same for any number
    of samples."""
    model, module, X = smoothed(make, DirectionalCertifier(), trained)
    module.eval()
    measured = model.certify(X).counts["measured"]
    X = np.resize(X[measured], (n_inputs, *X.shape[1:]))
    block = best_block(module, X[0], min(sizes))
    for n_samples in sizes:
        repeats = max(1, min(repeats, 10**6 // n_samples))
        model.set_params(certifier=DirectionalCertifier(n_samples))
        rounds = [
            seconds(lambda n=n_samples: [hand_written_loop(module, x, n, block) for x in X]) / seconds(model.certify, X)
            for _ in range(repeats)
        ]
        yield n_samples, float(np.median(rounds))


def main():
    torch.set_num_threads(1)
    quick, with_art = "--quick" in sys.argv, "--art" in sys.argv
    names = ["bare", "loop", *CERTIFIERS, *(["ART"] if with_art else [])]
    lines = [
        "\t".join(
            [
                "network",
                "block",
                "loop_samples_per_s",
                *(f"{n} / loop" for n in names if n != "loop"),
                "two workers / one",
                "two loops / one",
            ]
        )
    ]
    for title, (make, n_samples, n_inputs) in NETWORKS.items():
        block, loop, ratios = rates(make, n_samples, n_inputs, 3 if quick else 7, with_art)
        scale = two_workers(make, n_samples, n_inputs)
        shown = [f"{ratios[n]:.2f}" for n in names if n != "loop"]
        limit = machine_limit(make, n_samples, block)
        lines.append("\t".join([title, str(block), f"{loop:.0f}", *shown, f"{scale:.2f}", f"{limit:.2f}"]))
        print(lines[-1], flush=True)
    lines.append("# seconds against n_samples, first order, MLP")
    model, _, X = smoothed(mlp, FirstOrderCertifier())
    for n_samples in (10**3, 10**4, 10**5, 10**6, *(() if quick else (10**7,))):
        taken = seconds(model.set_params(certifier=FirstOrderCertifier(n_samples)).certify, X[:1])
        lines.append(f"# {n_samples}\t{taken:.3f}\t{n_samples / taken:.0f} samples/s")
    sizes = (10**5, 2 * 10**5, 5 * 10**5, *(() if quick else (10**6,)))
    for trained in (True, False):
        lines.append(f"# directional / loop against n_samples, CNN 1x7x7, {'trained' if trained else 'not trained'}")
        lines.extend(f"# {n}\t{ratio:.2f}" for n, ratio in directional_against_samples(small_cnn, sizes, trained))
    print("\n".join(lines[len(NETWORKS) + 1 :]))
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "throughput.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
