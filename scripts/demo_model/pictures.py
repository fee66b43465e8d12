"""The demo model's pictures: coloured shapes on a grid of nine cells, or a printed number, drawn by torch for a whole batch at once.

A picture is a row of small integers (SPEC_FIELDS of them, see `shapes_spec` and `number_spec`): what is in it, as far as answers depend
on it. Where exactly a thing stands, how large it is, the shade of the ground and noise are drawn from the generator while drawing,
so that a specification seen twice is two pictures.
"""

import math

import torch
import torch.nn.functional as F

COLOURS = {"red": (220, 40, 40), "green": (40, 170, 60), "blue": (40, 80, 220), "yellow": (240, 210, 40), "purple": (140, 50, 170),
           "orange": (245, 130, 20), "black": (25, 25, 25), "pink": (245, 130, 190)}
SHAPES = ["circle", "square", "triangle", "diamond", "cross", "ring"]
CELLS = ["top left", "top", "top right", "left", "centre", "right", "bottom left", "bottom", "bottom right"]
THINGS_MAX = 6
DIGITS_MAX = 3
NOTHING = -1

# [kind, ink, digits 3, (shape, colour, cell) 6]; kind 0: things, 1: a number
SPEC_FIELDS = 2 + DIGITS_MAX + 3 * THINGS_MAX
FONT = ["01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110",
        "01110 10001 00001 00110 01000 10000 11111", "01110 10001 00001 00110 00001 10001 01110",
        "00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110",
        "01110 10000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000",
        "01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00001 01110"]
FONT_ROWS, FONT_COLUMNS = 7, 5


def shapes_spec(things):
    """things: at most THINGS_MAX of (shape, colour, cell) as indices; cells differ."""
    spec = [0, NOTHING] + [NOTHING] * DIGITS_MAX
    for thing in things:
        spec += thing
    return spec + [NOTHING] * (SPEC_FIELDS - len(spec))


def number_spec(text, colour):
    digits = [int(digit) for digit in text]
    return [1, colour] + digits + [NOTHING] * (SPEC_FIELDS - 2 - len(digits))


def distances(shape, x, y, size):
    """How far (x, y) [batch, h, w] is outside of a shape of about `size` around 0, in the same unit; negative inside."""
    away = torch.sqrt(x * x + y * y)
    largest = torch.maximum(x.abs(), y.abs())
    kinds = [away - size,
             largest - 0.85 * size,
             torch.maximum((2 * x.abs() - y - size) * 0.45, y - 0.85 * size),
             (x.abs() + y.abs() - 1.1 * size) * math.sqrt(0.5),
             torch.maximum(torch.minimum(x.abs(), y.abs()) - 0.32 * size, largest - size),
             (away - 0.72 * size).abs() - 0.26 * size]
    return torch.stack(kinds, 0).gather(0, shape[None, :, None, None].expand(1, *x.shape))[0]


MARKS = len(SHAPES) + len(FONT)  # what can stand in a picture: a shape, or a digit


