"""
A neural network trained under noise
====================================

A skorch classifier can be used as the base directly. It has to vote on noisy images, so it should be trained on noisy
images. A network that is trained on clean images and smoothed afterwards proves much less.
"""

# %%
# A small convolutional network for scikit-learn's 8 by 8 digits. Images have the shape that PyTorch expects, and
# float32 values from 0 to 1.
import os

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from torch import nn

from smoothcert import DirectionalCertifier, SmoothedClassifier
from smoothcert.plotting import CertifiedAccuracyDisplay

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 10_000))  # the tests of this project use fewer

X, y = load_digits(return_X_y=True)
images = (X / 16).astype(np.float32).reshape(-1, 1, 8, 8)
X_train, X_test, y_train, y_test = train_test_split(images, y, test_size=50, random_state=0)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 10),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


def net():
    return NeuralNetClassifier(
        ConvNet,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.005,
        max_epochs=12,
        batch_size=64,
        train_split=None,
        verbose=0,
    )


# %%
# `fit` trains the first network with new noise in every batch. The second network is trained on clean images and
# frozen. For both, the certifier finds a direction from input gradients and measures the votes along it.
certifier = DirectionalCertifier(n_samples)
noisy = SmoothedClassifier(net(), sigma=0.5, certifier=certifier, random_state=0).fit(X_train, y_train)
torch.manual_seed(0)
trained = FrozenEstimator(net().fit(X_train, y_train.astype(np.int64)))
clean = SmoothedClassifier(trained, sigma=0.5, certifier=certifier, random_state=0).fit(X_train, y_train)
results = {"trained under noise": noisy.certify(X_test), "trained on clean images": clean.certify(X_test)}
print(results["trained under noise"])

# %%
# Top: what the network votes on. Bottom: the certified accuracy of both networks.
fig = plt.figure(figsize=(8, 5), layout="constrained")
cells = fig.add_gridspec(2, 6, height_ratios=[1, 2.2])
rng = np.random.default_rng(0)
for column in range(6):
    ax = fig.add_subplot(cells[0, column])
    noise = 0.5 * rng.standard_normal((8, 8)) if column % 2 else 0
    ax.imshow(X_test[column // 2, 0] + noise, cmap="gray_r", vmin=-0.5, vmax=1.5)
    ax.set_title("noisy copy" if column % 2 else "image", fontsize=10)
    ax.set_axis_off()
ax = fig.add_subplot(cells[1, :])
CertifiedAccuracyDisplay.from_certificates(y_test, results, ax=ax)
fig.savefig("neural_net.png", dpi=120)
