"""Text and PDF files in the messages of all three APIs: the prompt has their text and images of their pages, hostile files end in a 400,
texts do not wait for them, and the process that reads them can do nothing else."""

import base64
import json
import os
import random
import signal
import subprocess
import threading
import time

import anthropic
import openai
import pytest

import demo_model
import drawn_pdf
from media_host import MediaHost
from shoal_server import wait_until
from vision_folder import data_uri, image_part

pytestmark = pytest.mark.longest

WORDS = "river stone winter light engine paper garden metal story number glass music harbor letter cloud".split()
QUESTION = "What is this?"


@pytest.fixture(scope="module")
def server():
    """Reads text and pages, for a model that takes images."""
    with demo_model.demo_server("--any-model-name", "--documents", "images", "--max-body-bytes", "64M") as running:
        running.wait_ready()
        yield running
        running.wait_idle()


@pytest.fixture(scope="module")
def texts():
    """Reads text only."""
    with demo_model.demo_server("--any-model-name", "--documents", "text", "--max-body-bytes", "64M") as running:
        running.wait_ready()
        yield running
        running.wait_idle()


def uri(data, media="application/pdf"):
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def file_part(data, **fields):
    return {"type": "file", "file": {"file_data": uri(data), **fields}}


def rendered(server, *parts):
    reply = server.request("POST", "/v1/apply-template", {"messages": [{"role": "user", "content": [*parts]}]})
    assert reply.status == 200, reply.body
    return reply.json["prompt"]


def draw_pages(rng, pages):
    return [[" ".join(rng.choices(WORDS, k=4)) for _ in range(rng.randint(1, 4))] for _ in range(pages)]


def text_of(pages):
    return "\n".join("\n".join(lines) for lines in pages)


# --- what becomes of a file ------------------------------------------------------------------------------------------------


def test_the_text_of_a_pdf_file_is_part_of_the_prompt(texts):
    rng = random.Random()
    pages = draw_pages(rng, rng.randint(1, 5))
    prompt = rendered(texts, file_part(drawn_pdf.pdf_of_texts(pages), filename="notes.pdf"), {"type": "text", "text": QUESTION})
    plain = rendered(texts, {"type": "text", "text": f"notes.pdf\n{text_of(pages)}\n{QUESTION}"})
    assert prompt == plain, pages


def test_pages_are_images_before_their_text(server, tmp_path):
    """Against the same images, drawn by the test with the same program, as parts of the request."""
    rng = random.Random()
    pages = draw_pages(rng, 2)
    data = drawn_pdf.pdf_of([drawn_pdf.page_text(lines) + b" 0.9 0.1 0.1 rg 200 50 100 100 re f" for lines in pages])
    (tmp_path / "x.pdf").write_bytes(data)
    subprocess.run(["pdftoppm", "-png", "-scale-to", "1168", tmp_path / "x.pdf", tmp_path / "page"], check=True)
    images = [path.read_bytes() for path in sorted(tmp_path.glob("page*.png"))]
    parts = []
    for image, lines in zip(images, pages, strict=True):
        parts += [image_part(data_uri(image)), {"type": "text", "text": "\n".join(lines)}]
    question = {"type": "text", "text": QUESTION}
    replies = [server.chat([*content, question], max_tokens=24, temperature=0, return_token_ids=True, logprobs=True)
               for content in ([file_part(data)], parts)]
    assert [reply.status for reply in replies] == [200, 200], replies[0].body
    given, expected = (reply.json for reply in replies)
    assert given["prompt_token_ids"] == expected["prompt_token_ids"], pages
    assert given["choices"][0]["message"] == expected["choices"][0]["message"]
    assert given["choices"][0]["logprobs"] == expected["choices"][0]["logprobs"]


