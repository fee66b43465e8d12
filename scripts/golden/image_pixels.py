#!/usr/bin/env python3
"""Writes images of all kinds and the output of Hugging Face's image processors for them, for tests/golden/images.

usage: image_pixels.py FOLDER [SETTINGS ...]

Files of every supported format, each with the pixels that PIL decodes (upright, alpha over white). For those files and
for images that the test draws by the formula of draw(): sizes, tiles, grids, tokens, the text that replaces a marker,
and a hash of the resized bytes, for several checkpoints' settings. All values come from the processors' own code, which
runs without rescaling and normalizing, and whose patches are joined to an image again. With names of settings only their
lines are written, to add to cases.txt. Needs transformers, torch,
torchvision, PIL and numpy.
"""
import io
import json
import os
import struct
import sys
import zlib
from types import SimpleNamespace

import numpy as np
import torch
from PIL import Image, ImageOps
from transformers.models.aya_vision import processing_aya_vision
from transformers.models.cohere2_vision import image_processing_cohere2_vision as cohere2_vision, processing_cohere2_vision
from transformers.models.gemma3 import image_processing_gemma3 as gemma3
from transformers.models.gemma4 import image_processing_gemma4 as gemma4, processing_gemma4
from transformers.models.got_ocr2 import image_processing_got_ocr2 as got_ocr2
from transformers.models.glm4v import image_processing_glm4v as glm4v, processing_glm4v
from transformers.models.idefics3 import image_processing_pil_idefics3 as idefics3, processing_idefics3
from transformers.models.internvl import processing_internvl
from transformers.models.kimi_k25 import image_processing_kimi_k25 as kimi_k25, processing_kimi_k25
from transformers.models.lfm2_vl import image_processing_lfm2_vl as lfm2_vl, processing_lfm2_vl
from transformers.models.llava import image_processing_llava as llava, processing_llava
from transformers.models.llava_next import image_processing_llava_next as llava_next, processing_llava_next
from transformers.models.llava_onevision import image_processing_llava_onevision as llava_onevision, processing_llava_onevision
from transformers.models.ernie4_5_vl_moe import image_processing_ernie4_5_vl_moe as ernie, processing_ernie4_5_vl_moe
from transformers.models.janus import image_processing_janus as janus, processing_janus
from transformers.models.hunyuan_vl import image_processing_hunyuan_vl as hunyuan_vl, processing_hunyuan_vl
from transformers.models.mllama import image_processing_mllama as mllama
from transformers.models.paddleocr_vl import image_processing_paddleocr_vl as paddleocr_vl, processing_paddleocr_vl
from transformers.models.pixtral import image_processing_pixtral as pixtral, processing_pixtral
from transformers.models.qwen2_vl import image_processing_qwen2_vl as qwen, processing_qwen2_vl
from transformers.models.smolvlm import image_processing_pil_smolvlm as smolvlm, processing_smolvlm


def draw(width, height, seed):
    """Ramps and noise in alternating squares of 16, with integers only, so that a test in C draws the same."""
    y, x, c = np.meshgrid(*(np.arange(n, dtype=np.uint32) for n in (height, width, 3)), indexing="ij")
    ramp = x * 3 + y * 5 + c * 40 + seed * 17
    noise = ((x * x * 3 + y * y * 5 + x * y * 7 + c * 85 + seed * 101) >> 4) ^ ((x >> 3) * 37 + (y >> 3) * 91)
    return np.where(((x >> 4) ^ (y >> 4) ^ c) & 1 == 1, ramp, noise).astype(np.uint8)


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def word_hash(data):
    """FNV-1a over words of 8 bytes, the last one zero-padded; words, because images have millions of bytes."""
    data = bytes(data) + bytes(-len(data) % 8)
    value, prime, mask = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF
    for word in np.frombuffer(data, "<u8").tolist():
        value = ((value ^ word) * prime) & mask
    return value


# --- files ----------------------------------------------------------------------------------------------------------

def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block.tobytes()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, depth, colour, rows, extra=b"", behind=b""):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", body) + behind + chunk(b"IEND", b""))


def packed_rows(values, depth):
    """Rows of small samples, most significant bits first."""
    bits = ((values[..., None] >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8).reshape(values.shape[0], -1)
    return [np.packbits(row).tobytes() for row in bits]


def adam7(width, height, pixels, colour, extra=b""):
    """An interlaced PNG of 8 bits a channel."""
    body = b""
    for left, top, across, down in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        part = pixels[top::down, left::across]
        if part.size:
            body += b"".join(b"\0" + row.tobytes() for row in part)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(body, 9)) + chunk(b"IEND", b"")


def jpeg_files():
    def test_image(width, height, seed):
        return Image.fromarray(draw(width, height, seed)).resize((width, height))
    yield "rgb-420.jpg", saved(test_image(45, 31, 1), "JPEG", quality=90)
    yield "rgb-444.jpg", saved(test_image(33, 40, 2), "JPEG", quality=95, subsampling=0)
    yield "rgb-422.jpg", saved(test_image(37, 20, 3), "JPEG", quality=80, subsampling=1)
    yield "gray.jpg", saved(test_image(30, 30, 4).convert("L"), "JPEG", quality=85)
    yield "progressive.jpg", saved(test_image(50, 34, 5), "JPEG", quality=90, progressive=True)
    yield "restarts.jpg", saved(test_image(64, 24, 6), "JPEG", quality=90, restart_marker_blocks=2)
    yield "cmyk.jpg", saved(test_image(32, 24, 7).convert("CMYK"), "JPEG", quality=90)
    for turn in range(1, 9):
        yield f"turned-{turn}.jpg", saved(test_image(19 + turn, 12, 8 + turn), "JPEG", quality=92, exif=exif(turn))


