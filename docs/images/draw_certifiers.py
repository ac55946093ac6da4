"""Draw the picture of the README: certified accuracy of three certificates, from the table beside this file.

The table, certifiers.tsv, holds what examples/paper/figure_5_mnist.py measured at two noise levels:

    python figure_5_mnist.py --sigma 0.25 --against rivals --same-noise
    python figure_5_mnist.py --sigma 0.50 --against rivals --same-noise

Run: python docs/images/draw_certifiers.py
"""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
# Colours of Okabe and Ito, which people with any colour vision can tell apart. The order is that of the curves.
CURVES = {
    "directional": ("#d55e00", "smoothcert's default"),
    "rivals": ("#0072b2", "first order, against rivals"),
    "one_half": ("#6b6b6b", "first order (Cohen et al.)"),
}
AVERAGE_RADIUS = {
    "0.25": {"directional": 0.290, "rivals": 0.266, "one_half": 0.214},
    "0.50": {"directional": 0.270, "rivals": 0.227, "one_half": 0.091},
}


def read_table(sigma):
    with (HERE / "certifiers.tsv").open() as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row.pop("sigma") == sigma]
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def main():
    plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for ax, (sigma, averages) in zip(axes, AVERAGE_RADIUS.items(), strict=True):
        table = read_table(sigma)
        radii = table["radius"]
        ax.fill_between(radii, table["one_half"], table["directional"], color="#d55e00", alpha=0.1, linewidth=0)
        for line, (name, (colour, text)) in enumerate(CURVES.items()):
            ax.plot(radii, table[name], color=colour, linewidth=2.8 if name == "directional" else 1.8)
            height = 0.92 - 0.14 * line
            ax.plot([0.36, 0.4], 2 * [height], color=colour, linewidth=2.8 if name == "directional" else 1.8)
            ax.text(
                0.415, height, f"{text}\naverage radius {averages[name]:.3f}", color=colour, va="center", fontsize=11
            )
        ax.set(title=f"7x7 MNIST, sigma = {sigma}", xlabel="Euclidean radius", xlim=(0, 0.85), ylim=(0, 1))
    axes[0].set_ylabel("right and certified")
    figure.savefig(HERE / "certifiers.png", dpi=120)


if __name__ == "__main__":
    main()
