"""Fixtures: a server shared by the tests of one file, and a factory for servers with options of their own.

Every server listens on a free port, is ended when its test or file is over, and must have ended its worker by then.
"""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from shoal_server import ShoalServer  # noqa: E402


@pytest.fixture(scope="module")
def server():
    with ShoalServer() as running:
        running.wait_ready()
        yield running
        running.wait_idle()


@pytest.fixture
def start_server():
    """start_server("--max-queue", "1"): as many as a test needs; ready=False does not wait for the model."""
    started = []

    def start(*options, ready=True, **how):
        running = ShoalServer(*options, **how)
        started.append(running)
        running.__enter__()
        if ready:
            running.wait_ready()
        return running

    yield start
    for running in started:
        running.__exit__(None, None, None)
