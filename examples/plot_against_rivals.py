"""
Against rivals or against one half
==================================

A class with more than half of the votes is the majority. With three classes, fewer votes are enough as long as no other
class has more. So there are two questions: up to which distance does the class keep *half* of the votes, and up to
which distance does it keep *more votes than any other class*? This example draws both answers in the plane.
"""

# %%
# Three classes meet in a point. The input belongs to the class on the left.
import os

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle
from scipy.ndimage import gaussian_filter, map_coordinates
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from smoothcert import DirectionalCertifier, SmoothedClassifier

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 100_000))  # the tests of this project use fewer

sigma = 0.8
X, y = make_blobs(600, centers=[(-1.0, 0.0), (1.0, 0.8), (1.0, -0.8)], cluster_std=0.4, random_state=0)
clf = SmoothedClassifier(LogisticRegression(), sigma=sigma, random_state=0).fit(X, y)
x = np.array([-0.7, 0.1])
certified = {
    against: clf.set_params(certifier=DirectionalCertifier(n_samples, against=against)).certify([x])
    for against in ("half", "rivals")
}
label = int(certified["rivals"].prediction[0])

# %%
# The smoothed probabilities are computed by blurring the base classifier on a fine grid. From them follow the two true
# distances: to the nearest point where the class has half of the votes, and to the nearest point where another class
# has as many votes.
step = 0.02
axis = np.arange(-6.0, 6.0, step)
xx, yy = np.meshgrid(axis, axis)
votes = clf.estimator_.predict(np.column_stack([xx.ravel(), yy.ravel()])).reshape(xx.shape)
p = np.stack([gaussian_filter((votes == c).astype(float), sigma / step) for c in range(3)])
own, strongest = p[label], np.delete(p, label, axis=0).max(axis=0)
distance = np.hypot(xx - x[0], yy - x[1])
lost = {"half": own <= 0.5, "rivals": own <= strongest}
truth = {against: distance[where].min() for against, where in lost.items()}
for against in ("half", "rivals"):
    print(f"against {against:7} certified {certified[against].radius[0]:.3f}   true distance {truth[against]:.3f}")

# %%
# Left: the class keeps half of the votes up to the dashed curve, and more votes than any other class up to the solid
# curve. Right: the votes on the line to the nearest point of the solid curve. Where the class falls below one half, the
# other classes share the other half, and none of them has overtaken it yet.
nearest = np.argmin(np.where(lost["rivals"], distance, np.inf))
towards = np.array([xx.ravel()[nearest], yy.ravel()[nearest]]) - x
towards /= np.linalg.norm(towards)
way = np.linspace(0.0, 2.0, 201)
points = (x[:, None] + way * towards[:, None] - axis[0]) / step
along = [map_coordinates(of_class, points[::-1], order=1) for of_class in p]

colours = {"half": "#7f8c8d", "rivals": "#c0392b"}
classes = ["#2471a3", "#b9770e", "#1e8449"]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
left.contourf(xx, yy, votes, levels=[-0.5, 0.5, 1.5, 2.5], colors=["#e3ecf3", "#f6ecd9", "#e4f1e6"])
left.contour(xx, yy, own, levels=[0.5], colors="black", linewidths=1.3, linestyles="--")
left.contour(xx, yy, own - strongest, levels=[0.0], colors="black", linewidths=1.5)
for against, style in (("half", "--"), ("rivals", "-")):
    radius = certified[against].radius[0]
    left.add_patch(Circle(x, radius, fill=False, edgecolor=colours[against], linewidth=2))
    left.plot([], [], style, color="black", label="half of the votes" if against == "half" else "a rival overtakes")
    shown = np.floor(1000 * radius) / 1000  # a promise is rounded down
    left.plot([], [], color=colours[against], linewidth=2, label=f"certified against {against}, {shown:.3f}")
left.plot(*x, "o", color="black", markersize=6)
left.set(xlim=(-2.3, 1.9), ylim=(-1.6, 2.6), aspect="equal", xlabel="first feature", ylabel="second feature")
left.legend(loc="upper left", framealpha=0.95, fontsize=8)

for c, of_class in enumerate(along):
    right.plot(way, of_class, color=classes[c], linewidth=2, label="the class" if c == label else f"rival {c}")
right.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
ahead = np.max(np.delete(along, label, axis=0), axis=0)
events = {
    "half": (way[np.argmax(along[label] <= 0.5)], "half of the votes"),
    "rivals": (way[np.argmax(along[label] <= ahead)], "a rival overtakes"),
}
for against, (place, text) in events.items():
    right.axvline(place, color=colours[against], linewidth=1.5)
    right.annotate(
        text, (place, 0.97), (-4, 0), textcoords="offset points", rotation=90, ha="right", va="top", fontsize=9
    )
right.set(xlabel="distance from the input", ylabel="probability of a vote", xlim=(0, way[-1]), ylim=(0, 1))
right.legend(frameon=False, loc="upper right")
fig.savefig("against_rivals.png", dpi=120)
