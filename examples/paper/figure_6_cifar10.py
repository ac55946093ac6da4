"""Figure 6: gains over first order on CIFAR-10, or on ImageNet with a network of your own.

By default a small network is trained under noise, which takes some minutes on a CPU, and 100 test images are certified.
The network and the certificates are kept in the output folder and found there by the next run. SMOOTHCERT_DATA names a
folder with cifar10_train.npz and cifar10_test.npz; without it OpenML is asked.

    python figure_6_cifar10.py --n-jobs 2
    python figure_6_cifar10.py --against rivals
    python figure_6_cifar10.py --model mynets:resnet110 --weights resnet110_sigma_0.25.pt --device cuda --n-inputs 500
    python figure_6_cifar10.py --imagenet val/ --model mynets:resnet50 --weights resnet50_sigma_0.50.pt --sigma 0.5

On one core of a small machine the training goes through 2,000 images a second and the certification through 8,000 to
9,000 samples, so the first takes about 8 minutes for the one and 20 for each certifier.

mynets.py is yours: its function takes nothing and returns a torch module that maps images with values from 0 to 1 to
logits.
"""

from pathlib import Path

import numpy as np
from _common import (
    AGAINST_RIVALS,
    BASELINE,
    CERTIFIERS,
    certify_each,
    count,
    draw_curves,
    draw_gains,
    options,
    power,
    read_log,
    reference,
    report,
    slug,
    suffix,
)
from _nets import cifar10_net, pretrained, trained

from smoothcert.datasets import load_cifar10

# The published limit of the gradient says nothing in thousands of dimensions; the paper leaves it out here, too.
SHOWN = {name: make for name, make in CERTIFIERS.items() if name != "second order, as published"}

parser = options(__doc__, n_samples=100_000, n_inputs=100, certifiers=list(SHOWN)[1:])
parser.add_argument("--sigma", type=float, default=0.25, help="noise; the paper has 0.12, 0.25, 0.50 and 1.00")
parser.add_argument("--epochs", type=count, default=20, help="passes over the training images")
parser.add_argument("--n-train", type=count, default=50_000, help="training images")
parser.add_argument("--same-noise", action="store_true", help="the same noise for all certifiers")
parser.add_argument("--device", default="cpu", help="where the network computes, for example cuda")
parser.add_argument("--model", help="module:function that makes a network to be used instead")
parser.add_argument("--weights", type=Path, help="its checkpoint")
parser.add_argument("--imagenet", type=Path, help="folder of validation images, one subfolder for each class")
args = parser.parse_args()
if args.imagenet is not None and args.model is None:
    parser.error("--imagenet needs --model and --weights: no network is trained for it here")


def spread(n, wanted):
    """Indices at equal steps, as in the paper, which takes every 20th or every 100th image."""
    return np.arange(0, n, max(1, n // wanted))[:wanted]


def load_imagenet(folder, wanted):
    """Images scaled to 256 along the shorter side and cropped to 224; classes in the order of their folders' names."""
    from PIL import Image

    places = sorted(place for place in folder.iterdir() if place.is_dir())
    files = [(path, label) for label, place in enumerate(places) for path in sorted(place.iterdir())]
    images, labels = [], []
    for index in spread(len(files), wanted):
        path, label = files[index]
        image = Image.open(path).convert("RGB")
        scale = 256 / min(image.size)
        image = image.resize([round(side * scale) for side in image.size], Image.Resampling.BILINEAR)
        left, top = ((side - 224) // 2 for side in image.size)
        pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), dtype=np.float32) / 255
        images.append(pixels.transpose(2, 0, 1))
        labels.append(label)
    return np.stack(images), np.array(labels)


def load_train():
    X_train, y_train = load_cifar10("train")
    return X_train[: args.n_train], y_train[: args.n_train]


if args.imagenet is None:
    X_test, y_test = load_cifar10("test")
    rows = spread(len(X_test), args.n_inputs)
    X, y, data = X_test[rows], y_test[rows], "cifar10"
else:
    X, y = load_imagenet(args.imagenet, args.n_inputs)
    data = "imagenet"
name = f"{data}_sigma_{args.sigma:.2f}"
if args.model is None:
    folder = args.out / f"{name}_{args.n_train}_images_{args.epochs}_epochs_seed_{args.seed}"
    clf = trained(cifar10_net, folder / "net.pt", load_train, X, y, args)
else:
    folder = args.out / f"{name}_{slug(args.model)}_{'' if args.weights is None else slug(args.weights.stem)}"
    clf = pretrained(args.model, args.weights, X, y, args)

rivals = args.against == "rivals"
results = certify_each(clf, clf, X, y, args, folder, AGAINST_RIVALS if rivals else SHOWN)
panels = [(label, y, results[BASELINE], each) for label, each in results.items() if label != BASELINE]
logs = None if rivals else reference()  # published logs are against one half
logs = None if logs is None else logs / name
if logs is not None and (logs / f"dipole_N_{args.n_samples}.tsv").exists():
    truth, first = read_log(logs / f"N_{args.n_samples}.tsv")
    _, log = read_log(logs / f"dipole_N_{args.n_samples}.tsv")
    panels.append(("dipole, published log", truth, first, log))
baseline = (BASELINE, y, results[BASELINE], results[BASELINE])
picture = f"figure_6_{name}{suffix(args)}_N_{args.n_samples}"
report([baseline, *panels], args.out, picture)
shown = "CIFAR-10" if args.imagenet is None else "ImageNet"
title = f"{shown}, $\\sigma$ = {args.sigma:g}, N = {power(args.n_samples)}: change from first order"
draw_gains(panels, title + (", against rivals" if rivals else ""), args.out, picture)
if rivals:
    draw_curves(y, results, title.split(":")[0] + ", against rivals", args.out, f"{picture}_curves")
