#!/usr/bin/env python3
"""Makes tests/golden/folder_weights: folders with one or two quantized matrices, and the F32 values that the publishers' code gives them.

usage: folder_weights.py TARGET --awq DIR --gptq DIR --modelopt DIR [--only NAME...]

Each case is TARGET/<name>/{config.json, model.safetensors, values.safetensors}. Codes are random words, since every word is valid;
shapes are drawn from the case's name. Scales are given to the dequantizers in F32, so that their products are not rounded to 16 bits,
except where the format's own code rounds. Needs torch, safetensors, compressed-tensors, bitsandbytes, transformers (imported by
AutoGPTQ); DIR: unpacked sources of AutoAWQ (awq/utils/packing_utils.py), AutoGPTQ (auto_gptq/nn_modules/qlinear) and ModelOpt
(modelopt/torch/quantization/qtensor/nvfp4_tensor.py, of which only dequantize() is run).
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


def fp4_parts(rng, scale):
    rows, columns = int(rng.integers(17, 49)), 64 * int(rng.integers(1, 5))
    codes = torch.from_numpy(rng.integers(0, 256, (rows, columns // 2)).astype(np.uint8))
    if scale == "e8m0":
        return codes, torch.from_numpy(rng.integers(110, 130, (rows, columns // 32)).astype(np.uint8))
    bytes_ = rng.integers(0, 127, (rows, columns // 16)).astype(np.uint8)  # from 0 to 448
    return codes, torch.from_numpy(bytes_).view(torch.float8_e4m3fn)


def mxfp4(rng):
    from compressed_tensors.compressors.mxfp4.base import MXFP4PackedCompressor
    codes, scale = fp4_parts(rng, "e8m0")
    packed = {"weight_packed": codes, "weight_scale": scale}
    scheme = scheme_of(num_bits=4, type="float", symmetric=True, strategy="group", group_size=32)
    return packed, MXFP4PackedCompressor.decompress(packed, scheme)["weight"]


def nvfp4(rng):
    from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
    codes, scale = fp4_parts(rng, "e4m3")
    packed = {"weight_packed": codes, "weight_scale": scale,
              "weight_global_scale": torch.tensor([rng.uniform(1000, 20000)], dtype=torch.float32),
              "input_global_scale": torch.tensor([3.0])}
    scheme = scheme_of(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16)
    return packed, NVFP4PackedCompressor.decompress(packed, scheme)["weight"]


def modelopt(rng):
    """Runs NVFP4QTensor.dequantize() without the rest of its package."""
    import ast
    path = SOURCES["modelopt"] / "modelopt/torch/quantization/qtensor/nvfp4_tensor.py"
    tree = ast.parse(path.read_text())
    kind = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "NVFP4QTensor")
    wanted = [node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name in ("dequantize", "get_e2m1_values")]
    table = next(node for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "e2m1_values")
    space = {"torch": torch}
    exec(compile(ast.Module([table, *wanted[1:], wanted[0]], []), str(path), "exec"), space)
    codes, scale = fp4_parts(rng, "e4m3")
    packed = {"weight": codes, "weight_scale": scale, "weight_scale_2": torch.tensor(rng.uniform(1e-5, 1e-3), dtype=torch.float32),
              "input_scale": torch.tensor(0.5)}
    tensor = type("Tensor", (), {"e2m1_values_on_device": {}, "metadata": {"dtype": torch.bfloat16, "shape": (len(codes), 2 * codes.shape[1])},
                                 "_quantized_data": codes, "dequantize": space["dequantize"],
                                 "get_e2m1_values": space["get_e2m1_values"]})
    values = tensor().dequantize(scale=scale, double_scale=packed["weight_scale_2"], block_sizes={-1: 16})
    return packed, values


def bnb(rng, kind, dtype, nested, blocksize=64):
    """In widths that end inside a block of numbers, where the library's CPU kernel (AVX-512, 0.50.2) takes wrong scales: its portable
    form of the same function is used."""
    from bitsandbytes import functional
    from bitsandbytes.backends.default import ops
    from bitsandbytes.backends.utils import _get_4bit_code
    rows, columns = int(rng.integers(60, 100)), 32 * int(rng.integers(3, 7))
    weight = torch.from_numpy(rng.normal(0, 0.02, (rows, columns))).to(dtype)
    codes, state = functional.quantize_4bit(weight, blocksize=blocksize, compress_statistics=nested, quant_type=kind)
    packed = {"weight": codes} | {f"weight.{suffix}": part for suffix, part in state.as_dict(packed=True).items()}
    absmax = functional.dequantize_blockwise(state.absmax, state.state2) + state.offset if nested else state.absmax
    values = ops._dequantize_4bit_compute(codes.reshape(-1), absmax, _get_4bit_code(kind, codes.device), blocksize, (rows, columns), dtype)
    if columns % blocksize == 0 and not torch.equal(values, functional.dequantize_4bit(codes, state)):
        raise SystemExit("bitsandbytes disagrees with itself")
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
    float4 = {"num_bits": 4, "type": "float", "symmetric": True}
    made["ct-mxfp4"] = (ct("mxfp4-pack-quantized", float4 | {"strategy": "group", "group_size": 32}), mxfp4)
    made["ct-nvfp4"] = (ct("nvfp4-pack-quantized", float4 | {"strategy": "tensor_group", "group_size": 16}), nvfp4)
    made["modelopt-nvfp4"] = ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, modelopt)
    for name, kind, dtype, nested, size in (
            ("bnb-nf4", "nf4", torch.bfloat16, False, 64), ("bnb-nf4-nested", "nf4", torch.bfloat16, True, 64),
            ("bnb-fp4", "fp4", torch.float16, False, 128), ("bnb-fp4-f32", "fp4", torch.float32, True, 64)):
        config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": kind,
                  "bnb_4bit_use_double_quant": nested}
        made[name] = (config, lambda rng, kind=kind, dtype=dtype, nested=nested, size=size: bnb(rng, kind, dtype, nested, size))
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--awq", type=pathlib.Path)
    parser.add_argument("--gptq", type=pathlib.Path)
    parser.add_argument("--modelopt", type=pathlib.Path)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    SOURCES.update(awq=options.awq, gptq=options.gptq, modelopt=options.modelopt)
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
