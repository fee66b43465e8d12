"""The page at "/": its files and headers, the stream of the dashboard, and (long) the page in headless Chromium."""

import gzip
import itertools
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

import audio_test
from reload_test import make_weights
import tls_test
import video_clips
from scripted_server import ScriptedServer
from shoal_server import PATIENCE_S, ROOT
from vision_folder import FILM, make_folder

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
CHROMIUM = shutil.which("chromium")
DEMO = ROOT / "tests/model/demo"
HOSTILE = """<script>globalThis.hostile = 1</script><img src=x onerror="globalThis.hostile = 2">
[link](javascript:globalThis.hostile=3) [other](https://example.com/) <a href="data:text/html,x" onclick="globalThis.hostile=4">x</a>
<iframe src="/"></iframe><form action="/v1/cache/reset" method="post"><input type=submit></form><style>*{display:none}</style>

| a | b |
|---|---|
| $x^2$ | `c` |

"""


def test_a_browser_gets_the_page_and_a_probe_the_state(server):
    page = server.request("GET", "/", headers=HTML)
    assert page.status == 200 and page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    for headers in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
        assert server.request("GET", "/", headers=headers).json["status"] == "ready"
    assert server.request("HEAD", "/").status == 200


def test_every_file_that_the_page_names_is_there(server):
    waiting, seen = ["index.html"], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        reply = server.request("GET", "/page/" + name)
        assert reply.status == 200 and reply.body, name
        assert (reply.headers.get("content-encoding") == "gzip") == (name == "libraries.js")
        text = gzip.decompress(reply.body).decode() if name == "libraries.js" else reply.body.decode()
        assert not re.search(r"(?:src|href)=\"https?:", text), name
        if name.endswith(".html"):
            waiting += re.findall(r'(?:src|href)="page/([^"]+)"', text)
        elif name != "libraries.js":
            waiting += re.findall(r'from "\./([^"]+)"', text)
    assert {"main.js", "chat.js", "dashboard.js", "libraries.js", "page.css", "uplot.css"} <= seen
    assert server.request("GET", "/page/licences.txt").status == 200
    for name in ("none.js", "../openapi.json", "vendor/libraries.js", ""):
        assert server.request("GET", "/page/" + name).status == 404, name


def test_an_unchanged_file_is_not_sent_again(server):
    first = server.request("GET", "/page/main.js")
    again = server.request("GET", "/page/main.js", headers={"if-none-match": first.headers["etag"]})
    assert again.status == 304 and again.body == b""
    assert server.request("GET", "/page/main.js", headers={"if-none-match": '"other"'}).body == first.body


def open_stream(server):
    return urllib.request.urlopen(server.url + "/v1/status/stream", timeout=PATIENCE_S)


def reports_of(connection):
    """Reports of a status stream as they come: {event: data}."""
    text, report = b"", {}
    while True:
        part = connection.read1(65536)
        assert part, text
        *blocks, text = (text + part).split(b"\n\n")
        for block in blocks:
            event = re.search("^event: (.*)$", block.decode(), re.M)[1]
            report[event] = json.loads(re.search("^data: (.*)$", block.decode(), re.M)[1])
            if event == "trace":  # the last one of a report
                yield report
                report = {}


def test_the_status_stream_repeats_the_report(server):
    with open_stream(server) as stream:
        reports = list(itertools.islice(reports_of(stream), 3))
    assert all(list(report) == ["models", "status", "figures", "trace"] for report in reports)
    models, status, figures = reports[0]["models"], reports[0]["status"], [report["figures"] for report in reports]
    name = server.get("/v1/models").json["data"][0]["id"]
    assert [(model["id"], model["state"], model["waiting"]) for model in models] == [(name, "loaded", 0)]
    assert set(status) == set(server.get("/v1/status").json)
    assert figures[0]["time_ms"] < figures[1]["time_ms"] < figures[2]["time_ms"]
    assert figures[0]["kv_blocks_total"] == server.metrics()["shoal_kv_blocks"]
    histogram = figures[0]["first_token_s"]
    assert len(histogram["counts"]) == len(histogram["bounds"]) + 1
    server.wait_idle()


def test_the_trace_has_every_step_and_the_blocks(server):
    """The steps of an answer, one by one, and a map that agrees with the counts, while it is made and after."""
    server.wait_idle()
    with open_stream(server) as stream:
        reports = reports_of(stream)
        before = next(reports)["trace"]["workers"][0]
        prompt = "one two three " * 40
        reply = server.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 40, "ignore_eos": True, "speculation": False}).json
        server.wait_idle()
        usage = reply["usage"]
        steps = server.get("/v1/status").json["workers"][0]["says"]["steps"]
        after = next(trace for trace in (report["trace"]["workers"][0] for report in reports) if trace["step_count"] == steps)
        next(reports)
        later = next(reports)  # its map was asked for after the answer
    fresh = after["steps"][-(after["step_count"] - before["step_count"]):]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert sum(step[1] for step in fresh) == usage["prompt_tokens"] - cached
    assert sum(step[0] for step in fresh) == usage["completion_tokens"] - 1  # the first token is drawn by a prompt's row
    assert all(step[2] == 0 and step[3] > 0 for step in fresh)
    figures, trace = later["figures"], later["trace"]["workers"][0]
    cells = bytes.fromhex(trace["kv_map"])
    assert len(cells) == min(1024, figures["kv_blocks_total"])
    assert figures["kv_blocks_used"] == 0 and not any(cell & 15 for cell in cells)
    assert 0 < sum(cell >> 4 > 0 for cell in cells) <= figures["kv_blocks_cached"]


