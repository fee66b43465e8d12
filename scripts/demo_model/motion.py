"""Videos of one coloured shape that moves across or stands still."""

import torch

from conversations import article, name_of, where
from pictures import COLOURS, SHAPES, Painter, distances

WAYS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
PLACES = [("right", "left"), ("left", "right"), ("bottom", "top"), ("top", "bottom"), (None, None)]  # of a way's beginning and end
FRAMES = (4, 6, 8)
STAYS = len(WAYS)


def draw_kind(source):
    """(shape, colour, way)"""
    return source.randrange(len(SHAPES)), source.randrange(len(COLOURS)), source.randrange(len(WAYS) + 1)


def said(kind):
    """In words that the demo model knows how to say."""
    first, second = PLACES[kind[2]]
    return f"There is {article(name_of(kind))}" + (f", first {where(first)} and second {where(second)}." if first else ".")


class Camera(Painter):
    """Frames of many videos of one length and size."""

    def draw_videos(self, kinds, frames):
        """kinds: list of draw_kind(); [videos, frames, height, width, 3] of 0..255, uint8."""
        shape, colour, way = (torch.tensor(part, device=self.device) for part in zip(*kinds))
        self.batch = len(kinds)
        steps = torch.tensor([*WAYS.values(), (0, 0)], device=self.device).float()[way]
        side = min(self.height, self.width)
        size, length = self.uniform(0.1, 0.16, 1) * side, self.uniform(0.35, 0.6, 1) * side
        room = torch.tensor([self.height, self.width], device=self.device) - 2 * size
        middle = size + (steps.abs() * 0.5 + (1 - steps.abs()) * self.uniform(0, 1, 2)) * room
        ground, ink = self.uniform(165, 255, 1) + self.uniform(-6, 6, 3), self.colours[colour] + self.uniform(-14, 14, 3)
        found = []
        for frame in range(frames):
            centre = middle + steps * length * (frame / (frames - 1) - 0.5)
            y, x = self.rows - centre[:, 0, None, None], self.columns - centre[:, 1, None, None]
            cover = (0.5 - distances(shape, *torch.broadcast_tensors(y, x)[::-1], size[:, :, None])).clamp(0, 1)
            picture = ground[:, None, None, :] + (ink - ground)[:, None, None, :] * cover[..., None]
            noise = torch.randn(picture.shape, generator=self.generator, device=self.device)
            found.append((picture + noise * self.uniform(0, 4 * self.wear, 1, 1, 1)).clamp(0, 255).round().to(torch.uint8))
        return torch.stack(found, 1)
