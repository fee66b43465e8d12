"""Vision models whose shape is drawn when the test runs: a folder, and its GGUF with a projector file, give the log-probabilities that
the formulas in plain numpy give (plain_vision.py, plain_texts.py). A failure names the seed, which SHOAL_DRAWN_SEED repeats."""

import base64
import dataclasses
import json
import math
import os
import random
import struct
import sys
import typing
import zlib

import numpy as np
import pytest

import drawn_shapes
import plain_texts
import plain_vision
from drawn_shapes import IMAGE
from mmproj_test import add_texts
from shoal_server import ROOT, ShoalServer
from vision_folder import CHARACTERS, DEEPSEEK, ERNIE, FIRST_CHARACTER, GLM, HUNYUAN, JANUS, LFM2, OCR, PADDLE, PIXTRAL, add_assets, image_part, text_part

sys.path.insert(0, str(ROOT / "scripts/golden"))
import mmproj_files  # noqa: E402
from checkpoint_variants import write_safetensors  # noqa: E402

TOP, DIFFERENCE_MOST, IMAGES_MATTER = 20, 1e-3, 0.05
BEGIN, END, BREAK = 89, 90, 89
CLIP = np.array([[0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]])
HALF = np.full((2, 3), 0.5)
NESTED = ("model.language_model.", "lm_head.weight")


@dataclasses.dataclass
class Family:
    form: dict
    normal: np.ndarray = dataclasses.field(default_factory=lambda: CLIP)
    text: type = plain_texts.Llama
    names: tuple = NESTED       # of the text's tensors: what they begin with, and the output matrix
    by_axis: bool = True        # positions go by line and column
    least: int = 0              # pixels of an image
    most: int = 1 << 20
    gguf: bool = True
    fixed: typing.Callable = lambda config: None  # lines and columns that the config states
    file: str = "processor"     # of the form, with the image processor's settings


