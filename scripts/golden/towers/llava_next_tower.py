"""llava_next: CLIP's tower with a class row; a first tile and a mosaic of one, two and four more, unpadded; llama's text."""
import math

from towers import llava_tower
from towers.llava_tower import MEAN, STD  # noqa: F401
from towers.square_common import normalized

CLASS = "LlavaNextForConditionalGeneration"
SEED = 93
IMAGE_TOKEN = 91
SIDE = 3  # features of a tile
MOST = None  # tiles from which features are resized
SIZES = [(20, 31), (40, 14), (12, 5)]  # height and width of the images before they were cut
CONFIG = llava_tower.CONFIG | {
    "architectures": [CLASS], "model_type": "llava_next", "image_grid_pinpoints": [[12, 12], [12, 24], [24, 12], [24, 24], [12, 36]],
    "vision_config": llava_tower.CONFIG["vision_config"] | {"image_size": 12},
}


class Cut(tuple):
    """(tiles, width, height), with the size that the image had before."""

    def __new__(cls, config, size, pixels):
        from transformers.image_processing_utils import select_best_resolution
        height, width = select_best_resolution(size, config["image_grid_pinpoints"])
        side = config["vision_config"]["image_size"]
        made = super().__new__(cls, (1 + (height // side) * (width // side), pixels, pixels))
        made.size = size
        return made


IMAGES = [Cut(CONFIG, size, 12) for size in SIZES]


def inputs(family, images):
    import torch
    import torch.nn.functional as F
    pixels = normalized(family, images)
    wanted = family.CONFIG["vision_config"]["image_size"]  # pixels beyond the last whole patch are not used
    pixels = F.pad(pixels, (0, wanted - pixels.shape[-1], 0, wanted - pixels.shape[-2]))
    most, parts, at = max(len(image) for image in images), [], 0
    for image in images:
        parts.append(F.pad(pixels[at:at + len(image)], (0, 0, 0, 0, 0, 0, 0, most - len(image))))
        at += len(image)
    return {"pixel_values": torch.stack(parts), "image_sizes": torch.tensor([family.SOURCES[id(image)] for image in images])}


def features(family, model, given):
    import torch
    return torch.cat(list(model.model.get_image_features(**given).pooler_output))


def mosaic(family, image, size):
    """rows, columns, kept height and width, height and width, as transformers' unpad_image() and pack_image_features() have them."""
    from transformers.image_processing_utils import select_best_resolution
    if image[0] == 1:
        return (0,) * 6
    height, width = select_best_resolution(size, family.CONFIG["image_grid_pinpoints"])
    side = family.CONFIG["vision_config"]["image_size"]
    rows, columns = height // side, width // side
    assert rows * columns + 1 == image[0], (image, size, rows, columns)
    kept_height, kept_width = rows * family.SIDE, columns * family.SIDE
    if size[1] / size[0] > kept_width / kept_height:
        kept_height -= (kept_height - int(round(size[0] * (kept_width / size[1]), 7))) // 2 * 2
    else:
        kept_width -= (kept_width - int(round(size[1] * (kept_height / size[0]), 7))) // 2 * 2
    ratio = math.sqrt(kept_height * kept_width / (family.MOST * family.SIDE ** 2)) if family.MOST else 0
    if ratio > 1.1:
        return rows, columns, kept_height, kept_width, int(kept_height // ratio), int(kept_width // ratio)
    return rows, columns, kept_height, kept_width, kept_height, kept_width


def count(family, image):
    _, _, _, _, height, width = mosaic(family, image, image.size)
    return family.SIDE ** 2 + (height * (width + 1) if height else 1)
