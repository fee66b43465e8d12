#!/usr/bin/env python3
"""Keeps the results of the scripts of this folder, and makes the table of clients in frontend/README.md from them.

usage: tests/clients/client_table.py    prints the table and writes it into frontend/README.md

build/clients/results-SOURCE.json is a list of results: {"client", "model", "feature", "good", "calls", "error", "version", "date"}. The part of a
feature before its colon is the column; a row is a client, and a cell sums the calls of its features, once for each model of MODELS.
results-llama_cpp.json has the sums of llama.cpp's server tests: {"commit", "date", "passed", "listed", "failed", "skipped"}.
"""

import datetime
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CLIENTS = ROOT / "build/clients"
MODELS = ["demo", "smollm2"]
SOURCES = [*MODELS, "agents"]
KINDS = ["chat", "stream", "tools", "structured", "overflow"]
BEGIN, END = "<!-- clients: written by tests/clients/client_table.py -->", "<!-- clients: end -->"


def kept(source, folder=CLIENTS):
    file = folder / f"results-{source}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def keep(source, results, folder=CLIENTS):
    """Replaces the kept results of the clients that ran."""
    ran = {one["client"] for one in results}
    today = datetime.date.today().isoformat()
    known = [one for one in kept(source, folder) if one["client"] not in ran] + [{**one, "date": today} for one in results]
    (folder / f"results-{source}.json").write_text(json.dumps(known, indent=1), encoding="utf-8")


def keep_llama_cpp(commit, sums, folder=CLIENTS):
    """`sums`: {file: {word: number}}"""
    words = {word: sum(one[word] for one in sums.values()) for word in ("passed", "listed", "failed", "skipped")}
    result = {"commit": commit, "date": datetime.date.today().isoformat(), **words}
    (folder / "results-llama_cpp.json").write_text(json.dumps(result), encoding="utf-8")


def share(results):
    return f"{sum(one['good'] for one in results)}/{sum(one['calls'] for one in results)}"


def cell(results, kind):
    """"100/100, 99/100": one for each model, "-" if it was not run; one for both if no model is named."""
    found = [one for one in results if one["feature"].split(":")[0] == kind]
    if any(one["model"] is None for one in found):
        return share(found)
    parts = [share(of_model) if (of_model := [one for one in found if one["model"] == model]) else "-" for model in MODELS]
    return ", ".join(parts) if found else ""


def rows_of(results):
    """One for each client: Python's, then node's, by name."""
    clients = {one["client"]: one["version"] for one in results}
    names = sorted(clients, key=lambda client: (clients[client].startswith("npm"), clients[client].lower()))
    return [f"| {clients[name]} | " + " | ".join(cell([one for one in results if one["client"] == name], kind) for kind in KINDS) + " |"
            for name in names]


def llama_cpp_line(result):
    return (f"llama.cpp's server tests ({result['commit'][:9]}, {result['date']}): {result['passed']} passed, {result['failed']} failed, "
            f"{result['skipped']} skipped, {result['listed']} listed with their reasons in `tests/clients/llama_cpp_tests.json`.")


def table(folder=CLIENTS):
    libraries = [one for model in MODELS for one in kept(model, folder)]
    agents = kept("agents", folder)
    dates = sorted({one["date"] for one in [*libraries, *agents]}) or ["not run"]
    title = f"good of all calls: demo, SmolLM2; {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}"
    lines = [f"| {title} | " + " | ".join(KINDS) + " |", "| --- " * (1 + len(KINDS)) + "|", *rows_of(libraries), *rows_of(agents)]
    llama_cpp = kept("llama_cpp", folder)
    return "\n".join(lines + (["", llama_cpp_line(llama_cpp)] if llama_cpp else []))


def write(page, text):
    """Replaces what is between the marks."""
    old = page.read_text(encoding="utf-8")
    assert old.count(BEGIN) == old.count(END) == 1
    page.write_text(re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: f"{BEGIN}\n{text}\n{END}", old, flags=re.DOTALL), encoding="utf-8")


def main():
    text = table()
    print(text)
    write(ROOT / "frontend/README.md", text)
    bad = [one for source in SOURCES for one in kept(source) if one["good"] != one["calls"]]
    return 1 if bad or (kept("llama_cpp") or {"failed": 0})["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
