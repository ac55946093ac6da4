"""
A classifier that must not be retrained
=======================================

A classifier that was trained on clean images usually fails on noisy ones. If it must not be trained again, for example
because it belongs to somebody else or was approved as it is, train a *denoiser* in front of it: a small network that
removes noise before the classifier sees the image. Both together are an ordinary network, and can be certified like any
other.
"""

# %%
# The classifier is trained on clean images and is not changed afterwards.
import os

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from skorch.callbacks import Freezer
from torch import nn

from smoothcert import FirstOrderCertifier, SmoothedClassifier
from smoothcert.plotting import CertifiedAccuracyDisplay
from smoothcert.training import BaseRecipe

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 10_000))  # the tests of this project use fewer

X, y = load_digits(return_X_y=True)
images = (X / 16).astype(np.float32).reshape(-1, 1, 8, 8)
X_train, X_test, y_train, y_test = train_test_split(images, y, test_size=100, random_state=0)
settings = {
    "criterion": nn.CrossEntropyLoss,
    "optimizer": torch.optim.Adam,
    "batch_size": 64,
    "train_split": None,
    "verbose": 0,
}

torch.manual_seed(0)
classifier = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 10)
)  # fmt: skip
approved = NeuralNetClassifier(classifier, lr=0.005, max_epochs=20, **settings).fit(X_train, y_train.astype(np.int64))
print(f"accuracy on clean images: {approved.score(X_test, y_test):.2f}")


# %%
# The denoiser estimates the noise and subtracts it. Its loss has two terms: the result should be close to the image,
# and the classifier should recognise it. A training recipe returns the terms of the loss by name, so this recipe is
# short:
class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.noise = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64), nn.Unflatten(1, (1, 8, 8))
        )  # fmt: skip

    def forward(self, x):
        return x - self.noise(x)


class Denoise(BaseRecipe):
    def __init__(self, weight=5.0, copies=1, chunking="step"):
        super().__init__(copies, chunking)
        self.weight = weight

    def objective(self, step, logits, y):
        denoiser = step.module[0]
        restored = denoiser((step.x + step.noise).flatten(0, 1))
        error = (restored - step.x.repeat(self.copies, 1, 1, 1)).square().mean()
        return {"recognised": step.criterion(), "restored": self.weight * error}


# %%
# `Freezer` keeps the weights of the second part, the classifier. Everything else is the same as for any network.
net = NeuralNetClassifier(
    nn.Sequential(Denoiser(), approved.module_), lr=0.002, max_epochs=30, callbacks=[Freezer("1.*")], **settings
)
certifier = FirstOrderCertifier(n_samples)
denoised = SmoothedClassifier(net, sigma=0.5, training=Denoise(), certifier=certifier, random_state=0)
denoised.fit(X_train, y_train)
alone = SmoothedClassifier(FrozenEstimator(approved), sigma=0.5, certifier=certifier, random_state=0)
alone.fit(X_train, y_train)

denoiser, behind = denoised.estimator_.module_
print("classifier unchanged:", all(map(torch.equal, behind.parameters(), classifier.parameters())))
results = {"with a denoiser": denoised.certify(X_test), "classifier alone": alone.certify(X_test)}

# %%
# Top: noisy images and the output of the denoiser. Bottom: the certified accuracy with and without the denoiser.
fig = plt.figure(figsize=(8, 5), layout="constrained")
cells = fig.add_gridspec(2, 6, height_ratios=[1, 2.2])
rng = np.random.default_rng(0)
for pair in range(2):
    image = X_test[pair : pair + 1]
    noisy = image + 0.5 * rng.standard_normal(image.shape).astype(np.float32)
    with torch.no_grad():
        restored = denoiser(torch.tensor(noisy)).numpy()
    for column, (title, shown) in enumerate({"image": image, "noisy copy": noisy, "denoised": restored}.items()):
        ax = fig.add_subplot(cells[0, 3 * pair + column])
        ax.imshow(shown[0, 0], cmap="gray_r", vmin=-0.5, vmax=1.5)
        ax.set_title(title, fontsize=10)
        ax.set_axis_off()
ax = fig.add_subplot(cells[1, :])
CertifiedAccuracyDisplay.from_certificates(y_test, results, ax=ax)
fig.savefig("denoiser.png", dpi=120)
