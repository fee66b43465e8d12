"""The units are sealed as far as systemd can judge: `systemd-analyze security`, which needs no running systemd."""

import re
import subprocess

import pytest

from conftest import PATIENCE_S

LIMITS = {"cpu": 1.5, "gpu": 1.6}  # of 10; with --offline a file is judged alone, so the GPU's settings are appended


def exposure(path):
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", path], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+) ", done.stdout)
    assert found, done.stdout + done.stderr
    complaints = [line for line in done.stderr.splitlines() if "ignoring" in line]
    return float(found[1]), complaints


@pytest.mark.parametrize("kind", LIMITS)
def test_the_service_is_not_exposed(repository, tmp_path, kind):
    text = (repository / "scripts/systemd/shoal.service").read_text().split("[Install]")[0]
    if kind == "gpu":
        text += (repository / "scripts/systemd/shoal_gpu.conf").read_text()
    unit = tmp_path / "shoal.service"
    unit.write_text(text)
    level, complaints = exposure(unit)
    assert level <= LIMITS[kind]
    assert complaints == []


def test_an_open_service_is_noticed(tmp_path):
    unit = tmp_path / "open.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nNoSuchSetting=yes\n")
    level, complaints = exposure(unit)
    assert level > 9
    assert len(complaints) == 1


def test_no_secret_reaches_a_disk(repository):
    text = (repository / "scripts/systemd/shoal.service").read_text()
    assert "\nLimitCORE=0\n" in text
    assert "\nMemorySwapMax=0\n" in text