def png_files():
    rgb, gray = draw(41, 29, 20), draw(41, 29, 21)[..., 0]
    alpha = draw(41, 29, 22)[..., 1:2]
    yield "rgb.png", saved(Image.fromarray(rgb), "PNG")
    yield "rgba.png", saved(Image.fromarray(np.concatenate([rgb, alpha], 2)), "PNG")
    yield "gray-alpha.png", saved(Image.merge("LA", [Image.fromarray(gray), Image.fromarray(alpha[..., 0])]), "PNG")
    for depth in (1, 2, 4):
        yield f"gray-{depth}.png", png(41, 29, depth, 0, packed_rows(gray >> (8 - depth), depth))
    wide = (gray.astype(np.uint32) * 3).astype(">u2")
    yield "gray-16.png", png(41, 29, 16, 0, [row.tobytes() for row in wide])
    wide = (rgb.astype(np.uint32) * 256 + rgb[::-1]).astype(">u2")
    yield "rgb-16.png", png(41, 29, 16, 2, [row.tobytes() for row in wide])
    colours = draw(16, 1, 23)[0].tobytes()
    yield "palette-4.png", png(41, 29, 4, 3, packed_rows(gray >> 4, 4), chunk(b"PLTE", colours))
    yield "palette-clear.png", png(41, 29, 4, 3, packed_rows(gray >> 4, 4),
                                   chunk(b"PLTE", colours) + chunk(b"tRNS", bytes([0, 64, 128, 200])))
    key = rgb[3, 5]
    yield "rgb-key.png", png(41, 29, 8, 2, [row.tobytes() for row in rgb], chunk(b"tRNS", struct.pack(">3H", *key.tolist())))
    yield "interlaced.png", adam7(41, 29, rgb, 2)
    yield "interlaced-alpha.png", adam7(41, 29, np.concatenate([rgb, alpha], 2), 6)
    yield "turned-behind.png", png(41, 29, 8, 0, [row.tobytes() for row in gray], behind=chunk(b"eXIf", exif(6)[6:]))


def other_files():
    rgb = Image.fromarray(draw(48, 36, 30))
    rgba = Image.fromarray(np.concatenate([draw(48, 36, 31), draw(48, 36, 32)[..., :1]], 2))
    yield "lossy.webp", saved(rgb, "WEBP", quality=80)
    yield "lossless.webp", saved(rgb, "WEBP", lossless=True)
    yield "alpha.webp", saved(rgba, "WEBP", lossless=True, exact=True)
    yield "turned.webp", saved(rgb, "WEBP", quality=75, exif=exif(8))
    yield "moving.webp", saved(rgb, "WEBP", lossless=True, save_all=True, append_images=[rgb.rotate(90)], duration=100)
    small = rgb.quantize(32)
    yield "plain.gif", saved(small, "GIF", interlace=0)
    yield "interlaced.gif", saved(rgb.crop((0, 0, 47, 29)).quantize(16), "GIF", interlace=1)
    yield "clear.gif", saved(small, "GIF", transparency=3, interlace=0)
    yield "moving.gif", saved(small, "GIF", save_all=True, append_images=[rgb.rotate(45).quantize(8)], duration=50)
    whole = bytearray(saved(small, "GIF", interlace=0))
    whole[6:10] = struct.pack("<HH", 60, 50)  # a screen larger than its frame
    yield "border.gif", bytes(whole)


