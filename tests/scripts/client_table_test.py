"""client_table.py: the cells are sums of the kept results, and only the text between the marks of the page is replaced."""

import json
import random
import sys

import pytest


@pytest.fixture(name="table")
def table_of(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "tests/clients"))
    import client_table
    yield client_table
    del sys.modules["client_table"]


def result(client, model, feature, good, calls, version):
    return {"client": client, "model": model, "feature": feature, "good": good, "calls": calls, "error": None, "version": version}


def test_cells_are_sums(table, tmp_path):
    figures = [(random.randint(0, calls), calls) for calls in (random.randint(1, 100) for _ in range(5))]
    (one, two, other, shape, agent) = figures
    table.keep("demo", [result("node_b", "demo", "chat", *one, "npm b 2"), result("node_b", "demo", "chat: other", *two, "npm b 2"),
                        result("z", "demo", "structured: x", *shape, "z 1")], tmp_path)
    table.keep("smollm2", [result("node_b", "smollm2", "chat", *other, "npm b 2")], tmp_path)
    table.keep("agents", [result("agent", None, "tools", *agent, "agent 3")], tmp_path)
    table.keep_llama_cpp("c" * 40, {"basic": {"passed": 3, "listed": 1, "failed": 0, "skipped": 0}, "embedding": {"passed": 4, "listed": 0, "failed": 2, "skipped": 1}}, tmp_path)
    lines = table.table(tmp_path).splitlines()
    assert lines[2] == f"| z 1 |  |  |  | {shape[0]}/{shape[1]}, - |  |"
    assert lines[3] == f"| npm b 2 | {one[0] + two[0]}/{one[1] + two[1]}, {other[0]}/{other[1]} |  |  |  |  |"
    assert lines[4] == f"| agent 3 |  |  | {agent[0]}/{agent[1]} |  |  |"
    assert "7 passed, 2 failed, 1 skipped, 1 listed" in lines[6] and len(lines) == 7


def test_a_run_replaces_its_clients_only(table, tmp_path):
    table.keep("demo", [result("a", "demo", "chat", 1, 1, "a 1"), result("a", "demo", "stream", 1, 1, "a 1"), result("b", "demo", "chat", 1, 1, "b 1")], tmp_path)
    table.keep("demo", [result("a", "demo", "chat", 2, 3, "a 2")], tmp_path)
    known = json.loads((tmp_path / "results-demo.json").read_text())
    assert sorted((one["version"], one["feature"], one["good"]) for one in known) == [("a 2", "chat", 2), ("b 1", "chat", 1)]
    assert "| a 2 | 2/3, - |" in table.table(tmp_path)


def test_the_page_keeps_its_other_text(table, tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.write(page, r"new \1")
    assert page.read_text() == f"before\n{table.BEGIN}\nnew \\1\n{table.END}\nafter\n"
    page.write_text("no marks\n")
    with pytest.raises(AssertionError):
        table.write(page, "new")
