"""Llama 3.2 Vision from an image in a request to the answer: 24 tokens equal those of transformers for text alone, one image and several, whatever
else runs, how prompts are cut, and when workers die; cached prefixes serve the same images only.

An image as large as a canvas of squares arrives as it is, so the golden scenes of tests/golden/towers can be asked for by a client. The
template writes messages alone, so prompts have the scenes' tokens.
"""

import concurrent.futures
import os
import signal
import sys

import numpy as np
import pytest

from shoal_server import COMPILING_S, ROOT, ShoalServer
from vision_folder import CHARACTERS, FIRST_CHARACTER, MLLAMA, TOWERS, data_uri, image_part, make_folder, png, png_of_frame, text_part

sys.path.insert(0, str(ROOT / "scripts/golden"))
from checkpoint_variants import read_safetensors, write_safetensors  # noqa: E402

TEXT = (3, 80)  # of scripts/golden/tower_folders.py
LETTERS = CHARACTERS + "+"
NO_TEXT = {str(token): -100 for token in [*range(TEXT[0]), *range(TEXT[1], 88)]}
TEMPLATE = ("{%- for message in messages -%}{%- if message.content is string -%}{{ message.content }}{%- else -%}{%- for part in message.content -%}"
            "{%- if part.type == 'image' -%}<|image|>{%- else -%}{{ part.text }}{%- endif -%}{%- endfor -%}{%- endif -%}{%- endfor -%}")
SIDES = {"mllama": (12, 4), "mllama_wide": (20, 2)}  # of a square, and the most squares
RED, GREEN = (image_part(data_uri(png(24, 12, colour))) for colour in ((250, 10, 10), (10, 250, 10)))
BEFORE, AFTER = "before the image, twenty", "and after it so many letters, too"


