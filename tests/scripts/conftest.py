"""A small tree that every check accepts, in which tests plant violations, and functions that run the scripts on it."""

import pathlib
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 600  # for what takes some seconds on an idle machine: only a failing test waits so long


class Tree:
    def __init__(self, root):
        self.root = root
        for folder in ("proto", "shm", "frontend", "worker", "tests", "scripts"):
            self.write(f"{folder}/README.md", f"# {folder}\n")
        for name in ("Makefile", "README.md", "LICENSE", ".gitignore"):
            self.write(name, "text\n")
        self.write(".clang-format", (REPOSITORY / ".clang-format").read_text())
        for header in ("proto/result.h", "shm/doorbell.h", "shm/segment.h", "shm/spsc_ring.h", "frontend/prompt/tokenizer/tokenizer.h",
                       "worker/plan/plan.h", "worker/backend/cpu/thread_pool.h", "worker/backend/vulkan/device/vulkan_memory.h",
                       "worker/backend/host/vulkan_tier.h", "worker/model/model.h", "frontend/base/text_buffer.h",
                       "frontend/serve/engine/chat_engine.h"):
            self.write(header, "int declared;\n")

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def check(self, name):
        """(exit code, the lines that name a violation)"""
        done = subprocess.run([REPOSITORY / "scripts" / name, self.root], capture_output=True, text=True)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()[:-1]

    def assert_clean(self, name):
        assert self.check(name) == (0, [])

    def assert_violation(self, name, place, words):
        """Exactly one violation, at `place` ("file:line"), whose reason holds `words`."""
        code, lines = self.check(name)
        assert code == 1
        assert len(lines) == 1, lines
        assert lines[0].startswith(f"{place}: ")
        assert words in lines[0]


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def repository():
    return REPOSITORY
