"""Small image files that take long to decode, and the CPU time that a server spends on them."""

import base64
import os
import pathlib
import struct


def plain_webp(width, height):
    """A lossless WebP of one colour: 40 bytes at any size, while libwebp's decoding time grows with the pixels."""
    bits, count = 0, 0
    # A size, no alpha, version 0; no transform, cache or groups; codes of one symbol: green, red, blue, alpha, distance.
    for value, width_bits in [(0x2F, 8), (width - 1, 14), (height - 1, 14), (0, 1), (0, 3), (0, 1), (0, 1), (0, 1),
                              *[(0b101, 3), (77, 8)] * 4, (0b001, 3), (0, 1)]:
        bits |= value << count
        count += width_bits
    data = bits.to_bytes(count // 8 + 2, "little")
    data += b"\0" * (len(data) % 2)
    chunk = b"WEBPVP8L" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunk)) + chunk


def progressive_jpeg(side, scans):
    """A gray JPEG of scans without data; each scan costs libjpeg a pass over all blocks."""
    def segment(marker, data):
        return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data
    return (b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64) + segment(0xC2, struct.pack(">BHHB3B", 8, side, side, 1, 1, 0x11, 0))
            + segment(0xC4, b"\0\1" + b"\0" * 16) + segment(0xDA, b"\1\1\0\0\0\0") * scans + b"\xff\xd9")


def image_parts(count, data):
    url = "data:;base64," + base64.b64encode(data).decode()
    return [{"type": "image_url", "image_url": {"url": url}} for _ in range(count)]


def cpu_seconds(server):
    """CPU time of the frontend and its media processes, those that have ended included."""
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + server.metrics()["shoal_media_cpu_seconds_total"]
