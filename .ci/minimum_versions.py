"""Print the lowest version that pyproject.toml allows of each dependency, as constraints for pip.

Run: python .ci/minimum_versions.py > minimum.txt && pip install -c minimum.txt ".[plot]"

Only what the package imports is listed; the tools of the extras `test`, `docs` and `benchmark` may be newer.
"""

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("torch", "plot", "dask")


def main():
    with (Path(__file__).resolve().parents[1] / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *(each for name in EXTRAS for each in extras[name])]:
        match = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement)
        if match is None:
            sys.exit(f"A dependency must have the form name>=version, got {requirement!r}.")
        print(f"{match[1]}=={match[2]}")


if __name__ == "__main__":
    main()
