"""Networks for the image experiments, as skorch classifiers, and their training with a cache."""

from __future__ import annotations

import importlib
import sys

import torch
from sklearn.frozen import FrozenEstimator
from skorch import NeuralNetClassifier
from torch import nn

from smoothcert import SmoothedClassifier


class Standardise(nn.Module):
    """Noise is added to the images as they are, so standardising belongs inside the network."""

    def __init__(self, mean, deviation):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(1, -1, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.deviation


def small_mnist_net():
    """The paper's network for 7 x 7 images."""
    return nn.Sequential(
        Standardise([0.1307], [0.2307]),
        nn.Conv2d(1, 4, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )


def cifar10_net():
    """Small enough to be trained and certified on a CPU."""
    return nn.Sequential(
        Standardise([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
        nn.Conv2d(3, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def classifier(module, epochs=1, device="cpu"):
    """The module as a scikit-learn classifier."""
    return NeuralNetClassifier(
        module,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        batch_size=256,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        train_split=None,
        device=device,
        verbose=1,
    )


def trained(make_module, path, load_train, X, y, args):
    """A smoothed classifier whose network is read from `path`, or trained and written there.

    `load_train` is called only if there is something to train; `X` and `y` tell a trained network its classes.
    """
    torch.manual_seed(args.seed)
    net = classifier(make_module(), args.epochs, args.device)
    if path.exists():
        print("network:", path, flush=True)
        net.initialize()
        net.load_params(f_params=path)
        return SmoothedClassifier(FrozenEstimator(net), sigma=args.sigma).fit(X, y)
    X_train, y_train = load_train()
    print(f"training on {len(X_train)} images, {args.epochs} epochs, sigma {args.sigma}", flush=True)
    clf = SmoothedClassifier(net, sigma=args.sigma, random_state=args.seed).fit(X_train, y_train)
    path.parent.mkdir(parents=True, exist_ok=True)
    clf.estimator_.save_params(f_params=path)
    return clf


def pretrained(factory, weights, X, y, args):
    """A smoothed classifier around somebody else's network: ``module:function`` makes it, `weights` is its checkpoint.

    The network is given images with values from 0 to 1 and returns logits. The checkpoint is a state dict, or a
    dictionary that has one under ``state_dict``; the prefix that data-parallel training leaves is taken away.
    """
    place, _, name = factory.partition(":")
    if not name:
        raise SystemExit(f"--model must look like module:function, got {factory}")
    sys.path.append("")  # the folder the script is called from
    module = getattr(importlib.import_module(place), name)()
    if weights is not None:
        state = torch.load(weights, map_location="cpu", weights_only=True)
        state = state.get("state_dict", state)
        module.load_state_dict({key.replace("module.", ""): value for key, value in state.items()})
    net = classifier(module.eval(), device=args.device).initialize()
    return SmoothedClassifier(FrozenEstimator(net), sigma=args.sigma).fit(X, y)