def test_all_apis_read_the_same(texts):
    pages = draw_pages(random.Random(), 2)
    data = base64.b64encode(drawn_pdf.pdf_of_texts(pages)).decode()
    with openai.OpenAI(base_url=texts.url + "/v1", api_key="x") as client:
        chat = client.chat.completions.create(model="m", max_tokens=1, messages=[{"role": "user", "content": [
            {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}},
            {"type": "text", "text": QUESTION}]}])
        response = client.responses.create(model="m", max_output_tokens=1, input=[{"role": "user", "content": [
            {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"},
            {"type": "input_text", "text": QUESTION}]}])
        again = client.responses.create(model="m", max_output_tokens=1, previous_response_id=response.id, input="Go on.")
        items = client.responses.input_items.list(response.id).data
    with anthropic.Anthropic(base_url=texts.url, api_key="x") as client:
        block = {"type": "document", "title": "a.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}
        question = {"type": "text", "text": QUESTION}
        message = client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": [block, question]}])
        plain = client.messages.count_tokens(model="m", messages=[
            {"role": "user", "content": f"a.pdf\n{text_of(pages)}\n{QUESTION}"}]).input_tokens
    usage = message.usage
    counts = [chat.usage.prompt_tokens, response.usage.input_tokens, usage.input_tokens + (usage.cache_read_input_tokens or 0)]
    assert counts == [plain] * 3
    assert again.usage.input_tokens > plain  # the file is part of the conversation
    assert items[0].content[0].type == "input_file" and items[0].content[0].file_data.endswith(data)


def test_text_files_need_no_option(start_server):
    server = start_server(model=demo_model.FOLDER)
    words = "caf\u00e9 \u6f22\u5b57 \U0001f41f\nsecond line"
    expected = rendered(server, {"type": "text", "text": f"a.txt\n{words}"})
    for data in (words.encode(), b"\xef\xbb\xbf" + words.encode()):
        for name in (uri(data, "text/plain"), uri(data, "text/markdown;charset=utf-8"), base64.b64encode(data).decode()):
            assert rendered(server, {"type": "file", "file": {"filename": "a.txt", "file_data": name}}) == expected
    refused = server.chat([file_part(drawn_pdf.pdf_of_texts([["x"]]))])
    assert refused.status == 400 and "--documents" in refused.error["message"]
    assert refused.error["param"] == "messages[0].content[0]"


def test_a_document_of_blocks_and_a_document_in_a_tools_result(server):
    count = lambda messages: server.request("POST", "/v1/messages/count_tokens", {"model": "m", "messages": messages})  # noqa: E731
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                         "data": base64.b64encode(demo_model.golden_image("015-0.png")).decode()}}
    text = {"type": "text", "text": "A chapter."}
    blocks = {"type": "document", "context": "Of a book.", "source": {"type": "content", "content": [text, image]}}
    plain = [{"type": "text", "text": "Of a book.\nA chapter."}, image]
    counts = [count([{"role": "user", "content": content}]).json for content in ([blocks], plain)]
    assert counts[0] == counts[1]
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}]}

    def result(content):
        return [{"role": "user", "content": "Read it."}, call,
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": content}]}]

    source = {"type": "text", "media_type": "text/plain", "data": "A chapter."}
    counts = [count(result(content)).json for content in ([{"type": "document", "source": source}], "A chapter.")]
    assert counts[0] == counts[1]


def test_urls_follow_the_rules_of_images(start_server):
    data = drawn_pdf.pdf_of_texts([["from a host"]])
    with MediaHost({"/a.pdf": data}) as host:
        url = f"http://{host.name}/a.pdf"
        part = {"type": "input_file", "file_url": url}
        body = {"input": [{"role": "user", "content": [part]}], "max_output_tokens": 1}
        server = start_server("--any-model-name", "--documents", "text", "--allow-media-domain", host.name, "--allow-media-private",
                              model=demo_model.FOLDER)
        plain = {"input": "from a host", "max_output_tokens": 1}
        tokens = [server.request("POST", "/v1/responses/input_tokens", one).json["input_tokens"] for one in (body, plain)]
        assert tokens[0] == tokens[1]
        block = {"type": "document", "source": {"type": "url", "url": url}}
        message = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [block]}]}
        assert server.request("POST", "/v1/messages", message).status == 200
        closed = start_server("--any-model-name", "--documents", "text", model=demo_model.FOLDER)
        asked = len(host.asked)
        assert closed.request("POST", "/v1/responses", body).status == 400
        assert closed.request("POST", "/v1/messages", message).status == 400
        assert len(host.asked) == asked


# --- files that are refused ------------------------------------------------------------------------------------------------

