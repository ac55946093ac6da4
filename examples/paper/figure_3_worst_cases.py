"""Figures 3 and 4b: the classifiers against which each certificate is exact.

All have probability 0.8 at the input (the dot). The class is blue, everything else red. The dashed circle is two
standard deviations of the noise, the arrow five times the gradient, and the ring the certified radius: at its rightmost
point the vote is exactly even.
"""

import matplotlib.pyplot as plt
import numpy as np
from _common import options, save, write_table
from matplotlib.patches import Circle

from smoothcert.bounds import dipole_radius, first_order_radius, second_order_dipole_radius, second_order_radius
from smoothcert.worst_case import (
    dipole_worst_case,
    first_order_worst_case,
    second_order_dipole_worst_case,
    second_order_worst_case,
)

P, BOTH, ONE_SIDED = 0.8, 0.7, 0.1
args = options(__doc__).parse_args()
steepest = first_order_worst_case(P).grad_norm
cases = {
    "3a: largest gradient": (first_order_worst_case(P), first_order_radius(P)),
    "3b: a third of it": (second_order_worst_case(P, steepest / 3), second_order_radius(P, steepest / 3)),
    "3c: gradient zero": (second_order_worst_case(P, 0.0), second_order_radius(P, 0.0)),
    "4b: dipole": (dipole_worst_case(BOTH, ONE_SIDED), dipole_radius(BOTH, ONE_SIDED)),
    "second-order dipole": (
        second_order_dipole_worst_case(BOTH, ONE_SIDED, 0.06),
        second_order_dipole_radius(BOTH, ONE_SIDED, 0.06),
    ),
}

figure, axes = plt.subplots(1, len(cases), figsize=(3.1 * len(cases), 4.1), layout="constrained")
edge, blue, red = 3.0, "#aed0ea", "#f1b5ae"
table = {name: [] for name in ("case", "intervals", "p", "gradient_norm", "radius", "p_at_radius")}
for ax, (title, (case, radius)) in zip(axes, cases.items(), strict=True):
    ax.set_facecolor(red)
    for low, high in case.intervals:
        ax.axvspan(max(low, -edge), min(high, edge), color=blue, lw=0)
    ax.add_patch(Circle((0, 0), 2.0, fill=False, ls="--", ec="#1b4f72"))
    ax.add_patch(Circle((0, 0), float(radius), fill=False, ec="black", lw=1.3))
    ax.plot([0], [0], "o", c="#1b4f72")
    if case.grad_norm > 1e-6:
        arrow = {"arrowstyle": "-|>", "color": "#1b4f72", "lw": 2}
        ax.annotate("", (-5 * case.grad_norm, 0), (0, 0), arrowprops=arrow)
    ax.plot([float(radius)], [0], "k.")
    ax.set(
        xlim=(-edge, edge), ylim=(-edge, edge), xticks=range(-3, 4), yticks=range(-3, 4), xlabel=r"distance / $\sigma$"
    )
    ax.set_aspect("equal")
    ax.set_title(f"{title}\nradius {np.floor(100 * radius) / 100:.2f}", fontsize=11)
    row = (title, str(case.intervals), float(case.probability(0.0)), case.grad_norm, float(radius))
    for name, value in zip(table, (*row, float(case.probability(radius))), strict=True):
        table[name].append(value)
    print(f"{title:24s} radius {radius:.4f}, probability there {case.probability(radius):.6f}")
figure.suptitle("blue: the class; dashed: two standard deviations; arrow: 5 times the gradient; ring: certified radius")
save(figure, args.out, "figure_3")
write_table(args.out, "figure_3", table)
