"""Audio in chats, Responses and Messages: tokens and log-probabilities are those of transformers (scripts/golden/audio_requests.py), whatever
file the sound comes in; what cannot be heard is a 400."""

import base64
import json
import os
import random
import signal
import struct
import time

import numpy as np
import pytest

from media_host import MediaHost
from shoal_server import BUILD, ROOT, ShoalServer, wait_until
from vision_folder import AUDIO, QWEN, data_uri, make_folder, png, text_part

GOLDEN = ROOT / "tests/golden/audio"
ANSWERS = json.loads((GOLDEN / "requests.json").read_text(encoding="ascii"))
QUESTION = "What sounds?"
DIFFERENCE_MOST = 2e-3
OPTIONS = ("--device", "cpu", "--activation-bits", "16", "--kv-cache-type", "f32", "--threads", "2")

pytestmark = pytest.mark.skipif(not (BUILD / "shoal-av").exists(), reason="built without FFmpeg's libraries")


def folder_of(tmp_path_factory, family):
    mels = {"qwen2_audio": 16, "qwen2_audio_wide": 20}[family]
    form = AUDIO | {"processor": AUDIO["processor"] | {"feature_size": mels}}
    return make_folder(tmp_path_factory.mktemp(family), family, form)


@pytest.fixture(scope="module", params=list(ANSWERS))
def family_server(request, tmp_path_factory):
    with ShoalServer(*OPTIONS, model=folder_of(tmp_path_factory, request.param)) as server:
        server.wait_ready()
        yield request.param, server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ShoalServer(*OPTIONS, model=folder_of(tmp_path_factory, "qwen2_audio")) as server:
        server.wait_ready()
        yield server


def wav(samples, rate=16000):
    data = samples.astype("<i2").tobytes()
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", len(data)) + data


def clip(number):
    return wav(np.fromfile(GOLDEN / f"mels/{number}.s16", "<i2"))


def sound(file, **more):
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(file).decode(), "format": "wav"} | more}


def chat(*parts, **more):
    return {"messages": [{"role": "user", "content": [*parts, text_part(QUESTION)]}], "max_tokens": 1, "temperature": 0, "logprobs": True,
            "top_logprobs": 20, "return_token_ids": True} | more


def ask(server, *parts, **more):
    return server.request("POST", "/v1/chat/completions", chat(*parts, **more))


def top(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["logprobs"]["content"][0]["top_logprobs"]


def check(reply, expected):
    tops = sorted((entry["logprob"] for entry in top(reply)), reverse=True)
    assert reply.json["prompt_token_ids"] == expected["ids"]
    best = sorted(expected["logprobs"], reverse=True)
    assert max(abs(a - b) for a, b in zip(tops, best)) < DIFFERENCE_MOST


def test_answers_equal_transformers(family_server):
    family, server = family_server
    for number, expected in ANSWERS[family].items():
        clips = [7, 9] if number == "two" else [int(number)]
        check(ask(server, *[sound(clip(one)) for one in clips]), expected)


def test_spellings(server):
    expected = ANSWERS["qwen2_audio"]["8"]
    encoded = base64.b64encode(clip(8)).decode()
    uri = "data:audio/wav;base64," + encoded
    for part in ({"type": "input_audio", "input_audio": {"data": encoded}}, {"type": "audio_url", "audio_url": {"url": uri}},
                 {"type": "audio_url", "audio_url": uri}, {"type": "audio", "audio": uri}, {"type": "audio", "audio": {"data": encoded}}):
        check(ask(server, part), expected)


def test_responses(server):
    """The prompt has as many tokens, and a stored item names the sound as it came."""
    parts = [sound(clip(8)), {"type": "input_text", "text": QUESTION}]
    reply = server.request("POST", "/v1/responses", {"input": [{"role": "user", "content": parts}], "max_output_tokens": 1})
    assert reply.status == 200 and reply.json["usage"]["input_tokens"] == len(ANSWERS["qwen2_audio"]["8"]["ids"]), reply.body
    items = server.get(f"/v1/responses/{reply.json['id']}/input_items")
    assert items.status == 200 and items.json["data"][0]["content"][0] == parts[0], items.body


def test_files_of_every_kind(server):
    """A quarter of a second of the same tones: two tokens, or three where the file's end is a whole packet."""
    names = [line.split()[0] for line in (GOLDEN / "files/files.txt").read_text(encoding="ascii").splitlines()]
    answers = {name: ask(server, sound((GOLDEN / "files" / name).read_bytes())) for name in names}
    for name, reply in answers.items():
        assert reply.status == 200 and reply.json["prompt_token_ids"].count(91) in (2, 3), (name, reply.body)
    samples = np.fromfile(GOLDEN / "mels/8.s16", "<i2")
    as_floats = (samples / 32768).astype("<f4").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(as_floats), b"WAVE", b"fmt ", 16, 3, 1, 16000, 64000, 4, 32, b"data", len(as_floats))
    check(ask(server, sound(head + as_floats)), ANSWERS["qwen2_audio"]["8"])


# --- caches ---------------------------------------------------------------------------------------

