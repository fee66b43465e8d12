"""What the soak does to a server while it answers: kills, hostile and vanishing clients, signals, full disks, memory limits, clock jumps.

Each disturbance is a thread that repeats one action. `count` is the number of actions that had an effect; `errors` are exceptions, which a
soak must not have.
"""

import base64
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

from hostile_images_test import hostile_files, send
from shoal_server import process_is_alive

FILLED_S = 1.5
STARVED_S = 5
JUMPS_S = [0, 3600, -3600, 86400, -86400, 315360000, -315360000]
CGROUPS = [pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")]


class Disturbance(threading.Thread):
    """Calls act(random) about every `every_s` until stop(). A true result counts."""

    def __init__(self, name, every_s, act):
        super().__init__(name=name, daemon=True)
        self.every_s, self.act = every_s, act
        self.count, self.errors = 0, []
        self.random = random.Random(name)
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(self.every_s * self.random.uniform(0.7, 1.3)):
            try:
                self.count += bool(self.act(self.random))
            except Exception:  # reported at the end of the soak
                self.errors.append(traceback.format_exc())

    def stop(self):
        self.ended.set()
        self.join()


def kill_one(pids):
    """Kills the first of them that there still is."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def kill_worker(server):
    return lambda _: kill_one([pid for pid in [server.worker_pid()] if pid])


def kill_media(server):
    return lambda source: kill_one(source.sample(pids := server.media_pids(), len(pids)))


def send_hostile_image(server):
    urls = [(name, f"data:image/png;base64,{base64.b64encode(data).decode()}") for name, data in hostile_files()]

    def act(source):
        name, url = source.choice(urls)
        status, words = send(server, source.randrange(3), url)
        assert status != (200 if name.startswith("refused-") else 400 if name.startswith("taken-") else 0), (name, words)
        return True
    return act


def vanish(server, bodies, headers):
    """A client that sends part of a request, or a whole one, reads some of the reply, and resets the connection."""
    def act(source):
        text = json.dumps(source.choice(bodies)).encode()
        request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n" % (headers, len(text)) + text
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(request[:source.choice([source.randrange(len(request)), len(request)])])
            client.settimeout(source.choice([0.001, 0.05, 0.5]))
            with contextlib.suppress(TimeoutError):
                client.recv(source.randrange(1, 4000))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        return True
    return act


def reload_keys(server, path, key):
    """SIGHUP with a key file that changes and always has `key`."""
    def act(source):
        new = path.with_name("new_keys")
        new.write_text(f"{key}\n" + f"sk-other-{source.random()}\n" * source.randrange(2))
        new.chmod(0o600)
        new.rename(path)
        server.process.send_signal(signal.SIGHUP)
        return True
    return act


def jump_clock(clock):
    def act(source):
        clock.jump(source.choice(JUMPS_S) + source.randrange(100))
        return True
    return act


# --- full disks ---------------------------------------------------------------------------------------------------------


class SmallDisks:
    """Disks of a server (small_disks.py). `wrapper` and `pass_fds` are for its start."""

    def __init__(self, folder):
        self.folder = folder
        self.control, theirs = socket.socketpair()
        self.control.settimeout(60)
        theirs.set_inheritable(True)
        self.theirs = theirs
        self.pass_fds = (theirs.fileno(),)
        self.wrapper = [*NAMESPACE, sys.executable, str(pathlib.Path(__file__).with_name("small_disks.py")), str(theirs.fileno()),
                        str(folder), "--"]

    def begin(self):
        """The server has started: only its namespace has the other end now."""
        self.theirs.close()

    def order(self, letter):
        self.control.send(letter)
        assert self.control.recv(1) == letter

    def fill(self, _):
        self.order(b"f")
        time.sleep(FILLED_S)
        self.order(b"e")
        return True

    def end(self):
        self.control.close()

    def log_text(self):
        path = self.folder / "log_copy"
        return path.read_text(errors="replace") if path.exists() else ""


NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def namespaces_work():
    mount = "mount -t tmpfs none /dev/shm"
    return subprocess.run([*NAMESPACE, "sh", "-c", mount], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


# --- the kernel's OOM killer ----------------------------------------------------------------------------------------------


class MemoryGroup:
    """A cgroup in which a process gets no more memory. `works` is false where cgroups cannot be made."""

    def __init__(self):
        self.folder = self.limit = None
        for root in CGROUPS:
            with contextlib.suppress(OSError):
                folder = root / f"shoal-soak-{os.getpid()}"
                folder.mkdir()
                found = [folder / name for name in ("memory.limit_in_bytes", "memory.max") if (folder / name).exists()]
                if found:
                    self.folder, self.limit = folder, found[0]
                    break
                folder.rmdir()
        self.works = self.folder is not None

    def kills(self):
        """By the kernel, in this group."""
        text = "".join(path.read_text() for path in self.folder.glob("memory.*") if path.name in ("memory.oom_control", "memory.events"))
        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def starve(self, server):
        """Every new page of the worker is over the limit, so the kernel kills it as soon as it needs one."""
        def act(_):
            before, pid = self.kills(), server.worker_pid()
            if not pid:
                return False
            with contextlib.suppress(ProcessLookupError):
                self.limit.write_text("4096")
                (self.folder / "cgroup.procs").write_text(str(pid))
            end = time.monotonic() + STARVED_S
            while process_is_alive(pid) and time.monotonic() < end:
                time.sleep(0.05)
            self.limit.write_text("-1" if self.limit.name != "memory.max" else "max")
            return self.kills() > before
        return act

    def end(self):
        if self.works:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
                    return
                time.sleep(0.1)
