"""Damaged sounds and videos over HTTP: 300 files that are cut short or have changed bytes, drawn when the test runs, are answered or refused in
bounded time and memory, and a text stream beside them gets the same answers as alone. A failure names the seed, which SHOAL_DRAWN_SEED
repeats."""

import base64
import concurrent.futures
import os
import random
import time

import pytest

import omni_clips
from audio_test import wav
from hostile_images_test import FRONTEND_MOST_KB, WORKER_MOST_KB, TextBeside, memory_kb, reset_peak
from omni_test import ask, folder_of
from shoal_server import BUILD, ROOT, ShoalServer

GOLDEN = ROOT / "tests/golden"
COUNT, SECONDS_MOST = 300, 20
MODEL = "qwen2_5_omni"

pytestmark = pytest.mark.skipif(not (BUILD / "shoal-av").exists(), reason="built without FFmpeg's libraries")


def whole_files():
    """[(code of a refusal, part of a message without the data, bytes)]"""
    sounds = [path.read_bytes() for path in sorted((GOLDEN / "audio/files").iterdir()) if path.suffix not in (".f32", ".txt")]
    films = [path.read_bytes() for path in sorted((GOLDEN / "videos/films").iterdir()) if path.suffix != ".rgb"]
    films += [path.read_bytes() for path in sorted((GOLDEN / "senses").glob("0*.gif"))]
    film = (GOLDEN / "omni/film.mkv").read_bytes()
    return ([("invalid_audio", {}, file) for file in sounds] + [("invalid_image", {}, file) for file in films]
            + [("invalid_image", {"use_audio_in_video": True}, film)])


def damaged(drawn, file):
    changed = bytearray(file[:drawn.choice([len(file), drawn.randrange(1, len(file))])])
    for _ in range(drawn.choice([1, 4, 16])):
        first = drawn.randrange(len(changed))
        if drawn.random() < 0.7:  # a byte, most often of the headers
            changed[first if drawn.random() < 0.5 else drawn.randrange(min(len(changed), 200))] = drawn.choice([0, 255, drawn.randrange(256)])
        else:
            changed[first:first + drawn.randrange(1, 64)] = drawn.randbytes(drawn.randrange(64))
        changed = changed or bytearray(1)
    return bytes(changed)


def part_of(code, more, file):
    data = base64.b64encode(file).decode()
    if code == "invalid_audio":
        return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    return {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{data}"}, **more}


def answered(server, code, more, file):
    """Status, after a check of the refusal's words."""
    begin = time.monotonic()
    reply = ask(server, [part_of(code, more, file), {"type": "text", "text": "a"}])
    assert reply.status in (200, 400), reply.body
    assert time.monotonic() - begin < SECONDS_MOST
    if reply.status == 400:
        place = "messages[0].content[0]"
        assert (reply.error["code"], reply.error["param"]) == (code, place), reply.body
        assert reply.error["message"].startswith(place + ": ") and len(reply.error["message"]) > len(place) + 10, reply.body
    return reply.status


def test_300_damaged_files(tmp_path_factory):
    seed = int(os.environ.get("SHOAL_DRAWN_SEED") or random.SystemRandom().randrange(1 << 32))
    print("seed", seed)
    drawn, files = random.Random(seed), whole_files()
    hostile = [(code, more, damaged(drawn, file)) for code, more, file in (drawn.choice(files) for _ in range(COUNT))]
    with ShoalServer("--device", "cpu", "--threads", "2", "--allow-debug", model=folder_of(tmp_path_factory, MODEL)) as server:
        server.wait_ready()
        for file in files:  # whole ones, so that the first damaged one finds everything allocated
            assert answered(server, *file) in (200, 400)
        assert answered(server, "invalid_audio", {}, wav(omni_clips.samples(8))) == 200
        with TextBeside(server) as text, concurrent.futures.ThreadPoolExecutor(4) as pool:
            pids = {server.process.pid: FRONTEND_MOST_KB, server.worker_pid(): WORKER_MOST_KB}
            before = {pid: memory_kb(pid, "VmRSS") for pid in pids}
            for pid in pids:
                reset_peak(pid)
            statuses = list(pool.map(lambda one: answered(server, *one), hostile))
            more = {pid: memory_kb(pid, "VmHWM") - before[pid] for pid in pids}
        assert statuses.count(400) > COUNT // 4, (seed, statuses.count(400))
        assert all(more[pid] < most for pid, most in pids.items()), (seed, more)
        assert len(text.told) > 0 and all(told == text.alone for told in text.told), seed
        assert server.get("/v1/status").json["worker_restarts"] == 0
        server.wait_idle()
