"""Malformed images and forbidden image URLs over HTTP, in the request format of every API: each gets an error that names the image, no
forbidden URL is fetched, memory stays bounded, and a concurrent text request gets the same answer as alone."""

import base64
import concurrent.futures
import json
import random
import re
import signal
import socket
import threading

import pytest

from media_host import MediaHost
from shoal_server import ROOT, ShoalServer, wait_until
from slow_images import cpu_seconds, image_parts, plain_webp, progressive_jpeg
from vision_folder import make_folder, png

IMAGE = png(16, 8, (255, 0, 0))
FRONTEND_MOST_KB = 64 * 1024  # growth over idle; the headers of the largest refused images announce 192 MB of pixels
WORKER_MOST_KB = 8 * 1024


def hostile_files():
    """(name, bytes) of some 300 files: the seeds of fuzz_image (scripts/golden/image_hostile.py), and golden images cut short or with changed
    bytes."""
    for path in sorted((ROOT / "tests/fuzz/corpus/image").iterdir()):
        yield path.name, path.read_bytes()
    source = random.Random(1)
    for path in sorted((ROOT / "tests/golden/images").iterdir()):
        data = path.read_bytes()
        if path.suffix not in (".jpg", ".png", ".webp", ".gif"):
            continue
        for i in range(3):
            yield f"cut-{i}-{path.name}", data[:source.randrange(len(data))]
        for i in range(3):
            bent = bytearray(data)
            for _ in range(4):
                bent[source.randrange(len(bent))] = source.randrange(256)
            yield f"bent-{i}-{path.name}", bytes(bent)


# --- one request in three APIs --------------------------------------------------------------------------------------------


def in_chat(server, url):
    reply = server.chat([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": url}}], max_tokens=1)
    return reply.status, reply.status == 400 and (reply.error["code"], reply.error["param"], reply.error["message"])


def in_responses(server, url):
    reply = server.request("POST", "/v1/responses", {"max_output_tokens": 1, "store": False, "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}]}]})
    return reply.status, reply.status == 400 and (reply.error["code"], reply.error["param"], reply.error["message"])


def in_messages(server, url):
    form = re.fullmatch("data:(.*);base64,(.*)", url)
    source = dict(type="base64", media_type=form[1], data=form[2]) if form else dict(type="url", url=url)
    reply = server.request("POST", "/v1/messages", {"max_tokens": 1, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "source": source}]}]})
    if reply.status != 400:
        return reply.status, None
    assert reply.json["type"] == "error" and reply.json["error"]["type"] == "invalid_request_error", reply.body
    error = reply.json["error"]
    return 400, (error["details"]["error_code"], error["message"].split(":")[0], error["message"])


SHAPES = [(in_chat, "messages[0].content[1]"), (in_responses, "input[0].content[1]"), (in_messages, "messages[0].content[1]")]


def send(server, turn, url):
    """(status, error message). Checks code, field and message of a refusal."""
    shape, place = SHAPES[turn % len(SHAPES)]
    status, refusal = shape(server, url)
    assert status in (200, 400), (status, url[:100])
    if status == 200:
        return status, ""
    assert refusal[:2] == ("invalid_image", place), refusal
    assert refusal[2].startswith(place + ": ") and len(refusal[2]) > len(place) + 10, refusal
    return status, refusal[2]


# --- files --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"))


def memory_kb(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(rf"{field}:\s+(\d+) kB", status.read())[1])


def reset_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


class TextBeside:
    """Repeats one text request in a thread and keeps the answers."""

    def __init__(self, server):
        self.server = server
        self.alone = self.answer()
        self.told = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def answer(self):
        stream = self.server.open_stream("a long story", max_tokens=100, temperature=0, ignore_eos=True)
        return stream.text()

    def run(self):
        while not self.over.is_set():
            self.told.append(self.answer())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def test_300_files(folder, start_server):
    server = start_server("--allow-debug", model=folder)  # peaks of memory are reset
    files = list(hostile_files())
    assert len(files) >= 300
    urls = [(turn, f"data:image/png;base64,{base64.b64encode(data).decode()}") for turn, (_, data) in enumerate(files)]
    with TextBeside(server) as text, concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert send(server, 0, urls[-1][1])[0] in (200, 400)  # the first request allocates what stays allocated
        pids = {server.process.pid: FRONTEND_MOST_KB, server.worker_pid(): WORKER_MOST_KB}
        before = {pid: memory_kb(pid, "VmRSS") for pid in pids}
        for pid in pids:
            reset_peak(pid)
        answers = list(pool.map(lambda one: send(server, *one), urls))
        more = {pid: memory_kb(pid, "VmHWM") - before[pid] for pid in pids}
    for (name, _), (status, words) in zip(files, answers):
        assert status != (200 if name.startswith("refused-") else 400 if name.startswith("taken-") else 0), (name, words)
    assert sum(status == 400 for status, _ in answers) > 100
    assert all(more[pid] < most for pid, most in pids.items()), more
    assert len(text.told) > 0 and all(told == text.alone for told in text.told)
    assert server.get("/v1/status").json["worker_restarts"] == 0
    server.wait_idle()


