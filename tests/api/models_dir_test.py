"""--models-dir: several models behind one port. Each is loaded when a request names it, unloaded for room or when idle, never with
requests; what is wrong with one does not touch the others."""

import concurrent.futures
import gzip
import http.client
import json
import math
import os
import random
import signal
import socket

import encoder_folder
import pytest

import shoal_server
from shoal_server import PATIENCE_S, ROOT, process_is_alive, wait_until

pytestmark = pytest.mark.longest

DEMO = ROOT / "tests/model/demo"
MODEL = ROOT / "build/checkpoints/llama-f16.gguf"  # with 512 positions
MODEL_ID = MODEL.stem
SMALL = ["--context", "512", "--kv-cache-bytes", "64M"]
SLOW = shoal_server.MODEL_ID  # a stream of it is still running when a test has looked
WIDE = ["--context", "2048", "--kv-cache-bytes", "64M"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / MODEL.name).symlink_to(MODEL)
    (tmp_path / "demo").symlink_to(DEMO)
    (tmp_path / "twin").symlink_to(DEMO)
    return tmp_path


@pytest.fixture
def slow_folder(folder):
    (folder / MODEL.name).unlink()
    (folder / shoal_server.MODEL.name).symlink_to(shoal_server.MODEL)
    return folder


def states(server):
    return {entry["id"]: entry["status"]["value"] for entry in server.get("/v1/models").json["data"]}


def ask(server, model, content="Hello", **fields):
    return server.chat(content, model=model, temperature=0, **{"max_tokens": 12} | fields)


