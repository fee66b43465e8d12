"""Byte maps in header comments against the compiler: offset and size of every field, every byte, every shared struct."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
from byte_maps import FOLDERS, byte_maps  # noqa: E402

SIZED = re.compile(r"^_Static_assert\(sizeof\(struct (\w+)\) ==", re.MULTILINE)
COMPILER = [*shlex.split(os.environ.get("CC", "cc")), "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-x", "c"]


def table_faults(byte_map):
    """What is wrong with the table itself."""
    if not byte_map.has_writers:
        yield f"{byte_map.struct}: no writer"
    for member in set(byte_map.members) ^ {field for _, _, field in byte_map.rows}:
        yield f"{byte_map.struct}.{member}: not both a field and a row"
    starts, covered = {0}, 0
    for offset, size, field in byte_map.rows:
        if offset not in starts:
            yield f"{byte_map.struct}.{field}: offset {offset} is not the end of a field above"
        starts |= {offset, offset + size}
        covered = max(covered, offset + size)
    if covered != byte_map.bytes:
        yield f"{byte_map.struct}: rows end at {covered} of {byte_map.bytes} bytes"


def assertions(byte_map):
    yield f'_Static_assert(sizeof(struct {byte_map.struct}) == {byte_map.bytes}, "{byte_map.struct} has {byte_map.bytes} bytes");'
    for offset, size, field in byte_map.rows:
        place = f"{byte_map.struct}.{field} at {offset}, {size} bytes"
        yield f'_Static_assert(offsetof(struct {byte_map.struct}, {field}) == {offset}, "{place}");'
        yield f'_Static_assert(sizeof(((struct {byte_map.struct} *)0)->{field}) == {size}, "{place}");'


def faults_of(maps):
    """Every fault of the tables, and every line of the compiler that contradicts a row."""
    faults = [fault for byte_map in maps for fault in table_faults(byte_map)]
    lines = ["#include <stddef.h>", *sorted({f'#include "{byte_map.header}"' for byte_map in maps})]
    lines += [line for byte_map in maps for line in assertions(byte_map)]
    done = subprocess.run([*COMPILER, f"-I{REPOSITORY}", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    return faults + [line for line in done.stderr.splitlines() if "error" in line]


@pytest.fixture(scope="module")
def maps():
    return byte_maps(REPOSITORY)


def test_rows_are_what_the_compiler_says(maps):
    assert len(maps) >= 13
    assert sum(len(byte_map.rows) for byte_map in maps) >= 130
    assert faults_of(maps) == []


def test_each_struct_of_fixed_size_has_a_byte_map(maps):
    sized = {name for folder in FOLDERS for path in (REPOSITORY / folder).glob("*.h")
             for name in SIZED.findall(path.read_text())}
    assert sized == {byte_map.struct for byte_map in maps}


@pytest.mark.parametrize("right, wrong, fault", [
    ("   44      4     payload_generation", "   40      4     payload_generation", "payload_generation at 40"),
    ("   36      4     prompt_total", "   36      8     prompt_total", "prompt_total at 36, 8 bytes"),
    ("   24      4     logprob ", "   24      4     log_prob", "log_prob"),
    (" *   56      8     step_time_us", " * 56 8 step_time_us", "step_time_us: not both"),
    ("token_event, 64 bytes", "token_event, 72 bytes", "rows end at 64 of 72 bytes"),
    ("Written by the worker", "Filled by the worker", "token_event: no writer"),
])
def test_finds_a_wrong_row(tmp_path, right, wrong, fault):
    text = (REPOSITORY / "proto/token_event.h").read_text()
    assert right in text
    (tmp_path / "proto").mkdir()
    (tmp_path / "proto/token_event.h").write_text(text.replace(right, wrong))
    faults = faults_of(byte_maps(tmp_path, ("proto",)))
    assert any(fault in line for line in faults)


def test_map_of_the_segment_has_the_offsets_of_the_code():
    """The fixed part: places of segment.c, sizes of the structs; in the header's comment and in the README."""
    code = (REPOSITORY / "shm/segment.c").read_text()
    places = {int(offset) for offset in re.findall(r"^#define \w+_OFFSET +(\d+)u", code, re.MULTILINE)}
    assert len(places) == 6
    comment = (REPOSITORY / "shm/segment.h").read_text().split("#ifndef")[0]
    header = re.findall(r"^ \*   (\d+) +(\d+) .*?struct (\w+)", comment, re.MULTILINE)
    readme = re.findall(r"^\| (\d+) \| (\d+) \|.*?`struct (\w+)`", (REPOSITORY / "shm/README.md").read_text(), re.MULTILINE)
    assert header == readme and len(header) == 8
    assert places - {8192} <= {int(offset) for offset, _, _ in header}
    end = 0
    for offset, size, _ in header:
        assert int(offset) >= end
        end = int(offset) + int(size)
    assert end <= 8192
    lines = ["#include <stddef.h>", '#include "shm/segment.h"']
    lines += [f'_Static_assert(sizeof(struct {name}) == {size}, "{name}");' for _, size, name in header]
    done = subprocess.run([*COMPILER, f"-I{REPOSITORY}", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    assert done.stderr == ""
