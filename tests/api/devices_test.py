"""`shoal devices`, and a server whose worker has no such device. Mesa's CPU driver is the device (scripts/vulkan_env)."""

import json
import os
import shutil
import subprocess

import pytest

from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT, ShoalServer, wait_until

NO_DRIVER = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}


def run(*options, environment=None):
    command = [str(BUILD / "shoal"), *options]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
                          env={**os.environ, **(environment or {})})


def test_every_device_is_listed():
    listing = run("devices", "--json")
    assert listing.returncode == 0, listing.stderr
    cpu, vulkan = json.loads(listing.stdout)["devices"][:2]
    assert (cpu["device"], cpu["usable"], cpu["driver"], cpu["vulkan_version"]) == ("cpu", True, None, None)
    assert cpu["memory_bytes"] > 1e8 and cpu["tier"] in ("portable", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm")
    assert (vulkan["device"], vulkan["usable"], vulkan["unusable"]) == ("vulkan:0", True, None)
    assert (cpu["type"], vulkan["type"]) == ("cpu", "cpu")
    assert "llvmpipe" in vulkan["name"] and "Mesa" in vulkan["driver"]
    assert vulkan["vulkan_version"].startswith("1.") and vulkan["tier"] in ("scalar", "dot", "KHR matrix", "NV matrix 2")
    table = run("devices").stdout.splitlines()
    assert table[0].split() == ["device", "name", "memory", "tier", "Vulkan", "driver"]
    assert [line.split()[0] for line in table[1:3]] == ["cpu", "vulkan:0"]
    assert vulkan["name"][:40] in table[2] and vulkan["driver"] in table[2]


def test_without_a_driver_only_the_cpu_is_listed():
    listing = run("devices", "--json", environment=NO_DRIVER)
    assert listing.returncode == 0, listing.stderr
    assert [device["device"] for device in json.loads(listing.stdout)["devices"]] == ["cpu"]


@pytest.mark.parametrize("environment", [{}, NO_DRIVER])
def test_auto_does_not_choose_a_cpu_driver(environment):
    with ShoalServer("--device", "auto", "--threads", "1", "--kv-cache-bytes", "50M", environment=environment) as server:
        server.wait_ready()
        chosen = [line for line in server.log_text().splitlines() if "device: " in line and "--device auto" in line]
        assert len(chosen) == 1 and "device: cpu (--device auto: no usable GPU found)" in chosen[0]
        (worker,) = server.request("GET", "/v1/status").json["workers"]
        assert worker["device"] == "cpu" and worker["backend"].startswith("cpu ")


def test_auto_is_the_default_and_needs_no_worker_program(tmp_path):
    shutil.copy(BUILD / "shoal", tmp_path / "shoal")
    ended = subprocess.run([tmp_path / "shoal", "serve", "--model", MODEL, "--port", "0"], capture_output=True, text=True,
                           timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert "option --device auto" in ended.stderr and "device: cpu (--device auto: no usable GPU found)" in ended.stderr


def test_cpu_tier_names_the_instructions_that_workers_use():
    with ShoalServer("--device", "cpu", "--cpu-tier", "portable", "--threads", "1", "--kv-cache-bytes", "50M") as server:
        server.wait_ready()
        (worker,) = server.request("GET", "/v1/status").json["workers"]
        assert worker["backend"] == "cpu portable, 1 thread"


def test_a_cpu_without_the_asked_for_instructions_ends_the_server_with_the_reason():
    other = "avx2" if os.uname().machine == "aarch64" else "neon"
    ended = run("serve", "--model", str(MODEL), "--port", "0", "--device", "cpu", "--cpu-tier", other)
    assert ended.returncode == 1 and f"this CPU lacks the instructions of --cpu-tier {other}" in ended.stderr.splitlines()[-1]
    ended = run("serve", "--model", str(MODEL), "--port", "0", "--device", "cpu", "--cpu-tier", "sse")
    assert ended.returncode == 1 and "best, portable, avx2, avx512, amx, neon, dotprod or i8mm" in ended.stderr


@pytest.mark.parametrize("device, environment, words", [
    ("vulkan:7", {}, "there is no Vulkan device 7: 1 usable found"),
    ("vulkan", NO_DRIVER, "there is no Vulkan driver"),
])
def test_a_missing_device_ends_the_server_with_the_reason(device, environment, words):
    ended = run("serve", "--model", str(MODEL), "--port", "0", "--device", device, environment=environment)
    assert ended.returncode == 1
    assert words in ended.stderr.splitlines()[-1]
    assert "killed by signal" not in ended.stderr


def test_one_missing_device_of_two_costs_one_worker():
    with ShoalServer("--device", "cpu,vulkan:7", "--threads", "1", "--kv-cache-bytes", "50M") as server:
        server.wait_ready()
        wait_until(lambda: "worker 1 cannot be started and is given up" in server.log_text(), "worker 1 to be given up")
        first, second = server.request("GET", "/v1/status").json["workers"]
        assert (first["device"], first["state"]) == ("cpu", "ready") and first["backend"].startswith("cpu ")
        assert (second["device"], second["state"], second["backend"]) == ("vulkan:7", "stopped", None)
        assert "there is no Vulkan device 7" in second["last_death"]["reason"]
        assert server.chat("Hi", max_tokens=2).status == 200
