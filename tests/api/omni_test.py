"""Sounds, images and videos for Qwen2.5-Omni's thinker: tokens and log-probabilities are those of transformers (scripts/golden/omni_requests.py),
also of a film whose sound is heard with it (use_audio_in_video)."""

import base64
import json

import pytest

import omni_clips
from audio_test import DIFFERENCE_MOST, OPTIONS, wav
from shoal_server import BUILD, ROOT, ShoalServer
from vision_folder import OMNI, data_uri, image_part, make_folder, png_of_frame, text_part

GOLDEN = ROOT / "tests/golden/omni"
ANSWERS = json.loads((GOLDEN / "requests.json").read_text(encoding="ascii"))
MELS = {"qwen2_5_omni": 16, "qwen2_5_omni_wide": 20}

pytestmark = pytest.mark.skipif(not (BUILD / "shoal-av").exists(), reason="built without FFmpeg's libraries")


def folder_of(tmp_path_factory, family):
    form = OMNI | {"processor": OMNI["processor"] | {"feature_size": MELS[family]}}
    return make_folder(tmp_path_factory.mktemp(family), family, form)


@pytest.fixture(scope="module", params=omni_clips.MODELS)
def family_server(request, tmp_path_factory):
    with ShoalServer(*OPTIONS, model=folder_of(tmp_path_factory, request.param)) as server:
        server.wait_ready()
        yield request.param, server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ShoalServer(*OPTIONS, model=folder_of(tmp_path_factory, "qwen2_5_omni")) as server:
        server.wait_ready()
        yield server


def film_uri():
    return "data:video/x-matroska;base64," + base64.b64encode((GOLDEN / "film.mkv").read_bytes()).decode()


def sound_uri(clip):
    return "data:audio/wav;base64," + base64.b64encode(wav(omni_clips.samples(clip))).decode()


def part_of(kind, value):
    if kind == "text":
        return text_part(value)
    if kind == "sound":
        return {"type": "audio_url", "audio_url": {"url": sound_uri(value)}}
    if kind == "image":
        return image_part(data_uri(png_of_frame(omni_clips.image(value))))
    return {"type": "video_url", "video_url": {"url": film_uri()}} | ({"use_audio_in_video": True} if kind == "film" else {})


def ask(server, parts, **more):
    return server.request("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": parts}], "max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": 20,
        "return_token_ids": True} | more)


def check(reply, expected):
    assert reply.status == 200, reply.body
    assert reply.json["prompt_token_ids"] == expected["ids"]
    tops = sorted((entry["logprob"] for entry in reply.json["choices"][0]["logprobs"]["content"][0]["top_logprobs"]), reverse=True)
    best = sorted(expected["logprobs"], reverse=True)
    assert max(abs(a - b) for a, b in zip(tops, best)) < DIFFERENCE_MOST


def test_answers_equal_transformers(family_server):
    """Twice each: the second time features and prefixes come from the caches."""
    family, server = family_server
    for _ in range(2):
        for name, expected in ANSWERS[family].items():
            check(ask(server, [part_of(*part) for part in omni_clips.CHATS[name]]), expected)


def test_a_film_with_and_without_its_sound(server):
    """Told beside the URL or within it; without a sound the same file is another prompt."""
    value = {"url": film_uri(), "use_audio_in_video": True}
    check(ask(server, [{"type": "video_url", "video_url": value}, text_part("What?")]), ANSWERS["qwen2_5_omni"]["film"])
    check(ask(server, [{"type": "video", "video": value | {"use_audio_in_video": False}}, text_part("What?")]), ANSWERS["qwen2_5_omni"]["silent"])


def test_responses(server):
    """A prompt of as many tokens."""
    parts = [{"type": "input_audio", "input_audio": {"data": sound_uri(9).split(",")[1], "format": "wav"}},
             {"type": "input_video", "video_url": film_uri(), "use_audio_in_video": True}, {"type": "input_text", "text": "What?"}]
    expected = [ANSWERS["qwen2_5_omni"][name]["ids"] for name in ("film", "long")]
    question = len("What?") + len("user:") + len("assistant:") + 3
    reply = server.request("POST", "/v1/responses", {"input": [{"role": "user", "content": parts}], "max_output_tokens": 1})
    assert reply.status == 200 and reply.json["usage"]["input_tokens"] == sum(map(len, expected)) - question, reply.body


def test_what_cannot_be_heard_is_refused(server):
    frames = [data_uri(png_of_frame(frame)) for frame in omni_clips.film_frames()[:2]]
    mute = "data:video/mp4;base64," + base64.b64encode((ROOT / "tests/golden/videos/films/h264.mp4").read_bytes()).decode()
    for part, words in (
            ({"type": "video", "video": frames, "use_audio_in_video": True}, "a list of frames has no sound"),
            ({"type": "video_url", "video_url": mute, "use_audio_in_video": True}, "use_audio_in_video: the file has no"),
            ({"type": "video_url", "video_url": film_uri(), "use_audio_in_video": "yes"}, "use_audio_in_video must be true or false"),
            ({"type": "video_url", "video_url": film_uri(), "use_audio_in_video": True, "fps": 0.5}, "greater fps"),
            ({"type": "audio_url", "audio_url": "data:audio/wav;base64," + base64.b64encode(wav(omni_clips.film_samples().repeat(2))).decode()},
             "at most 4")):
        reply = ask(server, [part, text_part("What?")])
        assert reply.status == 400 and words in reply.json["error"]["message"], reply.body
    check(ask(server, [part_of(*part) for part in omni_clips.CHATS["film"]]), ANSWERS["qwen2_5_omni"]["film"])