def test_the_map_shows_blocks_in_use(server):
    with open_stream(server) as stream, ThreadPoolExecutor(1) as helper:
        answer = helper.submit(server.request, "POST", "/v1/completions",
                               {"prompt": "one two", "max_tokens": 3000, "ignore_eos": True})
        maps = (bytes.fromhex(report["trace"]["workers"][0]["kv_map"]) for report in reports_of(stream))
        assert any(any(cell & 15 for cell in cells) for cells in itertools.islice(maps, 100))
        assert answer.result().status == 200
    server.wait_idle()


def test_status_streams_are_limited_and_end_with_the_server(start_server):
    server = start_server()
    streams = [open_stream(server) for _ in range(32)]
    for stream in streams:
        next(reports_of(stream))
    refused = server.get("/v1/status/stream")
    assert refused.status == 429 and refused.error["code"] == "too_many_status_streams"
    server.process.send_signal(signal.SIGTERM)
    for stream in streams:
        with stream:
            while stream.read1(65536):
                pass
    assert server.wait_exit() == 0


# --- in a browser ---------------------------------------------------------------------------------

in_browser = [pytest.mark.long, pytest.mark.skipif(not CHROMIUM, reason="no chromium on this system")]


def words_of(text):
    """Letters and digits only: markdown takes away and adds other characters."""
    return re.sub(r"[^A-Za-z0-9]", "", text)


class Browser:
    """A scenario of page_browser.mjs in progress."""

    def __init__(self, scenario, server, argument=""):
        script = ROOT / "build/node/page_browser.mjs"
        shutil.copy(ROOT / "tests/api/page_browser.mjs", script)  # modules are looked up from where the script lies
        self.server = server
        self.process = subprocess.Popen(["node", script.name, scenario, server.url, CHROMIUM, str(argument)], cwd=script.parent,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self):
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        assert readable, "the browser said nothing"
        line = self.process.stdout.readline().decode()
        assert line, self.process.stderr.read().decode()
        return line

    def result(self):
        try:
            said = json.loads(self.line())
        finally:
            try:
                self.process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
                raise
        assert said["failures"] == []
        assert said["origins"] == [self.server.url]
        return said


