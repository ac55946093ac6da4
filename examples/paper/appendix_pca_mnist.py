"""Appendix, ten principal components of 7x7 MNIST: a scikit-learn pipeline, certified as a whole.

Noise is added to the ten components. Because an orthogonal projection stretches no distance, the radii hold for the
images too, and `certify` says so. The network has two hidden layers of 100.

    python appendix_pca_mnist.py --sigma 0.25 --n-jobs 2
"""

import joblib
from _common import (
    AGAINST_RIVALS,
    BASELINE,
    CERTIFIERS,
    certify_each,
    count,
    draw_gains,
    options,
    power,
    report,
    suffix,
)
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

from smoothcert import SmoothedClassifier
from smoothcert.datasets import load_mnist

parser = options(__doc__, n_samples=100_000, n_inputs=1000, certifiers=list(CERTIFIERS)[1:])
parser.add_argument("--sigma", type=float, default=0.25, help="noise; the paper has 0.12, 0.25 and 0.50")
parser.add_argument("--passes", type=count, default=30, help="passes over the training images")
parser.add_argument("--n-train", type=count, default=60_000, help="training images")
parser.add_argument("--same-noise", action="store_true", help="the same noise for all certifiers")
args = parser.parse_args()

X, y = (part[::10][: args.n_inputs] for part in load_mnist("test", pool=7, flatten=True))
name = f"pca_mnist_sigma_{args.sigma:.2f}"
folder = args.out / f"{name}_{args.n_train}_images_{args.passes}_passes_seed_{args.seed}"
kept = folder / "pipeline.joblib"
if kept.exists():
    print("pipeline:", kept, flush=True)
    pipeline = joblib.load(kept)
else:
    X_train, y_train = (part[: args.n_train] for part in load_mnist("train", pool=7, flatten=True))
    print(f"training on {len(X_train)} images, {args.passes} passes", flush=True)
    smoothed = SmoothedClassifier(
        MLPClassifier((100, 100), batch_size=256, random_state=args.seed),
        sigma=args.sigma,
        augmentation="passes",
        n_augment=args.passes,
        random_state=args.seed,
    )
    pipeline = make_pipeline(PCA(10, random_state=args.seed), smoothed).fit(X_train, y_train)
    folder.mkdir(parents=True, exist_ok=True)
    joblib.dump(pipeline, kept)

rivals = args.against == "rivals"
results = certify_each(pipeline, pipeline[-1], X, y, args, folder, AGAINST_RIVALS if rivals else CERTIFIERS)
print("the radius is about the", results[BASELINE].space)
panels = [(label, y, results[BASELINE], each) for label, each in results.items() if label != BASELINE]
baseline = (BASELINE, y, results[BASELINE], results[BASELINE])
picture = f"appendix_{name}{suffix(args)}_N_{args.n_samples}"
report([baseline, *panels], args.out, picture)
title = f"10 components of 7x7 MNIST, $\\sigma$ = {args.sigma:g}, N = {power(args.n_samples)}: change from first order"
draw_gains(panels, title + (", against rivals" if rivals else ""), args.out, picture)