FAMILIES = {
    "mistral3": Family(PIXTRAL, names=("language_model.model.", "language_model.lm_head.weight"), by_axis=False),
    "paddleocr_vl": Family(PADDLE, names=("model.", "lm_head.weight"), least=64, most=4096),
    "lfm2_vl": Family(LFM2, HALF, by_axis=False, gguf=False),  # its projector file belongs to lfm2's text
    "janus": Family(JANUS, HALF, by_axis=False, fixed=lambda config: math.isqrt(config["vision_config"]["num_image_tokens"])),
    "hunyuan_vl": Family(HUNYUAN, text=plain_texts.Hunyuan, least=64, most=4096),
    "glm4v_moe": Family(GLM, text=plain_texts.Glm, least=6272),
    "deepseek_vl_v2": Family(DEEPSEEK, HALF, plain_texts.Deepseek, ("language.model.", "language.lm_head.weight"), by_axis=False, gguf=False,
                             fixed=lambda config: config["vision_config"]["image_size"] // config["vision_config"]["patch_size"], file="whole_processor"),
    "deepseek_ocr": Family(OCR, HALF, plain_texts.Deepseek, ("model.", "lm_head.weight"), by_axis=False, gguf=False,
                           fixed=lambda config: config["vision_config"]["image_size"] // config["vision_config"]["width"]["sam_vit_b"]["patch_size"],
                           file="whole_processor"),
    "ernie4_5_vl_moe": Family(ERNIE | {"marker": PADDLE["marker"]}, text=plain_texts.Ernie, least=64, most=4096, gguf=False),
}


def placeholder_lines(name, lines, columns, features):
    if name in ("deepseek_vl_v2", "deepseek_ocr"):
        return [IMAGE] * features
    if name == "mistral3":
        return sum(([IMAGE] * columns + [BREAK] for _ in range(lines)), [])[:-1] + [END]
    return [BEGIN] + [IMAGE] * (lines * (columns + 1) + 2 if name == "hunyuan_vl" else lines * columns) + [END]


# --- the reference --------------------------------------------------------------------------------

def prompt_of(image_ids):
    def ids(text):
        return [FIRST_CHARACTER + CHARACTERS.index(character) for character in text]
    return [93] + ids("user:") + image_ids + ids("ab") + [94, 93] + ids("assistant:")


def positions_of(name, ids, lines, columns):
    """[rows, 3] by time, line and column; hunyuan_vl's by column, line and number of the image, of the lines' rows alone."""
    found, at, inside = [], 0, 0
    if name == "hunyuan_vl":
        found = np.repeat(np.arange(len(ids), dtype=float)[:, None], 3, 1)
        rows = ids.index(IMAGE) + 1 + np.arange(lines * (columns + 1))
        found[rows] = [[i % (columns + 1), i // (columns + 1), 0] for i in range(len(rows))]
        return found
    for token in ids:
        if FAMILIES[name].by_axis and token == IMAGE:
            found.append([at, at + inside // columns, at + inside % columns])
            inside += 1
            at += max(lines, columns) if inside == lines * columns else 0
        else:
            found.append([at] * 3)
            at += 1
    return np.array(found, float)


def top_log_probabilities(name, config, tensors, ids, grid, features):
    family, text = FAMILIES[name], dict(config.get("text_config") or config.get("language_config") or config)
    text.setdefault("head_dim", text["hidden_size"] // text["num_attention_heads"])
    if name == "paddleocr_vl":
        text["sections"] = config["rope_scaling"]["mrope_section"]
    at, head = family.names
    x = tensors[at + "embed_tokens.weight"][ids].copy()
    x[np.array(ids) == IMAGE] = features
    images = np.isin(ids, [IMAGE, BEGIN, END])
    logits = family.text(text, tensors, at, head).logits(x, positions_of(name, ids, *grid), images)
    return np.sort(logits - logits.max() - np.log(np.exp(logits - logits.max()).sum()))[::-1][:TOP]


def picture(pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    file = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return image_part("data:image/png;base64," + base64.b64encode(file).decode())


def answered(model, image, prompt_tokens):
    with ShoalServer("--kv-cache-type", "f32", model=model) as server:
        server.wait_ready()
        reply = server.chat([image, text_part("ab")], temperature=0, max_tokens=1, logprobs=True, top_logprobs=TOP, ignore_eos=True)
        assert reply.status == 200, (reply.body, server.log_text())
        assert reply.json["usage"]["prompt_tokens"] == prompt_tokens
        return np.array([one["logprob"] for one in reply.json["choices"][0]["logprobs"]["content"][0]["top_logprobs"]])


def draw_grid(drawn, family, config, unit):
    fixed = family.fixed(config)
    if fixed:
        return fixed, fixed
    least = max(2, math.ceil(math.sqrt(family.least) / unit))
    most = max(least, min(least + 3, math.isqrt(family.most) // unit))
    return drawn.randint(least, most), drawn.randint(least, most)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_drawn_shape(tmp_path, name):
    seed = int(os.environ.get("SHOAL_DRAWN_SEED") or random.SystemRandom().randrange(1 << 32))
    drawn, numbers, family = random.Random(seed), np.random.default_rng(seed), FAMILIES[name]
    config, shapes, unit, processor = getattr(drawn_shapes, name)(drawn)
    tensors = drawn_shapes.draw_weights(numbers, shapes)
    grid = draw_grid(drawn, family, config, unit)
    pixels = numbers.integers(0, 256, (grid[0] * unit, grid[1] * unit, 3), np.uint8)
    normal = family.normal
    form = family.form | {family.file: family.form[family.file] | processor | {"image_mean": list(normal[0]), "image_std": list(normal[1])}}
    exact = {tensor: array.astype(float) for tensor, array in tensors.items()}
    features = getattr(plain_vision, name + "_features")(config, exact, (pixels / 255 - normal[0]) / normal[1])
    ids = prompt_of(placeholder_lines(name, *grid, len(features)))
    expected = top_log_probabilities(name, config, exact, ids, grid, features)
    other = top_log_probabilities(name, config, exact, ids, grid, features[:, ::-1])
    assert np.abs(expected - other).max() > IMAGES_MATTER, f"seed {seed}: the image does not matter"

    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tensors, "F32")
    models = [add_assets(folder, form)]
    if family.gguf:
        models.append(tmp_path / "tiny.gguf")
        mmproj_files.write_text(name, config, tensors, models[1], add_texts(form))
        mmproj_files.write_tower(name, config, tensors, tmp_path / "mmproj-tiny.gguf")
    for model in models:
        found = answered(model, picture(pixels), len(ids))
        assert np.abs(found - expected).max() < DIFFERENCE_MOST, f"SHOAL_DRAWN_SEED={seed}: {found} and not {expected}, {config}"
