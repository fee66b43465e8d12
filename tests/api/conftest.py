"""Fixtures: a server shared by the tests of one file, and a factory for servers with options of their own.

They serve SmolLM2, or what the test file names as SERVER_MODEL: the demo model, which takes an eighteenth of the time, wherever a test does
not need another. Every server listens on a free port, is ended when its test or file is over, and must have ended its worker by then.
"""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from shoal_server import ShoalServer  # noqa: E402


@pytest.fixture(scope="module")
def server(request):
    with ShoalServer(model=getattr(request.module, "SERVER_MODEL", None)) as running:
        running.wait_ready()
        yield running
        running.wait_idle()


@pytest.fixture
def start_server(request):
    """start_server("--max-queue", "1"): as many as a test needs; ready=False does not wait for the model."""
    started = []

    def start(*options, ready=True, **how):
        running = ShoalServer(*options, **{"model": getattr(request.module, "SERVER_MODEL", None), **how})
        started.append(running)
        running.__enter__()
        if ready:
            running.wait_ready()
        return running

    yield start
    for running in started:
        running.__exit__(None, None, None)
