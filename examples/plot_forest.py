"""
A smoothed random forest
========================

The base classifier only needs `fit` and `predict`. A random forest has no gradient, and its decision regions have steps
and islands. The smoothed forest has a smooth boundary, and every point has a certified distance to it.
"""

# %%
# Two interleaved half moons, and a forest that is fitted to noisy copies of them.
import os

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Circle
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier

from smoothcert import DipoleCertifier, SmoothedClassifier

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 10_000))  # the tests of this project use fewer

X, y = make_moons(300, noise=0.22, random_state=0)
forest = RandomForestClassifier(25, max_depth=8, random_state=0)
clf = SmoothedClassifier(
    forest, sigma=0.25, n_augment=5, n_votes=400, certifier=DipoleCertifier(n_samples), random_state=0
).fit(X, y)

# %%
# Twelve points with their certificates.
X_test, y_test = make_moons(12, noise=0.1, random_state=1)
certificates = clf.certify(X_test)
print(certificates)

# %%
# Left: the predictions of a forest that is fitted without noise. Right: the fraction of votes of the smoothed forest.
# Every certified disc is on one side of the line where the votes are even.
side = 50 if n_samples >= 10_000 else 12
grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, side), np.linspace(-1.3, 1.8, side)), axis=-1)
points = grid.reshape(-1, 2)
raw = RandomForestClassifier(25, random_state=0).fit(X, y).predict(points).reshape(side, side)
share = clf.predict_proba(points)[:, 1].reshape(side, side)
colours = ["#c0392b", "#2471a3"]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.7), layout="constrained", sharey=True)
left.pcolormesh(*np.moveaxis(grid, -1, 0), raw, cmap=ListedColormap(["#f1c6c0", "#bcd6ea"]), shading="nearest")
left.scatter(*X.T, c=y, cmap=ListedColormap(colours), s=9)
left.set_title("the forest itself, and its training data")
shades = right.contourf(*np.moveaxis(grid, -1, 0), share, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.6)
right.contour(*np.moveaxis(grid, -1, 0), share, levels=[0.5], colors="black", linewidths=1)
for point, radius, label in zip(X_test, certificates.radius, certificates.prediction, strict=True):
    right.add_patch(Circle(point, radius, facecolor="none", edgecolor=colours[label], linewidth=1.5))
    right.plot(*point, "o", color=colours[label], markersize=4)
right.set_title("smoothed, with certificates")
fig.colorbar(shades, ax=right, label="fraction of votes for the lower moon", shrink=0.7)
for ax in (left, right):
    ax.set(aspect="equal", xlim=(-1.6, 2.6), ylim=(-1.3, 1.8), xlabel="first coordinate")
left.set_ylabel("second coordinate")
fig.savefig("forest.png", dpi=120)
