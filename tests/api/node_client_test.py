"""The official npm clients."""

import json
import shutil
import subprocess

import pytest

from shoal_server import MODEL_ID, PATIENCE_S, ROOT

NODE_MODULES = ROOT / "build/node/node_modules"


pytestmark = pytest.mark.skipif(not NODE_MODULES.is_dir() or not shutil.which("node"),
                                reason="no npm packages in build/node")


def run_client(name, base_url):
    """What the script printed."""
    script = ROOT / "build/node" / name
    shutil.copy(ROOT / "tests/api" / name, script)  # modules are looked up from where the script lies
    ended = subprocess.run(["node", script, base_url, MODEL_ID], capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    return json.loads(ended.stdout)


def test_openais_client_chats(server):
    said = run_client("openai_client.mjs", server.url + "/v1")
    assert "Paris" in said["whole"]
    assert said["streamed"] == said["whole"]
    assert said["usage"]["completion_tokens"] > 0
    assert said["models"] == [MODEL_ID]
    assert said["refused"] == {"status": 400, "param": "temperature", "type": "invalid_request_error"}
    assert said["unknown"] == {"status": 404, "code": "model_not_found"}
    server.wait_idle()


def test_anthropics_client_chats(server):
    said = run_client("anthropic_client.mjs", server.url)
    assert "Paris" in said["whole"] and said["stop_reason"] in ("end_turn", "max_tokens")
    assert said["whole"] == said["streamed"] == said["final"]
    usage = said["usage"]
    assert 0 < usage["output_tokens"] <= 24
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == said["counted"]
    assert said["refused"] == {"class": "BadRequestError", "status": 400, "type": "invalid_request_error"}
    assert said["unknown"] == {"class": "NotFoundError", "status": 404, "type": "not_found_error"}
    server.wait_idle()
