"""Figure 2: certified discs on the swiss roll, first order and what second order adds.

The base is a network with two hidden layers of ten, trained under noise on 1000 points; 100 other points are certified.
The paper draws 1e8 samples for each point, this script 1e6 unless told otherwise.
"""

import matplotlib.pyplot as plt
import numpy as np
from _common import options, power, read_log, reference, save, write_table
from sklearn.neural_network import MLPClassifier

from smoothcert import FirstOrderCertifier, SecondOrderCertifier, SmoothedClassifier
from smoothcert.datasets import make_swiss_roll_classes
from smoothcert.plotting import CertifiedRegionDisplay

parser = options(__doc__, n_samples=10**6, n_inputs=100)
parser.add_argument("--passes", type=int, default=300, help="passes over the training points")
parser.add_argument("--grid", type=int, default=80, help="points of the background along each axis")
parser.add_argument("--rings", type=int, default=24, help="points that get rings")
args = parser.parse_args()

X_train, y_train = make_swiss_roll_classes(1000, random_state=1)
X, y = (part[: args.n_inputs] for part in make_swiss_roll_classes(100, random_state=2))
base = MLPClassifier((10, 10), learning_rate_init=0.01, random_state=args.seed)
clf = SmoothedClassifier(
    base, sigma=0.5, augmentation="passes", n_augment=args.passes, n_jobs=args.n_jobs, random_state=args.seed, verbose=1
).fit(X_train, y_train)
clf.set_params(certifier=SecondOrderCertifier(args.n_samples))
ours = CertifiedRegionDisplay.from_estimator(
    clf, X, y, baseline=FirstOrderCertifier(args.n_samples), grid_resolution=args.grid, eps=0.75, rings=args.rings
)
plt.close(ours.figure_)
displays = {f"smoothcert, N = {power(args.n_samples)}": (ours, ours.baseline, ours.certificates)}

folder = reference()
if folder is not None and args.n_inputs == 100:
    logs = folder / "swiss_roll_sigma_0.50"
    _, first = read_log(logs / "N_100000000.tsv")
    _, second = read_log(logs / "second_order_N_100000000.tsv")
    displays[f"published, N = {power(10**8)}"] = CertifiedRegionDisplay(X, y, second, first), first, second

figure, axes = plt.subplots(
    1, len(displays), figsize=(6 * len(displays), 6.5), layout="constrained", squeeze=False, sharex=True, sharey=True
)
table = {"x": X[:, 0], "y": X[:, 1], "label": y}
for ax, (name, (display, first, second)) in zip(axes[0], displays.items(), strict=True):
    plain = name.replace("$", "").replace("^", "**")
    display.plot(ax=ax, rings=ours.ring_index_, name=name)
    right = (second.prediction == y) & ~second.abstained
    gain = np.where(right, second.radius - first.radius, 0.0)
    for label, value in (("first_order", first.radius), ("second_order", second.radius), ("right", right.astype(int))):
        table[f"{label} ({plain})"] = value
    for kind, where in enumerate(("inner", "outer")):
        own = right & (y == kind)
        print(
            f"{plain}: {where} class, {own.sum()} certified, mean increase {gain[own].mean() if own.any() else 0:.4f}"
        )
    best = int(np.argmax(gain))
    print(f"{plain}: largest increase {gain[best]:.4f}, class {y[best]}, at ({X[best, 0]:.2f}, {X[best, 1]:.2f})")
words = ["Rings: first-order radius.", "Filled: increase by second order.", "Black: wrong or not certified."]
figure.suptitle((" " if len(displays) > 1 else "\n").join(words))
save(figure, args.out, "figure_2")
write_table(args.out, "figure_2", table)
