#!/usr/bin/env python3
"""Writes malformed and hostile images: seeds of the fuzz target fuzz_image and part of image_hostile_test.

usage: image_hostile.py IMAGES FOLDER

IMAGES is tests/golden/images, whose small files are truncated, altered and joined with others. A file named
refused-... must be refused with an error text, taken-... must decode, and either-... may do either, in bounded memory.
Needs only Python; the output is deterministic.
"""
import os
import random
import struct
import sys
import zlib

PNG = b"\x89PNG\r\n\x1a\n"
GIF_END = b"\x00\x3b"


def chunk(name, data, checksum=None):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) if checksum is None else checksum)


def header(width, height, depth=8, colour=2, interlace=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace))


def png(*chunks):
    return PNG + b"".join(chunks) + chunk(b"IEND", b"")


def idat(data):
    return chunk(b"IDAT", zlib.compress(data, 9))


def png_files():
    pixel = idat(b"\0\1\2\3")
    yield "refused-png-bomb-side", png(header(40000, 1), pixel)
    yield "refused-png-bomb-area", png(header(30000, 30000), pixel)
    yield "refused-png-bomb-most", png(header(0x7FFFFFFF, 0x7FFFFFFF), pixel)
    yield "refused-png-bomb-wrap", png(header(0xFFFFFFFF, 0xFFFFFFFF), pixel)
    yield "refused-png-no-rows", png(header(8000, 8000), pixel)
    yield "refused-png-interlaced-bomb", png(header(5000, 5000, 8, 6, 1), pixel)
    yield "refused-png-zero", png(header(0, 5), pixel)
    yield "refused-png-depth", png(header(1, 1, 3), pixel)
    yield "refused-png-colour", png(header(1, 1, 8, 5), pixel)
    yield "refused-png-interlace", png(header(1, 1, 8, 2, 9), pixel)
    yield "refused-png-no-palette", png(header(1, 1, 8, 3), pixel)
    yield "refused-png-no-data", png(header(1, 1))
    yield "refused-png-checksum", png(header(1, 1), chunk(b"IDAT", zlib.compress(b"\0\1\2\3"), 1))
    yield "refused-png-no-header", PNG + pixel + bytes(40)
    yield "refused-png-long-chunk", PNG + header(1, 1) + b"\xff\xff\xff\xffIDAT" + bytes(20)
    yield "taken-png-deflate-bomb", png(header(1, 1), idat(b"\0\1\2\3" + bytes(2_000_000)))
    profile = b"icc\0\0" + zlib.compress(bytes(3_000_000), 9)
    text = b"Comment\0\0" + zlib.compress(bytes(3_000_000), 9)
    yield "taken-png-text-bomb", png(header(1, 1), chunk(b"iCCP", profile), chunk(b"zTXt", text), pixel)
    yield "taken-png-exif-loop", png(header(1, 1), chunk(b"eXIf", b"II*\0\x08\0\0\0\xff\xff" + bytes(30)), pixel)
    yield "taken-png-zip-behind", png(header(1, 1), pixel) + b"PK\x03\x04" + bytes(60)


def jpeg_segment(marker, data):
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def frame(width, height, parts, marker=0xC0, depth=8):
    return jpeg_segment(marker, struct.pack(">BHHB", depth, height, width, parts) + b"".join(bytes([i + 1, 0x11, 0]) for i in range(parts)))


