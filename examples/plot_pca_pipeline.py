"""
Noise on principal components
=============================

A pipeline may reduce the input before it is smoothed. The noise is then added to the principal components. `certify`
still reports radii for the pixels, because a projection stretches no distance.
"""

# %%
# Two models with the same base and the same `sigma`. The first smooths the 64 pixels. The second smooths 12 principal
# components of them.
import os

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from smoothcert import DipoleCertifier, SmoothedClassifier, certify
from smoothcert.metrics import certified_accuracy_curve, certified_accuracy_score

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 20_000))  # the tests of this project use fewer

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=200, random_state=0)


def smoothed(sigma=0.4):
    base = LinearSVC(C=0.1, random_state=0)
    return SmoothedClassifier(base, sigma=sigma, n_augment=3, certifier=DipoleCertifier(n_samples), random_state=0)


pixels = smoothed().fit(X_train, y_train)
components = make_pipeline(PCA(12, random_state=0), smoothed()).fit(X_train, y_train)

# %%
# `certify` goes through the pipeline and reports the space in which the radius holds. Here it is the input, because PCA
# without whitening is a projection. If there were a step that it cannot convert, `space` would name this step.
of_pixels, of_components = certify(pixels, X_test), certify(components, X_test)
print(of_components)
print("space:", of_components.space)
for name, result in (("pixels", of_pixels), ("components", of_components)):
    print(f"noise on {name}: certified at 0.25 {certified_accuracy_score(y_test, result, 0.25):.0%}")

# %%
# The curves are close, because a linear base uses only a few directions of the pixels. The components lose a little
# accuracy at small radii and gain a little at large ones. They need noise for 12 numbers instead of 64.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", width_ratios=[1, 2])
pca = components[0]
shown = X_test[3]
left.imshow(pca.inverse_transform(pca.transform([shown]))[0].reshape(8, 8), cmap="gray_r")
left.set_title("a digit, by 12 components")
left.set_axis_off()
for name, result in (("noise on 64 pixels", of_pixels), ("noise on 12 components", of_components)):
    right.step(*certified_accuracy_curve(y_test, result), where="pre", label=name)
right.set(xlabel="radius of the perturbation of the pixels", ylabel="right and certified", ylim=(0, 1), xlim=(0, None))
right.legend(frameon=False)
fig.savefig("pca_pipeline.png", dpi=120)
