#!/usr/bin/env python3
"""Makes tests/golden/weight_forms/float8.txt: matrices of 8-bit floats (E4M3) with scales, and what torch says they are. Needs: pip install torch.

Usage: scripts/golden/float8_vectors.py > tests/golden/weight_forms/float8.txt

Cases are as in weight_forms.py. Codes are all 256, NaNs too; scales are zeros, subnormal, huge and ordinary numbers. Values are
codes.view(float8_e4m3fn).to(float32) times the scales in F32, rounded to BF16 where rows become BF16.
"""
import torch

EXTREMES = torch.tensor([0.0, 2.0**-149, 3e-41, 1e-30, 1.5, -0.02, 3e35, 0.0625])
torch.manual_seed(20261128)


def stored(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes().hex()


def case(rows, columns, block_rows, block_columns, kind, becomes):
    codes = torch.randperm(rows * columns).remainder(256).to(torch.uint8).reshape(rows, columns)
    down, across = -(-rows // block_rows), -(-columns // block_columns)
    scales = torch.randn(down * across) * 0.01
    scales[::2] = EXTREMES[torch.randperm(len(EXTREMES))].repeat(down * across)[:len(scales[::2])]
    scales = scales.reshape(down, across).to(torch.bfloat16 if kind == "BF16" else torch.float32)
    spread = scales.float().repeat_interleave(block_rows, 0).repeat_interleave(block_columns, 1)[:rows, :columns]
    values = codes.view(torch.float8_e4m3fn).to(torch.float32) * spread
    if becomes == "BF16":
        values = values.to(torch.bfloat16).float()
    print("fp8", 8, block_columns, block_rows, kind, rows, columns, becomes)
    print(stored(codes))
    print(stored(scales))
    print("-")
    print(" ".join(f"{bits & 0xffffffff:08x}" for bits in values.view(torch.int32).reshape(-1).tolist()))


def main():
    case(2, 128, 2, 128, "F32", "F8_128")
    case(3, 256, 2, 128, "F32", "F8_128")
    case(9, 96, 1, 96, "F32", "F8_32")
    case(4, 160, 1, 160, "BF16", "F8_32")
    case(5, 64, 2, 32, "F32", "F8_32")
    case(3, 160, 2, 64, "F32", "F8_32")
    case(3, 96, 2, 24, "F32", "BF16")


main()
