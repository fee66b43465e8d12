"""The compiled rings and doorbells of AArch64 have the instructions that their memory orders need (shm/README.md).

qemu on x86 runs a program of AArch64 with x86's stronger order, so a missing order would pass every test that runs there.
"""

import re
import shutil
import subprocess

import pytest

COMPILER = "aarch64-linux-gnu-gcc"
ORDERS = {  # file -> function -> instruction
    "shm/spsc_ring.c": {
        "spsc_ring_commit": "stlr",  # P1
        "spsc_ring_peek": "ldar",  # C1
        "spsc_ring_release": "stlr",  # C2
        "spsc_ring_claim": "ldar",  # P2
        "spsc_ring_free": "ldar",  # P2
    },
    "shm/doorbell.c": {"doorbell_prepare_sleep": "dmb", "doorbell_ring": "dmb"},  # D2, R2
}
WEAKER = {"memory_order_release": "memory_order_relaxed", "memory_order_acquire": "memory_order_relaxed",
          "atomic_thread_fence(memory_order_seq_cst)": "(void)0"}

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which(COMPILER), reason="no cross compiler: scripts/setup test-long brings it on Debian"),
]


def functions_without_order(repository, text, orders, optimization):
    root = repository / "build/arm-root"
    command = [COMPILER, "-x", "c", "-", "-S", "-o", "-", "-std=c11", "-D_GNU_SOURCE", optimization, f"-I{repository}"]
    command += [f"--sysroot={root}"] if root.exists() else []
    assembly = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    missing = []
    for function, instruction in orders.items():
        body = re.search(rf"^{function}:$(.*?)^\s*\.size\s+{function},", assembly, re.MULTILINE | re.DOTALL).group(1)
        if not re.search(rf"^\s+{instruction}\s", body, re.MULTILINE):
            missing.append(function)
    return missing


@pytest.mark.parametrize("optimization", ["-O1", "-O2", "-O3"])
@pytest.mark.parametrize("path", ORDERS)
def test_every_order_is_in_the_code(repository, path, optimization):
    text = (repository / path).read_text(encoding="utf-8")
    assert functions_without_order(repository, text, ORDERS[path], optimization) == []


@pytest.mark.parametrize("path", ORDERS)
def test_weakened_orders_are_found(repository, path):
    text = (repository / path).read_text(encoding="utf-8")
    for order, weaker in WEAKER.items():
        text = text.replace(order, weaker)
    assert functions_without_order(repository, text, ORDERS[path], "-O2") == list(ORDERS[path])
