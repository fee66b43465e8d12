#!/usr/bin/env python3
"""Writes what Hugging Face's processors make of requests with three and four images, for tests/golden/images/requests.txt.

usage: image_requests.py FILE

The processors get all images of a request at once. A line each, fields parted by tabs: width, height and seed of each image
(image_pixels.draw()), parted by commas; the settings, which cases.txt has; the placeholders of all images, a hash of the texts that
replace their markers, one after the other, and one of all resized bytes. Needs what image_pixels.py needs.
"""
import random
import sys
from types import SimpleNamespace

import numpy as np
from PIL import Image
from transformers.models.ernie4_5_vl_moe import processing_ernie4_5_vl_moe
from transformers.models.glm4v import processing_glm4v
from transformers.models.hunyuan_vl import processing_hunyuan_vl
from transformers.models.janus import processing_janus
from transformers.models.lfm2_vl import processing_lfm2_vl
from transformers.models.mllama.image_processing_mllama import get_all_supported_aspect_ratios
from transformers.models.paddleocr_vl import processing_paddleocr_vl
from transformers.models.pixtral import processing_pixtral

from image_pixels import SETTINGS, draw, fnv, make_processor, word_hash

SEED, REQUESTS = 20261128, 8
RAW = {"do_rescale": False, "do_normalize": False, "return_tensors": "pt"}


def paddle(processor, images, settings):
    out = processor(images=images, **RAW)
    who = SimpleNamespace(image_token="<|IMAGE_PLACEHOLDER|>", image_processor=processor)
    texts = [processing_paddleocr_vl.PaddleOCRVLProcessor.replace_image_token(who, out, i) for i in range(len(images))]
    return lines_of_patches(processor, out), texts, "<|IMAGE_PLACEHOLDER|>"


def hunyuan(processor, images, settings):
    out = processor(images=images, **RAW)
    who = SimpleNamespace(image_token="<｜hy_place▁holder▁no▁102｜>", image_processor=processor, cat_extra_token=True)
    texts = [processing_hunyuan_vl.HunYuanVLProcessor.replace_image_token(who, out, i) for i in range(len(images))]
    return lines_of_patches(processor, out), texts, who.image_token