@pytest.mark.parametrize("segments", [60_000, 160_000])
def test_a_jpeg_of_many_segments(folder, start_server, segments):
    server = start_server(model=folder)
    url = "data:;base64," + base64.b64encode(b"\xff\xd8" + b"\xff\xe1\x00\x02" * segments + b"\xff\xd9").decode()
    with TextBeside(server) as text, concurrent.futures.ThreadPoolExecutor(4) as pool:
        for status, words in pool.map(lambda turn: send(server, turn, url), range(8)):
            assert status == 400 and "more than 4096 segments" in words, words
    assert server.metrics()["shoal_media_crashes_total"] == server.metrics()["shoal_media_restarts_total"] == 0
    assert server.metrics()["shoal_media_cpu_seconds_total"] < 2
    assert all(told == text.alone for told in text.told)
    server.wait_idle()


def test_sigterm_ends_a_server_whose_threads_wait(folder, start_server):
    with socket.create_server(("127.0.0.1", 0), backlog=8) as silent:
        name = f"127.0.0.1:{silent.getsockname()[1]}"
        server = start_server("--allow-media-domain", name, "--allow-media-private", "--media-timeout", "600",
                              "--drain-timeout", "1", model=folder)
        client = server.connect()
        body = b'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"http://%s/x"}]}]}' % name.encode()
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        asked, _ = silent.accept()  # a prepare thread would now wait up to ten minutes
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_exit() == 0
        assert "a thread did not end within" not in server.log_text()
        asked.close()
        client.close()


@pytest.mark.parametrize("count, data, place, words", [
    (50, plain_webp(8000, 8000), 8, "with it the images have more than 536870912 pixels"),
    (20, progressive_jpeg(4096, 95), 2, "with it the scans of the images have more than 4294967296 pixels"),
], ids=["webp", "jpeg"])
def test_images_that_take_long_are_refused_undecoded(folder, start_server, count, data, place, words):
    server = start_server(model=folder)
    before = cpu_seconds(server)
    reply = server.chat(image_parts(count, data), max_tokens=1, resize_shape=[8, 8])
    assert (reply.status, reply.error["code"]) == (400, "invalid_image"), reply.body
    assert reply.error["message"] == f"messages[0].content[{place}]: {words}"
    assert cpu_seconds(server) - before < 2
    assert server.chat(image_parts(1, data), max_tokens=1).status == 200


def test_texts_do_not_wait_for_images(folder, start_server):
    server = start_server("--prepare-threads", "1", model=folder)
    parts = image_parts(2, progressive_jpeg(4096, 95))
    answered = []

    def ask(name, content):
        status = server.chat(content, max_tokens=1).status
        answered.append(name)
        return status

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        images = [pool.submit(ask, "image", parts) for _ in range(4)]
        wait_until(lambda: server.metrics()["shoal_live_requests"] == 4, "the images to be under way")
        assert pool.submit(ask, "text", "a").result() == 200
        assert answered.index("text") < 3, answered
        assert all(image.result() == 200 for image in images)


def test_decoding_ends_when_the_client_leaves(folder, start_server):
    server = start_server("--prepare-threads", "1", model=folder)
    body = json.dumps({"messages": [{"role": "user", "content": image_parts(2, progressive_jpeg(4096, 95))}]}).encode()
    before = cpu_seconds(server)
    with server.connect() as client:  # its images take some 3 s of CPU time
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: server.metrics()["shoal_live_requests"] == 1, "the request to be there")
    wait_until(lambda: server.metrics()["shoal_live_requests"] == 0, "the request to be gone")
    assert server.chat(image_parts(1, IMAGE), max_tokens=1).status == 200  # decoded by the same thread after the abandoned images
    assert cpu_seconds(server) - before < 1


