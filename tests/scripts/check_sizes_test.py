"""check_sizes: each limit is exact, and text that only looks like code is not counted."""

import pytest


def function(name, lines):
    """A function of exactly `lines` lines, from its signature to its closing brace."""
    return f"int {name}(void)\n{{\n" + "    call();\n" * (lines - 4) + "    return 0;\n}\n"


def test_allows_what_just_fits(tree):
    tree.write("proto/long.c", "\n" * 730 + function("fits", 70))
    tree.assert_clean("check_sizes")


def test_refuses_a_long_file(tree):
    tree.write("proto/long.c", "\n" * 801)
    tree.assert_violation("check_sizes", "proto/long.c:801", "801 lines, over 800")


@pytest.mark.parametrize("path, limit", [("README.md", 200), ("proto/README.md", 150), ("tests/support/README.md", 150)])
def test_refuses_a_long_readme(tree, path, limit):
    tree.write(path, "line\n" * limit)
    tree.assert_clean("check_sizes")
    tree.write(path, "line\n" * (limit + 1))
    tree.assert_violation("check_sizes", f"{path}:{limit + 1}", f"{limit + 1} lines, over {limit}")


def test_refuses_a_long_function(tree):
    tree.write("proto/long.c", "int before;\n" + function("grown", 71))
    tree.assert_violation("check_sizes", "proto/long.c:2", "grown() has 71 lines")


def test_refuses_a_long_function_of_a_shader(tree):
    head = "#version 450\nlayout(local_size_x_id = 0) in;\nlayout(push_constant) uniform Push {\n    uint n;\n} push;\n"
    tree.write("worker/backend/vulkan/shaders/long.comp", head + function("main", 71))
    tree.assert_violation("check_sizes", "worker/backend/vulkan/shaders/long.comp:6", "main() has 71 lines")


def test_counts_a_signature_of_several_lines(tree):
    body = function("wide", 70).replace("int wide(void)", "int wide(int first,\n         int second)")
    tree.write("proto/long.c", "static int before[] = {\n    1,\n};\n\n/* what\n * it does */\n" + body)
    tree.assert_violation("check_sizes", "proto/long.c:7", "wide() has 71 lines")


def test_is_not_misled_by_braces_in_text(tree):
    quoted = "    call('{', \"{\\\"{\"); /* { */ // {\n"
    text = "#define BEGIN \\\n    {\n" + function("quoting", 10).replace("    call();\n", quoted, 1)
    tree.write("proto/long.c", text + function("after", 71))
    tree.assert_violation("check_sizes", "proto/long.c:13", "after() has 71 lines")


def test_large_tables_are_not_functions(tree):
    tree.write("proto/table.c", "const int table[] = {\n" + "    1,\n" * 200 + "};\n" + function("small", 5))
    tree.assert_clean("check_sizes")


def test_recorded_data_has_no_limit(tree):
    tree.write("tests/golden/tokenizer/words.py", "\n" * 2000)
    tree.assert_clean("check_sizes")
