"""Images from a client through the real frontend to the worker: which arrive, which are refused, and which are never fetched. The
scripted worker answers with a description of the images that it received; demo_model_test.py uses a real worker."""

import base64
import os
import signal
import subprocess

import anthropic
import openai
import pytest

from media_host import MediaHost
from scripted_server import ScriptedServer
from shoal_server import BUILD, PATIENCE_S, ROOT
from vision_folder import GEMMA4, data_uri, image_part, make_folder, png, text_part

RED = png(16, 8, (255, 0, 0))
BLUE = png(32, 16, (0, 0, 255))


@pytest.fixture(scope="module")
def media():
    with MediaHost({"/red.png": RED, "/silent": RED}) as host:
        host.redirects["/away"] = f"http://localhost:{host.port}/red.png"
        yield host


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def server(folder, media, tmp_path_factory):
    images = tmp_path_factory.mktemp("images")
    (images / "blue.png").write_bytes(BLUE)
    (folder.parent / "secret.png").write_bytes(BLUE)
    with ScriptedServer(
            tmp_path_factory.mktemp("programs"), "--allow-media-domain", media.name, "--allow-media-private",
            "--allow-media-path", str(images), "--media-timeout", "5", "--served-model-name", "tiny", "--slab-bytes",
            "16M", model=folder) as running:
        running.images = images
        running.wait_ready()
        yield running
        running.wait_idle()


def answer(server, *parts, **fields):
    server.says("{images}")
    reply = server.chat(list(parts), **fields)
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def refusal(server, *parts):
    reply = server.chat(list(parts))
    assert reply.status == 400, reply.body
    return reply.error


def test_images_arrive_in_their_place(server):
    assert answer(server, text_part("ab"), image_part(data_uri(RED)), text_part("c"),
                  image_part(data_uri(BLUE))) == "16x8x1 at 9 of 2 is 255 0 0, 32x16x1 at 14 of 8 is 0 0 255"


def test_the_model_list_reports_vision(server):
    assert server.get("/v1/models").json["data"][0]["vision"] is True


def test_a_text_request_has_no_images(server):
    assert answer(server, text_part("ab")) == ""


def test_an_image_counts_its_tokens(server):
    server.says("ok", "ok")
    with_one, without = (server.chat([*parts, text_part("a")]).json["usage"]["prompt_tokens"]
                         for parts in ([image_part(data_uri(BLUE))], []))
    assert with_one - without == 2 + 8


def test_detail_and_shape_change_what_arrives(server):
    assert answer(server, image_part(data_uri(BLUE)), resize_shape=[16, 16]) == "16x8x1 at 7 of 2 is 0 0 255"
    assert answer(server, image_part(data_uri(BLUE), detail="low")) == "32x16x1 at 7 of 8 is 0 0 255"


def test_every_choice_sees_the_images(server):
    server.says("{images}", "{images}")
    choices = server.chat([image_part(data_uri(RED))], n=2).json["choices"]
    assert [choice["message"]["content"] for choice in choices] == ["16x8x1 at 7 of 2 is 255 0 0"] * 2


