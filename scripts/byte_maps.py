"""Reads the byte maps in header comments: offset, size and name of each field of a struct that two processes share.

A byte map is a comment such as

    Byte map of struct request_id, 8 bytes. Written by the frontend.

      offset  size  field       rule
      0       4     slot        < LIMIT_LIVE_REQUESTS
      4       4     generation  any

Its table has a column `writer` where fields have different writers. Rows of a union repeat an offset.
tests/scripts/byte_maps_test.py compares every byte map with the compiler.
"""

import re

HEADING = re.compile(r"^ \* Byte map of struct (\w+), (\d+) bytes\b(.*?)^ \*   offset  size  field( .*?)\n(.*?)^ \*/?$",
                     re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^ \*   (\d+) +(\d+) +(\w+)(?: |$)", re.MULTILINE)
MEMBER = re.compile(r"\b(\w+)(?:\[\w+(?: - \w+\(\w+\))?\])?;")


class ByteMap:
    def __init__(self, header, found):
        self.header, self.struct, self.bytes = header, found[1], int(found[2])
        body = re.search(rf"^struct {self.struct} {{\n(.*?)^}};", found.string, re.MULTILINE | re.DOTALL)[1]
        self.members = MEMBER.findall(re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))
        self.has_writers = "Written by " in found[3] or "writer" in found[4]
        self.rows = [(int(offset), int(size), field) for offset, size, field in ROW.findall(found[5])]


FOLDERS = ("proto", "shm", "frontend/media")


def byte_maps(root, folders=FOLDERS):
    headers = sorted(path for folder in folders for path in (root / folder).rglob("*.h"))
    return [ByteMap(path.relative_to(root), found) for path in headers for found in HEADING.finditer(path.read_text())]
