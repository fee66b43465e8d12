"""A plugin of pytest for scripts/run_pytest.

Files with the mark `longest` run first, so that none of them runs alone at the end:

    pytestmark = pytest.mark.longest

Files that have no test of the tier are not imported, because imports and drawn cases take seconds: in the short tier those with the line
`pytestmark = pytest.mark.long` (or `[pytest.mark.long, pytest.mark.longest]`), in the long tier those that do not name the mark.

Several processes share out the files through a folder (SHOAL_TEST_SHARES): each takes the first file that no other has taken, imports it,
and runs its tests. A process that has ended a file writes a line to the descriptor SHOAL_TEST_PROGRESS.
"""

import os
import pathlib
import re
import time

import pytest

WHOLLY_LONG = re.compile(r"^pytestmark = \[?pytest\.mark\.long(, pytest\.mark\.longest\])?$", re.MULTILINE)
LONGEST = re.compile(r"^pytestmark = \[?(pytest\.mark\.long, )?pytest\.mark\.longest\]?$", re.MULTILINE)
SHARES = os.environ.get("SHOAL_TEST_SHARES")


def is_needed(path, config):
    if not path.name.endswith("_test.py"):
        return True
    text, tier = path.read_text(encoding="utf-8"), config.getoption("markexpr")
    return not WHOLLY_LONG.search(text) if tier == "not long" else "mark.long" in text if tier == "long" else True


def pytest_ignore_collect(collection_path, config):
    """True: not collected; None: as usual."""
    return None if is_needed(collection_path, config) else True


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)


def take(path):
    """Whether no other process had taken the file."""
    try:
        os.close(os.open(pathlib.Path(SHARES) / str(path).replace("/", "+"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def tests_of(session, module):
    items = list(session.genitems(module))
    session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
    return items


found_modules = []  # files of tests, not imported yet
is_sharing = False


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector):
    """While all files are collected, none is imported."""
    if not SHARES or is_sharing or not isinstance(collector, pytest.Module):
        return None
    found_modules.append(collector)
    return pytest.CollectReport(collector.nodeid, "passed", None, [])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if not SHARES:
        return None
    global is_sharing
    is_sharing, collected = True, 0
    for module in sorted(found_modules, key=lambda found: not LONGEST.search(found.path.read_text(encoding="utf-8"))):
        if not take(module.path):
            continue
        start, failed = time.monotonic(), session.testsfailed
        items = tests_of(session, module)
        collected += len(items)
        for number, item in enumerate(items):
            # What belongs to the session stays for the next file.
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=items[number + 1] if number + 1 < len(items) else session)
        if items:
            verdict = "FAIL" if session.testsfailed > failed else "ok"
            line = f"{verdict:4} {time.monotonic() - start:7.2f} s  {len(items):4d} tests  {module.nodeid}\n"
            os.write(int(os.environ["SHOAL_TEST_PROGRESS"]), line.encode())
    session.testscollected = collected
    return True
