#!/usr/bin/env python3
"""Records mlx-lm's logits for the tiny llama and qwen3_moe with quantized matrices, computed in F32 from the dequantized values.

usage: quantized_logits.py CHECKPOINTS TARGET

For each form of quantized_forms.py, TARGET/<form>.f32: the logits [24, 263] (little-endian) of every position of ids.txt of
the family in CHECKPOINTS. Needs gguf, mlx, mlx-lm and numpy.
"""
import json
import pathlib
import shutil
import struct
import sys
import tempfile

import mlx.core as mx
import mlx_lm.utils
import numpy as np

import quantized_forms
from checkpoint_variants import read_safetensors, write_safetensors


def reference_logits(folder, weights, ids):
    with tempfile.TemporaryDirectory() as copy:
        copy = pathlib.Path(copy)
        shutil.copy(folder / "config.json", copy)
        write_safetensors(copy / "model.safetensors", weights, "F32")
        model, _ = mlx_lm.utils.load_model(copy)
        return np.array(model(mx.array([ids]))[0].astype(mx.float32), dtype=np.float32)


def record(folder, target, tensors, ids, meanings):
    plain = np.fromfile(folder / "logits.f32", np.float32).reshape(len(ids), -1)
    own = reference_logits(folder, tensors, ids)
    assert np.abs(own - plain).max() < 1e-5 * np.abs(plain).max(), "mlx-lm and the recorded logits differ"
    for form, weights in meanings.items():
        logits = reference_logits(folder, weights, ids)
        print(f"{form}: {np.abs(logits - plain).max() / np.abs(plain).max():.1e} from the unquantized")
        (target / f"{form}.f32").write_bytes(logits.tobytes())


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[2])
    for family in quantized_forms.FAMILIES:
        folder = pathlib.Path(sys.argv[1]) / family
        tensors = read_safetensors(folder / "model.safetensors")
        ids = [int(word) for word in (folder / "ids.txt").read_text().split()]
        meanings = {form: quantized_forms.quantize_folder(family, form, tensors)[2]
                    for form in quantized_forms.folder_forms(family)}
        if family == "llama":
            meanings |= {f"{kind.lower()}.gguf": quantized_forms.gguf_meaning(kind, tensors)
                         for kind in quantized_forms.GGUF_TYPES}
        record(folder, target, tensors, ids, meanings)


if __name__ == "__main__":
    main()
