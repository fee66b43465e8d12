"""The families of the tiny checkpoints, one file each.

A family's file defines:

CONFIG              its config.json, every feature on, in odd sizes; vocab_size is VOCAB
SEED                of its random weights
shapes(config)      {tensor name: shape}, in the order of the file
centre(name)        the mean of a one-dimensional weight's values
weight(name, shape, source)   optional: this tensor's array, or None for a random one
reference(config, weights, ids)   optional: logits [positions, VOCAB] in double precision, used instead of transformers'
TABLE_CHANGES       optional: True if transformers itself differs token by token, so that this check is skipped
mlx_tensors(tensors)          optional: {name: array} as mlx-lm saves them, if that differs
GGUF_ARCHITECTURE   optional, with the two functions below: the GGUF that llama.cpp's converter would write
GGUF_SHARED_SETTINGS          optional: False if gguf_metadata() writes the keys that checkpoint_variants.py writes for most families
gguf_metadata(config, writer)            keys beyond those
gguf_tensors(config, tensors)            {GGUF name: array}
gguf_keeps_f32(name)                     optional: whether a matrix of this GGUF name is F32 in files of every type
gguf_tensor_metadata(tensors, writer)    optional: keys that state what config.json's side has as tensors
"""
import importlib
import pathlib

import numpy as np

VOCAB = 263


def all_families():
    """{name: module}, by name."""
    files = pathlib.Path(__file__).parent.glob("[a-z]*.py")
    return {file.stem: importlib.import_module(f"families.{file.stem}") for file in sorted(files) if file.stem != "shared"}


def random_weights(family, config, source):
    """{name: F32 array}: multiples of 1/512 or 1/128 of at most seven bits, except for the family's own."""
    weights = {}
    for name, shape in family.shapes(config).items():
        own = family.weight(name, shape, source) if hasattr(family, "weight") else None
        if own is not None:
            weights[name] = own.astype(np.float32)
        elif len(shape) == 1:
            weights[name] = (family.centre(name) + source.integers(-32, 33, shape) / 128).astype(np.float32)
        else:
            weights[name] = (source.integers(-127, 128, shape) / 512).astype(np.float32)
    return weights
