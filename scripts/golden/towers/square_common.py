"""What families whose pictures are squares of one size need alike: pixels between -1 and 1."""
import numpy as np
import torch

MEAN = STD = (0.5, 0.5, 0.5)


def unit_pixels(pictures):
    """[tiles, 3, height, width] of all pictures."""
    pixels = (np.concatenate(pictures).astype(np.float32) / 255 - np.float32(0.5)) / np.float32(0.5)
    return torch.tensor(pixels.transpose(0, 3, 1, 2).copy())
