"""
Certified discs on a Swiss roll
===============================

In two dimensions a certificate can be drawn: it is a disc in which the prediction does not change. If the gradient of
the vote is known, and not only the vote, the discs are larger. The gain is largest for points whose class is surrounded
by the other class.
"""

# %%
# Two classes on a roll: the inner part and the outer part. The base classifier uses the nearest neighbours; `fit`
# trains it on ten noisy copies of each point.
import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from smoothcert import FirstOrderCertifier, SecondOrderCertifier, SmoothedClassifier
from smoothcert.datasets import make_swiss_roll_classes
from smoothcert.plotting import CertifiedRegionDisplay

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 50_000))  # the tests of this project use fewer

X_train, y_train = make_swiss_roll_classes(1000, noise=0.5, random_state=0)
X, y = make_swiss_roll_classes(200, noise=0.5, random_state=1)
far_apart = [0]
for _ in range(15):  # sixteen points, each as far as can be from those before it
    far_apart.append(np.argmax(np.linalg.norm(X[:, None] - X[far_apart], axis=2).min(axis=1)))
X, y = X[far_apart], y[far_apart]

# %%
# `sigma` is the standard deviation of the noise, in the units of the plane. The same classifier is certified twice:
# from the number of votes alone, and from the votes and their gradient. The display does both, and also draws the
# predicted class on a grid.
clf = SmoothedClassifier(
    KNeighborsClassifier(10), sigma=0.4, certifier=SecondOrderCertifier(n_samples), n_votes=200, random_state=0
).fit(X_train, y_train)
fig, ax = plt.subplots(figsize=(7.2, 7.2), layout="constrained")
display = CertifiedRegionDisplay.from_estimator(clf, X, y, baseline=FirstOrderCertifier(n_samples), ax=ax, s=28)
first, second = display.baseline, display.certificates
print(second)
gain = second.radius[~first.abstained] / first.radius[~first.abstained] - 1
print(f"median gain by the gradient: {np.median(gain):.1%}, largest: {gain.max():.1%}")

# %%
# The inner circle is the first-order certificate, and the light band around it is what the gradient adds. Where the
# classes face each other, discs of both classes nearly touch, so little more can be proved. A point without a
# certificate, or with a wrong prediction, would be black. The small dots are the training data.
for label, colour in enumerate(["#2471a3", "#c0392b"]):
    ax.scatter(*X_train[y_train == label].T, s=4, color=colour, alpha=0.35, linewidths=0, zorder=1)
    ax.plot([], [], "o", color=colour, label=["inner part", "outer part"][label])
ax.set(xlabel="first coordinate", ylabel="second coordinate")
ax.legend(loc="upper right")
fig.savefig("swiss_roll.png", dpi=120)
