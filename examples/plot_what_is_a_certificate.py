"""
What a certificate is
=====================

One input, many noisy copies of it, their votes, and the radius that the votes prove.
"""

# %%
# A decision tree is fitted to two moons without noise. One input is certified.
import os

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Circle
from sklearn.datasets import make_moons
from sklearn.tree import DecisionTreeClassifier

from smoothcert import FirstOrderCertifier, SmoothedClassifier
from smoothcert.bounds import first_order_lower_bound

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 100_000))  # the tests of this project use fewer

X, y = make_moons(200, noise=0.2, random_state=4)
x = np.array([[-0.4, 0.9]])
sigma = 0.3
clf = SmoothedClassifier(
    DecisionTreeClassifier(random_state=0),
    sigma=sigma,
    n_augment=0,
    n_votes=20_000,
    certifier=FirstOrderCertifier(n_samples),
    random_state=0,
).fit(X, y)
certificate = clf.certify(x)
print(certificate)

# %%
# The true probability of a vote is not known, because only some of all possible copies can be drawn. The certificate
# uses a lower confidence bound of this probability, which holds with probability 0.999. From the bound follows the
# smallest possible probability at any distance from the input, for any base classifier.
limit = certificate.limits["p"][0]
print(
    f"votes for the class: {certificate.counts['hits'][0]} of {n_samples}, so its probability is at least {limit:.4f}"
)

# %%
# Left: the predictions of the tree and 300 copies of the input. A dot is a copy that the tree assigns to the class of
# the input, a cross is any other copy. The prediction of the tree changes along a thin line inside the circle; the
# majority vote does not. Right: the probability of a vote when the input moves along the arrow, and its smallest
# possible value in any direction. The certified radius ends where this smallest value falls to one half.
rng = np.random.default_rng(0)
copies = x + sigma * rng.standard_normal((300, 2))
tree = clf.estimator_
agree = tree.predict(copies) == certificate.prediction[0]
side = np.meshgrid(np.linspace(-1.6, 1.2, 300), np.linspace(-0.5, 2.0, 300))
answers = tree.predict(np.stack(side, axis=-1).reshape(-1, 2)).reshape(side[0].shape)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.3), layout="constrained")
left.pcolormesh(*side, answers, cmap=ListedColormap(["#f1c6c0", "#bcd6ea"]), shading="nearest")
left.plot(*copies[agree].T, ".", color="#c0392b", markersize=4, alpha=0.7)
left.plot(*copies[~agree].T, "x", color="#2471a3", markersize=5)
left.add_patch(Circle(x[0], certificate.radius[0], facecolor="none", edgecolor="black", linewidth=1.8))
left.plot(*x[0], "o", color="black")
direction = np.array([0.6, -0.8])
left.annotate("", x[0] + 0.95 * direction, x[0], arrowprops={"arrowstyle": "->", "linewidth": 1.5})
left.set(aspect="equal", xlim=(-1.6, 1.2), ylim=(-0.5, 2.0), xlabel="first coordinate", ylabel="second coordinate")
left.set_title("an input, its noisy copies and its circle")
way = np.linspace(0, 0.95, 25)
share = clf.predict_proba(x + way[:, None] * direction)[:, certificate.prediction[0]]
right.plot(way, share, color="#c0392b", label="along the arrow")
right.plot(way, first_order_lower_bound(limit, way / sigma), color="black", label="lower bound in any direction")
right.axhline(0.5, color="gray", linewidth=0.8)
right.plot(2 * [certificate.radius[0]], [0, 0.5], ":", color="black")
right.annotate("certified radius", (certificate.radius[0], 0.04), xytext=(6, 0), textcoords="offset points")
right.set(xlabel="distance from the input", ylabel="probability of a vote for its class", ylim=(0, 1), xlim=(0, 0.95))
right.legend(frameon=False, loc="upper right")
fig.savefig("what_is_a_certificate.png", dpi=120)
