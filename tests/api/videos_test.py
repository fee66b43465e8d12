"""Videos in chats, Responses and Messages: tokens, sizes and log-probabilities are those of transformers for ten clips and four families
(scripts/golden/video_requests.py), whatever form a video has; what cannot be shown is a 400."""

import base64
import json
import random
import shutil
import struct
import time

import numpy as np
import pytest

import video_clips
from media_host import MediaHost
from shoal_server import BUILD, ROOT, ShoalServer
from vision_folder import FILM, QWEN, data_uri, make_folder, png, png_of_frame, text_part

GOLDEN = ROOT / "tests/golden/videos"
ANSWERS = json.loads((GOLDEN / "requests.json").read_text(encoding="utf-8"))
DIFFERENCE_MOST = 2e-3
OPTIONS = ("--device", "cpu", "--activation-bits", "16", "--kv-cache-type", "f32", "--threads", "2")


def folder_of(tmp_path_factory, family):
    folder = tmp_path_factory.mktemp(family)
    return make_folder(folder, family, FILM | {"video": video_clips.settings(family)})


@pytest.fixture(scope="module", params=video_clips.FAMILIES)
def family_server(request, tmp_path_factory):
    with ShoalServer(*OPTIONS, model=folder_of(tmp_path_factory, request.param)) as server:
        server.wait_ready()
        yield request.param, server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ShoalServer(*OPTIONS, model=folder_of(tmp_path_factory, "qwen2_5_vl")) as server:
        server.wait_ready()
        yield server


def frame_urls(number):
    return [data_uri(png_of_frame(frame)) for frame in video_clips.frames(number)]


def chat(part, **more):
    return {"messages": [{"role": "user", "content": [part, text_part(video_clips.QUESTION)]}], "max_tokens": 1, "temperature": 0,
            "logprobs": True, "top_logprobs": 20, "return_token_ids": True} | more


def check(reply, expected):
    """The prompt's tokens and the log-probabilities of the first answer token."""
    assert reply.status == 200, reply.body
    body = reply.json
    assert body["prompt_token_ids"] == expected["ids"]
    tops = sorted((entry["logprob"] for entry in body["choices"][0]["logprobs"]["content"][0]["top_logprobs"]), reverse=True)
    best = sorted(expected["logprobs"], reverse=True)
    assert max(abs(a - b) for a, b in zip(tops, best)) < DIFFERENCE_MOST


def test_lists_of_frames(family_server):
    family, server = family_server
    tried = 0
    for number, forms in ANSWERS[family].items():
        if "list" in forms:
            check(server.request("POST", "/v1/chat/completions", chat({"type": "video", "video": frame_urls(int(number))})), forms["list"])
            tried += 1
    assert tried == 7


def media_uri(name):
    return f"data:video/{name.split('.')[1]};base64," + base64.b64encode((GOLDEN / name).read_bytes()).decode()


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_files(family_server, kind):
    family, server = family_server
    for number, forms in ANSWERS[family].items():
        part = {"type": "video_url", "video_url": {"url": media_uri(f"{number}.{kind}")}}
        check(server.request("POST", "/v1/chat/completions", chat(part)), forms["file"])


# --- forms ----------------------------------------------------------------------------------------

CLIP = 2  # of three frames