# --- addresses ----------------------------------------------------------------------------------------------------------


# Hosts with addresses that are not public: never fetched from, even though the operator allowed the names.
PRIVATE_HOSTS = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "localhost", "localhost.", "ip6-localhost", "[::1]", "[::]", "[::ffff:127.0.0.1]",
    "[::ffff:169.254.169.254]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[fe80::1]", "[fc00::1]", "[ff02::1]",
    "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255",
]
# Other ways to write some of them.
OTHER_SPELLINGS = [
    "2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "0", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:ffff:7f00:0001]", "LOCALHOST", "127.0.0.1.", "%31%32%37.0.0.1", "[fe80::1%25lo]", "[::1%25lo]",
    "\u2460\u2461\u2466.0.0.1", "localhost%00.example.com", "127.0.0.1%2f@example.com", "example.com@127.0.0.1", "user:word@localhost",
]


@pytest.fixture(scope="module")
def listener():
    """A host that must get no connection during the tests."""
    with MediaHost({"/x.png": IMAGE}, address="::") as host:
        for address in ("127.0.0.1", "::1") if host.address_family == socket.AF_INET6 else ("127.0.0.1",):
            before = host.connections
            with socket.create_connection((address, host.port)):
                wait_until(lambda: host.connections > before, f"a connection to {address} to be counted")
        host.connections = 0
        yield host


@pytest.fixture(scope="module")
def server(folder, listener):
    names = [*PRIVATE_HOSTS, socket.gethostname()]
    opened = [option for name in names for option in ("--allow-media-domain", f"{name}:{listener.port}")]
    with ShoalServer(*opened, "--media-timeout", "5", model=folder) as running:
        running.wait_ready()
        yield running
        running.wait_idle()


def test_addresses_that_are_not_public(server, listener):
    for turn, host in enumerate([*PRIVATE_HOSTS, socket.gethostname(), *OTHER_SPELLINGS]):
        status, words = send(server, turn, f"http://{host}:{listener.port}/x.png")
        assert status == 400, host
        if host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "169.254.169.254", "2130706433", "0x7f000001", "0177.0.0.1"):
            assert "not a public one" in words, (host, words)
    assert listener.connections == 0


def test_invalid_schemes(server, listener):
    place = f"127.0.0.1:{listener.port}/x.png"
    for turn, url in enumerate(["ftp://", "gopher://", "file://", "dict://", "ldap://", "tftp://", "ws://", "//", "http:/", "http:\\\\",
                                "HTTP:////", "javascript:", "", "http://?", "http://#", "\thttp://", "https://[", "telnet://"]):
        assert send(server, turn, url + place)[0] == 400, url
    assert send(server, 0, "http://" + "a" * 100_000)[0] == 400
    assert listener.connections == 0


def test_redirects_to_elsewhere(folder, listener, start_server):
    """The first host is allowed; the target of its redirect is checked like any other URL."""
    there = f":{listener.port}/x.png"
    targets = [
        *(f"http://{host}{there}" for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0")),
        "//127.0.0.1" + there, "http:\\\\127.0.0.1" + there, "https://127.0.0.1" + there, "ftp://127.0.0.1" + there,
        "file:///etc/passwd", "data:image/png;base64," + base64.b64encode(IMAGE).decode(), "gopher://127.0.0.1" + there, "",
        "http://" + "a" * 20_000, "\x01http://127.0.0.1" + there, "/loop",
    ]
    with MediaHost({"/good.png": IMAGE}) as host:
        targets += [f"http://{host.name}@127.0.0.1{there}", f"http://127.0.0.1{there}#@{host.name}/"]
        host.redirects = {f"/{i}": target for i, target in enumerate(targets)}
        host.redirects |= {"/loop": "/loop", "/good": "/good.png"}
        server = start_server("--allow-media-domain", host.name, "--allow-media-private", "--media-timeout", "5", model=folder)
        assert send(server, 0, f"http://{host.name}/good")[0] == 200
        for turn, target in enumerate(targets):
            assert send(server, turn, f"http://{host.name}/{turn}")[0] == 400, target
        assert host.asked.count("/loop") <= 3
    assert listener.connections == 0
