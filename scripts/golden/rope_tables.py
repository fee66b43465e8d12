#!/usr/bin/env python3
"""Writes the tables of rotary embeddings of every kind, for tests/golden/rope.

usage: rope_tables.py FILE

For each case the terms and the object of config.json, and the magnitude and the inverse frequencies that follow, in
double precision: the formulas of Hugging Face transformers' modeling_rope_utils.py, reimplemented with numpy. Families
of families/ take their tables from here too. Needs numpy.
"""
import json
import sys

import numpy as np

FACTORS = {"short_factor": [1.0, 1.02, 1.05, 1.1, 1.3, 1.75, 2.0, 2.5], "long_factor": [1.1, 1.5, 2.25, 4.0, 8.5, 15.0, 22.0, 31.5]}
# name: (object, {base, part, original (0: not stated outside the object), head_dim, context})
CASES = {
    "plain": ({}, {}),
    "plain-partial": ({"rope_type": "default", "partial_rotary_factor": 0.75, "rope_theta": 250.0}, {}),
    "partial-outside": ({"rope_theta": 1e6}, {"part": 0.7, "head_dim": 80}),
    "linear": ({"type": "linear", "factor": 8.0}, {}),
    "llama3": ({"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192}, {"head_dim": 128, "context": 131072}),
    "llama3-context": ({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.5, "high_freq_factor": 3.0},
                       {"head_dim": 64, "context": 4096}),
    "yarn": ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
             {"base": 1e6, "head_dim": 128, "context": 131072}),
    "yarn-mscale": ({"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384,
                     "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0},
                    {"head_dim": 128, "context": 262144}),
    "yarn-mscales": ({"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "beta_fast": 16,
                      "beta_slow": 2, "mscale": 0.707, "mscale_all_dim": 1.25}, {"head_dim": 64, "context": 163840}),
    "yarn-fractional": ({"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0,
                         "beta_slow": 1.0, "truncate": False}, {"base": 150000.0, "head_dim": 64, "context": 131072}),
    "yarn-stated": ({"rope_type": "yarn", "factor": 2.0, "attention_factor": 1.3125, "original_max_position_embeddings": 64,
                     "partial_rotary_factor": 0.5}, {"head_dim": 32, "context": 128}),
    "yarn-growth": ({"rope_type": "yarn", "beta_fast": 0, "original_max_position_embeddings": 512},
                    {"head_dim": 32, "context": 4096}),
    "yarn-one-bound": ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2, "beta_fast": 2.0,
                        "beta_slow": 1.0}, {"head_dim": 16, "context": 8}),
    "longrope-long": ({"type": "longrope", **FACTORS}, {"head_dim": 16, "original": 4096, "context": 131072}),
    "longrope-short": ({"type": "su", **FACTORS}, {"head_dim": 16, "original": 4096, "context": 4096}),
    "longrope-yarn": ({"type": "yarn", **FACTORS, "original_max_position_embeddings": 99},
                      {"head_dim": 16, "original": 1024, "context": 2048}),
    "longrope-stated": ({"rope_type": "longrope", **FACTORS, "factor": 5.0, "attention_factor": 1.25,
                         "partial_rotary_factor": 0.5, "original_max_position_embeddings": 128}, {"head_dim": 32}),
    "dynamic": ({"rope_type": "dynamic", "factor": 4.0}, {"head_dim": 64}),
    "dynamic-longer": ({"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 512}, {"head_dim": 64}),
    "proportional": ({"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}, {"head_dim": 64}),
    "proportional-factor": ({"rope_type": "proportional", "partial_rotary_factor": 0.3, "factor": 8.0}, {"head_dim": 20}),
}
TERMS = {"base": 10000.0, "part": 1.0, "original": 0, "head_dim": 32, "context": 2048}


def yarn_table(base, dims, factor, original, fast, slow, truncate):
    def bound(rotations):
        return dims * np.log(original / (rotations * 2 * np.pi)) / (2 * np.log(base))
    low, high = bound(fast), bound(slow)
    if truncate:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(dims // 2) - low) / (high - low), 0, 1)
    wavelengths = base ** (np.arange(0, dims, 2) / dims)
    return ramp / (factor * wavelengths) + (1 - ramp) / wavelengths


def llama3_table(plain, factor, original, low, high):
    lengths = 2 * np.pi / plain
    table = np.where(lengths > original / low, plain / factor, plain)
    smooth = (original / lengths - low) / (high - low)
    middle = ~(lengths < original / high) & ~(lengths > original / low)
    return np.where(middle, (1 - smooth) * plain / factor + smooth * plain, table)


def mscale_of(scale, mscale=1.0):
    return 1.0 if scale <= 1 else 0.1 * mscale * np.log(scale) + 1.0


def rope_table(rope, base=10000.0, part=1.0, original=0, head_dim=32, context=2048):
    """(inverse frequencies, magnitude) of the object `rope` of a config.json; sequences are as long as the context."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    if "long_factor" in rope:
        kind = "longrope"
    base, part = rope.get("rope_theta", base), rope.get("partial_rotary_factor", part)
    original = original or rope.get("original_max_position_embeddings", context)
    dims = int(head_dim * part)
    plain = 1.0 / base ** (np.arange(0, dims, 2, dtype=np.float64) / dims)
    factor = rope.get("factor")
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / factor, 1.0
    if kind == "llama3":
        return llama3_table(plain, factor, original, rope["low_freq_factor"], rope["high_freq_factor"]), 1.0
    if kind == "dynamic":
        grown = base * (factor * context / original - (factor - 1)) ** (dims / (dims - 2))
        return 1.0 / grown ** (np.arange(0, dims, 2) / dims), 1.0
    if kind == "proportional":
        angles = int(part * head_dim // 2)
        rotated = 1.0 / base ** (np.arange(0, 2 * angles, 2) / head_dim)
        return np.concatenate([rotated, np.zeros(head_dim // 2 - angles)]) / (factor or 1.0), 1.0
    factor = factor or context / original
    magnitude = rope.get("attention_factor")
    if kind == "longrope":
        divisors = np.array(rope["long_factor" if context > original else "short_factor"])
        usual = np.sqrt(1 + np.log(factor) / np.log(original)) if factor > 1 else 1.0
        return plain / divisors, magnitude or usual
    assert kind == "yarn", kind
    mscale, all_dims = rope.get("mscale"), rope.get("mscale_all_dim")
    usual = mscale_of(factor, mscale) / mscale_of(factor, all_dims) if mscale and all_dims else mscale_of(factor)
    table = yarn_table(base, dims, factor, original, rope.get("beta_fast") or 32, rope.get("beta_slow") or 1,
                       rope.get("truncate", True))
    return table, magnitude or usual


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "w") as file:
        for name, (rope, own) in CASES.items():
            terms = TERMS | own
            table, magnitude = rope_table(rope, **terms)
            file.write(f"case {name}\n")
            file.write("terms {base:.9g} {part:.9g} {original} {head_dim} {context}\n".format(**terms))
            file.write(f"object {json.dumps(rope)}\n")
            file.write(f"magnitude {magnitude:.17g}\n")
            file.write(f"frequencies {len(table)} {' '.join(f'{value:.17g}' for value in table)}\n")


if __name__ == "__main__":
    main()
