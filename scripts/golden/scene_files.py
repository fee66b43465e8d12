"""The files of a golden scene, whose prompts have features of sounds or images among their tokens, and the command line that writes them."""

import pathlib
import sys

import numpy as np
import torch
import transformers


def write(folder, name, lines, pixels, features, logits):
    """lines: of scene.txt; pixels: bytes that the tower reads; features: a tensor; logits: an array a prompt."""
    logits = np.concatenate(logits)
    (folder / "scene.txt").write_text("\n".join(lines) + "\n")
    (folder / "pixels.u8").write_bytes(pixels)
    (folder / "features.f32").write_bytes(features.float().numpy().astype("<f4").tobytes())
    (folder / "logits.f32").write_bytes(logits.astype("<f4").tobytes())
    print(name, features.std().item(), logits.std(), transformers.__version__, torch.__version__)


def main(usage, families, record):
    """record(name, folder) writes one family's."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    for name in sys.argv[2:] or families:
        record(name, pathlib.Path(sys.argv[1]) / name)
