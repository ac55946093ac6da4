"""
Certified digits in one minute
==============================

This example trains a small network on scikit-learn's handwritten digits under noise and certifies 100 test images. The
smoothed classifier votes on noisy copies of each image and proves a radius: no perturbation with a smaller Euclidean
norm can change the majority vote.
"""

# %%
# The images are 8 by 8 pixels with values from 0 to 16. They are scaled to the range from 0 to 1, so radii are in units
# of full contrast.
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier
from smoothcert.metrics import average_certified_radius, certified_accuracy_score
from smoothcert.plotting import CertifiedAccuracyDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=100, random_state=0)

# %%
# `sigma` is the standard deviation of the noise. Every pass over the training data uses new noise. The certifier uses
# 50,000 votes for each image.
n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 50_000))  # the tests of this project use fewer
clf = SmoothedClassifier(
    MLPClassifier((100,), random_state=0),
    sigma=0.5,
    augmentation="passes",
    n_augment=60,
    certifier=DirectionalCertifier(n_samples),
    random_state=0,
).fit(X_train, y_train)
certificates = clf.certify(X_test)
print(certificates)
print("right, certified or not:", clf.score(X_test, y_test))
print("right, and provably so within radius 0.25:", certified_accuracy_score(y_test, certificates, radius=0.25))

# %%
# The classical certificate proves that the class keeps more than half of the votes. For the prediction it is enough
# that the class keeps more votes than any other class, which the same votes prove for larger radii. Measuring the votes
# along one direction gives larger radii still.
others = {
    "first order, against one half": FirstOrderCertifier(n_samples, against="half"),
    "first order, against rivals": FirstOrderCertifier(n_samples),
}
results = {name: clf.set_params(certifier=certifier).certify(X_test) for name, certifier in others.items()}
results["directional, against rivals"] = certificates
for name, result in results.items():
    print(f"average certified radius, {name}: {average_certified_radius(y_test, result):.3f}")

# %%
# Some digits with their certificates, and the fraction of digits that are right and certified up to each radius.
fig = plt.figure(figsize=(8, 4.5), layout="constrained")
grid = fig.add_gridspec(2, 6, height_ratios=[1, 2])
for column in range(6):
    ax = fig.add_subplot(grid[0, column])
    ax.imshow(X_test[column].reshape(8, 8), cmap="gray_r")
    shown = np.floor(100 * certificates.radius[column]) / 100  # a promise is rounded down
    radius = "abstained" if certificates.abstained[column] else f"radius {shown:.2f}"
    ax.set_title(f"“{certificates.prediction[column]}”\n{radius}", fontsize=10)
    ax.set_axis_off()
ax = fig.add_subplot(grid[1, :])
CertifiedAccuracyDisplay.from_certificates(y_test, results, ax=ax)
target = Path("quickstart.png")
fig.savefig(target, dpi=120)
print("picture:", target)