class Painter:
    """Draws batches of pictures of one size; every chance comes from the one generator, on whose device everything lies. `wear`, 0 to 1, is
    how much noise they have, and how much they look like pictures that were resized: blurred and stretched."""

    def __init__(self, height, width, generator, wear=1.0):
        self.wear = wear
        self.height, self.width, self.generator, self.device = height, width, generator, generator.device
        self.colours = torch.tensor(list(COLOURS.values()), device=self.device, dtype=torch.float32)
        self.font = torch.tensor([[[int(dot) for dot in row] for row in digit.split()] for digit in FONT], device=self.device)
        self.rows = torch.arange(height, device=self.device)[None, :, None] + 0.5
        self.columns = torch.arange(width, device=self.device)[None, None, :] + 0.5
        self.batch, self.picture, self.centres = 0, None, []

    def draw(self, specs):
        """specs: [batch, SPEC_FIELDS] integers; [batch, height, width, 3] of 0..255, uint8."""
        self.batch, self.centres = specs.shape[0], []
        ground = self.uniform(165, 255, 1) + self.uniform(-6, 6, 3)
        self.picture = ground[:, None, None, :].expand(self.batch, self.height, self.width, 3)
        things = 2 + DIGITS_MAX
        for at in range(things, SPEC_FIELDS, 3):
            self.draw_thing(specs[:, at], specs[:, at + 1], specs[:, at + 2])
        self.draw_number(specs[:, 2:things], specs[:, 1])
        planes = self.picture.permute(0, 3, 1, 2)
        blurred = F.avg_pool2d(F.pad(planes, (1, 1, 1, 1), mode="replicate"), 3, stride=1).permute(0, 2, 3, 1)
        self.picture = self.picture + (blurred - self.picture) * self.uniform(0, 0.8 * self.wear, 1, 1, 1)
        noise = torch.randn(self.picture.shape, generator=self.generator, device=self.device)
        return (self.picture + noise * self.uniform(0, 5 * self.wear, 1, 1, 1)).clamp(0, 255).round().to(torch.uint8)

    def marks(self, patch):
        """Of the batch drawn last, which mark has its centre in each square of `patch` pixels, and its colour: two [batch, rows, columns],
        MARKS and len(COLOURS) where there is none. Smaller squares than two things are apart hold one at most."""
        rows, columns = self.height // patch, self.width // patch
        found = torch.full((self.batch, rows * columns + 1), MARKS, device=self.device)
        colours = torch.full_like(found, len(COLOURS))
        for y, x, mark, colour in self.centres:
            place = (y / patch).long().clamp(0, rows - 1) * columns + (x / patch).long().clamp(0, columns - 1)
            place = torch.where(mark >= 0, place, rows * columns)[:, None]  # behind the last: what is not there
            found.scatter_(1, place, mark[:, None].long())
            colours.scatter_(1, place, colour[:, None].long())
        return found[:, :-1].view(-1, rows, columns), colours[:, :-1].view(-1, rows, columns)

    def uniform(self, low, high, *shape):
        return torch.rand(self.batch, *shape, generator=self.generator, device=self.device) * (high - low) + low

    def each(self, low, high):
        """One number a picture, to be used with [batch, height, width]."""
        return self.uniform(low, high, 1, 1)

    def paint(self, colour, cover):
        ink = self.colours[colour.clamp(min=0)] + self.uniform(-14, 14, 3)
        self.picture = self.picture + (ink[:, None, None, :] - self.picture) * cover[..., None]

    def draw_thing(self, shape, colour, cell):
        cell_height, cell_width = self.height / 3, self.width / 3
        size = self.each(0.28, 0.44) * min(cell_height, cell_width)
        row, column = (torch.div(cell.clamp(min=0), 3, rounding_mode="floor"), cell.clamp(min=0) % 3)
        at_y = (row[:, None, None] + 0.5) * cell_height + self.each(-1, 1) * (cell_height / 2 - size)
        at_x = (column[:, None, None] + 0.5) * cell_width + self.each(-1, 1) * (cell_width / 2 - size)
        self.centres.append((at_y.flatten(), at_x.flatten(), shape, colour))
        y = (self.rows - at_y) * self.each(1 - 0.08 * self.wear, 1 + 0.08 * self.wear)
        x = (self.columns - at_x) * self.each(1 - 0.08 * self.wear, 1 + 0.08 * self.wear)
        cover = (0.5 - distances(shape.clamp(min=0), *torch.broadcast_tensors(x, y), size)).clamp(0, 1)
        self.paint(colour, cover * (shape >= 0)[:, None, None])

    def draw_number(self, digits, colour):
        pitch = FONT_COLUMNS + 1
        count = (digits >= 0).sum(1)[:, None, None]
        wide, high = (count * pitch - 1).clamp(min=1), FONT_ROWS
        scale = (self.width / wide).clamp(max=self.height / high) * self.each(0.45, 0.9)
        left, top = self.each(0.05, 0.95) * (self.width - wide * scale), self.each(0.05, 0.95) * (self.height - high * scale)
        for i in range(DIGITS_MAX):
            mark = torch.where(digits[:, i] >= 0, digits[:, i] + len(SHAPES), NOTHING)
            centre = left + (i * pitch + FONT_COLUMNS / 2) * scale
            self.centres.append(((top + high / 2 * scale).flatten(), centre.flatten(), mark, colour))
        u = (self.columns - left) / scale
        v = (self.rows - top) / scale
        u, v = torch.broadcast_tensors(u, v)
        inside = (u >= 0) & (u < wide) & (v >= 0) & (v < high) & (count > 0)
        place = torch.div(u, pitch, rounding_mode="floor").long().clamp(0, DIGITS_MAX - 1)
        column = (u.clamp(min=0) % pitch).long()
        digit = digits.gather(1, place.flatten(1)).view_as(place).clamp(min=0)
        dots = self.font[digit, v.long().clamp(0, FONT_ROWS - 1), column.clamp(max=FONT_COLUMNS - 1)]
        self.paint(colour, (dots * inside * (column < FONT_COLUMNS)).float())
