#!/usr/bin/env python3
"""Draws animated GIF and WebP files and records the frames that Pillow makes of them, over white.

usage: video_frames.py DIRECTORY

GIFs have frames smaller than the screen, their own palettes, transparent colours, interlaced rows and each way of removing a
frame; their codes are written here, because Pillow's encoder has few of these. WebPs are Pillow's, with and without loss and alpha.
Writes N.gif, N.webp, and N.gif.rgb, N.webp.rgb with u8 [frames, height, width, 3]; frames.txt has a line for each
file: name, width, height, frames, milliseconds. Needs Pillow and numpy.
"""
import pathlib
import random
import struct
import sys

import numpy as np
import PIL
from PIL import Image, ImageSequence

FILES = 12


def codes(colours, bits):
    """LZW without compression: a clear code before every entry of the table would make codes longer."""
    clear, width, out, count = 1 << bits, bits + 1, 0, 0
    at = 0

    def put(code):
        nonlocal out, count
        out |= code << count
        count += width
    for i, colour in enumerate(colours):
        if i % ((1 << bits) - 2) == 0:
            put(clear)
        put(colour)
        at += 1
    put(clear + 1)
    data = out.to_bytes((count + 7) // 8, "little")
    blocks = b"".join(bytes([len(data[i:i + 255])]) + data[i:i + 255] for i in range(0, len(data), 255))
    return bytes([bits]) + blocks + b"\0"


def palette(drawn, bits):
    return bytes(drawn.randrange(256) for _ in range(3 << bits))


def interlaced(rows):
    return [rows[y] for first, step in ((0, 8), (4, 8), (2, 4), (1, 2)) for y in range(first, len(rows), step)]


def frame_of(drawn, width, height, bits, first):
    whole = first or drawn.random() < 0.2
    w, h = (width, height) if whole else (drawn.randint(1, width), drawn.randint(1, height))
    left, top = drawn.randint(0, width - w), drawn.randint(0, height - h)
    clear = drawn.random() < 0.6
    disposal = drawn.choice([1, 1, 2, 3]) if not first else drawn.choice([1, 2])
    delay = drawn.choice([0, 2, 7, 10, 33])
    colours = [[drawn.randrange(1 << bits) for _ in range(w)] for _ in range(h)]
    own = drawn.random() < 0.4
    turned = drawn.random() < 0.4
    rows = interlaced(colours) if turned else colours
    flags = (0x80 | bits - 1 if own else 0) | (0x40 if turned else 0)
    control = struct.pack("<BBBBHBB", 0x21, 0xF9, 4, disposal << 2 | clear, delay, drawn.randrange(1 << bits), 0)
    image = struct.pack("<BHHHHB", 0x2C, left, top, w, h, flags) + (palette(drawn, bits) if own else b"")
    return control + image + codes([colour for row in rows for colour in row], bits), 100 if delay < 2 else 10 * delay


def gif_of(drawn):
    width, height, bits = drawn.randint(3, 20), drawn.randint(3, 20), drawn.choice([2, 3, 4])
    file = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80 | bits - 1, drawn.randrange(1 << bits), 0) + palette(drawn, bits)
    frames = [frame_of(drawn, width, height, bits, i == 0) for i in range(drawn.randint(2, 9))]
    return file + b"".join(frame for frame, _ in frames) + b";", sum(delay for _, delay in frames)


def webp_into(drawn, path):
    width, height, alpha = drawn.randint(3, 30), drawn.randint(3, 30), drawn.random() < 0.5
    source = np.random.default_rng(drawn.randrange(1 << 30))
    still = source.integers(0, 256, (height, width, 4)).astype(np.uint8)
    frames, delays = [], []
    for _ in range(drawn.randint(2, 9)):  # parts change, so that frames smaller than the canvas are stored
        still = still.copy()
        y, x = drawn.randrange(height), drawn.randrange(width)
        still[y:y + 6, x:x + 6] = source.integers(0, 256, still[y:y + 6, x:x + 6].shape)
        frames.append(Image.fromarray(still if alpha else still[..., :3].copy()))
        delays.append(drawn.choice([20, 33, 100, 500]))
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=delays, lossless=drawn.random() < 0.5, minimize_size=True)
    return sum(delays)


def pillow_frames(path):
    with Image.open(path) as image:
        made = []
        for frame in ImageSequence.Iterator(image):
            frame = frame.convert("RGBA")
            white = Image.new("RGBA", frame.size, (255, 255, 255, 255))
            made.append(np.asarray(Image.alpha_composite(white, frame).convert("RGB")))
    return np.stack(made)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for kind in ("gif", "webp"):
        for number in range(FILES):
            drawn = random.Random(f"{kind}{number}")
            path = folder / f"{number}.{kind}"
            if kind == "gif":
                file, length = gif_of(drawn)
                path.write_bytes(file)
            else:
                length = webp_into(drawn, path)
            frames = pillow_frames(path)
            (folder / f"{path.name}.rgb").write_bytes(frames.tobytes())
            lines.append(f"{path.name} {frames.shape[2]} {frames.shape[1]} {len(frames)} {length}")
    (folder / "frames.txt").write_text("\n".join(lines) + "\n")
    print("Pillow", PIL.__version__)


if __name__ == "__main__":
    main()
