"""The families of the tiny checkpoints that see, a file each: <family>_tower.py.

A family's file says:

CONFIG              its config.json in tiny sizes; VOCAB tokens
CLASS               transformers' class of the whole model
SEED                of its random weights
PICTURE_TOKEN       the placeholder
PICTURES            [(tiles, width, height)], three of different sizes where the family allows
MEAN, STD           of normalization, a channel each
inputs(config, pictures)   what the model's forward takes beside the ids, of u8 arrays [tiles, height, width, 3]
features(model, inputs)    [features of all pictures, columns] in the order of the pictures
count(config, picture)     placeholder tokens of a (tiles, width, height)
positions(model, ids, inputs)  optional: [3, tokens], what the text model rotates by
"""
import importlib
import pathlib

VOCAB = 96


def all_families():
    names = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("*_tower.py"))
    return {name.removesuffix("_tower"): importlib.import_module(f"towers.{name}") for name in names}
