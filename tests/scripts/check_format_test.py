"""check_format: a file as clang-format leaves it passes, another is named with its first line that differs."""


def test_allows_the_house_style(tree):
    tree.write("proto/kv.c", "int kv(int a)\n{\n    return a;\n}\n")
    tree.assert_clean("check_format")


def test_refuses_another_style(tree):
    tree.write("proto/kv.c", "int kv(int a)\n{\n  return a;\n}\n")
    tree.write("proto/kv.h", "int kv(int a);\n")
    tree.assert_violation("check_format", "proto/kv.c:2", "clang-format")
