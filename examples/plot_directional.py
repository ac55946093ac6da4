"""
Measuring along one direction
=============================

An adversary usually has one good direction, in which votes are lost soonest. The directional certificate finds this
direction with some of the samples and measures the votes along it with the others. It has to assume the worst only for
the perpendicular part of a perturbation. This example draws it in the plane.
"""

# %%
# A decision tree for two moons is smoothed. The input is near the tip of one moon, where the other class is close on
# several sides.
import os

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle
from scipy.ndimage import gaussian_filter
from scipy.stats import norm
from sklearn.datasets import make_moons
from sklearn.tree import DecisionTreeClassifier

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SecondOrderCertifier, SmoothedClassifier

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 100_000))  # the tests of this project use fewer

sigma = 0.3
X, y = make_moons(1000, noise=0.1, random_state=0)
clf = SmoothedClassifier(DecisionTreeClassifier(max_leaf_nodes=30, random_state=0), sigma=sigma, random_state=0)
clf.fit(X, y)
x = np.array([0.11, -0.17])
certifiers = {
    "first order": FirstOrderCertifier(n_samples),
    "second order": SecondOrderCertifier(n_samples),
    "directional": DirectionalCertifier(n_samples),
}
found = {name: clf.set_params(certifier=certifier).certify([x]) for name, certifier in certifiers.items()}

# %%
# In the plane the smoothed classifier can be computed exactly, by blurring the base classifier on a fine grid. This
# gives the true distance to the boundary, which no certificate can exceed.
step = 0.01
axis = np.arange(-2.5, 3.5, step)
xx, yy = np.meshgrid(axis, axis)
votes = clf.estimator_.predict(np.column_stack([xx.ravel(), yy.ravel()])).reshape(xx.shape)
p = gaussian_filter((votes == found["directional"].prediction[0]).astype(float), sigma / step)
truth = np.hypot(xx - x[0], yy - x[1])[p <= 0.5].min()
shown = {name: np.floor(1000 * each.radius[0]) / 1000 for name, each in found.items()}  # a promise is rounded down
for name, radius in shown.items():
    print(f"{name:13} {radius:.3f}")
print(f"{'boundary at':13} {truth:.3f}")

# %%
# The directional certificate knows the direction, and how many noisy copies hit the class at each position along it.
# From these fractions follows the vote at every point of the line, because moving the input only changes the weights of
# the bins. The first order knows only the vote at the input, and must assume that it falls faster.
counts = found["directional"].counts
direction, trials = counts["direction"][0], counts["bin_trials"][0]
share = counts["bin_hits"][0] / np.maximum(trials, 1)
edges = np.linspace(-4, 4, len(share) - 1)
ahead = np.linspace(0, 3, 100)
bins = np.concatenate([[-np.inf], edges, [np.inf]])
along = np.diff(norm.cdf(bins - ahead[:, None]), axis=1) @ share
first = norm.cdf(norm.ppf(found["first order"].limits["p"][0]) - ahead)
print(f"along the direction the vote is lost at about {sigma * ahead[along > 0.5].max():.2f}")

# %%
# The circles are certified. All of them are inside the boundary of the smoothed classifier, the black curve. The arrow
# is the direction. The largest circle does not reach the boundary for two reasons: across the direction only the
# gradient is known, and all quantities are known only up to chance.
colours = {"first order": "#7f8c8d", "second order": "#2471a3", "directional": "#c0392b"}
fig = plt.figure(figsize=(10, 5.2), layout="constrained")
cells = fig.add_gridspec(2, 2, width_ratios=[1.25, 1])
ax = fig.add_subplot(cells[:, 0])
ax.contourf(xx, yy, votes, levels=[-0.5, 0.5, 1.5], colors=["#f2efe6", "#e3ecf3"])
ax.scatter(*X.T, s=6, c=np.where(y == 1, "#5d8fb3", "#c2a878"), alpha=0.7, linewidths=0)
ax.contour(xx, yy, p, levels=[0.5], colors="black", linewidths=1.5)
ax.plot([], [], color="black", linewidth=1.5, label=f"boundary, {truth:.3f} away")
for name, certificate in found.items():
    ax.add_patch(Circle(x, certificate.radius[0], fill=False, edgecolor=colours[name], linewidth=2))
    ax.plot([], [], color=colours[name], linewidth=2, label=f"{name}, {shown[name]:.3f}")
tip = x + found["directional"].radius[0] * direction
ax.annotate("", tip, x, arrowprops={"arrowstyle": "-|>", "color": "black", "shrinkA": 0, "shrinkB": 0})
ax.plot(*x, "o", color="black", markersize=6)
ax.set(xlim=(-0.7, 0.85), ylim=(-1.07, 0.6), aspect="equal", xlabel="first feature", ylabel="second feature")
ax.legend(loc="lower right", framealpha=0.95)

ax = fig.add_subplot(cells[0, 1])
seen = trials > 0
middle = np.clip((np.append(edges, 4.2) + np.insert(edges, 0, -4.2)) / 2, -4.1, 4.1)
ax.scatter(sigma * middle[seen], share[seen], s=np.clip(trials[seen] / 80, 3, 28), color=colours["directional"])
ax.set(xlabel="position of the noise along the direction", ylabel="fraction of hits", ylim=(-0.03, 1.03))
ax.set_title("measured: hits in bins (larger: more samples)", fontsize=10)

ax = fig.add_subplot(cells[1, 1])
ax.plot(sigma * ahead, along, color=colours["directional"], linewidth=2, label="measured along the direction")
ax.plot(sigma * ahead, first, "--", color=colours["first order"], linewidth=2, label="lower bound of the first order")
ax.axhline(0.5, color="black", linewidth=0.8)
ax.set(xlabel="distance from the input along the direction", ylabel="fraction of votes", xlim=(0, 0.9), ylim=(0, 1))
ax.legend(frameon=False)
fig.savefig("directional.png", dpi=120)
