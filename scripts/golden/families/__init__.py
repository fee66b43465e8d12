"""The families of the tiny checkpoints, a file each.

A family's file says:

CONFIG              its config.json, every feature on, in odd sizes; vocab_size is VOCAB
SEED                of its random weights
shapes(config)      {tensor name: shape}, in the order of the file
centre(name)        what the numbers of a one-dimensional weight scatter around
weight(name, shape, source)   optional: an array of its own for this tensor, or None
reference(config, weights, ids)   optional: logits [positions, VOCAB] in double precision, in place of transformers'
TABLE_CHANGES       optional: True where transformers itself differs token by token, so that this is not held against it
mlx_tensors(tensors)          optional: {name: array} as mlx-lm saves them, where that differs
GGUF_ARCHITECTURE   optional, with the two functions below: what llama.cpp's converter would write of it
GGUF_SHARED_SETTINGS          optional: False where gguf_metadata() writes also what checkpoint_variants.py writes for most
gguf_metadata(config, writer)            keys beyond those
gguf_tensors(config, tensors)            {GGUF name: array}
"""
import importlib
import pathlib

VOCAB = 263


def all_families():
    """{name: module}, by name."""
    files = pathlib.Path(__file__).parent.glob("[a-z]*.py")
    return {file.stem: importlib.import_module(f"families.{file.stem}") for file in sorted(files) if file.stem != "shared"}
