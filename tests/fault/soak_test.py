"""A server at 80 % of its capacity under every disturbance at once: no request is lost, no answer changes, memory and descriptors stay flat.

SHOAL_SOAK_MINUTES sets the time (`make soak MINUTES=30`); the long tier runs SHORT_S. Requests arrive at random times at 80 % of the rate that
the same server had undisturbed, so it is overloaded after each restart and has to catch up. Disturbances: disturbances.py.
"""

import json
import os
import random
import re
import selectors
import statistics
import threading
import time

import pytest

import demo_model
from crowd import Chat, WORDS, counted
from disturbances import (Disturbance, MemoryGroup, SmallDisks, jump_clock, kill_media, kill_worker, namespaces_work, reload_keys,
                          send_hostile_image, vanish)
from shoal_server import PATIENCE_S, ShoalServer, wait_until
from wall_clock import WallClock

SHORT_S = 20
MINUTES = float(os.environ.get("SHOAL_SOAK_MINUTES", SHORT_S / 60))
LOAD = 0.8
WIDTH = 40  # chats at once; later ones start when others end
CAPACITY_S, CAPACITY_WIDTH = 4, 16
IMAGES = 20  # of the chats of the demo model
KEY = "sk-soak-0123456789"
AUTHORIZATION = {"Authorization": f"Bearer {KEY}"}
STORED_BYTES = 2 << 20
# Growth of the frontend's private memory from the second quarter of the samples to the last.
GROWTH_SHARE, GROWTH_BYTES = 0.1, 8 << 20
DESCRIPTORS_MORE = 8  # media processes that run by chance


class SoakServer(ShoalServer):
    def request(self, method, path, body=None, headers=None):
        return super().request(method, path, body, {**AUTHORIZATION, **(headers or {})})


