"""A wall clock that a test sets for one server: tests/fault/clock_jump.c, compiled and preloaded."""

import os
import pathlib
import struct
import subprocess


class WallClock:
    """`environment` is for the server; jump() acts on its processes at once."""

    def __init__(self, folder):
        library, self.path = pathlib.Path(folder) / "clock_jump.so", pathlib.Path(folder) / "clock"
        source = pathlib.Path(__file__).with_name("clock_jump.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", f'-DCLOCK_FILE="{self.path}"', "-o", library, source, "-ldl"], check=True)
        self.path.write_bytes(struct.pack("<q", 0))
        self.environment = {"LD_PRELOAD": str(library)}

    def jump(self, offset_s):
        """Sets the distance to the true time."""
        descriptor = os.open(self.path, os.O_WRONLY)
        os.pwrite(descriptor, struct.pack("<q", int(offset_s)), 0)
        os.close(descriptor)