def ernie(processor, images, settings):
    out = processor(images=images, **RAW)
    who = SimpleNamespace(image_token="<|IMAGE_PLACEHOLDER|>", image_processor=processor)
    texts = [processing_ernie4_5_vl_moe.Ernie4_5_VLMoeProcessor.replace_image_token(who, out, i) for i in range(len(images))]
    p, m, frames, at = processor.patch_size, processor.merge_size, [], 0
    for _, lines, columns in out["image_grid_thw"].tolist():
        rows = out["pixel_values"][at:at + lines * columns].reshape(lines // m, columns // m, m, m, 3, p, p)
        frames.append(rows.permute(0, 2, 5, 1, 3, 6, 4).reshape(lines * p, columns * p, 3))
        at += lines * columns
    assert at == len(out["pixel_values"])
    return frames, texts, who.image_token


def janus(processor, images, settings):
    out = processor(images=images, **RAW)
    who = SimpleNamespace(image_start_token="<begin_of_image>", image_token="<image_placeholder>", image_end_token="<end_of_image>",
                          **settings["processor"])
    texts = [processing_janus.JanusProcessor.replace_image_token(who, out, i) for i in range(len(images))]
    return [frame.permute(1, 2, 0) for frame in out["pixel_values"]], texts, who.image_token


def lines_of_patches(processor, out):
    p, frames, at = processor.patch_size, [], 0
    for _, lines, columns in out["image_grid_thw"].tolist():
        rows = out["pixel_values"][at:at + lines * columns].reshape(lines, columns, 3, p, p)
        frames.append(rows.permute(0, 3, 1, 4, 2).reshape(lines * p, columns * p, 3))
        at += lines * columns
    assert at == len(out["pixel_values"])
    return frames


def glm4v(processor, images, settings):
    out = processor(images=images, **RAW)
    who = SimpleNamespace(image_token="<|image|>", image_processor=processor)
    texts = [processing_glm4v.Glm4vProcessor.replace_image_token(who, out, i) for i in range(len(images))]
    p, m, frames, at = processor.patch_size, processor.merge_size, [], 0
    for _, lines, columns in out["image_grid_thw"].tolist():
        rows = out["pixel_values"][at:at + lines * columns].reshape(lines // m, columns // m, m, m, 3, 2, p, p)[:, :, :, :, :, 0]
        frames.append(rows.permute(0, 2, 5, 1, 3, 6, 4).reshape(lines * p, columns * p, 3))
        at += lines * columns
    assert at == len(out["pixel_values"])
    return frames, texts, "<|image|>"


def lfm2(processor, images, settings):
    out = processor(images=[images], return_row_col_info=True, **RAW)
    who = SimpleNamespace(image_processor=processor, image_token="<image>", image_start_token="<|image_start|>",
                          image_end_token="<|image_end|>", image_thumbnail_token="<|img_thumbnail|>")
    kind = processing_lfm2_vl.Lfm2VlProcessor
    for name in ("_build_image_tokens", "_compute_tokens_per_tile", "_compute_tokens_for_image", "_get_image_num_tokens"):
        setattr(who, name, getattr(kind, name).__get__(who))
    texts = [kind.replace_image_token(who, out, i, use_image_special_tokens=True) for i in range(len(images))]
    p, frames = processor.encoder_patch_size, []
    for rows, (h, w) in zip(out["pixel_values"], out["spatial_shapes"].tolist()):
        frames.append(rows[:h * w].reshape(h, w, p, p, 3).permute(0, 2, 1, 3, 4).reshape(h * p, w * p, 3))
    return frames, texts, "<image>"


def pixtral(processor, images, settings):
    kept = settings["processor"]
    out = processor(images=images, patch_size=kept["patch_size"] * kept["spatial_merge_size"], **RAW)
    who = SimpleNamespace(image_token="[IMG]", image_break_token="[IMG_BREAK]", image_end_token="[IMG_END]", **kept)
    texts = [processing_pixtral.PixtralProcessor.replace_image_token(who, out, i) for i in range(len(images))]
    sizes = [[int(side) for side in size] for size in out["image_sizes"]]
    frames = [frame[:, :h, :w].permute(1, 2, 0) for frame, (h, w) in zip(out["pixel_values"], sizes)]  # without padding
    return frames, texts, "[IMG]"


def mllama(processor, images, settings):
    out = processor(images=images, **RAW)
    canvases, frames = get_all_supported_aspect_ratios(processor.max_image_tiles), []
    for tiles, aspect in zip(out["pixel_values"][0], out["aspect_ratio_ids"][0].tolist()):
        rows, columns = canvases[aspect - 1]
        side = tiles.shape[-1]
        frames.append(tiles[:rows * columns].reshape(rows, columns, 3, side, side).permute(0, 3, 1, 4, 2).reshape(rows * side, columns * side, 3))
    return frames, ["<|image|>"] * len(images), "<|image|>"


FAMILIES = {"paddleocr-tiny": paddle, "lfm2-tiny": lfm2, "lfm2-tiny-grid": lfm2, "mistral3-tiny": pixtral, "pixtral-tiny": pixtral,
            "glm4v-tiny": glm4v, "hunyuan-tiny": hunyuan, "janus-tiny": janus, "ernie-tiny": ernie, "mllama-tiny": mllama, "mllama-tiny-wide": mllama}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    drawn = random.Random(SEED)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for name, run in FAMILIES.items():
            settings = SETTINGS[name][0]
            processor, written = make_processor(settings), 0
            while written < REQUESTS:
                sizes = [(drawn.randint(8, 420), drawn.randint(8, 420), drawn.randint(0, 99)) for _ in range(3 + written % 2)]
                images = [Image.fromarray(draw(*size)) for size in sizes]
                try:
                    frames, texts, token = run(processor, images, settings)
                except ValueError:  # too thin for the family
                    continue
                pixels = b"".join(np.asarray(frame).astype(np.uint8).tobytes() for frame in frames)
                text = "".join(texts)
                print(",".join("%d %d %d" % size for size in sizes), name,
                      f"{text.count(token)} {fnv(text.encode()):016x} {word_hash(pixels):016x}", sep="\t", file=out)
                written += 1


if __name__ == "__main__":
    main()
