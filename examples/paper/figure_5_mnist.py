"""Figure 5 and the first two of the appendix: gains over first order on 7x7 MNIST.

The paper's network is trained under noise, every tenth test image is certified, and the change of each radius is
counted: with the procedures as published, and with the ones of this library. With --against rivals the certificates say
that the class keeps more votes than every other class, not more than half. The network and the certificates are kept
in the output folder and found there by the next run. SMOOTHCERT_DATA names a folder with MNIST; without it OpenML is
asked.

    python figure_5_mnist.py --sigma 0.25 --n-jobs 2
    python figure_5_mnist.py --sigma 0.25 --against rivals
    python figure_5_mnist.py --sigma 0.12 --n-samples 1e6

On one core of a small machine about 600,000 samples a second were seen, so the first takes some twenty minutes there.
"""

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
from _nets import small_mnist_net, trained

from smoothcert.datasets import load_mnist

parser = options(__doc__, n_samples=100_000, n_inputs=1000, certifiers=list(CERTIFIERS)[1:])
parser.add_argument("--sigma", type=float, default=0.25, help="noise; the paper has 0.12, 0.25 and 0.50")
parser.add_argument("--epochs", type=count, default=60, help="passes over the training images")
parser.add_argument("--n-train", type=count, default=60_000, help="training images")
parser.add_argument("--same-noise", action="store_true", help="the same noise for all certifiers")
parser.add_argument("--device", default="cpu", help="where the network computes, for example cuda")
args = parser.parse_args()

X, y = (part[::10][: args.n_inputs] for part in load_mnist("test", pool=7))


def load_train():
    X_train, y_train = load_mnist("train", pool=7)
    return X_train[: args.n_train], y_train[: args.n_train]


name = f"mnist_sigma_{args.sigma:.2f}"
folder = args.out / f"{name}_{args.n_train}_images_{args.epochs}_epochs_seed_{args.seed}"
clf = trained(small_mnist_net, folder / "net.pt", load_train, X, y, args)
rivals = args.against == "rivals"
results = certify_each(clf, clf, X, y, args, folder, AGAINST_RIVALS if rivals else CERTIFIERS)
panels = [(label, y, results[BASELINE], each) for label, each in results.items() if label != BASELINE]

logs = None if rivals else reference()  # published logs are against one half
logs = None if logs is None else logs / f"small_mnist_sigma_{args.sigma:.2f}"
if logs is not None and (logs / f"N_{args.n_samples}.tsv").exists():
    truth, first = read_log(logs / f"N_{args.n_samples}.tsv")
    for method in ("second order", "dipole"):
        _, log = read_log(logs / f"{slug(method)}_N_{args.n_samples}.tsv")
        # The logs are about the same images, in the same order.
        panels.append((f"{method}, published log", *(part[: args.n_inputs] for part in (truth, first, log))))
rows = [(BASELINE, y, results[BASELINE], results[BASELINE]), *panels]
if logs is not None and (logs / f"N_{args.n_samples}.tsv").exists() and (logs / f"second_order_N_{10**8}.tsv").exists():
    truth, first = read_log(logs / f"N_{args.n_samples}.tsv")
    _, log = read_log(logs / f"second_order_N_{10**8}.tsv")
    rows.append(("second order, published log of 1e8", *(part[: args.n_inputs] for part in (truth, first, log))))
picture = f"figure_5_{name}{suffix(args)}_N_{args.n_samples}"
report(rows, args.out, picture)
title = f"7x7 MNIST, $\\sigma$ = {args.sigma:g}, N = {power(args.n_samples)}: change from first order"
draw_gains(panels, title + (", against rivals" if rivals else ""), args.out, picture)
if rivals:
    draw_curves(y, results, title.split(":")[0] + ", against rivals", args.out, f"{picture}_curves")