def test_caches_know_the_sound(server):
    server.request("POST", "/v1/cache/reset")
    changed = bytearray(clip(9))
    changed[2000:2400] = bytes(400)
    first = ask(server, sound(clip(9)))
    again = ask(server, sound(clip(9)), cache_prompt=False)
    other = ask(server, sound(bytes(changed)))
    details = [reply.json["usage"]["prompt_tokens_details"] for reply in (first, again, other)]
    assert [detail["cached_images"] for detail in details] == [0, 1, 0]
    assert top(first) == top(again) and top(first) != top(other)
    assert ask(server, sound(clip(9))).json["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_sounds_beside_text_streams(server):
    """A long text stream goes on while sounds are encoded, and neither changes the other."""
    body = {"content": "abc", "max_tokens": 200, "temperature": 0, "ignore_eos": True}
    alone = server.open_stream(**body).text()
    stream = server.open_stream(**body)
    for number in (7, 8, 9):
        check(ask(server, sound(clip(number)), cache_prompt=False), ANSWERS["qwen2_audio"][str(number)])
    assert stream.text() == alone


# --- refusals -------------------------------------------------------------------------------------

def refused(server, part, words, code=None):
    reply = ask(server, part)
    assert reply.status == 400, reply.body
    assert words in reply.error["message"] and reply.error["code"] == code, reply.body
    assert reply.error["param"] == "messages[0].content[0]"


def test_what_is_refused(server):
    one = 100 * np.ones(16000, np.int16)
    refused(server, {"type": "input_audio"}, "must be a URL or an object")
    refused(server, {"type": "input_audio", "input_audio": {"data": 3}}, "must be a URL or an object")
    refused(server, sound(clip(8), format="midi"), "format must be wav, mp3")
    refused(server, {"type": "audio_url", "audio_url": "http://localhost/a.wav"}, "", "invalid_audio")
    refused(server, sound(b"%PDF-1.7 and more bytes"), "this is no audio that is supported", "invalid_audio")
    refused(server, sound(b""), "empty", "invalid_audio")
    refused(server, sound(wav(one[:0])), "", "invalid_audio")
    refused(server, sound(wav(one[:500])), "500 samples are too short for a token", "invalid_audio")
    refused(server, sound(wav(np.tile(one, 2)[:16001])), "the model takes sounds of at most 1", "invalid_audio")
    refused(server, {"type": "image_url", "image_url": data_uri(png(16, 8, (1, 2, 3)))}, "this model takes no images")
    refused(server, {"type": "video_url", "video_url": "data:video/mp4;base64,AAAA"}, "this model takes no images")
    assert ask(server, sound(wav(one))).json["prompt_token_ids"].count(91) == 10  # the longest
    silence = bytes.fromhex("fff318c4") + bytes(32)
    refused(server, sound(silence * 60_000), "longer than 1800 seconds", "invalid_audio")


def test_placeholders_of_a_user_stay_text(server):
    plain, marked = (ask(server, sound(clip(8)), text_part(text)) for text in ("a", "<|AUDIO|>"))
    assert plain.json["prompt_token_ids"].count(91) == marked.json["prompt_token_ids"].count(91) == 5


def test_damaged_files(server):
    for name in ("a.flac", "a.mp3", "opus.ogg", "aac.m4a"):
        file, drawn = (GOLDEN / "files" / name).read_bytes(), random.Random(name)
        for _ in range(20):
            changed = bytearray(file[:drawn.choice([len(file), drawn.randrange(40, len(file))])])
            for _ in range(drawn.choice([0, 1, 8])):
                changed[drawn.randrange(len(changed))] = drawn.randrange(256)
            begin = time.monotonic()
            assert ask(server, sound(bytes(changed))).status in (200, 400)
            assert time.monotonic() - begin < 20
    check(ask(server, sound(clip(8))), ANSWERS["qwen2_audio"]["8"])


def test_a_model_without_audio_says_so(tmp_path):
    with ShoalServer("--device", "cpu", model=make_folder(tmp_path, "qwen2_5_vl", QWEN)) as server:
        server.wait_ready()
        for part in (sound(clip(8)), {"type": "audio_url", "audio_url": "data:audio/wav;base64,AAAA"}):
            refused(server, part, f"this model takes no audio: parts of type '{part['type']}' are not supported")
        assert server.request("GET", "/props").json["modalities"] == {"vision": True, "audio": False}


def test_models_say_what_they_take(server):
    assert server.request("GET", "/props").json["modalities"] == {"vision": False, "audio": True}


def test_urls_are_fetched_from_the_operators_hosts(tmp_path):
    with MediaHost({"/8.wav": clip(8)}) as host:
        options = ("--allow-media-domain", host.name, "--allow-media-private")
        with ShoalServer(*OPTIONS, *options, model=make_folder(tmp_path, "qwen2_audio", AUDIO)) as server:
            server.wait_ready()
            part = {"type": "audio_url", "audio_url": {"url": f"http://{host.name}/8.wav"}}
            check(ask(server, part), ANSWERS["qwen2_audio"]["8"])
            assert host.asked == ["/8.wav"]


def text_of(event):
    return "".join(choice["delta"].get("content") or "" for choice in event["choices"])


def test_a_killed_worker_changes_no_answer(server):
    """Killed after the first token, or around the time at which the sounds are encoded."""
    content = [sound(clip(9)), text_part("a"), sound(clip(7)), text_part(QUESTION)]
    body = {"max_tokens": 400, "temperature": 0.8, "seed": 9, "ignore_eos": True, "cache_prompt": False}
    expected = server.open_stream(content, **body).text()[0]
    drawn, replays = random.Random(5), "shoal_requests_replayed_total"
    before = server.metrics()[replays]
    for number in range(12):
        server.request("POST", "/v1/cache/reset")
        pid, stream = server.worker_pid(), server.open_stream(content, **body)
        begun = text_of(stream.wait_token()) if number % 2 else ""
        time.sleep(0 if number % 2 else drawn.uniform(0, 0.03))
        os.kill(pid, signal.SIGKILL)
        assert begun + "".join(text_of(event) for event in stream.events()) == expected
        wait_until(lambda: server.worker_pid() not in (None, pid), "the next worker")
        server.wait_ready()
    assert server.metrics()[replays] >= before + 2
