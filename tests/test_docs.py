"""The documentation says what there is."""

import inspect
import re
from pathlib import Path
from typing import get_type_hints

import pytest

import smoothcert
from smoothcert import bounds, certifiers, confidence, datasets, metrics, plotting, tallies, training, worst_case

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for folder in ("", "guide", "theory", "api") for path in (DOCS / folder).glob("*.rst"))


def public_names(module):
    names = getattr(module, "__all__", None)
    if names is None:
        own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
        names = [name for name in own if not name.startswith("_")]
    return [name for name in names if not name.startswith("__") and not inspect.ismodule(getattr(module, name))]


@pytest.mark.parametrize(
    "module",
    [smoothcert, bounds, certifiers, confidence, datasets, metrics, plotting, tallies, training, worst_case],
    ids=lambda module: module.__name__,
)
def test_every_public_name_is_in_the_reference(module):
    if module is training:
        pytest.importorskip("skorch")
    listed = set()
    for page in (DOCS / "api").glob("*.rst"):
        listed |= set(re.findall(r"^(?:   |\.\. data:: )(\w+)$", page.read_text(), flags=re.MULTILINE))
    names = public_names(module)
    assert names
    assert set(names) - listed == set()


def test_constants_have_the_value_that_is_documented():
    assert f":value: {metrics.PAPER_EDGES}" in (DOCS / "api" / "metrics.rst").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_page_is_unfinished(page):
    assert not re.search(r"\b(TODO|FIXME|XXX|lorem ipsum)\b", page.read_text(), flags=re.IGNORECASE)


def test_what_public_functions_return_is_public():
    # The reference names classes by where users import them, never by a private module.
    assert get_type_hints(smoothcert.read_journal)["return"] is smoothcert.JournalView
    assert "JournalView" in smoothcert.__all__
    assert smoothcert.JournalView.__module__ == "smoothcert"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_private_module_in_the_reference(page):
    assert not re.search(r"^\.\. (currentmodule|automodule|autoclass)::.*\._", page.read_text(), flags=re.MULTILINE)
