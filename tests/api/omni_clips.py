"""What the tiny models of Qwen2.5-Omni are asked about: for omni_requests.py, which records the answers of transformers, and for the
tests that compare with them."""

import numpy as np

from shoal_server import ROOT

MODELS = ["qwen2_5_omni", "qwen2_5_omni_wide"]
RATE = 5  # frames a second of the film
QUESTION = ("text", "What?")
CHATS = {  # ("sound", clip of tests/golden/audio/mels), ("image", number), ("video", 0): the film without its sound, ("film", 0)
    "short": [("sound", 5), QUESTION],
    "long": [("sound", 9), QUESTION],
    "two": [("sound", 7), ("text", "and"), ("sound", 8), QUESTION],
    "seen": [("image", 0), QUESTION],
    "mixed": [("sound", 6), ("image", 1), ("text", "or"), ("image", 0), ("sound", 9), QUESTION],
    "silent": [("video", 0), QUESTION],
    "film": [("film", 0), QUESTION],
    "film and image": [("image", 1), ("film", 0), QUESTION],
}


def samples(clip):
    return np.fromfile(ROOT / f"tests/golden/audio/mels/{clip}.s16", "<i2")


def image(number):
    """u8 [height, width, 3]"""
    width, height = [(24, 16), (16, 40)][number]
    y, x, c = np.ogrid[:height, :width, :3]
    return ((x * (c + 2) + y * (5 - c) + 40 * number + x * y) % 256).astype(np.uint8)


def film_frames():
    """u8 [20, 32, 48, 3]"""
    f, y, x, c = np.ogrid[:20, :32, :48, :3]
    return ((x // 4 * (c + 1) * 9 + y // 4 * (3 - c) * 14 + f * (11 + c)) % 256).astype(np.uint8)


def film_samples():
    """Of 2.3 seconds."""
    at = np.arange(36800)
    return (9000 * np.sin(at * (0.05 + at / 4e5)) * np.exp(-(at % 7000) / 4000)).astype("<i2")
