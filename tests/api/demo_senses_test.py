"""The demo model with its senses (tests/model/demo_senses): held-out clips of spoken digits and videos of moving shapes get the answers of
transformers, and beside images and text the same ones."""

import base64
import concurrent.futures
import json
import subprocess
import sys

import pytest

from demo_model import chat_body, questions
from shoal_server import BUILD, ROOT, ShoalServer

GOLDEN = ROOT / "tests/golden/senses"
LEAST = 0.95  # of the answers are those of transformers; 8-bit activations may turn a near tie
RIGHT = {"hear": 0.9, "watch": 0.8}  # of the answers, at least; transformers' are in tests/golden/senses/PROVENANCE.md
STREAMS = 8

pytestmark = pytest.mark.skipif(not (BUILD / "shoal-av").exists(), reason="built without FFmpeg's libraries")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("senses") / "demo-senses"
    subprocess.run([sys.executable, ROOT / "scripts/demo_model/with_senses", folder], check=True)
    with ShoalServer("--threads", "2", model=folder) as running:
        running.wait_ready()
        yield running
        running.wait_idle()


def asked(kind):
    return [one for one in json.loads((GOLDEN / "answers.json").read_text(encoding="utf-8"))["questions"] if one["kind"] == kind]


def part_of(question):
    data = base64.b64encode((GOLDEN / question["file"]).read_bytes()).decode()
    if question["kind"] == "hear":
        return {"type": "input_audio", "input_audio": {"data": data, "format": "ogg"}}
    return {"type": "video_url", "video_url": {"url": f"data:image/gif;base64,{data}"}}


def answer(server, *parts):
    body = {"messages": [{"role": "user", "content": list(parts)}], "temperature": 0, "max_tokens": 40}
    reply = server.request("POST", "/v1/chat/completions", body)
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def answer_to(server, question):
    return answer(server, part_of(question), {"type": "text", "text": question["asked"]})


@pytest.mark.parametrize("kind", ["hear", "watch"])
def test_held_out_questions_are_answered_as_by_transformers(server, kind):
    with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
        found = list(pool.map(lambda question: answer_to(server, question), asked(kind)))
    golden = [question["text"] for question in asked(kind)]
    same, right = (sum(map(str.__eq__, found, texts)) for texts in (golden, [question["wanted"] for question in asked(kind)]))
    assert same >= LEAST * len(golden), [pair for pair in zip(found, golden) if pair[0] != pair[1]]
    assert right >= RIGHT[kind] * len(golden)


def test_senses_share_steps_with_what_the_model_knew(server):
    """Clips, videos, images and text at once give what each gives alone."""
    known = [chat_body(question) for question in questions() if not question["tools"]][::20]
    mixed = asked("hear")[:6] + asked("watch")[:6]
    alone = [answer_to(server, question) for question in mixed]
    known_alone = [server.request("POST", "/v1/chat/completions", body).json["choices"][0]["message"] for body in known]
    with concurrent.futures.ThreadPoolExecutor(len(mixed) + len(known)) as pool:
        together = pool.map(lambda question: answer_to(server, question), mixed)
        known_together = pool.map(lambda body: server.request("POST", "/v1/chat/completions", body).json["choices"][0]["message"], known)
        assert list(together) == alone and list(known_together) == known_alone
