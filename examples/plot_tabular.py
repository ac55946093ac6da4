"""
A table with units and categories
=================================

A bank wants to know how wrong the numbers in a loan application may be before the decision changes. Incomes and debts
are in euros, the time in a job is in months, and the purpose is a word. Each numerical column gets its own noise, words
get none, and each certificate says how far each number may move.
"""

# %%
# The table
# ---------
#
# The data are generated, with five numerical and three categorical columns. The outcome depends on the income that is
# left after debts, on the time in the job and slightly on other columns. For one application in ten it is random.
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from smoothcert import ColumnSigma, FirstOrderCertifier, SmoothedClassifier
from smoothcert.metrics import certified_accuracy_score

n_samples = int(os.environ.get("SMOOTHCERT_EXAMPLE_SAMPLES", 10_000))  # the tests of this project use fewer


def loan_applications(n_rows, seed):
    rng = np.random.default_rng(seed)
    income = rng.lognormal(7.8, 0.35, n_rows).round()
    table = pd.DataFrame(
        {
            "income": income,  # euros in a month
            "debt_service": (income * rng.beta(2, 6, n_rows)).round(),  # euros in a month
            "months_in_job": rng.gamma(1.5, 40, n_rows).round(),
            "amount": rng.gamma(3, 4000, n_rows).round(-2),  # euros
            "age": rng.integers(20, 70, n_rows),
            "purpose": rng.choice(["car", "house", "business"], n_rows, p=[0.5, 0.3, 0.2]),
            "housing": rng.choice(["rent", "own", "family"], n_rows),
            "channel": rng.choice(["branch", "web"], n_rows),
        }
    )
    left = (table["income"] - table["debt_service"] - table["amount"] / 60) / 600
    trust = np.log1p(table["months_in_job"]) / 2 + 0.5 * (table["housing"] == "own")
    trust -= table["purpose"] == "business"
    repaid = left + trust > np.median(left + trust)
    return table, np.where(repaid ^ (rng.random(n_rows) < 0.1), "repaid", "lost")


