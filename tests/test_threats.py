"""The page of threats is current: each way to a wrong radius names tests, and these exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "threats.rst").read_text()
NAMED = re.findall(r"``(tests/[\w/]+\.py)::(\w+)``", PAGE)


def test_every_test_that_is_named_exists():
    missing = []
    for path, name in NAMED:
        file = ROOT / path
        if not file.exists() or not re.search(rf"^def {name}\(", file.read_text(), flags=re.MULTILINE):
            missing.append(f"{path}::{name}")
    assert missing == []


def test_every_row_names_a_test():
    rows = re.split(r"^   \* - ", PAGE, flags=re.MULTILINE)[1:]
    rows = [row for row in rows if not row.startswith("What could go wrong")]
    assert len(rows) > 30
    assert [row for row in rows if "``tests/" not in row] == []


def test_nothing_else_is_taken_for_a_test():
    """A name that is spelt in another way would not be checked."""
    assert PAGE.count("::test_") == len(NAMED)


def test_the_page_is_linked():
    assert re.search(r"^   threats$", (ROOT / "docs" / "index.rst").read_text(), flags=re.MULTILINE)
