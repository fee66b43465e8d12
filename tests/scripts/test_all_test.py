"""test_all: stages that would end too late are left out, and one that is running then is ended with all its children."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import time


def load(repository):
    loader = importlib.machinery.SourceFileLoader("test_all", str(repository / "scripts/test_all"))
    spec = importlib.util.spec_from_loader("test_all", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def plant_programs(tmp_path):
    """A `make` that only writes a passed test to the tally."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "scripts").mkdir()
    make = tmp_path / "bin/make"
    make.write_text('#!/bin/sh\nfor word; do case "$word" in TALLY=*) printf "pass\\tone\\n" >>"${word#TALLY=}";; esac; done\n')
    (tmp_path / "scripts/fetch_model").write_text("#!/bin/sh\n")
    for path in (make, tmp_path / "scripts/fetch_model"):
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def test_late_stages_are_left_out_and_named(tmp_path, repository):
    environment = plant_programs(tmp_path)
    command = [repository / "scripts/test_all", "--tier", "long", "--jobs", "2"]
    whole = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    late = subprocess.run([*command, "--until", str(time.time())], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert whole.returncode == 0 and "left out" not in whole.stdout
    assert late.returncode == 0 and late.stdout.count("left out") == 4
    assert whole.stdout.splitlines()[-1] == "8 passed, 0 failed"
    assert late.stdout.splitlines()[-1] == "4 passed, 0 failed"


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_stage_that_runs_too_long_is_ended_with_its_children(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = load(repository)
    (tmp_path / "build/results/long").mkdir(parents=True)
    script = 'printf "pass\\ta\\n" >>"${0#TALLY=}"; setsid sh -c "echo \\$\\$ >child; exec sleep 300" & sleep 300'
    stage = module.Stage("slow", ["sh", "-c", script], least_s=1)
    assert module.run_stage("long", 0, stage, time.time() + 2) == (1, 0, False)
    child = int((tmp_path / "child").read_text())
    patience = time.monotonic() + 30
    while is_alive(child) and time.monotonic() < patience:
        time.sleep(0.01)
    assert not is_alive(child)


def test_a_stage_that_fails_without_words_counts(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = load(repository)
    (tmp_path / "build/results/long").mkdir(parents=True)
    assert module.run_stage("long", 0, module.Stage("broken", ["sh", "-c", "exit 3"]), float("inf")) == (0, 1, True)
