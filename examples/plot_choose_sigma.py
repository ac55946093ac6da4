"""
Choosing sigma by cross-validation
==================================

More noise can prove larger radii, but it hides more of the input. The best `sigma` depends on the radius that matters,
so choose it like any other parameter: by a score on held-out data.
"""

# %%
# The scorer certifies each held-out fold once and computes several certified accuracies from it. The certified accuracy
# is the fraction of inputs that are right and certified at the radius.
import os
import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from smoothcert import DipoleCertifier, SmoothedClassifier, UnreachableRadiusWarning
from smoothcert.metrics import make_certified_scorer

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 10_000))  # the tests of this project use fewer

X, y = load_digits(return_X_y=True)
X = X / 16  # values from 0 to 1
radii = [0.0, 0.12, 0.25, 0.5]
scorer = make_certified_scorer(radii)
print(scorer)

# %%
# The search is an ordinary `GridSearchCV`. `refit` names the score that decides, here the certified accuracy at 0.5.
# The scorer warns that small noise cannot certify large radii; the warning is silenced because this example wants to
# show exactly that.
warnings.simplefilter("ignore", UnreachableRadiusWarning)
search = GridSearchCV(
    SmoothedClassifier(
        LogisticRegression(C=0.3, max_iter=300), n_augment=3, certifier=DipoleCertifier(n_samples), random_state=0
    ),
    {"sigma": [0.03, 0.06, 0.12, 0.25, 0.35, 0.5]},
    scoring=scorer,
    refit="accuracy_at_0.5",
    cv=ShuffleSplit(2, test_size=100, train_size=800, random_state=0),
).fit(X, y)
print("chosen:", search.best_params_, f"certified at 0.5: {search.best_score_:.0%}")

# %%
# One curve for each radius. Small noise is the most accurate but proves little: with this number of samples, no radius
# can exceed about three times `sigma`. A large dot marks the best `sigma`, which grows with the radius.
fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
sigmas = search.cv_results_["param_sigma"].astype(float)
shades = plt.get_cmap("viridis")([0.0, 0.3, 0.55, 0.8])
for radius, shade in zip(radii, shades, strict=True):
    score = search.cv_results_[f"mean_test_accuracy_at_{radius:g}"]
    ax.plot(sigmas, score, ".-", color=shade, label=f"{radius:g}")
    ax.plot(sigmas[score.argmax()], score.max(), "o", color=shade, markersize=9)
ax.set_xscale("log")
ax.set_xticks(sigmas, [f"{s:g}" for s in sigmas])
ax.minorticks_off()
ax.set(xlabel="sigma (range of a pixel: 1)", ylabel="right and certified", ylim=(0, 1))
ax.legend(title="at radius", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
fig.savefig("choose_sigma.png", dpi=120)
