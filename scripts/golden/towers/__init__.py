"""The families of the tiny vision checkpoints, one file each: <family>_tower.py.

A family's file defines:

CONFIG              its config.json in tiny sizes; VOCAB tokens
CLASS               transformers' class of the whole model; model_class(family) instead: a class made of one of them
SEED                of its random weights
IMAGE_TOKEN       the placeholder
EDGES             optional: tokens before and after each image
IMAGES            [(tiles, width, height)], three of different sizes where the family allows
MEAN, STD           of normalization, one value for each channel
inputs(family, images)   the arguments of the model's forward beside the ids, from u8 arrays [tiles, height, width, 3]
features(family, model, inputs)   [features of all images, columns] in the order of the images
count(family, image)     placeholder tokens of a (tiles, width, height)
SIZES               optional: (height, width) of each image before it was cut; `SOURCES` then has them by id() of the array
mosaic(family, image, size)  optional: the sizes of the mosaic of an image of several tiles
LOGIT_SCALE         optional: a factor of the text's class that the class with a tower leaves out
positions(family, model, ids, inputs)  optional: [3, tokens], rotary positions of the text model
extra(family, ids)         optional: further arguments of the forward
centre(name)               optional: the mean of a one-dimensional weight's values
PUBLISHED                  optional: config.json as published, if it differs from what transformers reads
stored(weights)            optional: {name: array} as published, if transformers saves them differently
buffer(name, shape, source)   optional: the value of a buffer of this name, or None

Families that transformers does not have are in <family>_mlx.py, for mlx_scenes.py.

`family` is the module itself, so that families can share functions: qwen_vl_common.py, square_common.py.
"""
import importlib
import pathlib

VOCAB = 96


def all_families():
    names = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("*_tower.py"))
    return {name.removesuffix("_tower"): importlib.import_module(f"towers.{name}") for name in names}
