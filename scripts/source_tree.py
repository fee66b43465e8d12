"""What the checks of the tree have in common: which files there are, and how a violation is printed."""

import os
import pathlib
import subprocess
import sys

# Built, fetched or foreign: never looked at where git does not say so.
SKIPPED_FOLDERS = {".git", "build", "__pycache__", "node_modules", ".pytest_cache"}


class Findings:
    """Violations, printed as they are found: `file:line: reason`."""

    def __init__(self, check):
        self.check = check
        self.count = 0

    def add(self, path, line, reason):
        self.count += 1
        print(f"{path}:{line}: {reason}")

    def exit_code(self, looked_at):
        if self.count:
            print(f"{self.check}: {self.count} violations")
            return 1
        print(f"{self.check}: {looked_at} files, no violation")
        return 0


def root_from_arguments():
    """The tree to check: the only argument, or the repository that holds this script."""
    if len(sys.argv) > 2:
        sys.exit(f"usage: {sys.argv[0]} [TREE]")
    if len(sys.argv) == 2:
        return pathlib.Path(sys.argv[1]).resolve()
    return pathlib.Path(__file__).resolve().parent.parent


def files(root):
    """Paths of all files below root, relative to it, sorted, without what is built, fetched or ignored by git."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=root, capture_output=True)
        if listing.returncode == 0:  # git refuses a checkout that another user owns; then all files are looked at
            names = set(listing.stdout.decode("utf-8", "surrogateescape").split("\0")) - {""}
            return sorted(pathlib.Path(name) for name in names if (root / name).is_file())
    found = []
    for folder, names, file_names in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED_FOLDERS]
        found += [(pathlib.Path(folder) / name).relative_to(root) for name in file_names]
    return sorted(found)


def is_under(path, folder):
    return path.as_posix().startswith(folder.rstrip("/") + "/")


def read_text(root, path):
    """The file's text, or None when it is not text."""
    data = (root / path).read_bytes()
    if b"\0" in data:
        return None
    return data.decode("utf-8", "replace")
