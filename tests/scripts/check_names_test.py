"""check_names: basenames, stems, spelling and words that do not belong in the tree."""

import subprocess

import pytest


def test_allows_a_pair_and_shared_names(tree):
    tree.write("proto/kv.c", "int a;\n")
    tree.write("proto/kv.h", "int a;\n")
    tree.write("frontend/main.c", "int a;\n")
    tree.write("worker/main.c", "int a;\n")
    tree.assert_clean("check_names")


def test_refuses_a_basename_twice(tree):
    tree.write("scripts/measure.py", "a = 1\n")
    tree.write("tests/load/measure.py", "a = 1\n")
    tree.assert_violation("check_names", "tests/load/measure.py:1", "scripts/measure.py has the same basename")


def test_refuses_a_stem_in_two_folders(tree):
    tree.write("proto/kv.h", "int a;\n")
    tree.write("worker/kv.c", "int a;\n")
    tree.assert_violation("check_names", "worker/kv.c:1", "proto/kv.h has the same stem")


def test_refuses_capitals(tree):
    tree.write("proto/KvPool.c", "int a;\n")
    tree.assert_violation("check_names", "proto/KvPool.c:1", "lower case")


@pytest.mark.parametrize("name", ["kv.c.orig", "kv.c.rej", "kv.bak"])
def test_refuses_what_was_left_behind(tree, name):
    tree.write(f"proto/{name}", "int a;\n")
    tree.assert_violation("check_names", f"proto/{name}:1", "left this behind")


@pytest.mark.parametrize("word", ["TODO", "FIXME", "for now", "/work/main", "/root", "/home/someone/x", "/tmp/mw",
                                  "pypi.org", "registry.npmjs.org", "getenv(\"A\")"])
def test_refuses_words(tree, word):
    tree.write("proto/kv.c", f"int a;\n/* see {word} */\n")
    tree.assert_violation("check_names", "proto/kv.c:2", "")


@pytest.mark.parametrize("word", ["the worker/model folder", "frontend/work/queue", "TODOS", "network/root",
                                  "$HOME/root", "informed now", "/rooted"])
def test_allows_words_that_only_look_alike(tree, word):
    tree.write("proto/kv.c", f"int a;\n/* see {word} */\n")
    tree.assert_clean("check_names")


def test_two_files_read_the_environment(tree):
    tree.write("frontend/serve/service_manager.c", 'int a = getenv("A") != 0;\n')
    tree.write("frontend/serve/settings/hub_environment.c", 'int a = secure_getenv("A") != 0;\n')
    tree.assert_clean("check_names")
    tree.write("frontend/serve/service_manager.h", 'int a = getenv("A") != 0;\n')
    tree.assert_violation("check_names", "frontend/serve/service_manager.h:1", "not the environment")


def test_recorded_data_may_hold_any_word_and_name(tree):
    tree.write("tests/golden/one/Chat.txt", "TODO\n")
    tree.write("tests/golden/two/Chat.txt", "TODO\n")
    tree.write("tests/model/demo/Chat.txt", "TODO\n")
    tree.assert_clean("check_names")


def test_looks_at_new_files_of_a_checkout_but_not_at_ignored_ones(tree):
    subprocess.run(["git", "init", "-q", tree.root], check=True)
    tree.write(".gitignore", "/scratch/\n")
    tree.write("scratch/Notes.txt", "TODO\n")
    tree.assert_clean("check_names")
    tree.write("proto/Notes.txt", "text\n")
    tree.assert_violation("check_names", "proto/Notes.txt:1", "lower case")