def pixels_of(data):
    """The pixels of transformers' convert_to_rgb(), upright."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if "A" in image.getbands() or image.info.get("transparency") is not None:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (255,) * 4), image)
    return np.array(image.convert("RGB"))


# --- processors -----------------------------------------------------------------------------------------------------

CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def qwen_settings(model_type, patch, least, most, **more):
    return {"config": {"model_type": model_type, "vision_config": {"patch_size": patch, "spatial_merge_size": 2}},
            "preprocessor": {"patch_size": patch, "merge_size": 2, "temporal_patch_size": 2, "do_resize": None,
                             "size": {"shortest_edge": least, "longest_edge": most}, **more}}


def glm4v_settings(patch, merge, least, most, **more):
    return {"config": {"model_type": "glm4v", "vision_config": {"patch_size": patch, "spatial_merge_size": merge}},
            "preprocessor": {"patch_size": patch, "merge_size": merge, "temporal_patch_size": 2,
                             "size": {"shortest_edge": least, "longest_edge": most}, **more}}


def gemma3_settings(side, patch, tokens):
    return {"config": {"model_type": "gemma3", "mm_tokens_per_image": tokens, "vision_config": {"image_size": side, "patch_size": patch}},
            "preprocessor": {"size": {"height": side, "width": side}, "do_pan_and_scan": None, "resample": 2, **HALF},
            "processor": {"image_seq_length": tokens}}


def gemma4_settings(patch, tokens):
    return {"config": {"model_type": "gemma4", "vision_config": {"patch_size": patch, "pooling_kernel_size": 3}},
            "preprocessor": {"ignored": True},
            "processor": {"image_processor": {"patch_size": patch, "pooling_kernel_size": 3, "max_soft_tokens": tokens, "image_mean": None}}}


def idefics3_settings(model_type, side, patch, scale, longest):
    return {"config": {"model_type": model_type, "scale_factor": scale, "vision_config": {"image_size": side, "patch_size": patch}},
            "preprocessor": {"max_image_size": {"longest_edge": side}, "size": {"longest_edge": longest}, "do_image_splitting": True}}


def llava_settings(side, patch, **more):
    return {"config": {"model_type": "llava", "vision_config": {"image_size": side, "patch_size": patch}},
            "preprocessor": {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}, "resample": 3, **more},
            "processor": {"patch_size": patch}}


def internvl_settings(side, patch, **more):
    tokens = (side // patch // 2) ** 2
    return {"config": {"model_type": "internvl", "downsample_ratio": 0.5, "image_seq_length": tokens,
                       "vision_config": {"image_size": [side, side], "patch_size": [patch, patch]}},
            "preprocessor": {"size": {"height": side, "width": side}, "crop_to_patches": False, "resample": 3, **IMAGENET, **more},
            "processor": {"image_seq_length": tokens}}


def aya_settings(side, patch, factor, **more):
    return {"config": {"model_type": "aya_vision", "downsample_factor": factor, "vision_config": {"image_size": side, "patch_size": patch}},
            "preprocessor": {"size": {"height": side, "width": side}, "crop_to_patches": True, "resample": 3, **HALF, **more},
            "processor": {"patch_size": patch, "img_size": side, "downsample_factor": factor}}


def cohere2_settings(side, patch, factor, **more):
    return {"config": {"model_type": "cohere2_vision", "downsample_factor": factor, "vision_config": {"image_size": side, "patch_size": patch}},
            "preprocessor": {"size": {"height": side, "width": side}, "crop_to_patches": True, "patch_size": side // patch // factor, **more}}


def pixtral_settings(model_type, patch, merge, longest, **more):
    return {"config": {"model_type": model_type, "spatial_merge_size": merge, "vision_config": {"model_type": "pixtral", "patch_size": patch}},
            "preprocessor": {"size": {"longest_edge": longest}, "patch_size": {"height": patch, "width": patch}, **more},
            "processor": {"patch_size": patch, "spatial_merge_size": merge}}


def llava_next_settings(side, patch, grids, **more):
    pinpoints = [[rows * side, columns * side] for rows, columns in grids]
    return {"config": {"model_type": "llava_next", "image_grid_pinpoints": pinpoints,
                       "vision_config": {"image_size": side, "patch_size": patch}},
            "preprocessor": {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}, "resample": 3,
                             "image_grid_pinpoints": pinpoints, **more},
            "processor": {"patch_size": patch, "num_additional_image_tokens": 1, "vision_feature_select_strategy": "default"}}


def onevision_settings(side, patch, grids, most, **more):
    pinpoints = [[rows * side, columns * side] for rows, columns in grids]
    return {"config": {"model_type": "llava_onevision", "image_grid_pinpoints": pinpoints, "vision_aspect_ratio": f"anyres_max_{most}",
                       "vision_config": {"model_type": "siglip_vision_model", "image_size": side, "patch_size": patch}},
            "preprocessor": {"size": {"height": side, "width": side}, "resample": 3, "image_grid_pinpoints": pinpoints, **more},
            "processor": {"num_image_tokens": (side // patch) ** 2, "vision_feature_select_strategy": "full",
                          "vision_aspect_ratio": f"anyres_max_{most}"}}


def lfm2_settings(patch, factor, tile, least, most, **more):
    return {"config": {"model_type": "lfm2_vl", "downsample_factor": factor, "vision_config": {"model_type": "siglip2_vision_model", "patch_size": patch}},
            "preprocessor": {"encoder_patch_size": patch, "downsample_factor": factor, "tile_size": tile, "min_image_tokens": least,
                             "max_image_tokens": most, **more}}


def paddle_settings(patch, merge, least, most, **more):
    return {"config": {"model_type": "paddleocr_vl", "vision_config": {"patch_size": patch, "spatial_merge_size": merge, "temporal_patch_size": 2}},
            "preprocessor": {"patch_size": patch, "merge_size": merge, "temporal_patch_size": 1,
                             "size": {"shortest_edge": least, "longest_edge": most}, **more}}


def kimi_settings(patch, merge, patches, side, **more):
    return {"config": {"model_type": "kimi_k25", "vision_config": {"patch_size": patch, "merge_kernel_size": [merge, merge]}},
            "preprocessor": {"patch_size": patch, "merge_size": merge, "max_patches": patches, "size": {"max_height": side, "max_width": side},
                             **more}}


def hunyuan_settings(patch, merge, least, most, **more):
    return {"config": {"model_type": "hunyuan_vl", "vision_config": {"patch_size": patch, "spatial_merge_size": merge}},
            "preprocessor": {"patch_size": patch, "merge_size": merge, "temporal_patch_size": 1, "resample": 1, "min_pixels": least, "max_pixels": most,
                             **more}}


def janus_settings(side, patch, **more):
    return {"config": {"model_type": "janus", "vision_config": {"image_size": side, "patch_size": patch}},
            "preprocessor": {"size": {"height": side, "width": side}, **more}, "processor": {"num_image_tokens": (side // patch) ** 2}}


def mllama_settings(side, patch, tiles, **more):
    return {"config": {"model_type": "mllama", "vision_config": {"image_size": side, "patch_size": patch, "max_num_tiles": tiles}},
            "preprocessor": {"size": {"height": side, "width": side}, "max_image_tiles": tiles, "do_pad": True, **more}}


def ernie_settings(model_type, patch, merge, least, most, **more):
    return {"config": {"model_type": model_type, "vision_config": {"patch_size": patch, "spatial_merge_size": merge}},
            "preprocessor": {"patch_size": patch, "merge_size": merge, "size": {"shortest_edge": least, "longest_edge": most}, **more}}


NEXT_GRIDS = [(1, 2), (2, 1), (2, 2), (3, 1), (1, 3)]
SQUARES = [(rows, columns) for rows in range(1, 7) for columns in range(1, 7)]
# name: settings, and whether pixels of every image are recorded, or only of some.
SETTINGS = {
    "qwen-tiny": (qwen_settings("qwen2_5_vl", 14, 56 * 56, 112 * 112, min_pixels=3136, **CLIP), True),
    "qwen3-tiny": (qwen_settings("qwen3_vl", 16, 4096, 40000, **HALF), True),
    "gemma3-tiny": (gemma3_settings(56, 14, 4), True),
    "gemma4-tiny": (gemma4_settings(4, 70), True),
    "smolvlm-tiny": (idefics3_settings("smolvlm", 32, 8, 2, 128), True),
    "qwen2.5-vl": (qwen_settings("qwen2_5_vl", 14, 3136, 12845056, **CLIP), False),
    "qwen3-vl": (qwen_settings("qwen3_vl_moe", 16, 65536, 16777216, **HALF), False),
    "gemma3": (gemma3_settings(896, 14, 256), False),
    "gemma4": (gemma4_settings(16, 280), False),
    "idefics3": (idefics3_settings("idefics3", 364, 14, 2, 1456), False),
    "llava-tiny": (llava_settings(56, 14), True),
    "llava-1.5": (llava_settings(336, 14, **CLIP), False),
    "internvl-tiny": (internvl_settings(56, 14, max_patches=6, min_patches=2), True),
    "internvl3": (internvl_settings(448, 14, max_patches=12), False),
    "aya-tiny": (aya_settings(56, 7, 4, max_patches=7), True),
    "aya-vision": (aya_settings(364, 14, 2, max_patches=12), False),
    "cohere2-tiny": (cohere2_settings(48, 8, 3, max_patches=9), True),
    "command-a-vision": (cohere2_settings(512, 16, 2, **HALF), False),
    "mistral3-tiny": (pixtral_settings("mistral3", 5, 3, 150), True),
    "mistral-small-3.1": (pixtral_settings("mistral3", 14, 2, 1540), False),
    "pixtral-tiny": (pixtral_settings("llava", 8, 1, 96, **HALF), True),
    "glm4v-tiny": (glm4v_settings(6, 3, 2000, 40000), True),
    "glm-4.1v": (glm4v_settings(14, 2, 112 * 112, 28 * 28 * 15000, **CLIP), False),
    "llava-next-tiny": (llava_next_settings(56, 14, NEXT_GRIDS), True),
    "llava-1.6": (llava_next_settings(336, 14, NEXT_GRIDS, **CLIP), False),
    "onevision-tiny": (onevision_settings(40, 12, SQUARES[:15], 3, **CLIP), True),
    "llava-onevision": (onevision_settings(384, 14, SQUARES, 9, **HALF), False),
    "paddleocr-tiny": (paddle_settings(6, 3, 40 * 40, 130 * 130, **HALF), True),
    "paddleocr-vl": (paddle_settings(14, 2, 147384, 2822400, **HALF), False),
    "lfm2-tiny": (lfm2_settings(4, 2, 32, 4, 16, max_tiles=6, resample=3), True),
    "lfm2-tiny-grid": (lfm2_settings(6, 3, 36, 2, 9, max_tiles=5, min_tiles=3, use_thumbnail=False, max_pixels_tolerance=1.5, **CLIP), True),
    "lfm2-vl": (lfm2_settings(16, 2, 512, 64, 256, **HALF), False),
    "kimi-tiny": (kimi_settings(6, 2, 200, 40), True),
    "kimi-tiny-wide": (kimi_settings(5, 3, 90, 24, **CLIP), True),
    "kimi-k2.5": (kimi_settings(14, 2, 16384, 512, **HALF), False),
    "ernie-tiny": (ernie_settings("ernie4_5_vl_moe", 6, 3, 40 * 40, 130 * 130, **HALF), True),
    "ernie-4.5-vl": (ernie_settings("ernie4_5_vl_moe", 14, 2, 56 * 56, 28 * 28 * 6177, **CLIP), False),
    "janus-tiny": (janus_settings(56, 14, min_size=9, image_mean=[0.2, 0.7, 0.4], image_std=[0.5, 0.25, 0.3]), True),
    "janus-pro": (janus_settings(384, 16, **HALF), False),
    "hunyuan-tiny": (hunyuan_settings(6, 3, 40 * 40, 130 * 130, **HALF), True),
    "hunyuan-ocr": (hunyuan_settings(16, 2, 512 * 512, 2048 * 2048, **CLIP), False),
    "mllama-tiny": (mllama_settings(48, 8, 4), True),
    "mllama-tiny-wide": (mllama_settings(40, 10, 7, **CLIP), True),
    "llama-3.2-vision": (mllama_settings(560, 14, 4, resample=2, **CLIP), False),
    "smolvlm2": (idefics3_settings("smolvlm", 512, 16, 4, 2048), False),
}
# Drawn images; sizes and tokens are recorded for all settings.
DRAWN = [(1, 1), (2, 3), (1, 150), (170, 1), (3, 500), (700, 11), (28, 28), (29, 27), (100, 100), (224, 224), (333, 97),
         (97, 333), (400, 300), (640, 480), (480, 640), (511, 513), (896, 896), (1000, 30), (1024, 1024), (1920, 1080), (1200, 1600), (3001, 1999)]
# Drawn images whose pixels are recorded for all settings.
LARGE = {(97, 333), (640, 480), (1000, 30)}
PLANNED = [(19, 4000), (8000, 6000), (12000, 5000), (16384, 100), (4096, 4097)]
# More sizes for settings that are named on the command line.
MORE_PLANNED = [(37, 41), (64, 256), (255, 257), (336, 336), (337, 671), (672, 672), (673, 337), (768, 512), (999, 1001), (1280, 720),
                (2048, 300), (300, 2048), (2500, 2500)]
BOXES = {(333, 97): (100, 100), (97, 333): (50, 400), (28, 28): (90, 60)}


def chosen(settings):
    image = settings.get("processor", {}).get("image_processor") or settings["preprocessor"]
    return {key: value for key, value in image.items() if value is not None and key not in ("ignored", "do_resize")}


def make_processor(settings):
    model = settings["config"]["model_type"]
    if settings["config"]["vision_config"].get("model_type") == "pixtral":
        return pixtral.PixtralImageProcessor(**chosen(settings))
    classes = {"mllama": mllama.MllamaImageProcessor, "ernie4_5_vl_moe": ernie.Ernie4_5_VLMoeImageProcessor, "janus": janus.JanusImageProcessor, "hunyuan_vl": hunyuan_vl.HunYuanVLImageProcessor, "kimi_k25": kimi_k25.Kimi_K25ImageProcessor, "paddleocr_vl": paddleocr_vl.PaddleOCRVLImageProcessor, "lfm2_vl": lfm2_vl.Lfm2VlImageProcessor, "glm4v": glm4v.Glm4vImageProcessor, "aya_vision": got_ocr2.GotOcr2ImageProcessor, "cohere2_vision": cohere2_vision.Cohere2VisionImageProcessor, "llava": llava.LlavaImageProcessor, "llava_next": llava_next.LlavaNextImageProcessor,
               "llava_onevision": llava_onevision.LlavaOnevisionImageProcessor,
               "internvl": got_ocr2.GotOcr2ImageProcessor,
               "gemma3": gemma3.Gemma3ImageProcessor, "gemma4": gemma4.Gemma4ImageProcessor,
               "idefics3": idefics3.Idefics3ImageProcessorPil, "smolvlm": smolvlm.SmolVLMImageProcessorPil}
    return classes.get(model, qwen.Qwen2VLImageProcessor)(**chosen(settings))


def low_options(settings):
    """The processor's options for an image of low detail."""
    model = settings["config"]["model_type"]
    if model == "kimi_k25":
        kept = settings["preprocessor"]
        return {"max_patches": min(kept["max_patches"], 512 * 512 // kept["patch_size"] ** 2)}
    if model == "glm4v":
        size = settings["preprocessor"]["size"]
        return {"size": {"shortest_edge": size["shortest_edge"], "longest_edge": min(size["longest_edge"], 2 * 512 * 512)}}
    if model == "hunyuan_vl":
        kept = settings["preprocessor"]
        most = min(kept["max_pixels"], 512 * 512)
        return {"min_pixels": min(kept["min_pixels"], most), "max_pixels": most}
    if model.startswith("qwen") or model in ("paddleocr_vl", "ernie4_5_vl_moe"):
        size = settings["preprocessor"]["size"]
        most = min(size["longest_edge"], 512 * 512)
        return {"size": {"shortest_edge": min(size["shortest_edge"], most), "longest_edge": most}}
    if settings["config"]["vision_config"].get("model_type") == "pixtral":
        return {"size": {"longest_edge": min(settings["preprocessor"]["size"]["longest_edge"], 512)}}
    squares = {"min_patches": 1, "max_patches": 1}
    return {"gemma3": {}, "llava": {}, "janus": {}, "llava_next": {}, "llava_onevision": {"among": True}, "internvl": squares, "aya_vision": squares, "cohere2_vision": squares, "mllama": {"max_image_tiles": 1}, "gemma4": {"max_soft_tokens": 70}}.get(model, {"do_image_splitting": False})


def qwen_frames(processor, image, options):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    grid = [int(n) for n in out["image_grid_thw"][0]]
    p, m = processor.patch_size, processor.merge_size
    patches = out["pixel_values"].reshape(grid[1] // m, grid[2] // m, m, m, 3, 2, p, p)
    assert torch.equal(patches[:, :, :, :, :, 0], patches[:, :, :, :, :, 1])
    frame = patches[:, :, :, :, :, 0].permute(0, 2, 5, 1, 3, 6, 4).reshape(grid[1] * p, grid[2] * p, 3)
    glm = isinstance(processor, glm4v.Glm4vImageProcessor)
    kind = processing_glm4v.Glm4vProcessor if glm else processing_qwen2_vl.Qwen2VLProcessor
    who = SimpleNamespace(image_token="<|image|>" if glm else "<|image_pad|>", image_processor=processor)
    text = kind.replace_image_token(who, out, 0)
    return [frame], (0, 0), text, text.count(who.image_token)


def paddle_frames(processor, image, options):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    _, lines, columns = (int(n) for n in out["image_grid_thw"][0])
    p = processor.patch_size
    frame = out["pixel_values"].reshape(lines, columns, 3, p, p).permute(0, 3, 1, 4, 2).reshape(lines * p, columns * p, 3)
    who = SimpleNamespace(image_token="<|IMAGE_PLACEHOLDER|>", image_processor=processor)
    text = processing_paddleocr_vl.PaddleOCRVLProcessor.replace_image_token(who, out, 0)
    return [frame], (0, 0), text, text.count(who.image_token)


def ernie_frames(processor, image, options):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    _, lines, columns = (int(n) for n in out["image_grid_thw"][0])
    p, m = processor.patch_size, processor.merge_size
    patches = out["pixel_values"].reshape(lines // m, columns // m, m, m, 3, p, p)
    who = SimpleNamespace(image_token="<|IMAGE_PLACEHOLDER|>", image_processor=processor)
    text = processing_ernie4_5_vl_moe.Ernie4_5_VLMoeProcessor.replace_image_token(who, out, 0)
    return [patches.permute(0, 2, 5, 1, 3, 6, 4).reshape(lines * p, columns * p, 3)], (0, 0), text, text.count(who.image_token)


def janus_frames(processor, image, options, settings):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    who = SimpleNamespace(image_start_token="<begin_of_image>", image_token="<image_placeholder>", image_end_token="<end_of_image>",
                          num_image_tokens=settings["processor"]["num_image_tokens"])
    text = processing_janus.JanusProcessor.replace_image_token(who, out, 0)
    return [out["pixel_values"][0].permute(1, 2, 0)], (0, 0), text, text.count(who.image_token)


def hunyuan_frames(processor, image, options):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    _, lines, columns = (int(n) for n in out["image_grid_thw"][0])
    p = processor.patch_size
    frame = out["pixel_values"].reshape(lines, columns, 3, p, p).permute(0, 3, 1, 4, 2).reshape(lines * p, columns * p, 3)
    who = SimpleNamespace(image_token="<｜hy_place▁holder▁no▁102｜>", image_processor=processor, cat_extra_token=True)
    text = processing_hunyuan_vl.HunYuanVLProcessor.replace_image_token(who, out, 0)
    return [frame], (0, 0), text, text.count(who.image_token)


def kimi_frames(processor, image, options):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    _, lines, columns = (int(n) for n in out["image_grid_thw"][0])
    p = processor.patch_size
    frame = out["pixel_values"].reshape(lines, columns, 3, p, p).permute(0, 3, 1, 4, 2).reshape(lines * p, columns * p, 3)
    who = SimpleNamespace(image_token="<|media_pad|>", image_processor=processor)
    text = processing_kimi_k25.Kimi_K25Processor.replace_image_token(who, out, 0)
    return [frame], (0, 0), text, text.count(who.image_token)


def mllama_frames(processor, image, options):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    canvases = mllama.get_all_supported_aspect_ratios(options.get("max_image_tiles", processor.max_image_tiles))
    rows, columns = canvases[int(out["aspect_ratio_ids"][0, 0]) - 1]
    tiles = out["pixel_values"][0, 0, :rows * columns]
    side = tiles.shape[-1]
    frame = tiles.reshape(rows, columns, 3, side, side).permute(0, 3, 1, 4, 2).reshape(rows * side, columns * side, 3)
    return [frame], (0, 0), "<|image|>", 1


def gemma3_frames(processor, image, options, tokens):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    assert int(out["num_crops"][0]) == 0
    text = "\n\n<start_of_image>" + "<image_soft_token>" * tokens + "<end_of_image>\n\n"  # Gemma3Processor.__init__
    return [out["pixel_values"][0].permute(1, 2, 0)], (0, 0), text, tokens


def gemma4_frames(processor, image, options):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    places, p = out["image_position_ids"][0], processor.patch_size
    real = places[:, 0] >= 0
    columns, rows = (int(n) + 1 for n in places.max(0).values)
    patches = out["pixel_values"][0][real].reshape(rows, columns, p, p, 3)
    who = SimpleNamespace(boi_token="<|image>", image_token="<|image|>", eoi_token="<image|>")
    counts = {"num_soft_tokens_per_image": [int(out["num_soft_tokens_per_image"][0])]}
    text = processing_gemma4.Gemma4Processor.replace_image_token(who, counts, 0)
    return [patches.permute(0, 2, 1, 3, 4).reshape(rows * p, columns * p, 3)], (0, 0), text, text.count(who.image_token)


def idefics3_frames(processor, image, options, settings):
    out = processor(images=[[image]], do_rescale=False, do_normalize=False, return_row_col_info=True, return_tensors="pt", **options)
    config = settings["config"]
    across = config["vision_config"]["image_size"] // config["vision_config"]["patch_size"] // config["scale_factor"]
    who = SimpleNamespace(fake_image_token="<fake_token_around_image>", image_token="<image>", global_image_tag="<global-img>",
                          global_image_token="<global-img>", image_seq_len=across * across)
    kind = processing_smolvlm.SmolVLMProcessor if config["model_type"] == "smolvlm" else processing_idefics3.Idefics3Processor
    text = kind.replace_image_token(who, out, 0)
    frames = [frame.permute(1, 2, 0) for frame in out["pixel_values"][0]]
    return frames, (int(out["rows"][0][0]), int(out["cols"][0][0])), text, text.count(who.image_token)


def llava_frames(processor, image, options, settings):
    sides = [processor.size["shortest_edge"] * side // min(image.size) for side in image.size]
    if max(sides) > 16384 or sides[0] * sides[1] > 1 << 24:
        raise ValueError("more than LIMIT_IMAGE_SIDE or LIMIT_IMAGE_PIXELS before the cut")
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    who = SimpleNamespace(image_token="<image>", patch_size=settings["processor"]["patch_size"], num_additional_image_tokens=1,
                          vision_feature_select_strategy="default")
    text = processing_llava.LlavaProcessor.replace_image_token(who, out, 0)
    return [out["pixel_values"][0].permute(1, 2, 0)], (0, 0), text, text.count(who.image_token)


def mosaic_frames(processor, image, options, settings):
    options = dict(options)
    among = options.pop("among", False)
    next_one = settings["config"]["model_type"] == "llava_next"
    if llava_next.select_best_resolution((image.height, image.width), processor.image_grid_pinpoints) is None:
        raise ValueError("too thin")
    given = [[image, image]] if among else [image]
    out = processor(images=given, do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    kind = processing_llava_next.LlavaNextProcessor if next_one else processing_llava_onevision.LlavaOnevisionProcessor
    who = kind.__new__(kind)
    vision = settings["config"]["vision_config"]
    who.__dict__.update(image_token="<image>", image_processor=processor, **({"patch_size": vision["patch_size"]} | settings["processor"]))
    if not next_one:
        who.vision_aspect_ratio = settings["processor"]["vision_aspect_ratio"]
    text = kind.replace_image_token(who, out, 0)
    side = vision["image_size"] // vision["patch_size"] * vision["patch_size"]  # the rest is part of no patch
    height, width = llava_next.select_best_resolution((image.height, image.width), processor.image_grid_pinpoints)
    grid = (0, 0) if among else (height // vision["image_size"], width // vision["image_size"])
    frames = [frame.permute(1, 2, 0)[:side, :side] for frame in out["pixel_values"][0]]
    return frames, grid, text, text.count("<image>")


def lfm2_frames(processor, image, options):
    out = processor(images=[[image]], do_rescale=False, do_normalize=False, return_row_col_info=True, return_tensors="pt", **options)
    who = SimpleNamespace(image_processor=processor, image_token="<image>", image_start_token="<|image_start|>", image_end_token="<|image_end|>",
                          image_thumbnail_token="<|img_thumbnail|>")
    kind = processing_lfm2_vl.Lfm2VlProcessor
    for name in ("_build_image_tokens", "_compute_tokens_per_tile", "_compute_tokens_for_image", "_get_image_num_tokens"):
        setattr(who, name, getattr(kind, name).__get__(who))
    text = kind.replace_image_token(who, out, 0, use_image_special_tokens=True)
    p, frames = processor.encoder_patch_size, []
    for rows, (h, w) in zip(out["pixel_values"], out["spatial_shapes"].tolist()):
        frames.append(rows[:h * w].reshape(h, w, p, p, 3).permute(0, 2, 1, 3, 4).reshape(h * p, w * p, 3))
    rows, columns = int(out["image_rows"][0]), int(out["image_cols"][0])
    grid = (rows, columns) if rows * columns > 1 else (0, 0)
    return frames, grid, text, text.count("<image>")


def cohere_frames(processor, image, options, settings):
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    aya = settings["config"]["model_type"] == "aya_vision"
    if aya:  # AyaVisionProcessor.__init__
        kept = settings["processor"]
        who = SimpleNamespace(start_of_img_token="<|START_OF_IMG|>", end_of_img_token="<|END_OF_IMG|>", img_patch_token="<|IMG_PATCH|>",
                              tile_token="TILE", tile_global_token="TILE_GLOBAL", img_size=kept["img_size"],
                              patch_size=kept["patch_size"] * kept["downsample_factor"])
    else:
        who = SimpleNamespace(boi_token="<|START_OF_IMG|>", eoi_token="<|END_OF_IMG|>", image_token="<|IMG_PATCH|>",
                              img_line_break_token="<|IMG_LINE_BREAK|>", patch_size=processor.patch_size)
    kind = processing_aya_vision.AyaVisionProcessor if aya else processing_cohere2_vision.Cohere2VisionProcessor
    text = kind.replace_image_token(who, out, 0)
    limits = {name: options.get(name, getattr(processor, name)) for name in ("min_patches", "max_patches")}
    choose = got_ocr2.get_optimal_tiled_canvas if aya else cohere2_vision.get_optimal_tiled_canvas
    columns, rows = choose((image.height, image.width), (processor.size["height"],) * 2, limits["min_patches"], limits["max_patches"])
    grid = (rows, columns) if rows * columns > 1 else (0, 0)
    return [frame.permute(1, 2, 0) for frame in out["pixel_values"]], grid, text, text.count("<|IMG_PATCH|>")


def pixtral_frames(processor, image, options, settings):
    kept = settings["processor"]
    unit = kept["patch_size"] * kept["spatial_merge_size"]
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **{"patch_size": unit, **options})
    who = SimpleNamespace(image_token="[IMG]", image_break_token="[IMG_BREAK]", image_end_token="[IMG_END]", **kept)
    text = processing_pixtral.PixtralProcessor.replace_image_token(who, out, 0)
    return [out["pixel_values"][0].permute(1, 2, 0)], (0, 0), text, text.count("[IMG]")


def internvl_frames(processor, image, options, settings):
    options = {"crop_to_patches": True, **options}  # InternVLProcessor.images_kwargs
    out = processor(images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **options)
    who = SimpleNamespace(start_image_token="<img>", image_token="<IMG_CONTEXT>", end_image_token="</img>",
                          image_seq_length=settings["processor"]["image_seq_length"])
    text = processing_internvl.InternVLProcessor.replace_image_token(who, out, 0)
    limits = {name: options.get(name, getattr(processor, name)) for name in ("min_patches", "max_patches")}
    columns, rows = got_ocr2.get_optimal_tiled_canvas((image.height, image.width), (processor.size["height"],) * 2,
                                                      limits["min_patches"], limits["max_patches"])
    grid = (rows, columns) if rows * columns > 1 else (0, 0)
    return [frame.permute(1, 2, 0) for frame in out["pixel_values"]], grid, text, text.count(who.image_token)


def run(settings, processor, image, options):
    model = settings["config"]["model_type"]
    if settings["config"]["vision_config"].get("model_type") == "pixtral":
        return pixtral_frames(processor, image, options, settings)
    if model == "llava":
        return llava_frames(processor, image, options, settings)
    if model in ("llava_next", "llava_onevision"):
        return mosaic_frames(processor, image, options, settings)
    if model == "paddleocr_vl":
        return paddle_frames(processor, image, options)
    if model == "ernie4_5_vl_moe":
        return ernie_frames(processor, image, options)
    if model == "janus":
        return janus_frames(processor, image, options, settings)
    if model == "hunyuan_vl":
        return hunyuan_frames(processor, image, options)
    if model == "kimi_k25":
        return kimi_frames(processor, image, options)
    if model == "mllama":
        return mllama_frames(processor, image, options)
    if model == "lfm2_vl":
        return lfm2_frames(processor, image, options)
    if model in ("aya_vision", "cohere2_vision"):
        return cohere_frames(processor, image, options, settings)
    if model == "internvl":
        return internvl_frames(processor, image, options, settings)
    if model.startswith("qwen") or model == "glm4v":
        return qwen_frames(processor, image, options)
    if model == "gemma3":
        return gemma3_frames(processor, image, options, settings["processor"]["image_seq_length"])
    if model == "gemma4":
        return gemma4_frames(processor, image, options)
    return idefics3_frames(processor, image, options, settings)


def normalized_ends(processor):
    """The values of bytes 0 and 255 after normalization, for each channel."""
    ends = []
    for value in (0, 255):
        image = np.full((3, 2, 2), value, np.uint8)
        if processor.backend == "torchvision":
            out = processor.rescale_and_normalize(torch.from_numpy(image)[None], True, processor.rescale_factor, processor.do_normalize,
                                                  tuple(processor.image_mean), tuple(processor.image_std))[0].numpy()
        else:
            out = processor.rescale(image, processor.rescale_factor)
            out = processor.normalize(out, processor.image_mean, processor.image_std) if processor.do_normalize else out
        ends += [float(np.float32(out[c, 0, 0])) for c in range(3)]
    return ends


# --- lines ----------------------------------------------------------------------------------------------------------

def outcome(settings, processor, image, options, with_pixels):
    """width height of a tile, tiles, rows, columns, tokens, hash of the text, hash of pixels or 0; or "refused"."""
    try:
        frames, (rows, columns), text, tokens = run(settings, processor, image, options)
    except (ValueError, RuntimeError):
        return "refused"
    frames = [np.asarray(frame).astype(np.uint8) for frame in frames]
    pixels = f"{word_hash(b''.join(frame.tobytes() for frame in frames)):016x}" if with_pixels else "0"
    height, width = frames[0].shape[:2]
    return f"{width} {height} {len(frames)} {rows} {columns} {tokens} {fnv(text.encode()):016x} {pixels}"


def boxed(image, box):
    ratio = min(box[0] / image.width, box[1] / image.height)
    return image.resize((int(image.width * ratio), int(image.height * ratio)))


def write_cases(out, files):
    processors = {name: make_processor(settings) for name, (settings, _) in SETTINGS.items()}
    for name, (settings, _) in SETTINGS.items():
        ends = " ".join(f"{value:.9g}" for value in normalized_ends(processors[name]))
        print("settings", name, ends, *(json.dumps(settings.get(part, {}), separators=(",", ":"))
                                        for part in ("config", "preprocessor", "processor")), sep="\t", file=out)
    for name, data in files.items():
        image = Image.fromarray(pixels_of(data))
        for family, (settings, every) in SETTINGS.items():
            if every:
                print("file", name, family, outcome(settings, processors[family], image, {}, True), sep="\t", file=out)
    for seed, (width, height) in enumerate(DRAWN):
        image = Image.fromarray(draw(width, height, seed))
        for family, (settings, every) in SETTINGS.items():
            pixels = every or (width, height) in LARGE
            place = ["drawn", f"{width} {height} {seed}", family]
            print(*place, outcome(settings, processors[family], image, {}, pixels), sep="\t", file=out)
            if (width, height) in LARGE:
                low = outcome(settings, processors[family], image, low_options(settings), True)
                print("low", *place[1:], low, sep="\t", file=out)
            if every and (width, height) in BOXES:
                box = BOXES[width, height]
                print("boxed", f"{place[1]} {box[0]} {box[1]}", family,
                      outcome(settings, processors[family], boxed(image, box), {}, True), sep="\t", file=out)
    for width, height in PLANNED + MORE_PLANNED * bool(sys.argv[2:]):
        image = Image.fromarray(np.zeros((height, width, 3), np.uint8))
        for family, (settings, _) in SETTINGS.items():
            print("drawn", f"{width} {height} 0", family, outcome(settings, processors[family], image, {}, False), sep="\t", file=out)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    files = dict([*jpeg_files(), *png_files(), *other_files()])
    for name in set(SETTINGS) - set(sys.argv[2:] or SETTINGS):
        del SETTINGS[name]
    for name, data in files.items() if not sys.argv[2:] else []:
        pixels = pixels_of(data)
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)
        with open(os.path.join(folder, name + ".rgb"), "wb") as out:
            out.write(struct.pack("<II", pixels.shape[1], pixels.shape[0]) + pixels.tobytes())
    with open(os.path.join(folder, "cases.txt"), "w", encoding="utf-8") as out:
        write_cases(out, files)


if __name__ == "__main__":
    main()
