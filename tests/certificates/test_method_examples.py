"""Examples of methods are run too: doctest does not find those of classes that are exported under another name."""

import doctest

import pytest

from smoothcert import Certificates

METHODS = [
    name for name, value in vars(Certificates).items() if not name.startswith("_") and ">>>" in (value.__doc__ or "")
]


def test_there_are_some():
    assert {"from_tally", "from_tsv", "radius_in", "to_frame", "verify"} <= set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_example(name):
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(Certificates, name), name, globs={})
    assert example.examples
    found = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(example, out=found.append).failed == 0, "".join(found)
