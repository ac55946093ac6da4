"""Importing the package is light: heavy libraries load only when used."""

import subprocess
import sys


def test_import_loads_no_heavy_library():
    heavy = ("torch", "skorch", "matplotlib", "pandas", "tqdm", "dask", "distributed")
    code = (
        "import sys, smoothcert, smoothcert.bounds, smoothcert.worst_case;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_import_touches_no_global_random_state():
    code = (
        "import numpy as np; before = np.random.get_state()[1].tolist();"
        "import smoothcert; assert before == np.random.get_state()[1].tolist()"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