X, y = loan_applications(1500, seed=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
print(X_train.head(3))

# %%
# Choosing the noise
# ------------------
#
# Add noise to the columns that may be wrong. Incomes and debts are stated by the applicant, and months in the job are
# rounded. The amount and the age are known exactly, and words get no noise. So `sigma` names three columns, in their
# own units. The base gets data frames, so its encoder finds the categorical columns.
sigma = {"income": 250.0, "debt_service": 80.0, "months_in_job": 12.0}
encode = make_column_transformer(
    (OneHotEncoder(), make_column_selector(dtype_exclude="number")),
    (StandardScaler(), make_column_selector(dtype_include="number")),
)
clf = SmoothedClassifier(
    make_pipeline(encode, LogisticRegression()),
    sigma=sigma,
    voting="soft",
    certifier=FirstOrderCertifier(n_samples),
    random_state=0,
).fit(X_train, y_train)

# %%
# A report for each decision
# --------------------------
#
# A logistic regression is certified without sampling, so these numbers have no error probability. Each row says: the
# decision stays the same if the income is wrong by less than this number, *or* the debt service by less than that
# number. If several numbers are wrong at the same time, the sum of the squared fractions must be less than one. A 0
# means that nothing is proved about a column.
certificates = clf.certify(X_test)
limits = pd.DataFrame(certificates.radius_per_feature, columns=X.columns, index=X_test.index)
report = X_test[list(sigma)].join(limits[list(sigma)].add_suffix(" +-"))
report.insert(0, "decision", certificates.prediction)
print(report.head(8).round().to_string())

# %%
# Decisions that could change within the usual errors should be checked by a person. How many decisions are safe if the
# income may be wrong by 200 euros and the debt service by 50 euros at the same time?
distance = np.linalg.norm([200 / sigma["income"], 50 / sigma["debt_service"]])
safe = certificates.radius > distance
correct = y_test == certificates.prediction
print(f"{np.mean(safe):.0%} of the decisions are safe; {np.mean(correct[safe]):.0%} of these are right,")
print(f"and {np.mean(correct[~safe]):.0%} of the others.")

# %%
# Exact or sampled
# ----------------
#
# The same noise for four models. Linear models and boosted stumps can be certified exactly; the prediction is then the
# class with the largest expected score. Any model can be sampled; the prediction is then the majority vote. The deep
# forest must be sampled.
some, labels = X_test[:120], y_test[:120]
stumps = HistGradientBoostingClassifier(max_leaf_nodes=2, max_iter=60, random_state=0)
forest = RandomForestClassifier(20, min_samples_leaf=5, random_state=0)
models = {
    "logistic regression, exact": (LogisticRegression(), "soft"),
    "logistic regression, sampled": (LogisticRegression(), "hard"),
    "boosted stumps, exact": (stumps, "soft"),
    "deep forest, sampled": (forest, "hard"),
}
radii = np.linspace(0, 6, 121)
curves = {}
for name, (model, voting) in models.items():
    words = make_column_selector(dtype_exclude="number")
    dense = make_column_transformer((OneHotEncoder(sparse_output=False), words), remainder="passthrough")
    base = make_pipeline(encode if isinstance(model, LogisticRegression) else dense, model)
    clf.set_params(estimator=base, voting=voting, n_augment=5).fit(X_train, y_train)
    found = clf.certify(some)
    curves[name] = [certified_accuracy_score(labels, found, radius) for radius in radii]
    print(f"{name}: {curves[name][0]:.0%} right, {curves[name][20]:.0%} right and certified at one sigma")

# %%
# Left: certified accuracy against the radius in units of sigma. Up to about three sigma, exact and sampled certificates
# of the logistic regression differ by a few points. Beyond that, this number of samples proves nothing, while exact
# certificates continue. These data follow a nearly linear rule, so no other model is better here. Where interactions
# between columns matter, a sampled forest would be better. Right: the region in which one decision cannot change, an
# ellipse in income and debt service. It does not touch the line of even probability, because the months in the job may
# change as well.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for name, curve in curves.items():
    left.plot(radii, curve, label=name, linestyle="--" if "sampled" in name else "-")
left.set(xlabel="radius / sigma", ylabel="right and certified", ylim=(0, 1))
left.legend()

clf.set_params(estimator=make_pipeline(encode, LogisticRegression()), voting="soft").fit(X_train, y_train)
found = clf.certify(X_test)
row = int(np.argmin(np.abs(found.radius - 2.0)))
applicant = X_test.iloc[[row]]
half_widths = found.radius_per_feature[row, :2]
angle = np.linspace(0, 2 * np.pi, 200)
incomes = applicant["income"].item() + np.linspace(-1.6, 1.6, 80) * half_widths[0]
services = applicant["debt_service"].item() + np.linspace(-1.6, 1.6, 80) * half_widths[1]
grid = pd.concat([applicant] * 6400, ignore_index=True)
grid["income"], grid["debt_service"] = (a.ravel() for a in np.meshgrid(incomes, services))
share = clf.predict_proba(grid)[:, list(clf.classes_).index(found.prediction[row])].reshape(80, 80)
shades = right.contourf(incomes, services, share, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.6)
right.contour(incomes, services, share, levels=[0.5], colors="black", linewidths=1)
right.plot(
    applicant["income"].item() + half_widths[0] * np.cos(angle),
    applicant["debt_service"].item() + half_widths[1] * np.sin(angle),
    color="black",
    linestyle="--",
)
right.plot(applicant["income"], applicant["debt_service"], "ko")
right.set(xlabel="income, euros in a month", ylabel="debt service, euros in a month")
right.set_title("one application")
fig.colorbar(shades, ax=right, label=f"probability of '{found.prediction[row]}'")
fig.savefig("tabular.png", dpi=120)

# %%
# If nothing is known about the columns
# -------------------------------------
#
# In the breast cancer data all 30 columns are measurements in different units. `ColumnSigma` multiplies the spread of
# each column by a factor, and radii are in units of that spread.
data, target = load_breast_cancer(return_X_y=True, as_frame=True)
base = make_pipeline(StandardScaler(), LogisticRegression())
tumours = SmoothedClassifier(base, sigma=ColumnSigma(0.5), voting="soft", random_state=0).fit(data, target)
measured = tumours.certify(data)
table = pd.DataFrame(
    {"spread": measured.feature_scale, "typical limit": np.median(measured.radius_per_feature, axis=0)},
    index=data.columns,
)
print(f"median radius {np.median(measured.radius):.2f} standard deviations")
print(table.head(6).round(3).to_string())
