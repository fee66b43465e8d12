"""Servers with injected faults, a crowd of seeded chats, and their answers without faults.

SHOAL_FAULT_LENGTH: `short` (the default) is run by `make test`, with the demo model; `long`, with more deaths and SmolLM2, which is 18 times
as large, by `make test-long`; `timed` is `long` with bounds on milliseconds as well, so it needs an otherwise idle machine.
"""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "api"))

from crowd import chat_body, run_once  # noqa: E402
import demo_model  # noqa: E402
import shoal_server  # noqa: E402
from shoal_server import ShoalServer  # noqa: E402

LENGTH = os.environ.get("SHOAL_FAULT_LENGTH", "short")
assert LENGTH in ("short", "long", "timed"), f"SHOAL_FAULT_LENGTH={LENGTH}"
LONG = LENGTH != "short"
MODEL = shoal_server.MODEL if LONG else demo_model.FOLDER
STREAMS = 64


@pytest.fixture(scope="session")
def long_run():
    return LONG


@pytest.fixture(scope="session")
def timed_run():
    """True if tests check bounds in milliseconds."""
    return LENGTH == "timed"


@pytest.fixture
def say(capsys):
    """Prints a figure even if the test passes."""
    def write(words):
        with capsys.disabled():
            print(f"\n  {words}", flush=True)
    return write


@pytest.fixture(scope="session")
def undisturbed():
    """(bodies, answers) of the crowd on a server without faults."""
    bodies = [chat_body(number, 96 if LONG else 32) for number in range(STREAMS)]
    with ShoalServer("--max-sequences", str(STREAMS), model=MODEL) as server:
        server.wait_ready()
        chats = run_once(server.port, bodies, STREAMS)
        server.wait_idle()
    answers = {chat.number: chat.answer() for chat in chats}
    assert all(status == 200 for status, _ in answers.values())
    return bodies, answers


@pytest.fixture
def start_server():
    started = []

    def start(*options, ready=True):
        running = ShoalServer("--max-sequences", str(STREAMS), *options, model=MODEL)
        started.append(running)
        running.__enter__()
        if ready:
            running.wait_ready()
        return running

    yield start
    for running in started:
        running.__exit__(None, None, None)
