"""Transcriptions and translations of a whisper model: languages, tokens and segments are those of transformers' generate()
(scripts/golden/speech_answers.py), also of audio with several windows, of many requests at once and after deaths of the worker; wrong forms are
refused."""

import concurrent.futures
import json
import os
import random
import signal
import struct

import pytest

from shoal_server import BUILD, ROOT, ShoalServer

GOLDEN = ROOT / "tests/golden/speech"
ANSWERS = json.loads((GOLDEN / "answers.json").read_text(encoding="ascii"))
CLIPS = {"short": (1, 11200), "whole": (2, 16000), "long": (3, 43210), "longer": (4, 71234)}
OPTIONS = ("--device", "cpu", "--activation-bits", "16", "--kv-cache-type", "f32", "--threads", "2")
BOUNDARY = "----form7d1"

pytestmark = pytest.mark.skipif(not (BUILD / "shoal-av").exists(), reason="built without FFmpeg's libraries")


def noise(seed, count):
    """As in scripts/golden/speech_answers.py."""
    samples, state, phase = [], seed, 0
    for at in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        phase = (phase + 300 + (at >> 6) * (seed + 2) % 4000) & 0xFFFF
        loud = 2000 + (at * seed >> 3) % 9000
        samples.append(((phase - 32768) * loud >> 15) + ((state >> 16) % 801) - 400)
    return samples


def wav(samples, rate=16000):
    data = struct.pack(f"<{len(samples)}h", *samples)
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", len(data)) + data


FILES = {name: wav(noise(*numbers)) for name, numbers in CLIPS.items()}


def form(file=None, boundary=BOUNDARY, **fields):
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    if file is not None:
        parts.append(b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n' + file)
    return b"".join(b"--" + boundary.encode() + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + boundary.encode() + b"--\r\n"


def ask(server, body, path="/v1/audio/transcriptions"):
    return server.request("POST", path, body, {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})


def transcribe(server, clip, **fields):
    return ask(server, form(FILES[clip], **fields))


def text_of(ids):
    return bytes(ids).decode(errors="replace").strip(" \t\r\n")


def expected_segments(expected, clip):
    """transformers computes windows of silence after audio that is shorter than the first window."""
    seconds = CLIPS[clip][1] / 16000
    return [segment for segment in expected["segments"] if segment[1] <= 1 or seconds >= 1]


def check_verbose(reply, expected, clip):
    assert reply.status == 200, reply.body
    segments = expected_segments(expected, clip)
    found = reply.json["segments"]
    assert [(s["start"], s["end"]) for s in found] == [(pytest.approx(a, abs=1e-3), pytest.approx(b, abs=1e-3)) for a, b, _ in segments]
    assert [[t for t in s["tokens"] if t < 256] for s in found] == [ids for _, _, ids in segments]
    assert found[0]["avg_logprob"] == pytest.approx(expected["logprob"], abs=2e-3)
    assert found[0]["no_speech_prob"] == pytest.approx(expected["silence"], rel=2e-3)
    assert [s["id"] for s in found] == list(range(len(found)))
    assert reply.json["duration"] == pytest.approx(CLIPS[clip][1] / 16000, abs=1e-3)
    return found


@pytest.fixture(scope="module", params=list(ANSWERS))
def speaker(request):
    with ShoalServer(*OPTIONS, model=GOLDEN / request.param) as server:
        server.wait_ready()
        yield ANSWERS[request.param], server


@pytest.fixture(scope="module")
def server():
    with ShoalServer(*OPTIONS, model=GOLDEN / "tiny") as made:
        made.wait_ready()
        yield made


def test_texts_equal_transformers(speaker):
    answers, server = speaker
    for clip in ("short", "whole"):
        reply = transcribe(server, clip, language="de")
        assert reply.status == 200, reply.body
        assert reply.json["text"] == text_of(answers[clip]["plain"])
        translated = ask(server, form(FILES[clip], language="german"), "/v1/audio/translations")
        assert translated.json["text"] == text_of(answers[clip]["translated"])


def test_segments_equal_transformers(speaker):
    answers, server = speaker
    for clip in CLIPS:
        check_verbose(transcribe(server, clip, language="de", response_format="verbose_json"), answers[clip], clip)


def test_languages_are_found(speaker):
    answers, server = speaker
    names = {"en": "english", "de": "german", "fr": "french"}
    for clip in CLIPS:
        reply = transcribe(server, clip, response_format="verbose_json")
        assert reply.json["language"] == names[answers[clip]["language"]]
        assert reply.json["task"] == "transcribe"


def test_forms(server):
    segments = ANSWERS["tiny"]["long"]["segments"]
    srt = transcribe(server, "long", language="de", response_format="srt")
    assert srt.headers["content-type"].startswith("application/x-subrip")
    assert srt.body.decode().count(" --> ") == len(segments)
    assert "1\n00:00:00,420 --> 00:00:00,680\n" in srt.body.decode()
    vtt = transcribe(server, "long", language="de", response_format="vtt")
    assert vtt.body.decode().startswith("WEBVTT\n\n00:00.420 --> 00:00.680\n")
    text = transcribe(server, "long", language="de", response_format="text")
    whole = "".join(bytes(ids).decode(errors="replace") for _, _, ids in segments).strip(" \t\r\n")
    assert text.body.decode() == whole + "\n" and text.headers["content-type"].startswith("text/plain")
    assert transcribe(server, "long", language="de").json == {"text": whole, "usage": {"type": "duration", "seconds": 3}}


@pytest.mark.parametrize("clip", ["short", "longer"])
def test_streams(server, clip):
    whole = transcribe(server, clip, language="de").json["text"]
    reply = transcribe(server, clip, language="de", stream="true")
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events] == ["transcript.text.delta"] * (len(events) - 1) + ["transcript.text.done"]
    assert "".join(event["delta"] for event in events[:-1]).strip(" \t\r\n") == whole == events[-1]["text"]
    assert len(events) > 3


def test_prompts_and_temperatures_change_answers(server):
    plain = transcribe(server, "whole", language="de").json["text"]
    prompted = transcribe(server, "whole", language="de", prompt="  Ein Satz davor, und noch einer, der viel zu lang ist. ")
    assert prompted.status == 200 and prompted.json["text"] != plain
    drawn = [transcribe(server, "whole", language="de", temperature="1", seed=seed).json["text"] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_many_at_once(server):
    """Different rounds, windows and lengths share steps; each answer is that of its request alone."""
    wanted = [(clip, {"language": "de", "response_format": "verbose_json"}) for clip in CLIPS] * 3
    wanted += [(clip, {"temperature": "0.7", "seed": 5}) for clip in CLIPS]
    alone = [transcribe(server, clip, **fields).body for clip, fields in wanted]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda one: transcribe(server, one[0], **one[1]).body, wanted))
    assert together == alone


