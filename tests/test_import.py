"""Importing the package is light: heavy libraries load only when used."""

import subprocess
import sys

HEAVY = ("torch", "skorch", "matplotlib", "pandas", "tqdm", "dask", "distributed")


def test_import_loads_no_heavy_library():
    # scikit-learn itself loads pandas where that is installed; what counts is what comes on top of scikit-learn and
    # joblib.
    code = (
        "import sys, joblib, sklearn.base; before = set(sys.modules);"
        "import smoothcert, smoothcert.bounds, smoothcert.worst_case, smoothcert.metrics, smoothcert.plotting;"
        "import smoothcert.training; smoothcert.training.BaseRecipe;"
        f"print([name for name in {HEAVY!r} if name in set(sys.modules) - before])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {heavy!r}:
            raise ModuleNotFoundError(name, name=name)  # as if it were not installed
sys.meta_path.insert(0, Blocker())
from sklearn.naive_bayes import GaussianNB
from smoothcert import FirstOrderCertifier, SmoothedClassifier
X, y = [[0.0], [1.0], [0.1], [0.9]], [0, 1, 0, 1]
clf = SmoothedClassifier(GaussianNB(), sigma=0.1, certifier=FirstOrderCertifier(100), random_state=0)
print(len(clf.fit(X, y).certify(X)))
"""


def test_works_without_any_of_them():
    code = BLOCKED.format(heavy=HEAVY)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "4"


def test_recipes_say_what_they_need():
    code = BLOCKED.format(heavy=HEAVY) + (
        "import smoothcert.training\n"
        "try:\n    smoothcert.training.Consistency\nexcept ImportError as error:\n    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Consistency needs torch and skorch; install smoothcert[torch]." in result.stdout


def test_import_touches_no_global_random_state():
    code = (
        "import numpy as np; before = np.random.get_state()[1].tolist();"
        "import smoothcert; assert before == np.random.get_state()[1].tolist()"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
