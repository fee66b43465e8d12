#!/usr/bin/env python3
"""The quantized KV cache in plain numpy, and its golden data, for tests/golden/kv_codec.

usage: kv_codec.py FILE

An independent statement of worker/plan/kv_codec.h: codes are found and packed bit by bit, in double precision. Rows
whose codes depend on f32 rounding are drawn again. scripts/bench/kv_quality.py
computes with the same functions. Needs numpy.
"""
import struct
import sys

import numpy as np

BLOCK_TOKENS = 16
SEED = 0x53484F414C4B5651
GRID = 1 << 17
MARGIN = {"uniform": 1e-4, "turboquant": 1e-5}  # in steps; in coordinates of a unit vector
# scheme, dimension, bits of keys, of values, elements of a group (uniform)
CASES = [("uniform", 64, 8, 4, 64), ("uniform", 128, 5, 6, 32), ("uniform", 80, 2, 3, 16), ("turboquant", 64, 1, 2, 0),
         ("turboquant", 128, 3, 4, 0), ("turboquant", 64, 3.5, 2.5, 0), ("turboquant", 80, 4, 3, 0), ("uniform", 64, 7, 7, 32)]
ROWS = 2


# --- random numbers and rotations

def philox(counter, key):
    """Philox4x32-10 of Salmon et al. 2011."""
    x, k = list(counter), [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [b >> 32 ^ x[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ x[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


def hadamard(dim):
    matrix = np.ones((1, 1))
    while len(matrix) < dim:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def rotation(dim, side):
    """The matrix that keys (side 0) or values (side 1) are multiplied by."""
    if dim & (dim - 1) == 0:
        signs = [1 - 2 * (philox((d, side, dim, 0), SEED)[0] >> 31) for d in range(dim)]
        return hadamard(dim) * np.array(signs) / np.sqrt(dim)
    words = np.array([philox((i, side, dim, 0), SEED)[:2] for i in range(dim * dim)], float)
    normal = np.sqrt(-2 * np.log((words[:, 0] + 1) / 2**32)) * np.cos(2 * np.pi * words[:, 1] / 2**32)
    q, r = np.linalg.qr(normal.reshape(dim, dim).T)
    return (q * np.sign(np.diag(r))).T


def codebook(dim, bits):
    """Lloyd and Max's levels for a coordinate of a random unit vector."""
    t = (np.arange(GRID) + 0.5) / GRID * 2 - 1
    weight = (1 - t * t) ** ((dim - 3) / 2)
    mass, moment = (np.concatenate([[0], np.cumsum(x)]) for x in (weight, weight * t))
    levels = np.quantile(np.linspace(-3, 3, 1001) / np.sqrt(dim), (np.arange(2**bits) + 0.5) / 2**bits)
    for _ in range(100000):
        edges = (np.concatenate([[-1], (levels[1:] + levels[:-1]) / 2, [1]]) + 1) / 2 * GRID
        cell_mass, cell_moment = (np.diff(np.interp(edges, np.arange(GRID + 1), x)) for x in (mass, moment))
        moved = cell_moment / cell_mass
        if np.abs(moved - levels).max() < 1e-12:
            break
        levels = moved
    return levels


# --- rows

class Side:
    """One side of a codec: encodes and decodes rows."""

    def __init__(self, scheme, dim, bits, group, which):
        self.scheme, self.dim = scheme, dim
        if scheme == "uniform":
            self.segments = [(first, group, bits) for first in range(0, dim, group)]
        else:
            finer = dim // 2 if bits % 1 else 0
            self.segments = [(first, count, int(b)) for first, count, b in
                             ((0, finer, bits + 0.5), (finer, dim - finer, bits // 1)) if count]
            self.rotation = rotation(dim, which)
            self.levels = {b: codebook(dim, b) for _, _, b in self.segments}

    def encode(self, row):
        """(codes, scales, biases) of a row, and the distance to the nearest rounding boundary."""
        row = np.asarray(row, np.float64)
        codes, scales, biases, nearest = [], [], [], np.inf
        if self.scheme == "turboquant":
            norm = np.sqrt((row * row).sum())
            y = self.rotation @ (row / max(norm, 1e-6))
            scales.append(np.float16(min(norm, 65504)))
            for first, count, bits in self.segments:
                levels = self.levels[bits]
                bounds = (levels[1:] + levels[:-1]) / 2
                part = y[first:first + count]
                codes += list((part[:, None] > bounds).sum(1))
                nearest = min(nearest, np.abs(part[:, None] - bounds).min())
            return codes, scales, biases, nearest
        for first, count, bits in self.segments:
            part, most = row[first:first + count], 2**bits - 1
            bias, scale = np.float16(part.min()), np.float16((part.max() - part.min()) / most)
            place = (part - float(bias)) / float(scale) if scale > 0 else np.zeros(count)
            codes += list(np.clip(np.rint(place), 0, most).astype(int))
            scales.append(scale)
            biases.append(bias)
            nearest = min(nearest, np.abs(place % 1 - 0.5).min())
        return codes, scales, biases, nearest

    def decode(self, codes, scales, biases):
        """The decoded row; in the rotated space, if the scheme rotates."""
        out = np.empty(self.dim)
        for i, (first, count, bits) in enumerate(self.segments):
            part = np.asarray(codes[first:first + count])
            if self.scheme == "turboquant":
                out[first:first + count] = self.levels[bits][part] * float(scales[0])
            else:
                out[first:first + count] = part * float(scales[i]) + float(biases[i])
        return out

    def pack(self, codes):
        """The row's codes as bytes, one bit after the other."""
        string = [int(codes[d]) >> bit & 1 for first, count, bits in self.segments for d in range(first, first + count)
                  for bit in range(bits)]
        return bytes(sum(bit << i for i, bit in enumerate(string[at:at + 8])) for at in range(0, len(string), 8))


def sides_of(scheme, dim, key_bits, value_bits, group):
    return Side(scheme, dim, key_bits, group, 0), Side(scheme, dim, value_bits, group, 1)


# --- golden data

def halves(numbers):
    return "".join(struct.pack("<e", float(x)).hex() for x in numbers) or "-"


def draw_row(random, side):
    while True:
        row = (random.normal(size=side.dim) * np.exp(random.normal())).astype(np.float32)
        codes, scales, biases, nearest = side.encode(row)
        if nearest > MARGIN[side.scheme]:
            return row, side.pack(codes).hex(), halves(scales), halves(biases)


def main():
    random = np.random.default_rng(7)
    with open(sys.argv[1], "w", encoding="ascii") as out:
        for scheme, dim, key_bits, value_bits, group in CASES:
            print("case", scheme, dim, key_bits, value_bits, group, file=out)
            for name, side in zip(("key", "value"), sides_of(scheme, dim, key_bits, value_bits, group)):
                for _ in range(ROWS):
                    row, codes, scales, biases = draw_row(random, side)
                    print(name, row.astype("<f4").tobytes().hex(), codes, scales, biases, file=out)


if __name__ == "__main__":
    main()
