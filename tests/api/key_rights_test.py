"""Rights and limits of API keys: administrators, what others see of a client, requests, tokens, images and concurrency."""

import json
import threading

import pytest

import demo_model
from shoal_server import PATIENCE_S, ShoalServer, wait_until
from vision_folder import data_uri, image_part, png, text_part

SERVER_MODEL = demo_model.FOLDER

ROOT_KEY, ONE, TWO = {"x-api-key": "sk-root"}, {"x-api-key": "sk-one"}, {"x-api-key": "sk-two"}


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("sk-root admin\nsk-one\nsk-two requests=2 concurrent=1\nsk-three tokens=20\n")
    path.chmod(0o600)
    return path


def test_only_administrators_reset_caches(start_server, key_file):
    running = start_server("--api-key-file", str(key_file))
    reply = running.request("POST", "/v1/cache/reset", headers=ONE)
    assert reply.status == 403 and reply.error["code"] == "admin_key_required"
    assert running.request("POST", "/v1/cache/reset").status == 401
    assert running.request("POST", "/v1/cache/reset", headers=ROOT_KEY).status == 200


def test_a_key_sees_its_own_requests_in_the_status(start_server, key_file):
    running = start_server("--api-key-file", str(key_file))
    result = []
    client = threading.Thread(target=lambda: result.append(running.chat(
        "Tell a long story.", {**ONE, "x-request-id": "secret-name"}, max_tokens=3000, ignore_eos=True).status))
    client.start()

    def shown(headers):
        requests = running.get("/v1/status", headers).json["requests"]
        return [entry["request_id"] for entry in requests["running"] + requests["waiting"]]

    wait_until(lambda: shown(ONE) == ["secret-name"], "the request in the status of its own key")
    assert shown(ROOT_KEY) == ["secret-name"] and shown(TWO) == []
    client.join(PATIENCE_S)
    assert result == [200]


def test_requests_of_a_key_are_limited(start_server, key_file):
    running = start_server("--api-key-file", str(key_file))
    first = running.chat("Hi", TWO, max_tokens=1)
    assert first.status == 200
    assert first.headers["x-ratelimit-limit-requests"] == "2" and first.headers["x-ratelimit-remaining-requests"] == "1"
    assert first.headers["x-ratelimit-reset-requests"].endswith("s")
    assert running.chat("Hi", TWO, max_tokens=1, stream=True).headers["x-ratelimit-remaining-requests"] == "0"
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
        refused = running.request("POST", path, {"messages": []}, TWO)
        assert refused.status == 429 and 1 <= int(refused.headers["retry-after"]) <= 30
        assert refused.json["error"]["type"] in ("rate_limit_error", "requests", "rate_limit_exceeded")
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    unlimited = running.chat("Hi", ONE, max_tokens=1)
    assert unlimited.status == 200 and not [name for name in unlimited.headers if name.startswith("x-ratelimit")]
    assert running.get("/v1/models", TWO).status == 200  # only requests for answers count


def test_tokens_of_prompts_and_answers_are_limited(start_server, key_file):
    running = start_server("--api-key-file", str(key_file))
    three = {"x-api-key": "sk-three"}
    reply = running.chat("Hi", three, max_tokens=15, ignore_eos=True)
    used = reply.json["usage"]["total_tokens"]
    assert reply.status == 200 and used > 20
    refused = running.chat("Hi", three, max_tokens=1)
    assert refused.status == 429 and refused.headers["x-ratelimit-remaining-tokens"] == "0"
    assert "tokens a minute" in refused.error["message"]
    assert int(refused.headers["retry-after"]) <= (used - 20 + 1) * 3 + 1


def test_requests_at_a_time_are_limited(start_server, tmp_path):
    path = tmp_path / "keys"
    path.write_text("sk-two concurrent=1\n")
    path.chmod(0o600)
    running = start_server("--api-key-file", str(path))
    stream = running.connect()
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2000, "ignore_eos": True,
                       "stream": True}).encode()
    stream.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nx-api-key: sk-two\r\nContent-Length: %d\r\n\r\n"
                   % len(body) + body)
    assert stream.recv(4096).startswith(b"HTTP/1.1 200 ")
    refused = running.chat("Hi", TWO, max_tokens=1)
    assert refused.status == 429 and "requests at a time" in refused.error["message"]
    stream.close()
    wait_until(lambda: running.chat("Hi", TWO, max_tokens=1).status == 200, "room after the client left")


def test_images_are_limited(start_server):
    running = start_server("--api-key", "sk-one", "--key-limits", "images=2", model="tests/model/demo")
    content = [image_part(data_uri(png(32, 32, (200, 0, 0))))] * 3 + [text_part("What is it?")]
    reply = running.chat(content, ONE, max_tokens=1)
    assert reply.status == 200 and reply.headers["x-ratelimit-remaining-images"] == "0"
    refused = running.chat("Hi", ONE, max_tokens=1)
    assert refused.status == 429 and "images a minute" in refused.error["message"]


def test_a_readable_key_file_ends_the_start(start_server, key_file):
    key_file.chmod(0o644)
    with pytest.raises(AssertionError, match="other users can read"), ShoalServer("--api-key-file", str(key_file)):
        pass
    running = start_server("--api-key-file", str(key_file), "--allow-readable-key-file")
    assert running.get("/v1/models", ONE).status == 200


def test_malformed_limits_end_the_start():
    with pytest.raises(AssertionError, match="--key-limits"), ShoalServer("--api-key", "k", "--key-limits", "speed=5"):
        pass