def text_body(number):
    length = 400 if number % 8 == 7 else 4 + number
    words = " ".join(WORDS[(number * 7 + at * at + at // 11) % len(WORDS)] for at in range(length))
    body = {"messages": [{"role": "user", "content": f"{number}: {words}"}], "seed": number, "temperature": 0.9 * (number % 3),
            "max_tokens": 8 + 5 * (number % 12), "ignore_eos": number % 4 == 0}
    if number % 5 < 3:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if number % 5 == 3:
        body |= {"logprobs": True, "top_logprobs": 2, "n": 2}
    return body


def all_bodies():
    seen = [question for question in demo_model.questions() if question["pictures"]][:IMAGES]
    return [text_body(number) for number in range(32)] + [demo_model.chat_body(question) for question in seen]


class SoakChat(Chat):
    """A chat whose whole answer is compared: log-probabilities and every choice too."""

    def __init__(self, port, number, body):
        super().__init__(port, number, body, b"Authorization: Bearer %s\r\n" % KEY.encode())

    def name(self):
        head = b"".join(data for _, data in self.arrivals[:1])
        found = re.search(rb"(?i)^x-request-id: *(\S+)\r$", head, re.MULTILINE)
        return found[1].decode() if found else "?"

    def answer(self):
        status, body = self.reply()
        if self.streamed or status != 200:
            return super().answer()
        reply = json.loads(body)
        for choice in reply["choices"]:
            for call in choice["message"].get("tool_calls") or []:
                del call["id"]  # random
        return 200, (reply["choices"], counted(reply["usage"]))


class Arrivals:
    """Chats that start at random times at a rate, or as many at once as `width` allows; each answer is compared once it is there."""

    def __init__(self, port, bodies, width, rate=None):
        self.port, self.bodies, self.width, self.rate = port, bodies, width, rate
        self.random = random.Random(1)
        self.order = []
        self.live, self.ended, self.begun = 0, 0, 0
        self.answers = {}  # number: the first answer
        self.wrong = []
        self.times = []  # (seconds to the whole answer, seconds to its first byte, number, name of the request)

    def begin(self, selector):
        if not self.order:
            self.order = self.random.sample(range(len(self.bodies)), len(self.bodies))
        number = self.order.pop()
        chat = SoakChat(self.port, number, self.bodies[number])
        chat.begun_s = time.monotonic()
        selector.register(chat.socket, selectors.EVENT_READ, chat)
        self.begun += 1
        self.live += 1

    def end(self, chat):
        self.live -= 1
        self.ended += 1
        first_s = chat.arrivals[0][0] if chat.arrivals else time.monotonic()
        self.times.append((time.monotonic() - chat.begun_s, first_s - chat.begun_s, chat.number, chat.name()))
        try:
            answer = chat.answer()
        except Exception as error:  # cut, or not HTTP: lost
            answer = ("lost", repr(error))
        if answer[0] != 200 or answer != self.answers.setdefault(chat.number, answer):
            self.wrong.append((chat.number, answer, self.answers.get(chat.number)))

    def run(self, is_over):
        """Starts no chats once is_over(), and returns when all have ended."""
        due_s = last_s = time.monotonic()
        with selectors.DefaultSelector() as selector:
            while self.live or not is_over():
                now = time.monotonic()
                assert now < last_s + PATIENCE_S, f"{self.live} chats hang"
                while not is_over() and self.live < self.width and due_s <= now:
                    self.begin(selector)
                    due_s += self.random.expovariate(self.rate) if self.rate else 0
                if not self.live:
                    last_s = now
                due_s = max(due_s, now - 1)  # at most a second's arrivals are made up for
                for key, _ in selector.select(0.02):
                    last_s = time.monotonic()
                    key.data.take()
                    if key.data.over:
                        selector.unregister(key.fileobj)
                        self.end(key.data)


class Samples(threading.Thread):
    """Private memory of the frontend, once a second, without requests to it."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.bytes, self.over = server, [], threading.Event()

    def run(self):
        while not self.over.wait(1):
            with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as status:
                self.bytes.append(int(re.search(r"RssAnon:\s+(\d+) kB", status.read())[1]) << 10)

    def stop(self):
        self.over.set()
        self.join()

    def trend(self):
        """(early, late) median bytes: the first quarter fills caches and heaps."""
        quarter = max(1, len(self.bytes) // 4)
        return statistics.median(self.bytes[quarter:2 * quarter] or self.bytes), statistics.median(self.bytes[-quarter:])


def ask_in_background(server, texts):
    """A stored response that the server makes by itself; its text is compared with the first of the same seed."""
    def act(source):
        seed = source.randrange(4)
        reply = server.request("POST", "/v1/responses", {"input": "Tell a story.", "seed": seed, "temperature": 0.8, "ignore_eos": True,
                                                         "max_output_tokens": 40, "background": True})
        assert reply.status == 200, reply.body
        path = f"/v1/responses/{reply.json['id']}"

        def final():
            now = server.get(path)
            assert now.status == 200, now.body
            return now.json if now.json["status"] not in ("queued", "in_progress") else None

        made = wait_until(final, "the response")
        text = "".join(part["text"] for item in made["output"] for part in item.get("content", []))
        assert (made["status"], text) == ("incomplete", texts.setdefault(seed, text)), made
        return True
    return act


def open_descriptors(server):
    return int(server.metrics()["process_open_fds"])


def idle(server):
    server.wait_ready()
    server.wait_idle()


@pytest.mark.long
def test_soak(tmp_path, say):
    bodies = all_bodies()
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")
    keys.chmod(0o600)
    (tmp_path / "state").mkdir(mode=0o700)
    disks = SmallDisks(tmp_path) if namespaces_work() else None
    group = MemoryGroup()
    clock = WallClock(tmp_path)
    server = SoakServer("--max-sequences", str(WIDTH), "--api-key-file", str(keys), "--state-dir", str(tmp_path / "state"),
                        "--response-store-bytes", str(STORED_BYTES), "--max-queue", "1000",
                        model=demo_model.FOLDER, environment=clock.environment, wrapper=disks.wrapper if disks else (),
                        pass_fds=disks.pass_fds if disks else ())
    if disks:
        server.log_text = disks.log_text
    try:
        with server:
            if disks:
                disks.begin()
            run_soak(server, bodies, tmp_path, disks, group, clock, say)
    finally:
        group.end()
        if disks:
            disks.end()


def report(folder, server, soak, errors):
    """What a failed soak is explained with: the server's log, all errors, the slowest answers."""
    (folder / "server.log").write_text(server.log_text())
    (folder / "errors").write_text("\n".join(errors))
    slow = sorted(soak.times, reverse=True)[:200]
    (folder / "slow_answers").write_text("".join(f"{all_s:.1f} s, first byte {first_s:.1f} s, body {number}, {name}\n"
                                                 for all_s, first_s, number, name in slow))


def run_soak(server, bodies, tmp_path, disks, group, clock, say):
    keys = tmp_path / "keys"
    idle(server)
    calm = Arrivals(server.port, bodies, CAPACITY_WIDTH)
    calm.run(lambda: calm.begun >= 2 * len(bodies))  # every answer, twice
    texts = {}
    made = Disturbance("stored responses", 0.2, ask_in_background(server, texts))
    for seed in range(4):
        made.act(random.Random(seed))
    began_s = time.monotonic()
    capacity = Arrivals(server.port, bodies, CAPACITY_WIDTH)
    capacity.answers = calm.answers
    capacity.run(lambda: time.monotonic() > began_s + CAPACITY_S)
    rate = capacity.ended / (time.monotonic() - began_s)
    assert not calm.wrong and not capacity.wrong, (calm.wrong + capacity.wrong)[:2]
    idle(server)
    descriptors = open_descriptors(server)

    disturbances = [
        made,
        Disturbance("kills of workers", 2, kill_worker(server)),
        Disturbance("kills of media processes", 2, kill_media(server)),
        Disturbance("hostile images", 0.2, send_hostile_image(server)),
        Disturbance("vanished clients", 0.1, vanish(server, bodies, b"Authorization: Bearer %s\r\n" % KEY.encode())),
        Disturbance("signals", 0.2, reload_keys(server, keys, KEY)),
        Disturbance("clock jumps", 1, jump_clock(clock)),
    ]
    if disks:
        disturbances.append(Disturbance("full disks", 3, disks.fill))
    else:
        say("NOT RUN: full disks (this system does not permit user and mount namespaces)")
    if group.works:
        disturbances.append(Disturbance("memory kills", 5, group.starve(server)))
    else:
        say("NOT RUN: memory kills (no cgroup with a memory limit can be made here)")

    soak = Arrivals(server.port, bodies, WIDTH, LOAD * rate)
    soak.answers = calm.answers
    samples = Samples(server)
    ends_s = time.monotonic() + 60 * MINUTES
    began_s = time.monotonic()
    try:
        for disturbance in [samples, *disturbances]:
            disturbance.start()
        soak.run(lambda: time.monotonic() > ends_s)
    finally:
        for disturbance in [samples, *disturbances]:
            disturbance.stop()
    duration_s = time.monotonic() - began_s

    idle(server)
    after = Arrivals(server.port, bodies, CAPACITY_WIDTH)
    after.answers = calm.answers
    after.run(lambda: after.begun >= len(bodies))
    idle(server)
    values = server.metrics()
    early, late = samples.trend()
    say(f"{duration_s:.0f} s at {LOAD:.0%} of {rate:.1f} requests/s: {soak.ended} answers, {len(soak.wrong)} lost or changed, slowest "
        f"{max(soak.times)[0]:.1f} s, 99 % within {sorted(soak.times)[len(soak.times) * 99 // 100][0]:.1f} s; " + ", ".join(f"{one.count} {one.name}" for one in disturbances))
    say(f"{values['shoal_worker_restarts_total']:.0f} worker restarts, {values['shoal_requests_replayed_total']:.0f} replays, "
        f"{values['shoal_media_restarts_total']:.0f} media restarts; memory of the frontend {early / 1e6:.1f} to {late / 1e6:.1f} MB; "
        f"{descriptors} to {open_descriptors(server)} descriptors")
    errors = [error for one in disturbances for error in one.errors]
    report(tmp_path, server, soak, errors)
    assert not errors, f"{len(errors)} errors: " + "\n".join({error.splitlines()[-1]: error for error in errors}.values())
    assert not soak.wrong, f"{len(soak.wrong)} lost or changed: {soak.wrong[:2]}"
    assert not after.wrong, after.wrong[:2]
    assert values["shoal_requests_quarantined_total"] == 0
    assert all(one.count > 0 for one in disturbances if one.name != "memory kills")
    assert late < early * (1 + GROWTH_SHARE) + GROWTH_BYTES
    assert open_descriptors(server) <= descriptors + DESCRIPTORS_MORE
