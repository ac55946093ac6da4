"""What training recipes are worth: certified accuracy, average radius and seconds, on MNIST and CIFAR-10.

    python benchmarks/training.py mnist                   LeNet, sigma 0.5, noise and Consistency, half the schedule
    python benchmarks/training.py mnist --epochs 90       the published schedule
    python benchmarks/training.py small-mnist             7 x 7 images, two sigmas, three seeds, all recipes
    python benchmarks/training.py small-mnist-settings    the same on validation images, over settings of two recipes
    python benchmarks/training.py cifar10                 noise, Consistency and SmoothMix

SMOOTHCERT_DATA names a folder with the data. Every run of a study is one line in benchmarks/results/training_*.tsv,
written when it is finished; runs that have their line are not repeated. Weights are kept after every epoch in the
folder given by --out.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.frozen import FrozenEstimator
from skorch import NeuralNetClassifier
from skorch.callbacks import Checkpoint, LRScheduler
from torch import nn

from smoothcert import Certificates, FirstOrderCertifier, SmoothedClassifier
from smoothcert.datasets import load_cifar10, load_mnist
from smoothcert.metrics import average_certified_radius, certified_accuracy_curve
from smoothcert.training import MACER, Consistency, GaussianNoise, SmoothAdv, SmoothMix

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "paper"))
from _nets import cifar10_net, small_mnist_net

RESULTS = Path(__file__).parent / "results"
N_BLOCKS = 10
"""Inputs are certified in blocks, each evenly spaced over the inputs, so that a run can be stopped."""


def lenet():
    """LeNet as in the published experiments, on images with values from 0 to 1.

    Pooling before the rectifier gives the same function as after it, and with the channels last it is faster on a CPU.
    """
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    )
    return net.to(memory_format=torch.channels_last)


def lenet_by_sgd(epochs):
    """The published protocol: SGD, the rate divided by ten after each third of the epochs."""
    return NeuralNetClassifier(
        lenet,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.SGD,
        lr=0.01,
        optimizer__momentum=0.9,
        optimizer__weight_decay=1e-4,
        batch_size=256,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        train_split=None,
        callbacks=[("rate", LRScheduler(torch.optim.lr_scheduler.StepLR, step_size=max(epochs // 3, 1), gamma=0.1))],
        verbose=1,
    )


def by_adam(module):
    """Return a function that makes a net of the module for a number of epochs."""

    def make(epochs):
        return NeuralNetClassifier(
            module,
            criterion=nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            lr=1e-3,
            batch_size=256,
            max_epochs=epochs,
            iterator_train__shuffle=True,
            train_split=None,
            verbose=1,
        )

    return make


@dataclass(kw_only=True)
class Study:
    """Recipes that are compared, and on what."""

    make_net: Any
    load: Any
    recipes: dict[str, Any]
    sigmas: tuple[float, ...] = (0.5,)
    seeds: tuple[int, ...] = (0,)
    epochs: int
    n_train: int
    n_test: int
    n_samples: int
    radii: dict[float, tuple[float, ...]] = field(default_factory=dict)


def small_mnist(split):
    return load_mnist(split, pool=7)


def held_out(split):
    """The training set cut in two, so that settings are chosen without a look at the test set."""
    X, y = load_mnist("train", pool=7)
    return (X[:-5000], y[:-5000]) if split == "train" else (X[-5000:], y[-5000:])


EIGHTHS = tuple(0.25 * np.arange(1, 8))
SMALL_RADII = {0.25: (0.1, 0.25, 0.5), 0.5: (0.1, 0.25, 0.5)}
ALL = {
    "noise": None,
    "Consistency": Consistency(),
    "MACER": MACER(),
    "SmoothMix": SmoothMix(),
    "SmoothAdv": SmoothAdv(),
}
SETTINGS = {
    "noise": lambda sigma: None,
    "Consistency": lambda sigma: Consistency(),
    "SmoothAdv(eps=0.5 sigma)": lambda sigma: SmoothAdv(eps=0.5 * sigma),
    "SmoothAdv(eps=sigma)": lambda sigma: SmoothAdv(eps=sigma),
    "SmoothAdv(eps=1.5 sigma)": lambda sigma: SmoothAdv(eps=1.5 * sigma),
    "SmoothAdv(eps=2 sigma)": lambda sigma: SmoothAdv(eps=2 * sigma),
    "SmoothMix(step_size=2 sigma)": lambda sigma: SmoothMix(step_size=2 * sigma),
    "SmoothMix(step_size=sigma)": lambda sigma: SmoothMix(step_size=sigma),
    "SmoothMix(step_size=0.5 sigma)": lambda sigma: SmoothMix(step_size=0.5 * sigma),
}
"""Settings to choose from, as functions of sigma."""

STUDIES = {
    "mnist": Study(
        make_net=lenet_by_sgd, load=load_mnist, recipes={"noise": GaussianNoise(), "Consistency": Consistency()},
        epochs=45, n_train=60_000, n_test=500, n_samples=10_000, radii={0.5: EIGHTHS},
    ),
    "small-mnist": Study(
        make_net=by_adam(small_mnist_net), load=small_mnist, recipes=ALL, sigmas=(0.5, 0.25), seeds=(0, 1, 2),
        epochs=12, n_train=10_000, n_test=1000, n_samples=20_000, radii=SMALL_RADII,
    ),
    "small-mnist-settings": Study(
        make_net=by_adam(small_mnist_net), load=held_out, recipes=SETTINGS, sigmas=(0.5, 0.25), seeds=(10,),
        epochs=12, n_train=10_000, n_test=500, n_samples=10_000, radii=SMALL_RADII,
    ),
    "cifar10": Study(
        make_net=by_adam(cifar10_net), load=load_cifar10,
        recipes={"noise": None, "Consistency": Consistency(weight=20), "SmoothMix": SmoothMix(copies=2)},
        sigmas=(0.25,), epochs=10, n_train=50_000, n_test=300, n_samples=10_000, radii={0.25: (0.1, 0.25, 0.5)},
    ),
}  # fmt: skip


def recipe_at(recipe, sigma):
    """Return a recipe that may be given as a function of sigma."""
    return recipe(sigma) if callable(recipe) else recipe


def train(study, recipe, sigma, seed, X, y, epochs, folder):
    """Return a smoothed classifier, its training time and its CPU time; from the folder if it was trained before."""
    net, name = study.make_net(epochs), f"{epochs}_epochs_{len(X)}_images"
    weights, times = folder / f"{name}.pt", folder / f"{name}.json"
    if times.exists():
        net.initialize()
        net.load_params(f_params=weights)
        return SmoothedClassifier(FrozenEstimator(net), sigma=sigma, random_state=seed).fit(X, y), *json.loads(
            times.read_text()
        )
    checkpoint = Checkpoint(monitor=None, dirname=str(folder), f_optimizer=None, f_criterion=None)
    net.set_params(callbacks=[*(net.callbacks or []), ("checkpoint", checkpoint)])
    clf = SmoothedClassifier(net, sigma=sigma, training=recipe, random_state=seed)
    start, cpu = time.perf_counter(), time.process_time()
    clf.fit(X, y)
    seconds = time.perf_counter() - start, time.process_time() - cpu
    clf.estimator_.save_params(f_params=weights)
    times.write_text(json.dumps(seconds))
    return clf, *seconds


def certify(clf, X, n_blocks, folder, name):
    """Return the certificates of the first blocks of the inputs, from the folder if they were made before."""
    blocks = []
    for block in range(n_blocks):
        path = folder / f"{name}_{clf.certifier.n_samples}_samples_{len(X)}_inputs_{block}.npz"
        if not path.exists():
            clf.certify(X[block::N_BLOCKS]).save(path)
        blocks.append(Certificates.load(path))
    return Certificates.concatenate(blocks)


def run(study, name, recipe, sigma, seed, args):
    """Train and certify once; return the line of the table."""
    X_train, y_train = (part[: args.n_train] for part in study.load("train"))
    X, y = study.load("test")
    every = len(X) // args.n_test
    X, y = X[::every][: args.n_test], y[::every][: args.n_test]
    keep = args.out / f"{args.study}_{name}_{sigma}_{seed}".replace(" ", "")
    clf, seconds, cpu = train(study, recipe_at(recipe, sigma), sigma, seed, X_train, y_train, args.epochs, keep)
    if args.train_only:
        return None
    clf.set_params(certifier=FirstOrderCertifier(args.n_samples, against="half"))
    certificates = certify(clf, X, args.n_blocks, keep, f"{args.epochs}_epochs_{len(X_train)}_images")
    y = np.concatenate([y[block::N_BLOCKS] for block in range(args.n_blocks)])
    _, accuracy = certified_accuracy_curve(y, certificates, [0.0, *study.radii[sigma]])
    line = {
        "recipe": name,
        "sigma": sigma,
        "seed": seed,
        "epochs": args.epochs,
        "n_train": len(X_train),
        "n_test": len(y),
        "n_samples": args.n_samples,
        "average_radius": f"{average_certified_radius(y, certificates):.4f}",
        "at_0": f"{accuracy[0]:.4f}",
    }
    line |= {f"at_{radius:g}": f"{value:.4f}" for radius, value in zip(study.radii[sigma], accuracy[1:], strict=True)}
    return line | {"training_seconds": f"{seconds:.0f}", "training_cpu_seconds": f"{cpu:.0f}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--recipes", nargs="+", help="only these")
    parser.add_argument("--sigmas", nargs="+", type=float, help="only these")
    parser.add_argument("--seeds", nargs="+", type=int, help="only these")
    for option in ("epochs", "n-train", "n-test", "n-samples"):
        parser.add_argument(f"--{option}", type=int, help="as in the study if not given")
    parser.add_argument("--train-only", action="store_true", help="certify in another run")
    parser.add_argument("--n-blocks", type=int, default=N_BLOCKS, help="how many tenths of the inputs to certify")
    parser.add_argument("--out", type=Path, default=Path("training_runs"), help="folder for weights and certificates")
    args = parser.parse_args()
    study = STUDIES[args.study]
    for option in ("epochs", "n_train", "n_test", "n_samples"):
        if getattr(args, option) is None:
            setattr(args, option, getattr(study, option))
    torch.set_num_threads(1)
    path = RESULTS / f"training_{args.study.replace('-', '_')}.tsv"
    RESULTS.mkdir(exist_ok=True)
    for sigma in args.sigmas or study.sigmas:
        for seed in args.seeds or study.seeds:
            for name in args.recipes or study.recipes:
                n_test = args.n_test * args.n_blocks // N_BLOCKS
                key = {"recipe": name, "sigma": sigma, "seed": seed, "epochs": args.epochs, "n_test": n_test}
                key |= {"n_train": args.n_train, "n_samples": args.n_samples}
                key = {column: str(value) for column, value in key.items()}
                done = list(csv.DictReader(path.open(), delimiter="\t")) if path.exists() else []
                if any(key.items() <= line.items() for line in done):
                    continue
                line = run(study, name, study.recipes[name], sigma, seed, args)
                if line is None:
                    continue
                with path.open("a", newline="") as file:
                    writer = csv.DictWriter(file, list(line), delimiter="\t", lineterminator="\n")
                    if not done:
                        writer.writeheader()
                    writer.writerow(line)
                print("\t".join(map(str, line.values())), flush=True)


if __name__ == "__main__":
    main()