def jpeg_files(images):
    table = jpeg_segment(0xDB, bytes(1) + bytes([1] * 64))
    codes = jpeg_segment(0xC4, b"\x00" + bytes([1] + [0] * 15) + b"\x00")
    start = b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    scan = jpeg_segment(0xDA, b"\x01\x01\x00\x00\x00\x00")
    yield "refused-jpeg-bomb", start + table + frame(65500, 65500, 1) + codes + scan + bytes(20)
    yield "refused-jpeg-cut-large", start + table + frame(8000, 8000, 1) + codes + scan + bytes(20)
    yield "refused-jpeg-zero", start + table + frame(0, 10, 1) + codes + scan + bytes(20)
    yield "refused-jpeg-two-channels", start + table + frame(8, 8, 2) + codes + scan + bytes(20)
    yield "refused-jpeg-twelve-bits", start + table + frame(8, 8, 1, 0xC1, 12) + codes + scan + bytes(20)
    yield "refused-jpeg-lossless", start + table + frame(8, 8, 1, 0xC3) + codes + scan + bytes(20)
    yield "refused-jpeg-no-scan", start + table + frame(8, 8, 1) + b"\xff\xd9"
    yield "refused-jpeg-no-tables", start + frame(8, 8, 1) + scan + bytes(20)
    yield "refused-jpeg-ends", b"\xff\xd8\xff\xd9" + bytes(20)
    yield "refused-jpeg-fill", b"\xff\xd8" + b"\xff" * 300
    refine = jpeg_segment(0xDA, b"\x01\x01\x00\x00\x00\x10")
    passes = b"".join(jpeg_segment(0xDA, b"\x01\x01\x00\x00\x00" + bytes([(13 - i) << 4 | 12 - i if i < 13 else 0x10])) + b"\0" for i in range(13))
    yield "refused-jpeg-scan-bomb", start + table + frame(2000, 2000, 1, 0xC2) + codes + passes + (refine + b"\0") * 400 + b"\xff\xd9"
    image = images["rgb-444.jpg"]
    yield "taken-jpeg-page-behind", image + b"<html><script>1</script></html>"
    yield "taken-jpeg-exif-broken", image[:2] + jpeg_segment(0xE1, b"Exif\0\0MM\0*\xff\xff\xff\xff") + image[2:]
    yield "taken-jpeg-exif-strange", image[:2] + jpeg_segment(0xE1, b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x63\0\0\0") + image[2:]
    yield "either-jpeg-short-segment", image[:2] + b"\xff\xe1\x00\x01" + image[2:]


def riff(*chunks):
    body = b"WEBP" + b"".join(name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def canvas(width, height, flags):
    return b"VP8X", bytes([flags, 0, 0, 0]) + struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]


def webp_files(images):
    lossless = b"\x2f" + struct.pack("<I", 16383 | 16383 << 14) + bytes(20)
    yield "refused-webp-bomb", riff((b"VP8L", lossless))
    yield "refused-webp-canvas", riff(canvas(1 << 24, 255, 2), (b"ANIM", bytes(6)), (b"ANMF", bytes(40)))
    yield "refused-webp-frame-beside", riff(canvas(20, 20, 2), (b"ANIM", bytes(6)), (b"ANMF", b"\x20\0\0\x20\0\0\x0f\0\0\x0f\0\0" + bytes(40)))
    yield "refused-webp-no-frame", riff(canvas(20, 20, 2), (b"ANIM", bytes(6)))
    yield "refused-webp-empty", riff()
    yield "refused-webp-lying-size", b"RIFF\xff\xff\xff\xffWEBPVP8 \xff\xff\xff\x7f" + bytes(30)
    yield "refused-webp-sound", b"RIFF\x24\0\0\0WAVEfmt " + bytes(30)
    image = images["lossless.webp"]
    yield "either-webp-exif-long", image + b"EXIF\xff\xff\xff\x7fII*\0"
    yield "refused-webp-cut", image[:len(image) // 2]


def gif(width, height, blocks, flags=0x80):
    return b"GIF89a" + struct.pack("<HHBBB", width, height, flags, 0, 0) + (bytes(6) if flags & 0x80 else b"") + blocks


def gif_frame(left, top, width, height, bits, codes):
    return b"," + struct.pack("<HHHHB", left, top, width, height, 0) + bytes([bits]) + codes


def gif_files(images):
    codes = b"\x02\x44\x01" + GIF_END
    yield "refused-gif-bomb", gif(65535, 65535, gif_frame(0, 0, 65535, 65535, 2, codes))
    yield "refused-gif-cut-large", gif(8000, 8000, gif_frame(0, 0, 8000, 8000, 2, codes))
    yield "refused-gif-far-frame", gif(10, 10, gif_frame(65535, 65535, 10, 10, 2, codes))
    yield "refused-gif-empty-frame", gif(10, 10, gif_frame(0, 0, 0, 10, 2, codes))
    yield "refused-gif-bits", gif(1, 1, gif_frame(0, 0, 1, 1, 12, codes))
    yield "refused-gif-no-frame", gif(10, 10, b";" + bytes(20))
    yield "refused-gif-early-end", gif(10, 10, gif_frame(0, 0, 10, 10, 2, b"\x01\x2c" + GIF_END))
    yield "refused-gif-wrong-code", gif(10, 10, gif_frame(0, 0, 10, 10, 2, b"\x02\x7c\xff" + GIF_END))
    yield "refused-gif-endless", gif(10, 10, b"!\xfe" + b"\x01a" * 300)
    yield "refused-gif-script", b"GIF89a/*" + bytes(8) + b"*/=1;alert(document.cookie)" + bytes(20)
    yield "taken-gif-jpeg-behind", images["plain.gif"] + images["gray.jpg"]


def other_files():
    yield "refused-empty", b""
    yield "refused-tiny", b"\xff\xd8\xff"
    yield "refused-svg", b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"
    yield "refused-tiff", b"II*\0\x08\0\0\0" + bytes(40)
    yield "refused-avif", b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf" + bytes(20)
    yield "either-settings", (b'{"model_type":"qwen2_5_vl","vision_config":{"patch_size":14}}\0{"min_pixels":3136,"max_pixels":99999,'
                              b'"image_mean":[0.5,0.5,0.5],"resample":3}\0{"image_processor":null}')


def bent_files(images):
    """A few random bytes changed, in a file of each format."""
    source = random.Random(7)
    for name in ("progressive.jpg", "cmyk.jpg", "palette-clear.png", "interlaced-alpha.png", "alpha.webp", "lossy.webp", "moving.webp", "interlaced.gif"):
        data = bytearray(images[name])
        for _ in range(6):
            data[source.randrange(12, len(data))] = source.randrange(256)
        yield "either-bent-" + name.replace(".", "-"), bytes(data)


def main():
    images, folder = sys.argv[1:]
    known = {}
    for name in os.listdir(images):
        with open(os.path.join(images, name), "rb") as file:
            known[name] = file.read()
    os.makedirs(folder, exist_ok=True)
    made = [*png_files(), *jpeg_files(known), *webp_files(known), *gif_files(known), *other_files(), *bent_files(known)]
    for name, data in made:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