def folder_of(folder, tower):
    side, tiles = SIDES[tower]
    form = MLLAMA | {"characters": "+", "processor": MLLAMA["processor"] | {"size": {"height": side, "width": side}, "max_image_tiles": tiles}}
    made = make_folder(folder, tower, form)
    (made / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return made


def letters(tokens):
    return "".join(LETTERS[token - FIRST_CHARACTER] for token in tokens)


class Scenes:
    """The golden prompts of a tower, as parts of a message, and the text that follows each."""

    def __init__(self, tower):
        lines = (TOWERS / tower / "scene.txt").read_text().splitlines()
        pixels = np.fromfile(TOWERS / tower / "pixels.u8", np.uint8)
        images, at, rows = [], 0, 0
        for line in lines:
            if line.startswith("image"):
                _, _, width, height, rows = line.split()[:5]
                size = int(width) * int(height) * 3
                images.append(image_part(data_uri(png_of_frame(pixels[at:at + size].reshape(int(height), int(width), 3)))))
                at += size
        prompts = [[]]
        for line in lines[1 + len(images):]:
            if line.startswith("prompt"):
                prompts.append([])
            else:
                token, row = line.split()[:2]
                prompts[-1].append(images[int(row) // int(rows)] if int(row) >= 0 else text_part(letters([int(token)])))
        answers = (TOWERS / tower / "greedy.txt").read_text().split("greedy 24\n")[1:]
        wanted = [letters(int(line.split()[0]) for line in answer.splitlines()) for answer in answers]
        self.pairs = list(zip(prompts[1:], wanted, strict=True))


def ask(server, parts, tokens=24, **fields):
    return server.chat(parts, **{"temperature": 0, "max_tokens": tokens, "ignore_eos": True, "logit_bias": NO_TEXT, **fields})


def text_of(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def details(reply):
    """Cached tokens, and all that a client learns of the tokens."""
    assert reply.status == 200, reply.body
    return reply.json["usage"]["prompt_tokens_details"]["cached_tokens"], reply.json["choices"][0]["logprobs"]["content"]


@pytest.mark.parametrize("tower, options", [
    ("mllama", ["--kv-cache-type", "f32"]), ("mllama_wide", ["--kv-cache-type", "f32", "--step-tokens", "4", "--max-sequences", "4"]),
    pytest.param("mllama_wide", ["--device", "vulkan", "--worker-timeout", str(COMPILING_S)], marks=pytest.mark.long)], ids=["cpu", "chunked", "vulkan"])
def test_answers_are_those_of_transformers(tmp_path, tower, options):
    scenes = Scenes(tower)
    with ShoalServer(*options, model=folder_of(tmp_path, tower)) as server:
        server.wait_ready(COMPILING_S)
        for parts, wanted in scenes.pairs:
            assert text_of(ask(server, parts)) == wanted
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            running = [(wanted, pool.submit(ask, server, parts)) for parts, wanted in scenes.pairs * 3]
            assert [text_of(answer.result()) for _, answer in running] == [wanted for wanted, _ in running]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ShoalServer(model=folder_of(tmp_path_factory.mktemp("model"), "mllama")) as running:
        running.wait_ready()
        yield running
        running.wait_idle()


def test_deaths_change_nothing(server):
    scenes = Scenes("mllama")
    alone = [text_of(ask(server, parts)) for parts, _ in scenes.pairs]
    for at, (parts, _) in enumerate(scenes.pairs):
        stream = server.open_stream(parts, temperature=0, max_tokens=24, ignore_eos=True, logit_bias=NO_TEXT)
        pieces = []
        for event in stream.events():
            pieces.append(event["choices"][0]["delta"].get("content") or "")
            if len(pieces) == 3 + at:
                os.kill(server.worker_pid(), signal.SIGKILL)
        assert "".join(pieces) == alone[at]
        server.wait_ready()


def test_prefixes_belong_to_their_images(server):
    def asked(*images, more="", **fields):
        return details(ask(server, [text_part(BEFORE), *images, text_part(AFTER + more)], 4, logprobs=True, **fields))

    plain = {name: asked(*images, cache_prompt=False)[1] for name, images in
             {"none": (), "red": (RED,), "green": (GREEN,), "two": (RED, GREEN)}.items()}
    assert len({str(content) for content in plain.values()}) == 4
    assert asked(RED) == (0, plain["red"])
    cached, content = asked(RED)
    assert cached >= 48 and content == plain["red"]
    # Rows before the image attend to it, so those of another one, of none and of one more are others.
    for name, images in (("green", (GREEN,)), ("none", ()), ("two", (RED, GREEN))):
        assert asked(*images) == (0, plain[name])
        cached, content = asked(*images)
        assert cached >= 48 and content == plain[name]
    cached, content = asked(RED, more=" more")
    assert cached >= 48 and content == asked(RED, more=" more", cache_prompt=False)[1]


def test_text_alone_is_not_touched_by_images_beside_it(server):
    parts = [text_part(AFTER)]
    alone = text_of(ask(server, parts))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        running = [pool.submit(ask, server, parts if at % 2 else [text_part(BEFORE), RED, text_part(AFTER)]) for at in range(16)]
        assert {text_of(answer.result()) for answer in running[1::2]} == {alone}


def test_tokens_without_logits_are_never_drawn(server):
    """The eight that only have embeddings, the image's among them, are not listed, however they are favoured."""
    reply = ask(server, [RED, text_part("b")], 6, temperature=2, logit_bias={str(token): 100 for token in range(88, 95)}, logprobs=True, top_logprobs=20)
    content = details(reply)[1]
    names = {choice["token"] for token in content for choice in token["top_logprobs"]}
    assert len(content) == 6 and not names & {"<|image|>", "<|im_start|>", "<|im_end|>"}


def test_a_folder_of_mlx_answers_alike(tmp_path):
    """Its tower has another name, and channels follow pixels in the kernel."""
    scenes, folder = Scenes("mllama_wide"), folder_of(tmp_path, "mllama_wide")
    tensors = {name.replace("vision_model", "vision_tower"): array for name, array in read_safetensors(folder / "model.safetensors").items()}
    tensors["vision_tower.patch_embedding.weight"] = tensors["vision_tower.patch_embedding.weight"].transpose(0, 2, 3, 1)
    write_safetensors(folder / "model.safetensors", tensors, "BF16")
    with ShoalServer("--kv-cache-type", "f32", model=folder) as server:
        server.wait_ready()
        for parts, wanted in scenes.pairs:
            assert text_of(ask(server, parts)) == wanted


@pytest.mark.parametrize("options", [[], pytest.param(["--device", "vulkan", "--worker-timeout", str(COMPILING_S)], marks=pytest.mark.long)], ids=["cpu", "vulkan"])
def test_text_goes_on_without_a_tower(tmp_path, options):
    scenes, folder = Scenes("mllama"), folder_of(tmp_path, "mllama")
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"vision_output_dim": 72', '"vision_output_dim": 73'))
    with ShoalServer(*options, model=folder) as server:
        server.wait_ready(COMPILING_S)
        parts, wanted = scenes.pairs[0]
        assert text_of(ask(server, parts)) == wanted
        assert ask(server, [RED]).status == 400


def test_settings_that_contradict_the_tower_are_refused(tmp_path):
    folder = folder_of(tmp_path, "mllama")
    settings = (folder / "preprocessor_config.json").read_text()
    (folder / "preprocessor_config.json").write_text(settings.replace('"max_image_tiles": 4', '"max_image_tiles": 3'))
    with ShoalServer(model=folder) as server:
        server.wait_ready()
        reply = ask(server, [RED])
        assert reply.status == 400 and "this model takes no images" in reply.json["error"]["message"], reply.body
        assert "max_image_tiles: contradicts vision_config of config.json" in server.log_text()
        assert len(text_of(ask(server, [text_part("b")], 3))) == 3