def test_openais_client_in_responses_and_a_later_turn(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    server.says("{images}", "{images}")
    first = client.responses.create(model="tiny", input=[{"role": "user", "content": [
        {"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": data_uri(RED), "detail": "auto"}]}])
    assert first.output_text == "16x8x1 at 8 of 2 is 255 0 0"
    second = client.responses.create(model="tiny", previous_response_id=first.id, input=[{"role": "user", "content": [
        {"type": "input_image", "image_url": data_uri(BLUE), "detail": "auto"}]}])
    assert [part.split(" of ")[0].split(" at ")[0] for part in second.output_text.split(", ")] == ["16x8x1", "32x16x1"]
    kept = client.responses.input_items.list(first.id).data[0].content[1]
    assert (kept.type, kept.image_url) == ("input_image", data_uri(RED))


def test_anthropics_client_in_results_of_tools(server):
    client = anthropic.Anthropic(base_url=server.url, api_key="none")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                           "data": base64.b64encode(RED).decode()}}
    messages = [
        {"role": "user", "content": [image, {"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]}]},
    ]
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    server.says("{images}")
    message = client.messages.create(model="tiny", max_tokens=200, messages=messages, tools=tools)
    assert message.content[0].text.count("16x8x1") == 2
    counted = client.messages.count_tokens(model="tiny", messages=messages, tools=tools)
    assert counted.input_tokens == message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)


def test_a_template_without_images_in_results_of_tools(tmp_path):
    """Gemma 4's template prints only the text of a tool's result."""
    folder = make_folder(tmp_path, tower="gemma4", form=GEMMA4)
    template = ROOT / "tests/golden/templates/source/lcp-google-gemma-4-31B-it.jinja"
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    with ScriptedServer(tmp_path, "--chat-template", str(template), model=folder) as server:
        server.wait_ready()
        reply = server.request("POST", "/v1/chat/completions", {"messages": [
            {"role": "user", "content": [image_part(data_uri(RED)), text_part("a")]},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": [image_part(data_uri(RED))]}]})
        assert reply.status == 400 and reply.error["param"] == "messages[2].content[0]", reply.body
        assert "no place for images in results of tools" in reply.error["message"]


def test_allowed_files_and_hosts_are_read(server, media):
    assert answer(server, image_part(f"file://{server.images}/blue.png")) == "32x16x1 at 7 of 8 is 0 0 255"
    assert answer(server, image_part(f"http://{media.name}/red.png")) == "16x8x1 at 7 of 2 is 255 0 0"
    assert "/red.png" in media.asked


@pytest.mark.parametrize("url, words", [
    ("file:///etc/passwd", "no such file"),
    ("file://{images}/../secret.png", "no such file"),
    ("http://localhost:{port}/never.png", "does not fetch images from localhost"),
    ("http://127.0.0.1/never.png", "does not fetch"),
    ("http://user@{host}/never.png", "password"),
    ("http://{host}/away", "does not fetch images from localhost"),
    ("data:image/png;base64,AAAA", ""),
    ("data:image/png;base64,A*", "base64"),
    ("/etc/passwd", "none of"),
])
def test_refusals_name_the_image(server, media, url, words):
    url = url.format(images=server.images, host=media.name, port=media.port)
    error = refusal(server, text_part("a"), image_part(url))
    assert (error["param"], error["code"]) == ("messages[0].content[1]", "invalid_image"), error
    assert error["message"].startswith("messages[0].content[1]: ") and words in error["message"], error
    assert "/never.png" not in media.asked


def test_a_marker_in_a_users_text_is_plain_text(server):
    mark = "<|vision_start|><|image_pad|><|vision_end|>"
    assert answer(server, text_part(mark)) == ""
    assert answer(server, text_part(mark), image_part(data_uri(RED))) == "16x8x1 at 50 of 2 is 255 0 0"


def test_texts_do_not_wait_for_a_silent_host(server, media):
    slow = [server.connect() for _ in range(4)]  # more than --prepare-threads
    body = b'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"http://%s/silent"}]}]}'
    for connection in slow:
        text = body % media.name.encode()
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                           % len(text) + text)
    while media.asked.count("/silent") < 4:
        assert server.process.poll() is None
    server.says("at once")
    assert server.chat("a").json["choices"][0]["message"]["content"] == "at once"
    for connection in slow:
        connection.close()
    media.silence.set()


def test_the_next_worker_gets_the_images_again(folder, tmp_path):
    with ScriptedServer(tmp_path, model=folder) as server:
        server.wait_ready()
        server.says({"text": "{images}", "token_ms": 50})
        stream = server.open_stream([image_part(data_uri(RED)), image_part(data_uri(BLUE))])
        pieces = []
        for event in stream.events():
            pieces.append(event["choices"][0]["delta"].get("content") or "")
            if len(pieces) == 5:
                os.kill(server.worker_pid(), signal.SIGKILL)
        assert "".join(pieces) == "16x8x1 at 7 of 2 is 255 0 0, 32x16x1 at 11 of 8 is 0 0 255"
        assert server.metrics()["shoal_requests_replayed_total"] == 1
        server.wait_idle()


def test_generate_accepts_an_image_file(folder, tmp_path):
    (tmp_path / "red.png").write_bytes(RED)
    (tmp_path / "broken.png").write_bytes(RED[:60])

    def generate(*options):
        command = [BUILD / "shoal", "generate", "--device", "cpu", "--model", folder, "--prompt", "what?", "--temperature", "0",
                   "--context", "64", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    with_one, without = generate("--image", tmp_path / "red.png"), generate()
    assert with_one.returncode == without.returncode == 0, with_one.stderr
    assert with_one.stdout != without.stdout
    for name, words in (("missing.png", "No such file"), ("broken.png", "messages[0].content[0]")):
        refused = generate("--image", tmp_path / name)
        assert refused.returncode == 1 and words in refused.stderr, refused.stderr


def test_a_model_without_vision_refuses_images(start_server):
    server = start_server()
    assert server.get("/v1/models").json["data"][0]["vision"] is False
    error = refusal(server, image_part(data_uri(RED)))
    assert error["param"] == "messages[0].content[0]" and "takes no images" in error["message"]
