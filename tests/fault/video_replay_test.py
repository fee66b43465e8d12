"""A request with videos gets the same answer if its worker is killed: before its frames are encoded, between two of its temporal
patches, and while it answers. Each family places its videos by another rule (worker/schedule/image_tiles.h)."""

import base64
import os
import random
import signal
import sys
import time

import pytest

from shoal_server import BUILD, ROOT, ShoalServer, wait_until

sys.path.insert(0, str(ROOT / "tests/api"))
import video_clips  # noqa: E402
from vision_folder import FILM, OMNI, data_uri, image_part, make_folder, png, png_of_frame, text_part  # noqa: E402

TOKENS, REPLAYS, KILLS_MOST = 300, 4, 60


@pytest.fixture(params=["qwen2_5_vl", "qwen3_5", "qwen2_5_omni"])
def server(request, tmp_path):
    form = OMNI if request.param == "qwen2_5_omni" else FILM | {"video": video_clips.settings(request.param)}
    if form is OMNI and not (BUILD / "shoal-av").exists():
        pytest.skip("built without FFmpeg's libraries")
    folder = make_folder(tmp_path, request.param, form)
    with ShoalServer("--device", "cpu", "--threads", "1", "--step-tokens", "32", model=folder) as running:
        running.wait_ready()
        running.hears = form is OMNI
        yield running


def video(number):
    return {"type": "video", "video": [data_uri(png_of_frame(frame)) for frame in video_clips.frames(number)], "fps": 3}


def answer(server, content, kill_after_s=None):
    """[(token, log-probability)] and how long they took; the worker is killed so long after the request was sent."""
    pid, begin = server.worker_pid(), time.monotonic()
    events = server.open_stream(content, max_tokens=TOKENS, temperature=0.8, seed=9, ignore_eos=True, cache_prompt=False,
                                logprobs=True).events()
    if kill_after_s is not None:
        time.sleep(max(0, begin + kill_after_s - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
    choices = [choice for event in events for choice in event.get("choices", [])]
    took_s = time.monotonic() - begin
    if kill_after_s is not None:
        wait_until(lambda: server.worker_pid() not in (None, pid), "the next worker")
        server.wait_ready()
    return [(entry["token"], entry["logprob"]) for choice in choices for entry in (choice.get("logprobs") or {}).get("content") or []], took_s


def test_a_killed_worker_changes_no_answer(server):
    rng = random.Random(5)
    content = [text_part("a"), video(5), image_part(data_uri(png(16, 8, (200, 10, 30)))), video(2), text_part("what?")]
    if server.hears:  # a video with its sound, whose pieces alternate
        film = base64.b64encode((ROOT / "tests/golden/omni/film.mkv").read_bytes()).decode()
        content[1] = {"type": "video", "video": "data:video/x-matroska;base64," + film, "use_audio_in_video": True, "max_frames": 4}
    expected, lasts_s = answer(server, content)
    assert len(expected) == TOKENS
    replays = 0
    for _ in range(KILLS_MOST):
        server.request("POST", "/v1/cache/reset")
        before = replays
        got, took_s = answer(server, content, rng.uniform(0, lasts_s))
        assert got == expected
        replays = server.metrics()["shoal_requests_replayed_total"]
        if replays >= REPLAYS:
            break
        if replays == before:  # it was killed before it had the request, or after it had answered
            lasts_s = took_s
    assert replays >= REPLAYS
