"""run_pytest: what it counts, what it imports for a tier, and the order of files."""

import subprocess

import pytest

from conftest import PATIENCE_S

PLAIN = "def test_plain():\n    pass\n"
FIRST = "import pytest\npytestmark = pytest.mark.longest\n\ndef test_first():\n    pass\n"
LONG = "import pytest\npytestmark = pytest.mark.long\nimport no_such_module\n"
PARTLY_LONG = "import pytest\n\ndef test_short():\n    assert False\n\n@pytest.mark.long\ndef test_long():\n    pass\n"


@pytest.fixture
def folder(repository, tmp_path):
    """A folder of tests beside a build/ with the packages of the repository."""
    (tmp_path / "build").mkdir()
    (tmp_path / "build/venv").symlink_to(repository / "build/venv")
    (tmp_path / "tests").mkdir()
    return tmp_path


def run(repository, folder, *options):
    done = subprocess.run([repository / "scripts/run_pytest", "--tally", "tally", *options, "tests"], cwd=folder,
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    verdicts = [tuple(line.split("\t")) for line in (folder / "tally").read_text().splitlines()]
    return done, verdicts


def test_the_short_tier_imports_no_file_that_is_long(repository, folder):
    (folder / "tests/a_test.py").write_text(PLAIN)
    (folder / "tests/b_test.py").write_text(FIRST)
    (folder / "tests/c_test.py").write_text(LONG)
    done, verdicts = run(repository, folder, "--tier", "short")
    assert done.returncode == 0, done.stdout
    assert verdicts == [("pass", "tests.b_test.test_first"), ("pass", "tests.a_test.test_plain")]
    assert done.stdout.endswith("2 passed, 0 failed\n")


def test_the_long_tier_imports_no_file_without_the_mark(repository, folder):
    (folder / "tests/a_test.py").write_text("import no_such_module\n")
    (folder / "tests/b_test.py").write_text(PARTLY_LONG)
    done, verdicts = run(repository, folder, "--tier", "long")
    assert done.returncode == 0, done.stdout
    assert verdicts == [("pass", "tests.b_test.test_long")]


def test_files_are_shared_out_and_failures_counted(repository, folder):
    (folder / "tests/a_test.py").write_text(PLAIN)
    (folder / "tests/b_test.py").write_text(PARTLY_LONG)
    (folder / "tests/c_test.py").write_text("import no_such_module\n")
    done, verdicts = run(repository, folder, "--tier", "short", "--jobs", "2")
    assert done.returncode == 1
    assert sorted(verdicts) == [("fail", ".tests.c_test"), ("fail", "tests.b_test.test_short"), ("pass", "tests.a_test.test_plain")]
    assert "No module named 'no_such_module'" in done.stdout
    assert done.stdout.endswith("1 passed, 2 failed\n")


def test_a_process_that_dies_is_a_failure(repository, folder):
    (folder / "tests/a_test.py").write_text("import os\n\ndef test_a():\n    os._exit(0)\n")
    (folder / "tests/b_test.py").write_text(PLAIN)
    done, verdicts = run(repository, folder, "--tier", "short", "--jobs", "2")
    assert done.returncode == 1
    assert [name for verdict, name in verdicts if verdict == "fail"] == ["pytest tests: a process left no report"]


SETS_UP = """import pytest

@pytest.fixture(scope="session")
def made_once():
    with open("made", "a") as made:
        made.write("x")
"""
USES = "def test_uses(made_once):\n    pass\n"


def test_a_process_sets_up_once_for_all_its_files(repository, folder):
    (folder / "tests/conftest.py").write_text(SETS_UP)
    for number in range(9):
        (folder / f"tests/n{number}_test.py").write_text(USES)
    _, verdicts = run(repository, folder, "--tier", "short", "--jobs", "2")
    assert [verdict for verdict, _ in verdicts] == ["pass"] * 9
    assert 1 <= len((folder / "made").read_text()) <= 4
