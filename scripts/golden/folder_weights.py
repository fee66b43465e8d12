#!/usr/bin/env python3
"""Makes tests/golden/folder_weights: folders with one or two quantized matrices, and the F32 values that the publishers' code gives them.

usage: folder_weights.py TARGET --awq DIR --gptq DIR [--only NAME...]

Each case is TARGET/<name>/{config.json, model.safetensors, values.safetensors}. Codes are random words, since every word is valid;
shapes are drawn from the case's name. Scales are given to the dequantizers in F32, so that their products are not rounded to 16 bits,
except where the format's own code rounds. Needs torch, safetensors, compressed-tensors, bitsandbytes, transformers (imported by
AutoGPTQ); DIR: unpacked sources of AutoAWQ (awq/utils/packing_utils.py) and AutoGPTQ (auto_gptq/nn_modules/qlinear).
"""
import argparse
import importlib.util
import json
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

SOURCES = {}
NAMES = ("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj")


def load_module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(rng, *shape):
    return torch.from_numpy(rng.integers(-2**31, 2**31, shape).astype(np.int32))


def scales_of(rng, shape, dtype, wide=False):
    """Numbers of real weights' size; `wide`: with some that f16 cannot hold."""
    values = rng.uniform(0.001, 0.02, shape)
    if wide:
        values.reshape(-1)[::3] *= 1e-6
    return torch.from_numpy(values).to(dtype)