def answer(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def worker_pids(server, model):
    report = server.get(f"/v1/status?model={model}").json
    return [worker["pid"] for worker in report["workers"]]


def test_models_load_when_named(folder, start_server):
    server = start_server("--models-dir", str(folder), *SMALL)
    assert states(server) == {"demo": "unloaded", MODEL_ID: "unloaded", "twin": "unloaded"}
    assert server.get("/health").json["models_loaded"] == 0
    first = ask(server, "demo")
    assert first.json["model"] == "demo"
    assert states(server) == {"demo": "loaded", MODEL_ID: "unloaded", "twin": "unloaded"}
    text = answer(ask(server, MODEL_ID))
    assert text == answer(server.request("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12, "temperature": 0, "model": MODEL_ID}))
    assert answer(ask(server, "twin")) == answer(first)  # the same weights
    assert set(states(server).values()) == {"loaded"}
    alone = start_server(*SMALL, model=MODEL)
    assert answer(ask(alone, MODEL_ID)) == text
    page = server.get("/metrics").body.decode()
    helps = [line for line in page.splitlines() if line.startswith("# HELP")]
    assert len(helps) == len(set(helps))
    for name in states(server):
        assert f'vllm:generation_tokens_total{{model_name="{name}",engine="0"}}' in page


def test_every_api_chooses(folder, start_server):
    server = start_server("--models-dir", str(folder), *SMALL)
    message = [{"role": "user", "content": "Hello"}]
    bodies = {
        "/v1/completions": {"prompt": "Hello", "max_tokens": 4},
        "/v1/responses": {"input": "Hello", "max_output_tokens": 4},
        "/v1/messages": {"messages": message, "max_tokens": 4},
        "/v1/messages/count_tokens": {"messages": message},
        "/api/chat": {"messages": message, "stream": False, "options": {"num_predict": 4}},
        "/completion": {"prompt": "Hello", "n_predict": 4},
        "/tokenize": {"content": "Hello"},
    }
    for path, body in bodies.items():
        for model in ("demo", MODEL_ID):
            reply = server.request("POST", path, {**body, "model": model})
            assert reply.status == 200, (path, model, reply.body)
            assert reply.json.get("model", model) == model, path
        for model, status in ((None, 400), ("nobody", 404), (7, 400), ("x" * 300, 400)):
            named = {} if model is None else {"model": model}
            reply = server.request("POST", path, {**body, **named})
            assert reply.status == status, (path, model, reply.body)
    tagged = {"model": "demo:latest", "messages": message, "stream": False}
    assert server.request("POST", "/api/chat", tagged).json["message"]["content"]
    assert server.get("/props").status == 400
    assert server.get("/props?model=demo").json["model_alias"] == "demo"
    assert server.get("/slots?model=twin").error["code"] == "model_unloaded"
    assert {one["name"] for one in server.get("/api/tags").json["models"]} == {"demo", MODEL_ID, "twin"}
    assert {one["name"] for one in server.get("/api/ps").json["models"]} == {"demo", MODEL_ID}
    packed = gzip.compress(json.dumps({"model": "demo", "messages": message, "max_tokens": 12, "temperature": 0}).encode())
    reply = server.request("POST", "/v1/chat/completions", packed, {"Content-Encoding": "gzip"})
    assert answer(reply) == answer(ask(server, "demo"))
    bomb = gzip.compress(b'{"messages":[],"x":"' + b"a" * (2 << 20) + b'","model":"demo"}')
    assert server.request("POST", "/v1/chat/completions", bomb, {"Content-Encoding": "gzip"}).status == 413
    assert server.request("POST", "/v1/chat/completions", packed[:40], {"Content-Encoding": "gzip"}).status == 400


def test_room_is_made_but_not_from_the_busy(slow_folder, start_server):
    server = start_server("--models-dir", str(slow_folder), "--models-loaded", "1", *WIDE)
    stream = server.open_stream("Count.", model=SLOW, max_tokens=300, ignore_eos=True, temperature=0)
    stream.wait_token()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(ask, server, "demo")
        wait_until(lambda: any(one["waiting"] for one in server.get("/v1/status").json["models"]), "the request to wait")
        assert states(server)["demo"] == "unloaded" and states(server)[SLOW] == "loaded"
        busy = server.request("POST", "/models/unload", {"model": SLOW})
        assert (busy.status, busy.error["code"]) == (409, "model_busy")
        assert stream.text()[1] == "length"
        assert answer(waiting.result())
    assert states(server) == {"demo": "loaded", SLOW: "unloaded", "twin": "unloaded"}


def test_many_requests_for_changing_models(folder, start_server):
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    server = start_server("--models-dir", str(folder), "--models-loaded", "2", *SMALL)
    expected = {model: answer(ask(server, model)) for model in ("demo", "twin", MODEL_ID)}
    jobs = [rng.choice(list(expected)) for _ in range(48)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for model, reply in zip(jobs, pool.map(lambda model: ask(server, model), jobs)):
            assert answer(reply) == expected[model], (seed, model)
    assert sum(state == "loaded" for state in states(server).values()) <= 2


def test_a_broken_model_touches_no_other(folder, start_server):
    (folder / "broken.gguf").write_bytes(b"GGUF" + bytes(60))
    (folder / "torn").mkdir()
    (folder / "torn" / "config.json").write_text("{")
    server = start_server("--models-dir", str(folder), *SMALL)
    good = answer(ask(server, "demo"))
    pid = worker_pids(server, "demo")
    for model in ("broken", "torn"):
        for _ in range(2):
            reply = ask(server, model)
            assert (reply.status, reply.error["code"]) == (503, "model_failed")
            assert reply.headers["retry-after"]
        assert states(server)[model] == "failed"
    assert answer(ask(server, "demo")) == good
    assert worker_pids(server, "demo") == pid
    assert server.get("/ready").status == 200


def test_a_death_touches_no_other(folder, start_server):
    server = start_server("--models-dir", str(folder), *SMALL)
    long = {"max_tokens": 200, "ignore_eos": True}
    expected = {model: answer(ask(server, model, **long)) for model in ("demo", MODEL_ID)}
    pids = {model: worker_pids(server, model) for model in expected}
    streams = {model: server.open_stream("Hello", model=model, temperature=0, **long) for model in expected}
    for stream in streams.values():
        stream.head()
    os.kill(pids[MODEL_ID][0], signal.SIGKILL)
    for model, stream in streams.items():
        assert stream.text()[0] == expected[model]
    assert worker_pids(server, "demo") == pids["demo"]
    wait_until(lambda: worker_pids(server, MODEL_ID) not in ([None], pids[MODEL_ID]), "another worker")


def test_idle_models_leave(folder, start_server):
    (folder / "shoal.ini").write_text("[twin]\npreload = true\npinned = true\n[demo]\nserved-model-name = small\n")
    server = start_server("--models-dir", str(folder), "--models-idle", "1", *SMALL)
    wait_until(lambda: states(server)["twin"] == "loaded", "the model that is loaded at start")
    assert ask(server, "demo").status == 404  # it has another name
    assert answer(ask(server, "small"))
    pid = worker_pids(server, "small")[0]
    wait_until(lambda: states(server)["small"] == "unloaded", "the idle model to leave")
    wait_until(lambda: not process_is_alive(pid), "its worker to end")
    assert states(server)["twin"] == "loaded"


def test_loading_and_unloading_by_request(folder, tmp_path_factory, start_server):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("sk-root admin\nsk-one\n")
    keys.chmod(0o600)
    server = start_server("--models-dir", str(folder), "--api-key-file", str(keys), *SMALL)
    head = {"Authorization": "Bearer sk-root"}
    assert server.request("POST", "/models/load", {"model": "demo"}).status == 401
    other = server.request("POST", "/models/load", {"model": "demo"}, {"Authorization": "Bearer sk-one"})
    assert (other.status, other.error["code"]) == (403, "admin_key_required")
    assert server.request("POST", "/models/load", {"model": "demo"}, head).json == {"success": True}

    def state():
        return server.get("/v1/models/demo", head).json["status"]["value"]
    wait_until(lambda: state() == "loaded", "the model to be loaded")
    assert server.request("POST", "/models/unload", {"model": "demo"}, head).json == {"success": True}
    wait_until(lambda: state() == "unloaded", "the model to be unloaded")
    assert server.request("POST", "/models/load", {"model": "nobody"}, head).status == 404
    assert server.request("POST", "/models/load", b"{", head).status == 400


def test_waiting_ends(slow_folder, start_server):
    """By its limit, by the client's leave, and by the end of the server."""
    server = start_server("--models-dir", str(slow_folder), "--models-loaded", "1", "--models-wait", "1", *WIDE)
    assert server.request("POST", "/models/load", {"model": SLOW}).status == 200
    wait_until(lambda: states(server)[SLOW] == "loaded", "the model to be loaded")
    stream = server.open_stream("Count.", model=SLOW, max_tokens=1500, ignore_eos=True)
    stream.wait_token()
    late = ask(server, "demo")
    assert (late.status, late.error["code"]) == (503, "model_loading")
    gone = server.open_stream("Hello", model="demo")
    wait_until(lambda: any(one["waiting"] for one in server.get("/v1/status").json["models"]), "the request to wait")
    gone.socket.close()
    wait_until(lambda: not any(one["waiting"] for one in server.get("/v1/status").json["models"]), "it to be dropped")
    stream.socket.shutdown(socket.SHUT_RDWR)  # the reader of the events holds it open
    assert server.request("POST", "/models/load", {"model": "demo"}).status == 200
    wait_until(lambda: states(server)["demo"] == "loaded", "the other model to be loaded")
    assert answer(ask(server, "demo"))


def test_a_request_says_how_long_its_model_stays(folder, start_server):
    """keep_alive of Ollama's routes beside --models-idle of the server and of a model."""
    (folder / "shoal.ini").write_text("[twin]\nmodels-idle = 1\n")
    server = start_server("--models-dir", str(folder), *SMALL)

    def generate(model, keep_alive, path="/api/generate"):
        reply = server.request("POST", path, {"model": model, "prompt": "Hi", "stream": False, "options": {"num_predict": 2},
                                              "keep_alive": keep_alive})
        assert reply.status == 200, reply.body

    def expires(model):
        return next(one["expires_at"] for one in server.get("/api/ps").json["models"] if one["name"] == model)

    generate("demo", "300ms")
    wait_until(lambda: states(server)["demo"] == "unloaded", "the time to pass")
    generate("demo", -1)
    assert expires("demo").startswith("2318")
    generate("demo", 3600)
    assert not expires("demo").startswith("2318")
    assert answer(ask(server, "demo"))  # a request without the field changes nothing
    assert not expires("demo").startswith("2318")
    assert server.request("POST", "/api/generate", {"model": "demo", "keep_alive": 0}).json["done_reason"] == "load"
    wait_until(lambda: states(server)["demo"] == "unloaded", "it to be unloaded at once")
    assert answer(ask(server, "demo"))
    assert expires("demo").startswith("2318")
    assert answer(ask(server, "twin"))
    wait_until(lambda: states(server)["twin"] == "unloaded", "the model's own time to pass")
    assert states(server)["demo"] == "loaded"
    for wrong in ("5 m", "soon", True, []):
        reply = server.request("POST", "/api/generate", {"model": "demo", "prompt": "Hi", "keep_alive": wrong})
        assert reply.status == 400 and "keep_alive" in reply.json["error"]


def test_events_of_the_models(folder, start_server):
    """Every state of a model is an event, in order, for each reader; readers that leave or come later disturb nothing."""
    (folder / "broken.gguf").write_bytes(b"no checkpoint")
    server = start_server("--models-dir", str(folder), *SMALL, "--keepalive-comment", "1")
    readers = []
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        connection.request("GET", "/models/sse")
        readers.append((connection, connection.getresponse()))
    gone = server.connect()
    gone.sendall(b"GET /models/sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
    gone.recv(10)
    gone.close()
    assert answer(ask(server, "demo"))
    assert ask(server, "broken").status == 503
    assert server.request("POST", "/models/unload", {"model": "demo"}).status == 200
    wait_until(lambda: states(server)["demo"] == "unloaded", "it to be unloaded")
    for connection, response in readers:
        assert response.status == 200 and response.getheader("content-type").startswith("text/event-stream")
        first, seen, comment = {}, {"demo": [], "broken": []}, False
        while seen["demo"][-1:] != ["unloaded"] or not comment:
            line = response.readline().decode().rstrip("\n")
            comment |= line.startswith(":")
            if not line.startswith("data: "):
                continue
            event = json.loads(line[len("data: "):])
            assert set(event) == {"model", "event", "data"}
            if event["event"] == "model_status":
                first[event["model"]] = event["data"]["status"]
                continue
            assert event["event"] == "status_change"
            status, progress = event["data"]["status"], event["data"].get("progress")
            assert progress is None or (status == "loading" and progress["stage"] == "text_model" and 0 <= progress["value"] <= 1)
            assert ("error" in event["data"]) == (status == "failed")
            if seen[event["model"]][-1:] != [status]:
                seen[event["model"]].append(status)
        assert set(first.values()) == {"unloaded"} and set(first) == {"demo", "twin", "broken", MODEL_ID}
        assert seen == {"demo": ["loading", "loaded", "unloading", "unloaded"], "broken": ["loading", "failed"]}
        connection.close()
    late = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    late.request("GET", "/v1/models/sse")
    stream = late.getresponse()
    server.process.terminate()
    assert server.wait_exit() == 0
    assert b"model_status" in stream.read()


def test_encoders_beside_generators(folder, start_server):
    """An encoder of the directory gives the vectors that it gives alone; each kind refuses the other's requests."""
    case = json.loads((ROOT / "tests/golden/embeddings/encoders.json").read_text(encoding="utf-8"))["cases"][0]
    form = {name: case[name] for name in ("kind", "size", "seed", "pooling", "normalizes", "labels") if name in case}
    encoder_folder.make_folder(folder / "encoder", **form)
    (folder / "shoal.ini").write_text("[encoder]\ncontext = 81\n")  # its own: it has no more positions
    server = start_server("--models-dir", str(folder), *SMALL)
    assert answer(ask(server, "demo"))
    reply = server.request("POST", "/v1/embeddings", {"model": "encoder", "input": case["texts"]})
    assert reply.status == 200, reply.body
    for entry, wanted in zip(reply.json["data"], case["plain"]):
        vector = entry["embedding"]
        assert sum(a * b for a, b in zip(vector, wanted)) / (math.hypot(*vector) * math.hypot(*wanted)) >= 0.99999
    assert ask(server, "encoder").status == 400
    assert server.request("POST", "/v1/embeddings", {"model": "demo", "input": "Hello"}).status == 501
    short = server.request("POST", "/api/embed", {"model": "encoder", "input": "Hello", "keep_alive": 0})
    assert short.status == 200, short.body
    wait_until(lambda: states(server)["encoder"] == "unloaded", "the encoder to be unloaded")
    assert states(server)["demo"] == "loaded"


def test_a_drain_refuses_models_that_have_ended(slow_folder, start_server):
    """The server ends with the stream of one model; another model's engine is gone before that."""
    server = start_server("--models-dir", str(slow_folder), "--drain-timeout", str(2 * PATIENCE_S), *WIDE)
    assert answer(ask(server, "demo"))
    stream = server.open_stream("Count.", model=SLOW, max_tokens=300, ignore_eos=True)
    stream.wait_token()
    server.process.terminate()
    wait_until(lambda: states(server)["demo"] == "unloaded", "the idle model to end")
    for model in ("demo", "twin"):
        late = ask(server, model)
        assert (late.status, late.error["code"]) == (503, "shutting_down")
    assert stream.text()[1] == "length"
    assert server.wait_exit() == 0


@pytest.mark.parametrize("text, words", [
    ("[demo]\nport = 1\n", "shoal.ini, [demo]: 'port' is no option of a single model"),
    ("[demo]\ncontext = many\n", "shoal.ini, [demo]: --context: 'many' is not a number"),
    ("[demo]\nserved-model-name = twin\n", "two models have the name 'twin'"),
    ("[nobody]\n", "shoal.ini, line 1: there is no model 'nobody'"),
])
def test_wrong_settings_end_the_start(folder, start_server, text, words):
    (folder / "shoal.ini").write_text(text)
    server = start_server("--models-dir", str(folder), *SMALL, ready=False)
    assert server.wait_exit() == 1
    assert words in server.log_text()
