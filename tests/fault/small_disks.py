"""Runs a server on disks that a test fills and empties.

usage: unshare --user --map-root-user --mount python3 small_disks.py CONTROL_FD FOLDER -- COMMAND...

Mounts a tmpfs of 4 MB each over FOLDER/state, FOLDER/log and /dev/shm in the server's own mount namespace, then executes COMMAND with its
standard error in FOLDER/log. Another process of the namespace reads CONTROL_FD: "f" fills all three disks to the last byte, "e" empties them
again, each answered by the same letter; it ends when the descriptor is closed. It copies the log to FOLDER/log_copy and cuts the original, so
the disk is full only when it was filled.
"""

import ctypes
import os
import pathlib
import select
import socket
import sys

BYTES = 4 << 20
LOG_BYTES = 256 << 10
LOOK_S = 0.05
PR_SET_NAME = 15


def mount(folder):
    folder.mkdir(exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, f"size={BYTES},mode=700".encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {folder}")


def fill(path):
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                pass


class LogCopy:
    def __init__(self, log, copy):
        self.log, self.copy, self.at = open(log, "r+b", buffering=0), open(copy, "ab", buffering=0), 0

    def look(self):
        """The server appends; a line that it writes between reading and cutting is lost."""
        part = os.pread(self.log.fileno(), 1 << 20, self.at)
        self.copy.write(part)
        self.at += len(part)
        if self.at > LOG_BYTES:
            self.log.truncate(0)
            self.at = 0


def serve_control(control, folder, disks):
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"small_disks", 0, 0, 0)
    log = LogCopy(folder / "log" / "log", folder / "log_copy")
    while True:
        readable, _, _ = select.select([control], [], [], LOOK_S)
        log.look()
        if not readable:
            continue
        letter = control.recv(1)
        if not letter:
            return
        for disk in disks:
            fill(disk / "filler") if letter == b"f" else (disk / "filler").unlink(missing_ok=True)
        control.send(letter)


def main():
    descriptor, folder, command = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[4:]
    control = socket.socket(fileno=descriptor)
    disks = [folder / "state", folder / "log", pathlib.Path("/dev/shm")]
    for disk in disks:
        mount(disk)
    log = os.open(folder / "log" / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fork() == 0:  # an orphan, so the server has no child that it does not know
        if os.fork() == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            serve_control(control, folder, disks)
        os._exit(0)
    os.wait()
    control.close()
    os.dup2(log, 2)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