def awq(rng, group):
    rows, columns = 8 * rng.integers(2, 6), 128 * rng.integers(1, 3)
    size = group if group > 0 else columns
    packed = {"qweight": words(rng, columns, rows // 8), "qzeros": words(rng, columns // size, rows // 8),
              "scales": scales_of(rng, (columns // size, rows), torch.float16)}
    code = load_module(SOURCES["awq"] / "awq/utils/packing_utils.py")
    values = code.dequantize_gemm(packed["qweight"], packed["qzeros"], packed["scales"].float(), 4, size)
    return packed, values.T


def gptq(rng, bits, group, form="any", version=1):
    """form: sym, any (zero points), act (columns in another order than their groups)."""
    rows, columns = 32 * rng.integers(1, 3), 128 * rng.integers(1, 3)
    size = group if group > 0 else columns
    groups = columns // size
    packed = {"qweight": words(rng, columns * bits // 32, rows), "qzeros": words(rng, groups, rows * bits // 32),
              "scales": scales_of(rng, (groups, rows), torch.float16),
              "g_idx": torch.arange(columns, dtype=torch.int32) // size}
    stored = rng.integers(0, 2**bits - 1, (groups, rows))  # the highest would be 0 in one class of AutoGPTQ and 2^bits in another
    if form == "sym":
        stored[:] = 2**(bits - 1) - 1
    if form != "any" or bits == 3:
        stream = (stored[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(groups, -1)
        packed["qzeros"] = torch.from_numpy(np.packbits(stream, axis=1, bitorder="little").view(np.int32).copy())
    if form == "act":
        packed["g_idx"] = packed["g_idx"][torch.from_numpy(rng.permutation(columns))].contiguous()
    code = load_module(SOURCES["gptq"] / f"auto_gptq/nn_modules/qlinear/qlinear_cuda{'' if form == 'act' else '_old'}.py")
    layer = code.QuantLinear(bits, size, columns, rows, bias=False, weight_dtype=torch.float32)
    layer.qweight, layer.qzeros, layer.scales = packed["qweight"], packed["qzeros"], packed["scales"].float()
    layer.g_idx = packed["g_idx"]
    values = layer(torch.eye(columns)).T
    if version == 2:  # the same zero points, stored as they are
        shifts = torch.arange(0, 32, bits, dtype=torch.int64)
        stored = (packed["qzeros"].long()[..., None] >> shifts & (2**bits - 1)) + 1 & (2**bits - 1)
        total = (stored << shifts).sum(-1)
        packed["qzeros"] = torch.where(total >= 2**31, total - 2**32, total).to(torch.int32)
    return packed, values


def scheme_of(**weights):
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))


def pack_quantized(rng, bits, group, symmetric, dtype, act=False, wide=False):
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
    rows, columns = int(rng.integers(17, 49)), 128 * int(rng.integers(1, 3))
    groups = columns // group if group else 1
    low, high = -2**(bits - 1), 2**(bits - 1)
    codes = torch.from_numpy(rng.integers(low, high, (rows, columns)).astype(np.int8))
    packed = {"weight_packed": pack_to_int32(codes, bits), "weight_shape": torch.tensor([rows, columns]),
              "weight_scale": scales_of(rng, (rows, groups), dtype, wide)}
    if not symmetric:
        zeros = torch.from_numpy(rng.integers(low, high, (rows, groups)).astype(np.int8))
        packed["weight_zero_point"] = pack_to_int32(zeros, bits, packed_dim=0)
    scheme = scheme_of(num_bits=bits, type="int", symmetric=symmetric, strategy="group" if group else "channel", group_size=group)
    given = packed | {"weight_scale": packed["weight_scale"].float()}
    values = PackedQuantizationCompressor.decompress(given, scheme)["weight"]
    return packed, values


def ct(form, *groups):
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {
        f"group_{i}": {"targets": ["Linear"], "weights": weights} for i, weights in enumerate(groups)}}


def packed_config(bits, group, symmetric):
    return ct("pack-quantized", {"num_bits": bits, "type": "int", "symmetric": symmetric,
                                 "strategy": "group" if group else "channel", "group_size": group})


def cases():
    """{name: (quantization_config, function of a random generator)}"""
    made = {}
    for group in (32, 64, 128, -1):
        made[f"awq-{group}".replace("--1", "-rows")] = (
            {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"},
            lambda rng, group=group: awq(rng, group))
    for name, bits, group, form, version in (
            ("gptq-sym", 4, 128, "sym", 1), ("gptq-32", 4, 32, "any", 1), ("gptq-rows", 4, -1, "any", 1), ("gptq-v2", 4, 64, "any", 2),
            ("gptq-act", 4, 32, "act", 1), ("gptq-8", 8, 128, "sym", 1), ("gptq-8-any", 8, 64, "any", 1), ("gptq-2", 2, 64, "any", 1),
            ("gptq-3", 3, 32, "any", 1), ("gptq-3-act", 3, 64, "act", 1)):
        config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": form == "sym", "desc_act": form == "act",
                  "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}
        made[name] = (config, lambda rng, bits=bits, group=group, form=form, version=version: gptq(rng, bits, group, form, version))
    for name, bits, group, symmetric, dtype, wide in (
            ("packed-4", 4, 32, True, torch.bfloat16, False), ("packed-4-zeros", 4, 128, False, torch.bfloat16, False),
            ("packed-4-rows", 4, None, False, torch.float16, False), ("packed-8-zeros", 8, 64, False, torch.float16, False),
            ("packed-3", 3, 64, True, torch.bfloat16, False), ("packed-5-zeros", 5, 32, False, torch.float16, False),
            ("packed-7", 7, 128, True, torch.float16, False), ("packed-4-wide", 4, 64, False, torch.bfloat16, True)):
        made[name] = (packed_config(bits, group, symmetric),
                      lambda rng, bits=bits, group=group, symmetric=symmetric, dtype=dtype, wide=wide:
                      pack_quantized(rng, bits, group, symmetric, dtype, wide=wide))
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--awq", type=pathlib.Path)
    parser.add_argument("--gptq", type=pathlib.Path)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    SOURCES.update(awq=options.awq, gptq=options.gptq)
    for name, (config, function) in cases().items():
        if options.only and name not in options.only:
            continue
        rng = np.random.default_rng(sum(i * b for i, b in enumerate(name.encode(), 1)))
        tensors, values = {}, {}
        for module in NAMES:
            parts, meaning = function(rng)
            tensors |= {f"{module}.{suffix}": part.contiguous() for suffix, part in parts.items()}
            values[f"{module}.weight"] = meaning.float().contiguous()
        folder = options.target / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": config}, indent=1) + "\n")
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        save_file(values, folder / "values.safetensors")
        print(name, *(list(value.shape) for value in values.values()))


main()