GOOD = drawn_pdf.pdf_of_texts([["good"]])
REFUSED = {
    "truncated": (GOOD[:60], "not a PDF file that can be read"),
    "only a header": (b"%PDF-1.7\n", "not a PDF file that can be read"),
    "encrypted": (drawn_pdf.encrypted(["secret"], b"pass"), "encrypted"),
    "a loop of pages": (drawn_pdf.looping_pages(), ""),
    "no text": (drawn_pdf.pdf_of([b"0 0 9 9 re f"]), "no text"),
    "too many pages": (drawn_pdf.pdf_of([b""] * 300), "more than 256 pages"),
    "more text than allowed": (drawn_pdf.inflating(6), "more than"),
    "no PDF file": (b"hello", "no PDF header"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_files_are_a_400_in_every_api(texts, name):
    data, words = REFUSED[name]
    code = base64.b64encode(data).decode()
    block = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": code}}
    replies = [texts.chat([file_part(data)], max_tokens=1),
               texts.request("POST", "/v1/responses", {"max_output_tokens": 1, "input": [
                   {"role": "user", "content": [{"type": "input_file", "file_data": uri(data)}]}]}),
               texts.request("POST", "/v1/messages", {"model": "m", "max_tokens": 1, "messages": [
                   {"role": "user", "content": [block]}]})]
    places = ["messages[0].content[0]", "input[0].content[0]", "messages[0].content[0]"]
    for reply, place in zip(replies, places, strict=True):
        assert reply.status == 400 and place in reply.body.decode() and words in reply.json["error"]["message"], reply.body


def test_an_encrypted_file_is_read_with_its_empty_password(texts):
    """As all readers do: such a file is open to everyone."""
    assert "not a secret" in rendered(texts, file_part(drawn_pdf.encrypted(["not a secret"], b"")))


def test_random_damage_is_answered(server):
    rng = random.Random()
    seed = rng.randrange(2**32)
    rng.seed(seed)
    whole = drawn_pdf.pdf_of_texts(draw_pages(rng, 3), wrap=rng.choice([drawn_pdf.stream, drawn_pdf.flate]))
    for _ in range(12):
        bent = bytearray(whole)
        for _ in range(rng.randint(1, 30)):
            bent[rng.randrange(9, len(bent))] = rng.randrange(256)
        reply = server.chat([file_part(bytes(bent[:rng.randint(len(bent) // 2, len(bent))]))], max_tokens=1)
        assert reply.status in (200, 400), (seed, reply.body)
    assert server.chat([file_part(GOOD)], max_tokens=1).status == 200


def test_forms_that_draw_themselves_end(server):
    assert server.chat([file_part(drawn_pdf.looping_form())], max_tokens=1).status in (200, 400)


@pytest.mark.parametrize("part", [
    {"type": "file"},
    {"type": "file", "file": {}},
    {"type": "file", "file": {"file_data": 3}},
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "file", "file": {"file_data": "%%%"}},
    {"type": "file", "file": {"file_data": uri(b"\xff\xfe\x00a", "text/plain")}},
    {"type": "file", "file": {"file_data": uri(b"a\0b", "text/plain")}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/msword", "data": "AAAA"}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}},
    {"type": "document", "source": {"type": "content", "content": [{"type": "video"}]}},
    {"type": "document", "source": {"type": "content"}},
    {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    {"type": "document", "source": {"type": "url"}},
])
def test_malformed_parts_are_a_400(texts, part):
    reply = texts.chat([part])
    assert reply.status == 400 and reply.error["param"] == "messages[0].content[0]"


def test_files_have_their_place_and_their_number(texts):
    part = file_part(b"x")
    part["file"]["file_data"] = uri(b"x", "text/plain")
    assert texts.chat([part] * 16, max_tokens=1).status == 200
    refused = texts.chat([part] * 17, max_tokens=1)
    assert refused.status == 400 and refused.error["param"] == "messages[0].content[16]"
    system = texts.request("POST", "/v1/chat/completions", {"messages": [{"role": "system", "content": [part]},
                                                                          {"role": "user", "content": "Hi"}]})
    assert system.status == 400


# --- the process -----------------------------------------------------------------------------------------------------------

BOMB = drawn_pdf.many_forms()


def tool_pids(server):
    """Processes of the server that read a document."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(open(f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2].split()[1])
            command = open(f"/proc/{pid}/cmdline", "rb").read()
        except (OSError, ProcessLookupError):
            continue
        if parent == server.process.pid and b"pdfto" in command:
            found.append(int(pid))
    return found


def test_texts_do_not_wait_and_the_deadline_ends_a_bomb(start_server):
    server = start_server("--any-model-name", "--documents", "text", "--prepare-threads", "1", "--prepare-deadline", "4", model=demo_model.FOLDER)
    replies = []
    thread = threading.Thread(target=lambda: replies.append(server.chat([file_part(BOMB)], max_tokens=1)))
    thread.start()
    wait_until(lambda: tool_pids(server), "the process that reads the file")
    for _ in range(5):
        assert server.chat("Hi", max_tokens=1).status == 200
    assert tool_pids(server) and not replies  # all answered while it was read
    thread.join()
    assert replies[0].status in (400, 503), replies[0].body
    wait_until(lambda: not tool_pids(server), "the process to end")
    assert server.chat([file_part(GOOD)], max_tokens=1).status == 200


def test_a_client_that_leaves_ends_the_process(start_server):
    server = start_server("--any-model-name", "--documents", "text", model=demo_model.FOLDER)
    body = json.dumps({"messages": [{"role": "user", "content": [file_part(BOMB)]}]}).encode()
    client = server.connect()
    client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    wait_until(lambda: tool_pids(server), "the process that reads the file")
    client.close()
    wait_until(lambda: not tool_pids(server), "the process to end")
    server.expect_cancels()


def test_a_process_that_is_killed_is_a_503(start_server):
    server = start_server("--any-model-name", "--documents", "text", model=demo_model.FOLDER)
    replies = []
    thread = threading.Thread(target=lambda: replies.append(server.chat([file_part(BOMB)], max_tokens=1)))
    thread.start()
    wait_until(lambda: tool_pids(server), "the process that reads the file")
    os.kill(tool_pids(server)[0], signal.SIGKILL)
    thread.join()
    assert replies[0].status == 503 and replies[0].error["code"] == "document_reader_unavailable"


@pytest.mark.long
def test_cpu_time_is_bounded(start_server):
    server = start_server("--any-model-name", "--documents", "text", "--prepare-deadline", "600", model=demo_model.FOLDER)
    began = time.monotonic()
    reply = server.chat([file_part(BOMB)], max_tokens=1)
    assert reply.status == 400 and "too long" in reply.error["message"], (reply.body, time.monotonic() - began)


@pytest.mark.long
def test_a_huge_image_is_answered(start_server):
    server = start_server("--any-model-name", "--documents", "images", "--prepare-deadline", "600", "--max-body-bytes", "64M", model=demo_model.FOLDER)
    assert server.chat([file_part(drawn_pdf.huge_image())], max_tokens=1).status in (200, 400)
    assert server.chat("Hi", max_tokens=1).status == 200


STAND_IN = '''#!/usr/bin/python3
import os, resource, socket, subprocess, sys
data = sys.stdin.buffer.read()
tried = {
    "read": lambda: open("/etc/passwd").read(),
    "write": lambda: open("/tmp/shoal-document-test", "w"),
    "socket": lambda: socket.socket(socket.AF_INET),
    "pair": lambda: socket.socketpair(),
    "fork": lambda: os.fork(),
    "run": lambda: subprocess.run(["/usr/bin/true"]),
    "kill": lambda: os.kill(os.getppid(), 0),
    "memory": lambda: bytearray(2 << 30),
}
for name, one in tried.items():
    try:
        one()
        print(name, "done")
    except (OSError, MemoryError):
        print(name, "denied")
print("bytes", len(data), "files", sorted(os.environ), [fd for fd in range(64) if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}")])
print("\\f", end="")
'''


def test_the_process_can_do_nothing_else(start_server, tmp_path):
    tool = tmp_path / "pdftotext"
    tool.write_text(STAND_IN, encoding="ascii")
    tool.chmod(0o755)
    server = start_server("--any-model-name", "--documents", "text", "--poppler-path", str(tmp_path), model=demo_model.FOLDER, environment={"SECRET": "x"})
    prompt = rendered(server, file_part(GOOD))
    for name in ("read", "write", "socket", "pair", "fork", "run", "kill", "memory"):
        assert f"{name} denied" in prompt, prompt
    assert f"bytes {len(GOOD)} files ['LC_ALL'" in prompt and "SECRET" not in prompt


@pytest.mark.parametrize("conduct, status, words", [
    ("import os; os.abort()", 400, "crashed"),
    ("import sys; sys.stdout.write('x' * (5 << 20))", 400, "more than"),
    ("import sys; sys.stderr.write('y' * (5 << 20)); sys.exit(3)", 400, "not a PDF file"),
    ("import sys; sys.stdout.buffer.write(b'\\xff\\xfea\\0b\\f')", 200, ""),
    ("pass", 400, "no pages"),
])
def test_whatever_the_program_says_is_answered(start_server, tmp_path, conduct, status, words):
    tool = tmp_path / "pdftotext"
    tool.write_text(f"#!/usr/bin/python3\n{conduct}\n", encoding="ascii")
    tool.chmod(0o755)
    server = start_server("--any-model-name", "--documents", "text", "--poppler-path", str(tmp_path), model=demo_model.FOLDER)
    reply = server.chat([file_part(GOOD)], max_tokens=1)
    assert reply.status == status and words in reply.body.decode(), reply.body


def test_a_server_without_poppler_says_so():
    run = subprocess.run([demo_model.ROOT / "build/shoal", "serve", "--model", demo_model.FOLDER, "--documents", "text",
                          "--poppler-path", "/nonexistent"], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2 and "poppler-utils" in run.stderr
    run = subprocess.run([demo_model.ROOT / "build/shoal", "serve", "--model", demo_model.FOLDER, "--documents", "yes"],
                         capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2 and "off, text or images" in run.stderr