class TestInBrowser:
    pytestmark = in_browser

    def test_a_chat_with_an_image(self, start_server):
        server = start_server(model=DEMO)
        said = Browser("chat", server, ROOT / "tests/golden/demo/015-0.png").result()
        assert "red square" in said["answer"] and said["again"] == said["answer"]
        assert said["image"] and said["accessibility"] == []
        assert "openai.OpenAI" in said["code"] and server.url in said["code"]
        server.wait_idle()

    def test_two_models_answer_side_by_side(self, tmp_path, start_server):
        """Each question goes to both; the conversation continues with the answer that is chosen."""
        for name in ("one", "two"):
            make_weights(random.Random(name), tmp_path / f"{name}.gguf")
        server = start_server("--models-dir", str(tmp_path), "--context", "512", "--kv-cache-bytes", "32M")
        said = Browser("compare", server, "two").result()
        expected = {name: server.chat("Hello", model=name, temperature=0, max_tokens=12).json["choices"][0]["message"]["content"] for name in ("one", "two")}
        assert [name for name, _ in said["answers"]] == ["one", "two"] and said["tops"][0] == said["tops"][1]
        assert expected["one"] != expected["two"]
        for name, text in said["answers"]:
            assert words_of(text) == words_of(expected[name])
        assert said["accessibility"] == []
        assert said["chosen"] == ["two"] and "assistant" in said["code"]

    def test_a_chat_with_a_video(self, start_server, tmp_path):
        form = FILM | {"video": video_clips.settings("qwen2_5_vl")}
        server = start_server("--device", "cpu", model=make_folder(tmp_path, "qwen2_5_vl", form))
        said = Browser("video", server, ROOT / "tests/golden/videos/films/vp9.webm").result()
        assert said["failure"] == "" and said["accessibility"] == [], said
        assert said["wide"] == 48 and "prompt" in said["figures"], said
        server.wait_idle()

    def test_a_chat_with_a_sound(self, start_server, tmp_path, tmp_path_factory):
        server = start_server(model=audio_test.folder_of(tmp_path_factory, "qwen2_audio"))
        (tmp_path / "sound.wav").write_bytes(audio_test.clip(8))
        said = Browser("audio", server, tmp_path / "sound.wav").result()
        assert said["failure"] == "" and said["accessibility"] == [], said
        assert said["seconds"] > 0 and "prompt" in said["figures"], said
        server.wait_idle()

    def test_content_is_formatted_edited_and_exported(self, tmp_path):
        content = "Code:\n\n```python\ndef f(x):\n    return 'a'\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$$\\frac{a}{b}$$\n"
        with ScriptedServer(tmp_path) as server:
            server.wait_ready()
            server.says(content, "Second answer.")
            said = Browser("content", server, tmp_path / "conversation.json").result()
        assert said["shown"]["code"] > 0 and said["shown"]["cells"] == 2 and said["shown"]["maths"] > 0
        assert said["accessibility"] == []
        assert said["second"] == "Second answer." and "2 of 2" in said["branches"]
        assert "return 'a'" in said["first"] and said["imported"] == said["first"]
        exported = json.loads((tmp_path / "conversation.json").read_text())
        assert sorted(message["role"] for message in exported["messages"].values()) == ["assistant", "assistant", "user", "user"]

    def test_images_are_pasted_and_dropped(self, start_server):
        server = start_server()
        said = Browser("attach", server, ROOT / "tests/golden/demo/015-0.png").result()
        assert said["counts"] == [1, 2] and said["left"] == 1

    def test_reasoning_calls_and_forms_are_shown(self, start_server):
        server = start_server(model=DEMO)
        tools = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city",
                                                   "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
        schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"], "additionalProperties": False}
        question = {"story": "Tell me a long story.", "prompt": "What is the weather in Paris?", "tools": tools, "schema": schema}
        said = Browser("parts", server, json.dumps(question)).result()
        assert not said["reasoning"]["hidden"] and not said["reasoning"]["open"] and said["reasoning"]["text"]
        assert len(said["heat"]) > 1 and all("%" in title for _, title in said["heat"])
        assert "prompt tokens" in said["figures"] and "tokens/s" in said["figures"] and "cached" in said["figures"]
        assert re.fullmatch(r"get_weather\(\{.*\}\)", said["call"])
        assert set(json.loads(said["formed"])) == {"city"}
        server.wait_idle()

    def test_every_sampling_field_can_be_set(self, start_server):
        """What the page sends is what the settings say, and the server takes all of it."""
        server = start_server()
        said = Browser("fields", server).result()
        assert said["failure"] == ""
        body = json.loads(said["code"].split("-d '")[1].rsplit("'", 1)[0])
        numbers = ["max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "repetition_penalty", "presence_penalty", "frequency_penalty", "typical_p",
                   "top_n_sigma", "xtc_probability", "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length", "dynatemp_range", "dynatemp_exponent",
                   "repetition_context_size", "min_tokens", "thinking_budget"]
        assert {name: body.pop(name) for name in numbers} == dict.fromkeys(numbers, 1)
        assert body.pop("messages")[0] == {"role": "system", "content": "Be brief."}
        body.pop("model")
        assert body == {"stop": ["one", "two"], "logit_bias": {"5": -3}, "n_probs": 0, "include_reasoning": True, "ignore_eos": True}

    def test_stop_ends_an_answer(self, start_server):
        server = start_server()
        said = Browser("stop", server).result()
        assert len(said["answer"]) > 20
        server.wait_idle()
        assert server.metrics()['vllm:request_success_total{finished_reason="abort"}'] == 1

    def test_a_key_is_asked_for_over_tls(self, start_server, tmp_path):
        cert, key = tls_test.make_certificate(tmp_path, "page", "page")
        server = start_server("--api-key", "sk-page", "--tls-cert", str(cert), "--tls-key", str(key), tls=tls_test.client_context(cert))
        assert server.url.startswith("https://")
        assert Browser("key", server, "sk-page").result()["answer"]

    def test_hostile_text_stays_text(self, tmp_path):
        with ScriptedServer(tmp_path) as server:
            server.wait_ready()
            server.says(HOSTILE)
            said = Browser("hostile", server).result()
        assert said["ran"] is None and said["scripts"] == 0
        assert said["links"] == [[None, "noopener noreferrer"], ["https://example.com/", "noopener noreferrer"]]
        assert "<script>globalThis.hostile = 1</script>" in said["text"] and "<iframe" in said["text"]
        assert said["longCharacters"] == 1000000

    def test_the_dashboard_shows_a_death(self, start_server):
        server = start_server()
        seen = threading.Event()

        def keep_busy():
            while not seen.is_set():
                server.request("POST", "/v1/completions", {"prompt": "one two", "max_tokens": 1000, "ignore_eos": True})

        with ThreadPoolExecutor(1) as helper:
            busy = helper.submit(keep_busy)
            try:
                browser = Browser("dashboard", server)
                assert browser.line() == "watching\n"
                os.kill(server.worker_pid(), signal.SIGKILL)
                said = browser.result()
            finally:
                seen.set()
            busy.result()
        assert "ready" in said["workers"] and " of " in said["workers"] and "loaded" in said["models"] and said["charts"] == 5
        assert said["strip"] and "1 decode rows" in said["steps"] and 1 <= said["cells"] <= 1024
        assert said["accessibility"] == []
