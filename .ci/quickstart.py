"""Run the quickstart of the README from an installed wheel: the section below "<!-- quickstart -->".

Run: python quickstart.py README.md, outside the source tree, in an environment with the base dependencies alone.
"""

import doctest
import importlib.util
import re
import sys
from pathlib import Path

OPTIONAL = ("torch", "skorch", "matplotlib", "pandas", "tqdm", "dask", "pytest")


def check_environment():
    spec = importlib.util.find_spec("smoothcert")
    if spec is None or not Path(spec.origin).is_relative_to(sys.prefix):
        sys.exit(f"smoothcert must come from {sys.prefix}, got {spec and spec.origin}.")
    present = [name for name in OPTIONAL if importlib.util.find_spec(name)]
    if present:
        sys.exit(f"Only the base dependencies may be installed, found {present}.")


def quickstart_of(readme):
    section = re.search(r"^<!-- quickstart -->\n(.*?)(?=^## |\Z)", readme, flags=re.MULTILINE | re.DOTALL)
    if section is None:
        sys.exit("README.md has no quickstart: the line <!-- quickstart --> is missing.")
    return section.group(1)


def main(path):
    check_environment()
    test = doctest.DocTestParser().get_doctest(quickstart_of(path.read_text()), {}, "quickstart", str(path), 0)
    if not test.examples:
        sys.exit("The quickstart of README.md has no examples.")
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test)
    print(f"quickstart: {runner.tries} statements run, {runner.failures} failed")
    sys.exit(runner.failures > 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
