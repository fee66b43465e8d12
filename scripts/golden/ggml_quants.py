#!/usr/bin/env python3
"""Makes tests/golden/ggml_quants/vectors.txt: for each GGUF element type, hex bytes of one row and the f32 bits that the
`gguf` Python package's dequantizer gives. Needs: pip install gguf numpy. The types and the offsets of f16 scales in
their blocks come from proto/ggml_type_list.h; a type that is converted at load has its f16 scale first, or none, or it
is in OFFSETS. Blocks of MXFP4 are drawn with powers that halves hold, and with others.

Usage: scripts/golden/ggml_quants.py > tests/golden/ggml_quants/vectors.txt
"""
import pathlib
import re

import numpy as np
import gguf
from gguf.quants import dequantize

rng = np.random.default_rng(20261121)

ROW = re.compile(r"^    X\(([^)]*)\)", re.MULTILINE)


OFFSETS = {"TQ1_0": [52], "TQ2_0": [64], "IQ1_M": []}  # of f16 scales that are not first; IQ1_M's is in four pieces


def read_types():
    """{name: byte offsets of the f16 fields in a block}: random bytes there would often be infinities."""
    floats, quants, converted = {}, {}, {}
    for row in ROW.findall(pathlib.Path("proto/ggml_type_list.h").read_text(encoding="utf-8")):
        fields = [field.strip() for field in row.split(",")]
        if len(fields) == 11 and int(fields[2]) < 47 and fields[1] != "MXFP4":
            offset = int(fields[9])
            quants[fields[1]] = [offset, offset + 2] if fields[7] == "1" else [offset]
        elif len(fields) == 5 and int(fields[2]) < 47:
            floats[fields[1]] = []
        elif len(fields) == 4:
            converted[fields[0]] = OFFSETS.get(fields[0], [0])
    del converted["NVFP4_64"]
    return {**floats, **quants, **converted}


def main():
    print("# type columns / row bytes in hex / f32 bits in hex, one word per column")
    for name, f16_fields in read_types().items():
        qtype = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[qtype]
        columns = max(elements * 2, 32)
        values = rng.normal(size=columns).astype(np.float32)
        if name == "F32":
            row = values.view(np.uint8)
        elif name == "F16":
            row = values.astype(np.float16).view(np.uint8)
        elif name == "BF16":
            row = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        else:
            blocks = rng.integers(0, 256, size=(columns // elements, size), dtype=np.uint8)
            for offset in f16_fields:
                halves = rng.normal(size=len(blocks)).astype(np.float16)
                blocks[:, offset:offset + 2] = halves.view(np.uint8).reshape(-1, 2)
            if name == "IQ1_M":
                words = blocks[:, 48:56].copy().view(np.uint16)
                halves = rng.normal(size=len(blocks)).astype(np.float16).view(np.uint16)
                for piece in range(4):
                    words[:, piece] = words[:, piece] & 0x0fff | (halves >> 4 * piece & 15) << 12
                blocks[:, 48:56] = words.view(np.uint8)
            row = blocks.reshape(-1)
        out = dequantize(row.reshape(1, -1) if name not in ("F32", "F16") else
                         row.view(np.float32 if name == "F32" else np.float16).reshape(1, -1), qtype)
        out = np.asarray(out, dtype=np.float32).reshape(-1)
        assert len(out) == columns
        print_row(name, row, out)
    four_bit_floats(np.arange(104, 144))
    nvfp4(0x80)
    nvfp4(0x100)
    four_bit_floats(np.array([0, 1, 2, 60, 103, 104, 143, 144, 200, 252]))  # some powers are outside f16


def four_bit_floats(exponents):
    """MXFP4 with these exponents, and a last block of zeros with an exponent outside f16."""
    blocks = rng.integers(0, 256, size=(len(exponents) + 1, 17), dtype=np.uint8)
    blocks[:-1, 0] = exponents
    blocks[-1] = [3] + [0x08] * 16
    print_row("MXFP4", blocks.reshape(-1), dequantize(blocks.reshape(1, -1), gguf.GGMLQuantizationType.MXFP4).reshape(-1))


def nvfp4(bytes_below):
    """GGUF's NVFP4; scales have no sign, but a file may have its bit."""
    blocks = rng.integers(0, 256, size=(4, 36), dtype=np.uint8)
    blocks[:, :4] = rng.integers(0, bytes_below, size=(4, 4))
    blocks[0, :4] = (0, 0x7F, 1, 0x7E)
    print_row("NVFP4_64", blocks.reshape(-1), dequantize(blocks.reshape(1, -1), gguf.GGMLQuantizationType.NVFP4).reshape(-1))


def print_row(name, row, out):
    print(name, len(out))
    print(row.tobytes().hex())
    print(" ".join(f"{bits:08x}" for bits in np.asarray(out, np.float32).view(np.uint32)))


main()
