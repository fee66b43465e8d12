"""mutate: reports what no test notices, leaves alone what is no mutant, and takes back no reason for a line that is gone."""

import shutil
import subprocess

import pytest

from conftest import PATIENCE_S

pytestmark = pytest.mark.longest

MAKEFILE = """
.SECONDARY:
build/obj/%.o: %.c
\tmkdir -p $(@D) && gcc -std=c11 -O2 -g -Wall -Wextra -Werror -I. -MMD -MP -c $< -o $@
build/base.a: build/obj/proto/span.o
\tar rcs $@ $^
build/tests/%: build/obj/tests/%.o build/base.a
\tmkdir -p $(@D) && gcc -o $@ $^
"""

HEADER = """
#include <stdlib.h>
#include <string.h>
#define must(fact) do { if (!(fact)) abort(); } while (0)
int span_end(int first, int count);
int span_clamp(int value);
int span_sum(const int *values, int count);
void span_clear(char *bytes, int count);
"""

SOURCE = """/* a < b */
#include "proto/span.h"

int span_end(int first, int count)
{
    must(first >= 0 && count < 1000);
    return first + count;
}

int span_clamp(int value)
{
    const char *text = "1 < 2";
    if (value > 9 && text[0] == '1')
        value = 9;
    return value;
}

int span_sum(const int *values, int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

void span_clear(char *bytes, int count)
{
    if (count > 0)
        memset(bytes, 0, (size_t)count);
}
"""

# span_end(5, 0) cannot tell + from -; the sanitizers see that `i <= count` reads beyond the values.
TEST = """
#include "proto/span.h"
int main(void)
{
    int *values = calloc(3, sizeof *values);
    values[0] = values[2] = 7;
    char letter[] = "x";
    span_clear(letter, 1);
    int right = span_end(5, 0) == 5 && span_clamp(9) == 9 && span_clamp(10) == 9 && span_clamp(8) == 8 &&
                span_sum(values, 3) == 14 && letter[0] == 0;
    free(values);
    return right ? 0 : 1;
}
"""

EQUIVALENT = """# comment
proto/span.c span_clear
- if (count > 0)
+ if (count >= 0)
  Setting no bytes does nothing.
"""


def mutate(repository, tmp_path, equivalent, *options, test=TEST, makefile=MAKEFILE, source=SOURCE):
    files = {"Makefile": makefile, "proto/span.h": HEADER, "proto/span.c": source, "tests/unit/proto/span_test.c": test,
             "scripts/mutants_equivalent/proto.txt": equivalent}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(repository / "scripts/mutate", tmp_path / "scripts/mutate")
    done = subprocess.run([tmp_path / "scripts/mutate", *options], capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout, done.stderr


def test_reports_what_no_test_notices(repository, tmp_path):
    code, output, _ = mutate(repository, tmp_path, "")
    survivors = [line for line in output.splitlines() if line.startswith("proto/")]
    assert survivors == [
        "proto/span.c:7: (span_end) return first + count;  ->  return first - count;",
        "proto/span.c:28: (span_clear) if (count > 0)  ->  if (count >= 0)",
    ]
    assert code == 1


def test_counts_listed_mutants_apart(repository, tmp_path):
    code, output, _ = mutate(repository, tmp_path, EQUIVALENT, "--run-equivalent", test=TEST.replace("5, 0) == 5", "5, 2) == 7"))
    assert code == 0, output
    row = [cell.strip() for cell in output.splitlines()[-2].split("|")]
    assert row[1] == "proto" and int(row[2]) == int(row[3]) + 1 and row[4:6] == ["1", "0"]


# TEST has no value that the first loop counts, so that it notices `i = 1` only in the second loop.
TWICE = """
int span_sum(const int *values, int count)
{
    int copy[8] = {0}, sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i] > 99;
    for (int i = 0; i < count; i++)
        copy[i] = values[i];
    return sum + copy[0] + copy[2];
}
"""

FIRST_OF_TWO = """proto/span.c span_sum #1
- for (int i = 0; i < count; i++)
+ for (int i = 1; i < count; i++)
  No test has such a value.
"""


@pytest.mark.long
def test_lists_one_of_equal_lines(repository, tmp_path):
    begin, end = SOURCE.index("int span_sum"), SOURCE.index("void span_clear")
    source = SOURCE[:begin] + TWICE.lstrip() + "\n" + SOURCE[end:]
    place = "proto/span.c:21: (span_sum) "
    change = "for (int i = 0; i < count; i++)  ->  for (int i = 1; i < count; i++)"
    _, output, _ = mutate(repository, tmp_path, FIRST_OF_TWO, "--run-equivalent", source=source)
    assert change not in output
    _, output, _ = mutate(repository, tmp_path, FIRST_OF_TWO.replace("#1", "#2"), "--run-equivalent", source=source)
    assert place + change in output
    assert f"proto/span.c:23: (span_sum) {change}: listed as equivalent, but killed" in output
    code, output, _ = mutate(repository, tmp_path, FIRST_OF_TWO.replace("#1", "#3"), "--list", source=source)
    assert code == 1 and f"no such mutant: proto/span.c span_sum #3: {change}" in output


def test_refuses_an_entry_without_a_mutant(repository, tmp_path):
    code, output, _ = mutate(repository, tmp_path, EQUIVALENT.replace("count > 0", "count > 5"), "--list")
    assert code == 1
    assert "no such mutant: proto/span.c span_clear: if (count > 5)" in output


def test_refuses_a_listed_mutant_that_is_killed(repository, tmp_path):
    listed = EQUIVALENT + "\nproto/span.c span_sum\n- int sum = 0;\n+ int sum = 1;\n  Wrong.\n"
    code, output, _ = mutate(repository, tmp_path, listed, "--run-equivalent")
    assert code == 1
    assert "int sum = 0;  ->  int sum = 1;: listed as equivalent, but killed" in output


def test_lists_no_bugs_strings_or_comments(repository, tmp_path):
    code, output, _ = mutate(repository, tmp_path, "", "--list")
    assert code == 0
    assert "must(" not in output and "span.c:1:" not in output and '"1 < 2"' not in output
    assert "(span_sum) for (int i = 0; i < count; i++)  ->  for (int i = 0; i <= count; i++)" in output


def test_lists_no_sizes_of_arrays(repository, tmp_path):
    arrays = "struct names {\n    const char *list[3];\n    int lengths[4];\n};\n"
    product = "int span_twice(int count, const int *by)\n{\n    return count * by[5];\n}\n"
    _, output, _ = mutate(repository, tmp_path, "", "--list", source=SOURCE + arrays + product)
    assert "list[" not in output and "lengths[" not in output
    assert "(span_twice) return count * by[5];  ->  return count * by[6];" in output


def test_a_failing_test_is_an_error(repository, tmp_path):
    code, _, errors = mutate(repository, tmp_path, "", test=TEST.replace("right ? 0", "right ? 2"))
    assert code == 1 and "span_test.c fails without any change: exit code 2" in errors


def test_an_archive_that_another_build_removes_is_an_error(repository, tmp_path):
    code, _, errors = mutate(repository, tmp_path, "", makefile=MAKEFILE + "\trm build/base.a\n")
    assert code == 1
    assert errors.splitlines()[-1] == "gcc failed with code 1; another build must not change build/ meanwhile"


def test_a_sample_is_drawn_by_its_seed(repository, tmp_path):
    first, same, other = (mutate(repository, tmp_path, "", "--list", "--sample", "5", "--seed", seed)[1] for seed in "112")
    assert first == same != other
    assert first.count("\n") == 5
