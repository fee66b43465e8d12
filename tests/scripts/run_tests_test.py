"""run_tests: counts, shows the output of failing programs only, and ends one that hangs together with its children."""

import os
import subprocess
import time

from conftest import PATIENCE_S


def run(repository, tmp_path, programs, *options):
    paths = []
    for name, body in programs.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        paths.append(str(path))
    done = subprocess.run([repository / "scripts/run_tests", *options, *paths], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_counts_and_shows_only_failures(repository, tmp_path):
    tally = tmp_path / "tally"
    code, output = run(repository, tmp_path, {"good": "echo quiet", "bad": "echo loud; exit 3"}, "--tally", str(tally))
    assert code == 1
    assert "quiet" not in output
    assert "    loud" in output
    assert "bad: exit code 3" in output
    assert output.endswith("1 passed, 1 failed\n")
    assert sorted(line.split("\t")[0] for line in tally.read_text().splitlines()) == ["fail", "pass"]


def test_passes_when_all_pass(repository, tmp_path):
    code, output = run(repository, tmp_path, {"good": "exit 0", "fine": "exit 0"}, "--jobs", "2")
    assert code == 0
    assert output.endswith("2 passed, 0 failed\n")


def test_names_the_signal(repository, tmp_path):
    code, output = run(repository, tmp_path, {"crash": "kill -ABRT $$"})
    assert code == 1
    assert "killed by SIGABRT" in output


def test_a_program_that_was_not_built_fails(repository, tmp_path):
    done = subprocess.run([repository / "scripts/run_tests", "--build-failed", str(tmp_path / "absent")],
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert "absent: was not built" in done.stdout
    assert done.stdout.endswith("0 passed, 2 failed\n")


def test_a_machine_before_the_path_is_emulated(repository, tmp_path):
    """What stands for qemu-aarch64 here sees the CPU and the program."""
    emulator = tmp_path / "qemu-aarch64"
    emulator.write_text('#!/bin/sh\n[ "$3 $4" = "-cpu neoverse-n1" ] && [ "$5" = "$EXPECTED" ]\n')
    emulator.chmod(0o755)
    for expected, verdict in (("program", "1 passed, 0 failed\n"), ("other", "0 passed, 1 failed\n")):
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "EXPECTED": f"{tmp_path}/{expected}"}
        (tmp_path / "program").touch()
        done = subprocess.run([repository / "scripts/run_tests", f"neoverse-n1:{tmp_path}/program"],
                              capture_output=True, text=True, env=environment)
        assert done.stdout.endswith(verdict)


def test_deaths_run_with_the_plugin(repository, tmp_path):
    emulator = tmp_path / "qemu-aarch64"
    emulator.write_text('#!/bin/sh\n[ "$4 $5" = "max -plugin" ] && [ "${6##*/}" = qemu_death_plugin.so ]\n')
    emulator.chmod(0o755)
    (tmp_path / "program").touch()
    done = subprocess.run([repository / "scripts/run_tests", f"max-deaths:{tmp_path}/program"], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stdout.endswith("1 passed, 0 failed\n")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_ends_a_hanging_program_and_its_child(repository, tmp_path):
    child = tmp_path / "child"
    code, output = run(repository, tmp_path, {"hang": f"sleep 86400 & echo $! > {child}; wait"}, "--limit-s", "3")
    assert code == 1
    assert "ended after its limit of 3 s" in output
    pid = int(child.read_text())
    deadline = time.monotonic() + PATIENCE_S
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid), f"{pid} outlived its test"
    assert os.path.exists(child)
