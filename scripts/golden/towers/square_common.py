"""Shared by families whose images are squares of one size: pixels between -1 and 1."""
import numpy as np
import torch

MEAN = STD = (0.5, 0.5, 0.5)


def unit_pixels(images):
    """[tiles, 3, height, width] of all images."""
    pixels = (np.concatenate(images).astype(np.float32) / 255 - np.float32(0.5)) / np.float32(0.5)
    return torch.tensor(pixels.transpose(0, 3, 1, 2).copy())


def normalized(family, images):
    """The same with the family's mean and deviation of each channel."""
    pixels = np.concatenate(images).astype(np.float32) / 255
    pixels = (pixels - np.array(family.MEAN, np.float32)) / np.array(family.STD, np.float32)
    return torch.tensor(pixels.transpose(0, 3, 1, 2).copy())