def top(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["logprobs"]["content"][0]["top_logprobs"]


def ask(server, *parts, **more):
    body = chat(parts[0], **more)
    body["messages"][0]["content"] = [*parts, text_part(video_clips.QUESTION)]
    return server.request("POST", "/v1/chat/completions", body)


@pytest.mark.parametrize("part", [
    lambda urls: {"type": "video", "video": [{"url": url} for url in urls]},
    lambda urls: {"type": "video", "video": [{"image_url": {"url": url}} for url in urls], "fps": 2},
    lambda urls: {"type": "video_url", "video_url": urls},
    lambda urls: {"type": "input_video", "video_url": urls},
    lambda urls: {"type": "input_video", "input_video": [{"data": url.split(",")[1]} for url in urls]},
])
def test_spellings_of_a_list(server, part):
    check(server.request("POST", "/v1/chat/completions", chat(part(frame_urls(CLIP)))), ANSWERS["qwen2_5_vl"][str(CLIP)]["list"])


def test_responses_and_messages(server):
    video, expected = {"type": "video", "video": frame_urls(CLIP)}, ANSWERS["qwen2_5_vl"][str(CLIP)]["list"]["ids"]
    content = [video, {"type": "input_text", "text": video_clips.QUESTION}]
    reply = server.request("POST", "/v1/responses", {"input": [{"role": "user", "content": content}], "max_output_tokens": 1})
    assert reply.status == 200 and reply.json["usage"]["input_tokens"] == len(expected), reply.body
    listed = server.get(f"/v1/responses/{reply.json['id']}/input_items").json["data"][0]["content"]
    assert listed[0] == video and listed[1]["text"] == video_clips.QUESTION
    blocks = [video, {"type": "text", "text": video_clips.QUESTION}]
    turns = [{"role": "user", "content": blocks}]
    counted = server.request("POST", "/v1/messages/count_tokens", {"messages": turns})
    assert counted.status == 200 and counted.json["input_tokens"] == len(expected), counted.body
    assert server.request("POST", "/v1/messages", {"messages": turns, "max_tokens": 1}).status == 200


def test_images_and_videos_keep_their_order(server):
    video, image = {"type": "video", "video": frame_urls(CLIP)}, {"type": "image_url", "image_url": data_uri(png(16, 8, (255, 0, 0)))}
    one, other = ask(server, video, image), ask(server, image, video)
    for reply, order in ((one, [92, 91]), (other, [91, 92])):
        ids = [token for token in reply.json["prompt_token_ids"] if token in (91, 92)]
        assert sorted(set(ids), key=ids.index) == order and ids.count(91) == 2 and ids.count(92) == 24
    assert top(one) != top(other)


# --- caches ---------------------------------------------------------------------------------------

def hits(server, number, change=None, **more):
    frames = video_clips.frames(number).copy()
    if change is not None:
        frames[change] = 255 - frames[change]
    part = {"type": "video", "video": [data_uri(png_of_frame(frame)) for frame in frames]}
    reply = ask(server, text_part("Hm. "), part, **more)
    return reply.json["usage"]["prompt_tokens_details"], top(reply)


def test_caches_know_every_frame(server):
    server.request("POST", "/v1/cache/reset")
    first, answer = hits(server, 5)
    assert first["cached_images"] == first["cached_tokens"] == 0
    again, same = hits(server, 5, cache_prompt=False)
    assert again["cached_images"] == 6 and again["cached_tokens"] == 0 and same == answer
    again, same = hits(server, 5)
    assert again["cached_images"] == 6 and again["cached_tokens"] > 0 and same == answer
    for frame in range(12):  # the prefix ends before the changed frame, and only its patch is encoded
        changed, other = hits(server, 5, change=frame)
        assert changed["cached_images"] == 5 and other != answer
        assert changed["cached_tokens"] <= 16 + 6 * (frame // 2) + 6


def test_caches_know_the_rate(server):
    """The same frames at another rate have the same features and other positions."""
    server.request("POST", "/v1/cache/reset")
    urls, answers = frame_urls(5), []
    for rate, use_cache in ((2, True), (0.5, True), (0.5, False), (2, True)):
        reply = ask(server, {"type": "video", "video": urls, "fps": rate}, cache_prompt=use_cache)
        answers.append(top(reply))
    assert answers[0] != answers[1] and answers[1] == answers[2] and answers[3] == answers[0]


# --- refusals -------------------------------------------------------------------------------------

def refused(server, part, words, code=None):
    reply = server.request("POST", "/v1/chat/completions", chat(part))
    assert reply.status == 400, reply.body
    assert words in reply.error["message"] and reply.error["code"] == code
    assert reply.error["param"] == "messages[0].content[0]"


def test_what_is_refused(server):
    frame, wide = data_uri(png(16, 8, (1, 2, 3))), data_uri(png(24, 8, (1, 2, 3)))
    refused(server, {"type": "video", "video": []}, "or a list of frames")
    refused(server, {"type": "video"}, "a video must be a URL")
    refused(server, {"type": "video", "video": [frame, 3]}, "frame 1 of the video must be an image's URL")
    refused(server, {"type": "video", "video": [frame] * 769}, "more than 768 frames")
    refused(server, {"type": "video", "video": [frame] * 33}, "a video of 33 frames is more than 32", "invalid_image")
    refused(server, {"type": "video", "video": [frame] * 3, "max_frames": 2}, "a video of 3 frames is more than 2", "invalid_image")
    refused(server, {"type": "video", "video": [frame, wide]}, "frame 1 has 24 x 8 pixels, the first one 16 x 8", "invalid_image")
    refused(server, {"type": "video", "video": [frame, frame[:-30]]}, "frame 1: ", "invalid_image")
    refused(server, {"type": "video", "video": ["http://localhost/a.png"]}, "frame 0: ", "invalid_image")
    refused(server, {"type": "video", "video": [frame] * 32, "fps": 1e-6}, "lasts too long", "invalid_image")
    for fps in (0, -1, "2", 1e9):
        refused(server, {"type": "video", "video": [frame], "fps": fps}, "fps must be a number")
    for most in (0, 1.5, "4"):
        refused(server, {"type": "video", "video": [frame], "max_frames": most}, "max_frames must be a whole number")
    long = {"type": "video", "video": [data_uri(png(400, 400, (9, 9, 9)))] * 32}
    reply = ask(server, *[long] * 9)
    assert reply.status == 400 and reply.error["code"] == "context_length_exceeded", reply.body


def gif(width, height, frames):
    """Frames of one pixel on a screen of this size."""
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6) + frame * frames + b";"


def file_part(file, **more):
    return {"type": "video_url", "video_url": {"url": "data:video/gif;base64," + base64.b64encode(file).decode(), **more}}


def test_files_that_are_refused(server):
    whole = (GOLDEN / "5.gif").read_bytes()
    refused(server, file_part(b"%PDF-1.7 and more bytes"), "this is no video", "invalid_image")
    refused(server, file_part(whole[:len(whole) // 2]), "cut off", "invalid_image")
    refused(server, file_part((GOLDEN / "5.webp").read_bytes()[:-40]), "cut off", "invalid_image")
    refused(server, file_part(gif(40000, 10, 2)), "40000 x 10 pixels", "invalid_image")
    refused(server, file_part(gif(10000, 9999, 2)), "16777216 pixels a frame", "invalid_image")
    refused(server, file_part(gif(8, 8, 200_000)), "131073 frames", "invalid_image")
    refused(server, file_part(gif(900, 4, 2)), "too thin", "invalid_image")
    assert server.request("POST", "/v1/chat/completions", chat(file_part(whole))).status == 200


def test_numbers_of_a_file(server):
    """fps and max_frames: 100 frames in 20 seconds."""
    def shown(**more):
        reply = ask(server, file_part((GOLDEN / "9.gif").read_bytes(), **more))
        assert reply.status == 200, reply.body
        return 2 * reply.json["prompt_token_ids"].count(92) // 6
    assert [shown(), shown(fps=1), shown(fps=0.5), shown(max_frames=8), shown(fps=0.01)] == [32, 20, 10, 8, 4]


def test_a_still_image_is_a_video_of_one_frame(server):
    frame = png_of_frame(video_clips.frames(0)[0])
    as_file = ask(server, {"type": "video", "video": data_uri(frame)})
    as_list = ask(server, {"type": "video", "video": [data_uri(frame)]})
    assert as_file.status == 200 and top(as_file) == top(as_list), as_file.body


def test_sources_of_messages(server):
    source = {"type": "base64", "media_type": "image/gif", "data": base64.b64encode((GOLDEN / "3.gif").read_bytes()).decode()}
    turns = [{"role": "user", "content": [{"type": "video", "source": source}, {"type": "text", "text": video_clips.QUESTION}]}]
    counted = server.request("POST", "/v1/messages/count_tokens", {"messages": turns})
    assert counted.status == 200 and counted.json["input_tokens"] == len(ANSWERS["qwen2_5_vl"]["3"]["file"]["ids"]), counted.body


def test_a_users_placeholder_stays_text(server):
    frame = data_uri(png(16, 8, (1, 2, 3)))
    part = {"type": "video", "video": [frame, frame]}
    plain, marked = ask(server, part, text_part("a")), ask(server, part, text_part("<|video_pad|><|vision_start|>"))
    for reply in (plain, marked):
        assert reply.status == 200 and reply.json["prompt_token_ids"].count(92) == 6, reply.body


def test_a_model_without_videos_says_so(tmp_path):
    with ShoalServer("--device", "cpu", model=make_folder(tmp_path, "qwen2_5_vl", QWEN)) as server:
        server.wait_ready()
        refused(server, {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}, "this model takes no videos")
        assert "videos are refused for this model: its tokenizer has no <|video_pad|>" in server.log_text()


# --- films ----------------------------------------------------------------------------------------

FILM_DIFFERENCE = 0.03  # libswscale's versions round colours differently; another frame makes ten times as much
HAS_FILMS = (BUILD / "shoal-av").exists()


def film_part(name, **more):
    file = (GOLDEN / "films" / name).read_bytes()
    return {"type": "video_url", "video_url": {"url": "data:video/mp4;base64," + base64.b64encode(file).decode(), **more}}


@pytest.mark.skipif(not HAS_FILMS, reason="built without FFmpeg's libraries")
@pytest.mark.parametrize("name", ["h264.mp4", "h264.mkv", "hevc.mp4", "vp8.webm", "vp9.webm", "av1.mp4"])
def test_films(server, name):
    """As the list of the frames that PyAV decodes, at the rate at which they are sampled."""
    expected = ANSWERS["qwen2_5_vl"]["8"]["file"]
    times = 4 if name in ("hevc.mp4", "av1.mp4") else 2
    frames = np.fromfile(GOLDEN / "films" / f"{name}.rgb", np.uint8).reshape(len(expected["frames"]), 16 * times, 24 * times, 3)
    rate = len(frames) / 61 * 20
    listed = ask(server, {"type": "video", "video": [data_uri(png_of_frame(frame)) for frame in frames], "fps": rate})
    film = ask(server, film_part(name))
    assert film.status == 200 and film.json["prompt_token_ids"] == listed.json["prompt_token_ids"], film.body
    assert {entry["token"] for entry in top(film)} == {entry["token"] for entry in top(listed)}
    assert max(abs(a["logprob"] - b["logprob"]) for a, b in zip(top(film), top(listed))) < FILM_DIFFERENCE
    other = ask(server, {"type": "video", "video": [data_uri(png_of_frame(frame)) for frame in frames[::-1]], "fps": rate})
    assert max(abs(a["logprob"] - b["logprob"]) for a, b in zip(top(film), top(other))) > FILM_DIFFERENCE


@pytest.mark.skipif(not HAS_FILMS, reason="built without FFmpeg's libraries")
def test_films_are_turned_upright(server):
    """By the display matrix of the track, a quarter clockwise."""
    file = (GOLDEN / "films/h264.mp4").read_bytes()
    one, plain = struct.pack(">i", 1 << 16), struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    at = file.index(plain, file.index(b"tkhd"))
    turned = bytes(4) + one + bytes(4) + struct.pack(">i", -1 << 16) + bytes(16) + plain[32:]
    shown = ANSWERS["qwen2_5_vl"]["8"]["file"]["frames"]
    frames = np.fromfile(GOLDEN / "films/h264.mp4.rgb", np.uint8).reshape(len(shown), 32, 48, 3)
    upright = [data_uri(png_of_frame(np.ascontiguousarray(np.rot90(frame, -1)))) for frame in frames]
    film = ask(server, file_part(file[:at] + turned + file[at + 36:]))
    listed = ask(server, {"type": "video", "video": upright, "fps": len(frames) / 61 * 20})
    assert film.status == 200 and film.json["prompt_token_ids"] == listed.json["prompt_token_ids"], film.body
    assert max(abs(a["logprob"] - b["logprob"]) for a, b in zip(top(film), top(listed))) < FILM_DIFFERENCE


def webm_of(frames):
    """The tracks of a WebM, then so many blocks of one byte."""
    file = (GOLDEN / "films/vp8.webm").read_bytes()
    segment, cluster = file.index(bytes.fromhex("18538067")), file.index(bytes.fromhex("1f43b675"))
    unknown = bytes.fromhex("01ffffffffffffff")
    head = file[:segment + 4] + unknown + file[segment + 12:cluster]
    blocks = b"".join(bytes.fromhex("a38581") + struct.pack(">h", i % 30000) + b"\x80\x00" for i in range(frames))
    return head + bytes.fromhex("1f43b675") + unknown + bytes.fromhex("e78100") + blocks


@pytest.mark.skipif(not HAS_FILMS, reason="built without FFmpeg's libraries")
def test_films_that_are_refused(server):
    mp4, webm = ((GOLDEN / "films" / name).read_bytes() for name in ("h264.mp4", "vp9.webm"))
    refused(server, file_part(b"\0\0\0\x20ftypisom" + bytes(100)), "broken video", "invalid_image")
    refused(server, file_part(b"\x1a\x45\xdf\xa3" + bytes(100)), "broken video", "invalid_image")
    refused(server, file_part(webm_of(140_000)), "131073 frames", "invalid_image")
    size, count = mp4.rindex(b"avc1") + 28, mp4.rindex(b"stsz") + 12  # headers that lie: the stream itself says 48 x 32
    lying = ask(server, file_part(mp4[:size] + struct.pack(">HH", 30000, 30000) + mp4[size + 4:]))
    assert lying.status == 200 and top(lying) == top(ask(server, film_part("h264.mp4"))), lying.body
    refused(server, file_part(mp4[:count] + struct.pack(">I", 1 << 30) + mp4[count + 4:]), "", "invalid_image")
    for file, text in ((mp4, "h264.mp4"), (webm, "vp9.webm")):
        drawn = random.Random(text)
        for _ in range(30):
            changed = bytearray(file[:drawn.choice([len(file), drawn.randrange(40, len(file))])])
            for _ in range(drawn.choice([0, 1, 8])):
                changed[drawn.randrange(len(changed))] = drawn.randrange(256)
            begin = time.monotonic()
            reply = ask(server, file_part(bytes(changed)))
            assert reply.status in (200, 400), reply.body
            assert time.monotonic() - begin < 20
    assert ask(server, film_part("h264.mp4")).status == 200


# --- URLs -----------------------------------------------------------------------------------------

def test_urls_are_fetched_as_of_images(tmp_path):
    """Only from hosts that the operator named."""
    files = {"/3.gif": (GOLDEN / "3.gif").read_bytes(), "/frame.png": png(16, 8, (1, 2, 3))}
    form = FILM | {"video": video_clips.settings("qwen2_5_vl")}
    with MediaHost(files) as host, MediaHost(files) as other:
        options = ("--allow-media-domain", host.name, "--allow-media-private")
        with ShoalServer(*OPTIONS, *options, model=make_folder(tmp_path, "qwen2_5_vl", form)) as server:
            server.wait_ready()
            expected = ANSWERS["qwen2_5_vl"]["3"]["file"]
            check(server.request("POST", "/v1/chat/completions", chat({"type": "video_url", "video_url": f"http://{host.name}/3.gif"})), expected)
            listed = {"type": "video", "video": [f"http://{host.name}/frame.png"] * 2}
            assert ask(server, listed).status == 200 and host.asked == ["/3.gif", "/frame.png", "/frame.png"]
            refused(server, {"type": "video_url", "video_url": f"http://{host.name}/none"}, "404", "invalid_image")
            refused(server, {"type": "video_url", "video_url": f"http://{other.name}/3.gif"}, "does not fetch", "invalid_image")
            refused(server, {"type": "video", "video": [f"http://{other.name}/frame.png"]}, "frame 0: ", "invalid_image")
            assert other.connections == 0


def test_without_the_libraries_of_films(tmp_path):
    """The package only recommends them: GIF and WebP still go, and films get words."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy(BUILD / "shoal", programs / "shoal")
    for name in ("shoal-worker", "shoal-media"):
        (programs / name).symlink_to(BUILD / name)
    loader = programs / "shoal-av"  # ends as a program does whose libraries are missing
    loader.write_text("#!/bin/sh\nexit 127\n", encoding="ascii")
    loader.chmod(0o755)
    form = FILM | {"video": video_clips.settings("qwen2_5_vl")}
    folder = tmp_path / "model"
    folder.mkdir()
    with ShoalServer(*OPTIONS, model=make_folder(folder, "qwen2_5_vl", form), programs=programs) as server:
        server.wait_ready()
        check(server.request("POST", "/v1/chat/completions", chat(file_part((GOLDEN / "3.gif").read_bytes()))), ANSWERS["qwen2_5_vl"]["3"]["file"])
        refused(server, film_part("vp8.webm"), "built without MP4, WebM and Matroska", "invalid_image")
