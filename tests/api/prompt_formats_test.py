"""Folders as DeepSeek-VL2 and DeepSeek-OCR are published, without a chat template: prompts are those that the publisher's programs write."""

import json

import pytest

from shoal_server import ShoalServer
from vision_folder import DEEPSEEK, OCR, data_uri, image_part, make_folder, png, text_part

IMAGE = image_part(data_uri(png(48, 24, (250, 10, 10))))
MARKS = {"<|grounding|>": 89, "<|ref|>": 90, "<|/ref|>": 92}
# (tower, form, tokens of IMAGE, prompts of CONVERSATIONS)
FORMATS = [
    ("deepseek_vl_v2", DEEPSEEK, 13 + 3 * 7, ["<|User|>: ab \n\n<|Assistant|>:", "be brief\n\n<|User|>: ab\n\n<|Assistant|>: c<|im_end|><|User|>: d\n\n<|Assistant|>:"]),
    ("deepseek_ocr", OCR, 4 * 9 + 13, ["ab", "be briefabcd"]),
]


@pytest.fixture(scope="module", params=FORMATS, ids=[form[0] for form in FORMATS])
def published(request, tmp_path_factory):
    tower, form, tokens, prompts = request.param
    folder = make_folder(tmp_path_factory.mktemp("model"), tower, form | {"special": form["special"] | MARKS, "characters": "\n"})
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}), encoding="utf-8")
    with ShoalServer(model=folder) as running:
        running.wait_ready()
        yield running, tokens, prompts


def message(role, *parts):
    return {"role": role, "content": [*parts] if len(parts) > 1 or not isinstance(parts[0], str) else parts[0]}


CONVERSATIONS = [[message("user", "ab ")], [message("system", "be brief"), message("user", "ab"), message("assistant", "c"), message("user", "d")]]


def tokens_of(server, *parts):
    reply = server.request("POST", "/v1/chat/completions", {"messages": [message("user", *parts)], "temperature": 0, "max_tokens": 2, "ignore_eos": True})
    assert reply.status == 200, reply.body
    return reply.json["usage"]["prompt_tokens"]


def test_prompts_are_the_publishers(published):
    server, _, prompts = published
    for conversation, prompt in zip(CONVERSATIONS, prompts):
        reply = server.request("POST", "/apply-template", {"messages": conversation})
        assert reply.status == 200, reply.body
        assert reply.json["prompt"] == prompt


def test_an_image_is_its_placeholders_and_a_newline(published):
    server, tokens, _ = published
    assert tokens_of(server, IMAGE, text_part("ab")) == tokens_of(server, "ab") + tokens + 1
    assert tokens_of(server, text_part("ab"), IMAGE, IMAGE, text_part("cd")) == tokens_of(server, "abcd") + 2 * (tokens + 1)


def test_marks_of_places_are_tokens_and_other_special_tokens_are_text(published):
    server, _, _ = published
    for mark in MARKS:
        assert tokens_of(server, f"{mark}ab") == tokens_of(server, "ab") + 1
    assert tokens_of(server, "<|ref|>a<|/ref|>b") == tokens_of(server, "ab") + 2
    assert tokens_of(server, "<image>ab") == tokens_of(server, "ab") + len("<image>")
