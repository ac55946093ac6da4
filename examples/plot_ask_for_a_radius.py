"""
Asking for a radius
===================

How many inputs are right and certified at radius 0.4? This question needs far fewer samples than the largest possible
radius of every input. The example chooses `sigma` by certified accuracy, first with a fixed number of samples and then
by asking for the radius. The choice is the same, and asking is much faster.
"""

# %%
# The data are digits with pixels from 0 to 1, and the base is a linear classifier.
import os
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split

from smoothcert import FirstOrderCertifier, SmoothedClassifier
from smoothcert.metrics import certified_accuracy_score, make_certified_scorer

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 100_000))  # the tests of this project use fewer

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, train_size=600, test_size=20, random_state=0)
radius = 0.4
clf = SmoothedClassifier(
    LogisticRegression(C=0.3, max_iter=500),
    sigma=0.25,
    n_augment=2,
    certifier=FirstOrderCertifier(n_samples),
    random_state=0,
).fit(X_train, y_train)

# %%
# With `radius`, sampling of an input stops as soon as it is decided whether it can be certified there. With labels, it
# also stops if the votes point to a wrong class. The certificates contain the number of samples and the reason why
# sampling stopped.
answer = clf.certify(X_test, y_test, radius=radius)
print(answer)
reasons, counts = np.unique(answer.stopped, return_counts=True)
print(dict(zip(reasons.tolist(), counts.tolist(), strict=True)))

# %%
# Certified accuracy for several values of `sigma`, computed in both ways. Much smaller noise could not prove a radius
# of 0.4, even if all votes agreed. More noise than needed makes more votes wrong.
sigmas = [0.16, 0.2, 0.3, 0.4]
ways = {"fixed number of samples": {}, "radius asked for": {"y": y_test, "radius": radius}}
accuracy = {way: [] for way in ways}
seconds = dict.fromkeys(ways, 0.0)
used = {way: [] for way in ways}
for sigma in sigmas:
    clf.set_params(sigma=sigma).fit(X_train, y_train)
    for way, question in ways.items():
        start = time.perf_counter()
        certificates = clf.certify(X_test, **question)
        seconds[way] += time.perf_counter() - start
        accuracy[way].append(certified_accuracy_score(y_test, certificates, radius))
        used[way].extend(certificates.samples_used)
for way in ways:
    best = sigmas[int(np.argmax(accuracy[way]))]
    print(f"{way}: sigma={best}, {seconds[way]:.1f} seconds, {np.mean(used[way]):.0f} samples per input")

# %%
# Left: the certified accuracies. They differ only where an input is very close to the limit. Right: the number of
# samples of each input if the radius is asked for. Most inputs are decided early.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for (way, scores), style in zip(accuracy.items(), ("o-", "x--"), strict=True):
    left.plot(sigmas, scores, style, label=f"{way}, {seconds[way]:.1f} s")
left.set(xlabel="sigma (range of a pixel: 1)", ylabel=f"right and certified at {radius}", ylim=(0, 1))
left.legend(loc="lower center", frameon=False)
edges = np.geomspace(80, 1.25 * n_samples, 30)
right.hist(used["radius asked for"], edges, color="C1")
right.axvline(n_samples, color="C0")
right.annotate(
    "fixed number",
    (n_samples, 0.95),
    xycoords=("data", "axes fraction"),
    ha="right",
    color="C0",
    rotation=90,
    va="top",
    xytext=(-3, 0),
    textcoords="offset points",
)
right.set(xscale="log", xlabel="samples per input", ylabel="inputs, all values of sigma")
fig.savefig("ask_for_a_radius.png", dpi=120)

# %%
# Scorers ask for their radius automatically, so nothing needs to be set in a search.
start = time.perf_counter()
search = GridSearchCV(clf, {"sigma": sigmas}, scoring=make_certified_scorer(radius), cv=2)
search.fit(X_train[:150], y_train[:150])
print(f"chosen by cross-validation: {search.best_params_}, {time.perf_counter() - start:.1f} seconds with training")

# %%
# Use the answer only for the radius that you asked for. The radii in `answer.radius` are valid, but smaller than those
# of a run with all samples. For the average radius, or for a curve of certified accuracy, call `certify` without
# `radius`. Metrics and displays warn if you forget this.
