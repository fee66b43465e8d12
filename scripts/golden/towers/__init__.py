"""The families of the tiny checkpoints that see, a file each: <family>_tower.py.

A family's file says:

CONFIG              its config.json in tiny sizes; VOCAB tokens
CLASS               transformers' class of the whole model
SEED                of its random weights
PICTURE_TOKEN       the placeholder
PICTURES            [(tiles, width, height)], three of different sizes where the family allows
MEAN, STD           of normalization, a channel each
inputs(family, pictures)   what the model's forward takes beside the ids, of u8 arrays [tiles, height, width, 3]
features(family, model, inputs)   [features of all pictures, columns] in the order of the pictures
count(family, picture)     placeholder tokens of a (tiles, width, height)
positions(family, model, ids, inputs)  optional: [3, tokens], what the text model rotates by
extra(family, ids)         optional: what else the forward takes with the ids
centre(name)               optional: what the numbers of a one-dimensional weight scatter around
stored(weights)            optional: {name: array} as published, where transformers saves it otherwise
buffer(name, shape, source)   optional: what a buffer of this name holds, or None

`family` is the file itself, so that families share these functions: qwen_vl_common.py, square_common.py.
"""
import importlib
import pathlib

VOCAB = 96


def all_families():
    names = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("*_tower.py"))
    return {name.removesuffix("_tower"): importlib.import_module(f"towers.{name}") for name in names}
