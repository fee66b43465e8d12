"""vulkan_env, and the runner through it: which driver a program finds, and that what validation says is a failure."""

import subprocess

import pytest

from conftest import PATIENCE_S, REPOSITORY

# scripts/setup makes it on Debian and warns elsewhere; the Makefile runs no test on it then.
DRIVERS = ["native"] + (["matrix"] if (REPOSITORY / "build/vulkan-tools/matrix").exists() else [])


def environment_of(repository, *words):
    done = subprocess.run([repository / "scripts/vulkan_env", *words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_command_gets_what_is_printed(repository, driver):
    printed = environment_of(repository, driver)
    assert "lavapipe" in printed["VK_DRIVER_FILES"] or "lvp_icd" in printed["VK_DRIVER_FILES"]
    assert printed.items() <= environment_of(repository, driver, "/usr/bin/env").items()


@pytest.mark.parametrize("driver", DRIVERS)
def test_only_one_driver_has_layers(repository, driver):
    assert ("VK_LAYER_PATH" in environment_of(repository, driver)) == (driver == "matrix")


def test_refuses_an_unknown_driver(repository):
    done = subprocess.run([repository / "scripts/vulkan_env", "gpu"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage" in done.stderr


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_runner_looks_for_messages(repository, tmp_path, driver):
    source = tmp_path / "program.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("warn: validation: a hazard"); return 0; }\n')
    subprocess.run(["gcc", source, "-o", tmp_path / "program"], check=True)
    name = f"{driver}:{tmp_path}/program"
    done = subprocess.run([repository / "scripts/run_tests", name], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == (1 if driver == "matrix" else 0)
    assert (f'{name}: said "validation: "' if driver == "matrix" else "1 passed") in done.stdout
