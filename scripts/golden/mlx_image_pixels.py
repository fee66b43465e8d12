#!/usr/bin/env python3
"""Writes lines of tests/golden/images/cases.txt and requests.txt for families that transformers does not have: what mlx-vlm's processors, which are the
publishers', make of the images of image_pixels.py and image_requests.py, by Pillow up to 12.0.

usage: mlx_image_pixels.py CASES REQUESTS [SETTINGS ...]

`low` is an image in a prompt of more than two, or of deepseek_ocr without tiles; requests have one to four images. deepseek_ocr's processor in other
sizes is its source with another number for that of a tile. Needs mlx-vlm and what image_pixels.py needs.
"""
import inspect
import json
import random
import sys
from types import ModuleType, SimpleNamespace

import mlx.core as mx
import numpy as np
from mlx_vlm.models.deepseek_vl_v2.processing_deepsek_vl_v2 import DeepseekVLV2Processor
from mlx_vlm.models.deepseekocr import processing_deepseekocr
from PIL import Image

from image_pixels import BOXES, DRAWN, LARGE, MORE_PLANNED, PLANNED, boxed, draw, fnv, jpeg_files, other_files, pixels_of, png_files, word_hash
from image_requests import REQUESTS, SEED

PUBLISHED = [[1, 1], [1, 2], [2, 1], [1, 3], [3, 1], [1, 4], [4, 1], [2, 2], [1, 5], [5, 1], [1, 6], [6, 1], [2, 3], [3, 2], [1, 7], [7, 1], [1, 8], [8, 1],
             [2, 4], [4, 2], [1, 9], [9, 1], [3, 3]]


def settings(side, patch, ratio, tiles):
    sizes = [[side * columns, side * rows] for columns, rows in tiles]
    return {"config": {"model_type": "deepseek_vl_v2", "candidate_resolutions": sizes, "projector_config": {"downsample_ratio": ratio},
                       "vision_config": {"model_type": "vision", "patch_size": patch, "image_size": side}},
            "processor": {"candidate_resolutions": sizes, "downsample_ratio": ratio, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
                          "image_token": "<image>", "normalize": True, "patch_size": patch}}


def ocr_settings(whole, tile):
    return {"config": {"model_type": "deepseek_vl_v2", "vision_config": {"model_type": "vision", "model_name": "deeplip_b_l", "image_size": whole}},
            "processor": {"candidate_resolutions": [[whole, whole]], "downsample_ratio": 4, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
                          "image_token": "<image>", "normalize": True, "patch_size": 16} | ({} if tile == 640 else {"tile_size": tile})}


SETTINGS = {"deepseek-tiny": (settings(58, 8, 2, PUBLISHED[:8]), True), "deepseek-vl2": (settings(384, 14, 2, PUBLISHED), False),
            "deepseek-ocr-tiny": (ocr_settings(128, 64), True), "deepseek-ocr": (ocr_settings(1024, 640), False)}


class Raw:
    """Pixels as they are, in place of the processor's normalization."""
    mean = (0.5, 0.5, 0.5)

    def __call__(self, image):
        return np.array(image)


def ocr_processor(tile):
    module = ModuleType(processing_deepseekocr.__name__)
    module.__package__ = processing_deepseekocr.__package__
    source = inspect.getsource(processing_deepseekocr).split("# Install a composable")[0]
    exec(source.replace("640", str(tile)), module.__dict__)
    return module.DeepseekOCRProcessor


def run_ocr(chosen, images, cropping):
    """As run(): of each image the tiles, then the whole view."""
    tile, whole = chosen["processor"].get("tile_size", 640), chosen["config"]["vision_config"]["image_size"]
    who = SimpleNamespace(image_token="<image>", image_token_id=1, encode=lambda text, bos, eos: [0] * len(text))
    who.image_transform = type("Raw", (), {"mean": (0.5, 0.5, 0.5), "__call__": lambda self, image: mx.array(np.array(image))})()
    tiles, grids, counts = [], [], []
    for image in images:
        ids, (crops, views), _, [[columns, rows]], _ = ocr_processor(tile).tokenize_with_images(
            who, "<image>", [image], base_size=whole, image_size=tile if cropping else whole, cropping=cropping)
        cut = columns > 1 or rows > 1
        tiles += [np.array(view.astype(mx.uint8)) for view in ([*crops] if cut else []) + [*views]]
        grids.append((columns, rows) if cut else (0, 0))
        counts.append(ids.count(1))
    return tiles, grids, counts


