#!/usr/bin/env python3
"""Makes tests/golden/weight_forms/vectors.txt: small matrices in the quantized formats of MLX and Hugging Face, and
the F32 bits that MLX gives for them. Needs: pip install mlx numpy.

Usage: scripts/golden/weight_forms.py > tests/golden/weight_forms/vectors.txt

A case has five lines: a header (layout, bits or 0, columns and rows that share a scale, type of scales, rows, columns, the type
that the rows become), codes, scales and biases in hex ("-": none), and the F32 words.
"""
import mlx.core as mx
import numpy as np

FLOATS = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}
rng = np.random.default_rng(20261121)


def stored(array):
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    return np.array(array).tobytes().hex()


def print_case(head, codes, scales, biases, values):
    print(*head)
    print(stored(codes))
    print(stored(scales))
    print("-" if biases is None else stored(biases))
    print(" ".join(f"{bits:08x}" for bits in np.array(values.astype(mx.float32)).reshape(-1).view(np.uint32)))


def affine(weights, bits, group, kind, becomes):
    codes, scales, biases = mx.quantize(mx.array(weights).astype(FLOATS[kind]), group_size=group, bits=bits)
    wide = [array.astype(mx.float32) for array in (scales, biases)]
    values = mx.dequantize(codes, *wide, group_size=group, bits=bits)
    print_case(("affine", bits, group, 1, kind, *weights.shape, becomes), codes, scales, biases, values)


def fp4(weights, becomes):
    codes, scales = mx.quantize(mx.array(weights), group_size=32, bits=4, mode="mxfp4")
    values = mx.dequantize(codes, scales, group_size=32, bits=4, mode="mxfp4", dtype=mx.float32)
    print_case(("fp4", 4, 32, 1, "U8", *weights.shape, becomes), codes, scales, None, values)


def fp8(rows, columns, block_rows, block_columns, kind):
    codes = mx.array(rng.integers(0, 256, (rows, columns), np.uint8))
    codes = mx.where((codes & 127) == 127, mx.array(1, mx.uint8), codes)  # NaN compares with nothing
    down, across = -(-rows // block_rows), -(-columns // block_columns)
    scales = mx.array(rng.normal(0, 0.01, (down, across)).astype(np.float32)).astype(FLOATS[kind])
    spread = np.repeat(np.repeat(np.array(scales.astype(mx.float32)), block_rows, 0), block_columns, 1)
    values = (mx.from_fp8(codes, mx.float32) * mx.array(spread[:rows, :columns])).astype(mx.bfloat16)
    print_case(("fp8", 8, block_columns, block_rows, kind, rows, columns, "BF16"), codes, scales, None, values)


def main():
    for bits, becomes in ((2, "A2"), (3, "A3"), (4, "Q4_1"), (5, "Q5_1"), (6, "A6"), (8, "A8")):
        for group, kind in ((32, "BF16"), (64, "F16"), (128, "BF16")):
            wide = becomes if group == 32 else "A4_128" if bits == 4 and group == 128 else f"A{bits}_64"
            affine(rng.normal(0, 0.05, (2, 128)).astype(np.float32), bits, group, kind, wide)
    affine(rng.normal(0, 0.05, (2, 128)).astype(np.float32), 4, 64, "F32", "F32")  # scales that f16 cannot hold
    untrained = rng.normal(0, 0.05, (4, 64)).astype(np.float32)
    untrained[1] = 0
    untrained[2] = 0.0390625
    untrained[3] = -2.0**-20  # blocks of one repeated number: their scales have no effect
    affine(untrained, 4, 64, "BF16", "A4_64")
    affine(untrained, 8, 32, "BF16", "A8")
    affine(rng.normal(0, 1e-6, (2, 64)).astype(np.float32), 4, 32, "BF16", "F32")
    fp4(rng.normal(0, 0.05, (3, 96)).astype(np.float32), "MXFP4")
    fp4(np.concatenate([np.zeros((1, 64)), rng.normal(0, 1e-12, (1, 64))]).astype(np.float32), "BF16")
    fp8(3, 70, 3, 70, "F32")
    fp8(3, 70, 1, 70, "BF16")
    fp8(5, 70, 2, 32, "F32")


main()