def test_deaths_change_nothing(server):
    fields = {"language": "de", "response_format": "verbose_json"}
    alone = {clip: transcribe(server, clip, **fields).body for clip in CLIPS}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        running = [(clip, pool.submit(transcribe, server, clip, **fields)) for clip in list(CLIPS) * 6]
        for at, (clip, answer) in enumerate(running):
            if at in (2, 9):
                os.kill(server.get("/v1/status").json["workers"][0]["pid"], signal.SIGKILL)
                server.wait_ready()
            assert answer.result().body == alone[clip]


def test_clients_that_leave_free_their_features(server):
    for cut in range(6):
        connection = server.connect()
        body = form(FILES["longer"], stream="true", seed=cut)
        connection.sendall(b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        if cut % 2:
            connection.recv(1)
        connection.close()
    server.wait_idle()
    assert transcribe(server, "whole", language="de").json["text"] == text_of(ANSWERS["tiny"]["whole"]["plain"])


WRONG = [
    ({"file": None, "language": "de"}, "file"), ({"file": b""}, "file"), ({"file": b"no audio at all"}, "file"),
    ({"response_format": "diarized_json"}, "response_format"), ({"language": "xx"}, "language"), ({"language": "es"}, "language"),
    ({"temperature": "3"}, "temperature"), ({"temperature": "warm"}, "temperature"), ({"stream": "maybe"}, "stream"),
    ({"stream": "true", "response_format": "srt"}, "stream"), ({"timestamp_granularities[]": "word"}, "timestamp_granularities"),
    ({"seed": "-1"}, "seed"),
]


@pytest.mark.parametrize("fields,param", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_forms(server, fields, param):
    fields = {"file": FILES["short"]} | fields
    reply = ask(server, form(fields.pop("file", None), **fields))
    assert reply.status == 400 and reply.json["error"]["param"] == param, reply.body


def test_wrong_bodies(server):
    for body in (b"", b"{}", form(), b'{"file": "a"}', b"--x\r\n", form(FILES["short"])[:-4], form(FILES["short"])[:3000], b"--\r\n\r\n----\r\n",
                 b"".join(b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n" for _ in range(99)) + b"--x--",
                 b'--x\r\nContent-Disposition: form-data; name="' + b"n" * 5000 + b'"\r\n\r\n1\r\n--x--', b"--x\r\nA: b\r\n\r\n1\r\n--x--"):
        reply = ask(server, body)
        assert reply.status == 400 and reply.json["error"]["type"] == "invalid_request_error", reply.body
    assert ask(server, form(FILES["short"], model="other")).status == 404


def test_damaged_bodies(server):
    source = random.Random(8)
    whole = form(FILES["short"], language="de", response_format="json")
    for _ in range(60):
        body = bytearray(whole)
        for _ in range(source.randrange(1, 5)):
            at = source.randrange(400) if source.random() < 0.7 else source.randrange(len(body))
            body[at:at + source.choice([0, 1, 1, 40])] = bytes([source.randrange(256)])
        assert ask(server, bytes(body)).status in (200, 400, 404)
    server.wait_idle()


def test_other_apis_are_refused(server):
    for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}), ("/v1/completions", {"prompt": "Hello"})):
        reply = server.request("POST", path, body)
        assert reply.status == 400 and reply.json["error"]["code"] == "generation_unsupported", reply.body


def test_models_of_text_transcribe_nothing():
    with ShoalServer() as server:
        server.wait_ready()
        reply = ask(server, form(FILES["short"]))
        assert reply.status == 400 and reply.json["error"]["code"] == "transcription_unsupported", reply.body


def test_forms_name_a_model_of_a_directory():
    with ShoalServer(*OPTIONS, "--models-dir", GOLDEN) as server:
        for name in ("wide", "tiny"):
            reply = transcribe(server, "whole", language="de", model=name)
            assert reply.status == 200 and reply.json["text"] == text_of(ANSWERS[name]["whole"]["plain"]), reply.body
        assert transcribe(server, "whole", model="other").status == 404