def run(chosen, images, cropping):
    """(tiles of all images, grids, placeholders of each)"""
    file = chosen["processor"]
    if "model_name" in chosen["config"]["vision_config"]:
        return run_ocr(chosen, images, cropping)
    who = SimpleNamespace(image_token="<image>", image_token_id=1, encode=lambda text, bos, eos: [0] * len(text), image_transform=Raw(),
                          image_size=file["candidate_resolutions"][0][0], **{name: file[name] for name in
                                                                            ("candidate_resolutions", "patch_size", "downsample_ratio")})
    _, tiles, _, grids, counts = DeepseekVLV2Processor.tokenize_with_images(who, "<image>" * len(images), images, bos=False, eos=False, cropping=cropping)
    side = who.image_size // who.patch_size * who.patch_size  # the rest is part of no patch
    return [tile[:side, :side] for tile in tiles], grids, counts


def outcome(chosen, image, cropping, with_pixels):
    try:
        tiles, [(columns, rows)], [tokens] = run(chosen, [image], cropping)
    except ValueError:
        return "refused"
    pixels = f"{word_hash(b''.join(tile.tobytes() for tile in tiles)):016x}" if with_pixels else "0"
    height, width = tiles[0].shape[:2]
    return f"{width} {height} {len(tiles)} {rows} {columns} {tokens} {fnv(b'<image>' * tokens):016x} {pixels}"


def write_cases(out):
    for name, (chosen, _) in SETTINGS.items():
        print("settings", name, "-1 -1 -1 1 1 1", *(json.dumps(chosen.get(part, {}), separators=(",", ":"))
                                                   for part in ("config", "preprocessor", "processor")), sep="\t", file=out)
    for name, data in [*jpeg_files(), *png_files(), *other_files()]:
        image = Image.fromarray(pixels_of(data))
        for family, (chosen, every) in SETTINGS.items():
            if every:
                print("file", name, family, outcome(chosen, image, True, True), sep="\t", file=out)
    for seed, (width, height) in enumerate(DRAWN):
        image = Image.fromarray(draw(width, height, seed))
        for family, (chosen, every) in SETTINGS.items():
            place = ["drawn", f"{width} {height} {seed}", family]
            print(*place, outcome(chosen, image, True, every or (width, height) in LARGE), sep="\t", file=out)
            if (width, height) in LARGE:
                print("low", *place[1:], outcome(chosen, image, False, True), sep="\t", file=out)
            if every and (width, height) in BOXES:
                box = BOXES[width, height]
                print("boxed", f"{place[1]} {box[0]} {box[1]}", family, outcome(chosen, boxed(image, box), True, True), sep="\t", file=out)
    for width, height in PLANNED + MORE_PLANNED:
        image = Image.fromarray(np.zeros((height, width, 3), np.uint8))
        for family, (chosen, _) in SETTINGS.items():
            print("drawn", f"{width} {height} 0", family, outcome(chosen, image, True, False), sep="\t", file=out)


def write_requests(out):
    for family, (chosen, _) in SETTINGS.items():
        drawn = random.Random(SEED)
        for number in range(REQUESTS):
            sizes = [(drawn.randint(20, 200), drawn.randint(20, 200), drawn.randint(0, 99)) for _ in range(1 + number % 4)]
            ocr = "model_name" in chosen["config"]["vision_config"]
            tiles, _, counts = run(chosen, [Image.fromarray(draw(*size)) for size in sizes], ocr or len(sizes) <= 2)
            pixels = word_hash(b"".join(tile.tobytes() for tile in tiles))
            print(",".join(" ".join(map(str, size)) for size in sizes), family, f"{sum(counts)} {fnv(b'<image>' * sum(counts)):016x} {pixels:016x}", sep="\t", file=out)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for name in set(SETTINGS) - set(sys.argv[3:] or SETTINGS):
        del SETTINGS[name]
    with open(sys.argv[1], "a", encoding="utf-8") as out:
        write_cases(out)
    with open(sys.argv[2], "a", encoding="utf-8") as out:
        write_requests(out)


if __name__ == "__main__":
    main()
