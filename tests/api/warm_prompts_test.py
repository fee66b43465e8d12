"""--warm-prompts: the prompts of a file are computed at the start, for each key; what is wrong with a line costs that line only."""

import json
import os
import signal

import pytest

from shoal_server import ROOT, wait_until

SERVER_MODEL = ROOT / "tests/model/demo"
SYSTEM = "You answer questions about the harbour of a small town, its boats, its tides and the people who work there. " * 4
OTHER = "Translate what follows, word for word, and keep the names of places as they are. " * 5
QUESTION = "When does the tide turn?"


def body_of(system, question=QUESTION, **fields):
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": question}], **fields}


def cached(server, system, question=QUESTION, headers=None):
    """(cached tokens, all tokens) of a prompt."""
    reply = server.request("POST", "/v1/chat/completions", body_of(system, question, max_tokens=2), headers)
    assert reply.status == 200, reply.body
    usage = reply.json["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]


def warmed(server, times=1):
    wait_until(lambda: server.log_text().count("warm prompts computed") == times, "the warm prompts")


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    lines = [json.dumps(body_of(SYSTEM)), "", "{broken", json.dumps(body_of(OTHER, temperature=0.5, max_tokens=500)), json.dumps({"messages": []}), "  "]
    path.write_text("\n".join(lines))
    return path


def test_later_requests_find_the_prompts(start_server, prompts):
    server = start_server("--warm-prompts", str(prompts))
    warmed(server)
    log = server.log_text()
    assert "2 warm prompts computed" in log and "2 failed" in log
    assert "--warm-prompts, line 3: " in log and "--warm-prompts, line 5: " in log
    for system in (SYSTEM, OTHER):
        hits, tokens = cached(server, system, "Who mends the nets?")  # only the beginning is the same
        assert hits > tokens / 2
    assert cached(server, SYSTEM[::-1])[0] < 16
    server.wait_idle()


def test_without_the_file_they_are_not_there(start_server):
    server = start_server()
    assert cached(server, SYSTEM)[0] == 0


def test_each_key_has_them(start_server, prompts, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("sk-two\nsk-three\n")
    keys.chmod(0o600)
    server = start_server("--warm-prompts", str(prompts), "--api-key", "sk-one", "--api-key-file", str(keys))
    warmed(server)
    assert "6 warm prompts computed" in server.log_text()
    for key in ("sk-one", "sk-two", "sk-three"):
        hits, tokens = cached(server, OTHER, headers={"authorization": f"Bearer {key}"})
        assert hits > tokens / 2
        assert cached(server, OTHER, headers={"authorization": f"Bearer {key}", "x-tenant-id": "other"})[0] == 0


def test_a_worker_without_its_cache_is_warmed_again(start_server, prompts):
    server = start_server("--warm-prompts", str(prompts), "--kv-survives", "0")
    warmed(server)
    os.kill(server.worker_pid(), signal.SIGKILL)
    warmed(server, 2)
    hits, tokens = cached(server, SYSTEM)
    assert hits > tokens / 2


def test_each_model_of_a_directory_has_its_own(start_server, prompts, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for name in ("one", "two"):
        (models / name).symlink_to(SERVER_MODEL)
    (models / "shoal.ini").write_text(f"[one]\npreload = true\nwarm-prompts = {prompts}\n[two]\npreload = true\n")
    server = start_server("--models-dir", str(models), "--kv-cache-bytes", "64M", model=None)
    warmed(server)
    for name, all_of_it in (("one", True), ("two", False)):
        usage = server.request("POST", "/v1/chat/completions", body_of(SYSTEM, model=name, max_tokens=2)).json["usage"]
        assert (usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2) == all_of_it


@pytest.mark.parametrize("content, words", [(None, "No such file"), ("x\n" * 1025, "more than 1024 prompts"), ("", "empty")])
def test_a_wrong_file_ends_the_start(start_server, tmp_path, content, words):
    path = tmp_path / "wrong.jsonl"
    if content is not None:
        path.write_text(content)
    server = start_server("--warm-prompts", str(path), ready=False)
    assert server.wait_exit() == 1
    assert "--warm-prompts" in server.log_text() and words in server.log_text()


def test_a_stop_does_not_wait_for_the_rest(start_server, tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps(body_of(f"{number} {SYSTEM}" * 6)) for number in range(1000)))
    server = start_server("--warm-prompts", str(path))
    assert cached(server, OTHER)[1] > 0  # beside them
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_exit(20) == 0
    assert "warm prompts computed" not in server.log_text()
