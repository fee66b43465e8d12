"""A plugin of pytest for scripts/run_pytest.

Files with the mark `longest` run first, so that none of them runs alone at the end:

    pytestmark = pytest.mark.longest

Files that have no test of the tier are not imported, because imports and drawn cases take seconds: in the short tier those with the line
`pytestmark = pytest.mark.long` (or `[pytest.mark.long, pytest.mark.longest]`), in the long tier those that do not name the mark.
"""

import re

WHOLLY_LONG = re.compile(r"^pytestmark = \[?pytest\.mark\.long(, pytest\.mark\.longest\])?$", re.MULTILINE)


def pytest_ignore_collect(collection_path, config):
    """True: not collected; None: as usual."""
    if not collection_path.name.endswith("_test.py"):
        return None
    text, tier = collection_path.read_text(encoding="utf-8"), config.getoption("markexpr")
    unneeded = WHOLLY_LONG.search(text) if tier == "not long" else "mark.long" not in text if tier == "long" else False
    return True if unneeded else None


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)
