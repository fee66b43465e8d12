"""The official npm client."""

import json
import shutil
import subprocess

import pytest

from shoal_server import MODEL_ID, ROOT

NODE_MODULES = ROOT / "build/node/node_modules"


@pytest.mark.skipif(not NODE_MODULES.is_dir() or not shutil.which("node"), reason="no npm packages in build/node")
def test_the_npm_client_chats(server):
    script = ROOT / "build/node/openai_client.mjs"
    shutil.copy(ROOT / "tests/api/openai_client.mjs", script)  # modules are looked up from where the script lies
    ended = subprocess.run(["node", script, server.url + "/v1", MODEL_ID], capture_output=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    said = json.loads(ended.stdout)
    assert "Paris" in said["whole"]
    assert said["streamed"] == said["whole"]
    assert said["usage"]["completion_tokens"] > 0
    assert said["models"] == [MODEL_ID]
    assert said["refused"] == {"status": 400, "param": "temperature", "type": "invalid_request_error"}
    assert said["unknown"] == {"status": 404, "code": "model_not_found"}
    server.wait_idle()
