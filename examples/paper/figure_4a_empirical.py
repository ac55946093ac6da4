"""Figure 4a: second-order certificates from samples, with the paper's limit of the gradient and with the centred one.

49 features, error probability 0.001, estimates taken to fall exactly on the truth. The paper shows N = 1e8; at
N = 1e5 its limit of the gradient says nothing yet.
"""

import matplotlib.pyplot as plt
from _common import count, options, power, save, write_table

from smoothcert import SecondOrderCertifier
from smoothcert.plotting import BoundDisplay

parser = options(__doc__)
parser.add_argument("--n-samples", type=count, nargs="+", default=[10**8, 10**5], help="one row of panels for each")
parser.add_argument("--n-features", type=count, default=49, help="dimension of the noise")
args = parser.parse_args()

methods = {"paper": "limit of the paper (Theorem 2)", "centred": "centred limit"}
rows = len(args.n_samples)
figure, axes = plt.subplots(
    rows, 2, figsize=(11, 4.0 * rows), layout="constrained", squeeze=False, sharex=True, sharey=True
)
table = {name: [] for name in ("limit", "n_samples", "p", "gradient_norm", "second_order_radius", "first_order_radius")}
for line, n in zip(axes, args.n_samples, strict=True):
    for ax, (method, title) in zip(line, methods.items(), strict=True):
        display = BoundDisplay.from_radius(
            (0.55, 0.6, 0.7, 0.8, 0.9, 0.95),
            certifier=SecondOrderCertifier(n, gradient_bound=method),
            n_features=args.n_features,
            n_points=61,
            ax=ax,
            name=f"{title}, N = {power(n)}",
        )
        ax.legend(ncols=2, loc="upper right", fontsize="small")
        ax.set_ylim(0, 2.6)
        for name, norms, radii, flat in zip(display.names, display.x, display.y, display.first_order, strict=True):
            for g, r in zip(norms, radii, strict=True):
                for key, value in zip(table, (method, n, name[4:], g, r, flat), strict=True):
                    table[key].append(value)
            print(f"{method:8s} N = {n:.0e}, {name}: radius at gradient zero {radii[0]:.4f}, first order {flat:.4f}")
for ax in axes[:-1].flat:
    ax.set_xlabel("")
for ax in axes[:, 1:].flat:
    ax.set_ylabel("")
figure.suptitle(f"{args.n_features} features; dashed: first order with as many samples")
save(figure, args.out, "figure_4a")
write_table(args.out, "figure_4a", table)
