"""Features of images outlive a worker that is killed: an image whose encoding finished is not encoded again, one whose encoding did not finish
is, and the answer is the one that the chat gets without a death. Damaged records change no answer.
"""

import glob
import os
import random
import signal
import struct
import time

import pytest

from shoal_server import COMPILING_S, ShoalServer, wait_until
from vision_folder import data_uri, image_part, make_folder, png, text_part

HEAD_BYTES = 4096  # of the vault, before the records
HEAD = struct.Struct("<8sIIQQQ5II16sQQ")
RECORD_BYTES = 128  # of a block
IMAGE_RECORD_BYTES = 80
PATCHES_METRIC = "shoal_patch_rows_total"
ATTEMPTS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture()
def server(folder):
    with ShoalServer("--device", "cpu", model=folder) as running:
        running.wait_ready()
        yield running


def draw_images(count):
    return [png(64, 32, tuple(random.randrange(256) for _ in range(3))) for _ in range(count)]


def patches(server):
    return server.metrics()[PATCHES_METRIC]


def ask(server, images, max_tokens, stream=False):
    """cache_prompt is off, so that only features can spare work."""
    parts = [image_part(data_uri(image)) for image in images] + [text_part("what are these?")]
    options = dict(max_tokens=max_tokens, temperature=0.7, seed=5, cache_prompt=False, ignore_eos=True)
    if stream:
        return server.open_stream(parts, **options)
    reply = server.chat(parts, **options)
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def text_of(events):
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event.get("choices", []))


def successor(server, pid):
    wait_until(lambda: server.worker_pid() not in (None, pid), "the next worker")
    server.wait_ready()


def kill(server):
    pid = server.worker_pid()
    os.kill(pid, signal.SIGKILL)
    return pid


def test_an_encoded_image_is_not_encoded_again(server, say):
    """Killed after the first token of an answer, so after the encode."""
    for _ in range(ATTEMPTS):
        images = draw_images(3)
        before = patches(server)
        events = ask(server, images, 200, stream=True).events()
        first = [next(events), next(events)]
        pid = kill(server)
        streamed = text_of(first + list(events))
        successor(server, pid)
        if server.metrics()["shoal_requests_replayed_total"] > 0:
            break
    server.wait_idle()
    encoded = patches(server) - before
    expected = ask(server, images, 200)
    say(f"{encoded:.0f} patch rows encoded for 3 images with a death; {server.metrics()['shoal_worker_restarts_total']:.0f} deaths")
    assert encoded == 3 * 16 * 8
    assert streamed == expected
    assert patches(server) - before == 3 * 16 * 8  # the second chat found them too
    assert server.request("POST", "/v1/cache/reset").status == 200
    assert ask(server, images, 200) == expected  # encoded again
    assert patches(server) - before == 6 * 16 * 8
    assert "features of images: 3 of an earlier worker taken over; 0 damaged records" in server.log_text()


def test_a_reset_reaches_the_next_worker(server):
    images = draw_images(2)
    ask(server, images, 2)
    assert server.request("POST", "/v1/cache/reset").status == 200
    ask(server, draw_images(1), 2)
    successor(server, kill(server))
    assert "features of images: 1 of an earlier worker taken over; 0 damaged records" in server.log_text()


def image_records(path):
    """Place of the records of images in the vault, and their number."""
    with open(path, "rb") as vault:
        fields = HEAD.unpack(vault.read(HEAD.size))
    assert fields[0] == b"SHOALKVC"
    counts, images = fields[6:11], fields[11]
    return HEAD_BYTES + sum(counts) * RECORD_BYTES, images


@pytest.mark.parametrize("damage", ["commit", "hash", "rows"])
def test_damaged_records_are_dropped(server, damage):
    images = draw_images(4)
    expected = ask(server, images, 30)
    before = patches(server)
    pid = server.worker_pid()
    path = next(name for name in glob.glob(f"/proc/{pid}/fd/*") if "memfd:shoal-kv" in os.readlink(name))
    records, count = image_records(path)
    assert count >= 4
    at = {"commit": 3, "hash": 16, "rows": 68}[damage]
    with open(path, "r+b") as vault:
        for number in range(4):
            vault.seek(records + number * IMAGE_RECORD_BYTES + at)
            byte = vault.read(1)[0]
            vault.seek(-1, os.SEEK_CUR)
            vault.write(bytes([byte ^ random.randrange(1, 256)]))
    successor(server, kill(server))
    assert "features of images: 0 of an earlier worker taken over; 4 damaged records" in server.log_text()
    assert ask(server, images, 30) == expected
    assert patches(server) - before == 4 * 16 * 8


@pytest.mark.long
def test_they_outlive_a_vulkan_worker(folder):
    """On Mesa's driver, whose memory is exported as a GPU's; the exact answer depends on the row's company there, so the chats run alone."""
    options = ("--device", "vulkan", "--step-tokens", "512", "--worker-timeout", str(COMPILING_S), "--pipeline-cache", "none",
               "--kv-cache-bytes", "16M")
    with ShoalServer(*options, model=folder) as server:
        server.wait_ready(COMPILING_S)
        images = draw_images(3)
        expected = ask(server, images, 20)
        before = patches(server)
        pid = kill(server)
        wait_until(lambda: server.worker_pid() not in (None, pid), "the next worker")
        server.wait_ready(COMPILING_S)
        assert ask(server, images, 20) == expected
        assert patches(server) == before == 3 * 16 * 8
        assert "features of images: 3 of an earlier worker taken over; 0 damaged records" in server.log_text()


@pytest.mark.long
def test_deaths_at_random_times_change_no_answer(server, say):
    """Kills hit encodings, prompts and answers alike."""
    images = draw_images(12)
    expected = {i: ask(server, images[i:i + 4], 40) for i in range(9)}
    assert server.request("POST", "/v1/cache/reset").status == 200
    deaths, until = 0, time.monotonic() + 20
    while time.monotonic() < until:
        stream = ask(server, images[(at := random.randrange(9)):at + 4], 40, stream=True)
        time.sleep(random.random() * 0.2)
        pid = kill(server)
        deaths += 1
        assert text_of(stream.events()) == expected[at]
        successor(server, pid)
    say(f"{deaths} deaths, {patches(server):.0f} patch rows")
