"""Videos of families that write a time beside each frame: tokens, times and log-probabilities are those of transformers for ten clips
(scripts/golden/video_families.py), as a list of frames and as a file."""

import json

import pytest

import video_clips
from shoal_server import ROOT, ShoalServer
from vision_folder import data_uri, image_part, make_folder, png, text_part
from videos_test import OPTIONS, ask, chat, check, frame_urls, media_uri

ANSWERS = json.loads((ROOT / "tests/golden/videos/families.json").read_text(encoding="ascii"))


@pytest.fixture(scope="module", params=list(video_clips.TIMED))
def family_server(request, tmp_path_factory):
    _, form, settings = video_clips.TIMED[request.param]
    folder = make_folder(tmp_path_factory.mktemp(request.param), request.param, form | {"video": settings})
    with ShoalServer(*OPTIONS, model=folder) as server:
        server.wait_ready()
        yield request.param, server


@pytest.mark.parametrize("form", ["file", "list"])
def test_answers_equal_transformers(family_server, form):
    family, server = family_server
    numbers = [number for number, forms in ANSWERS[family].items() if form in forms]
    assert len(numbers) >= 4
    for number in numbers:
        part = {"type": "video", "video": frame_urls(int(number)) if form == "list" else media_uri(f"{number}.gif")}
        check(server.request("POST", "/v1/chat/completions", chat(part, ignore_eos=True)), ANSWERS[family][number][form])


def test_beside_an_image(family_server):
    """The prompt has the tokens of both, in either order; glm4v and smolvlm have one placeholder for both."""
    _, server = family_server
    video = {"type": "video", "video": media_uri("5.gif"), "max_frames": 2}
    image = image_part(data_uri(png(16, 8, (200, 10, 30))))
    counts = []
    for parts in ([video], [image], [video, image], [image, video], [video, text_part("a"), image, video]):
        reply = ask(server, *parts)
        assert reply.status == 200, reply.body
        counts.append(len(reply.json["prompt_token_ids"]))
    question = server.request("POST", "/v1/chat/completions", chat(None) | {"messages": [{"role": "user", "content": video_clips.QUESTION}]})
    alone = len(question.json["prompt_token_ids"])
    film, still = counts[0] - alone, counts[1] - alone
    assert film > 0 and still > 0
    assert counts[2] == counts[3] == alone + film + still and counts[4] == alone + 2 * film + still + 1


def test_a_placeholder_of_a_caller_is_text(family_server):
    """It neither shows a frame nor is it counted."""
    family, server = family_server
    words = text_part("<|video|> <|image|> <image> <video>")
    reply = ask(server, words, {"type": "video", "video": media_uri("5.gif"), "max_frames": 2})
    ids, soft = reply.json["prompt_token_ids"], 92 if family == "gemma4" else 91
    expected = ask(server, {"type": "video", "video": media_uri("5.gif"), "max_frames": 2}).json["prompt_token_ids"].count(soft)
    assert reply.status == 200 and ids.count(soft) == expected, reply.body


@pytest.mark.parametrize("family, setting", [
    ("gemma4", {"max_soft_tokens": 71}), ("gemma4", {"fps": 3}), ("smolvlm", {"max_image_size": {"longest_edge": 32}}),
    ("glm4v", {"temporal_patch_size": 3})])
def test_settings_that_are_not_done(tmp_path, family, setting):
    """Videos are refused, with the reason in the log; images and texts are taken."""
    _, form, settings = video_clips.TIMED[family]
    with ShoalServer(*OPTIONS, model=make_folder(tmp_path, family, form | {"video": settings | setting})) as server:
        server.wait_ready()
        reply = ask(server, {"type": "video", "video": frame_urls(2)})
        assert reply.status == 400 and "this model takes no videos" in reply.json["error"]["message"], reply.body
        assert ask(server, image_part(data_uri(png(16, 8, (200, 10, 30))))).status == 200
        assert f"videos are refused for this model: videos: {list(setting)[0]}" in server.log_text()
