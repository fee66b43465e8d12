"""Families that see, from a picture in a request to a token of the answer: processor, marker, tower and text fit together."""

import pytest

from shoal_server import ShoalServer
from vision_folder import GEMMA4, QWEN, data_uri, image_part, make_folder, png, text_part

WIDE = image_part(data_uri(png(48, 24, (250, 10, 10))))
TALL = image_part(data_uri(png(24, 40, (10, 10, 250))))

# What WIDE and TALL stand for: Qwen's squares of 8 pixels, with a token on either side; of Gemma's squares of 12 as many as
# fit 70, 11 x 5 and 6 x 10, likewise.
FAMILIES = [("qwen3_vl_moe", QWEN, 6 * 3 + 2, 3 * 5 + 2), ("gemma4", GEMMA4, 11 * 5 + 2, 6 * 10 + 2)]


@pytest.fixture(scope="module", params=FAMILIES, ids=[family[0] for family in FAMILIES])
def family(request, tmp_path_factory):
    tower, form, wide_tokens, tall_tokens = request.param
    with ShoalServer(model=make_folder(tmp_path_factory.mktemp("model"), tower, form)) as running:
        running.wait_ready()
        yield running, wide_tokens, tall_tokens


def ask(server, *turns):
    """Each turn is a user's; between them the assistant said something."""
    messages = []
    for parts in turns:
        messages += [{"role": "user", "content": [*parts, text_part("b")]}, {"role": "assistant", "content": "c"}]
    reply = server.request("POST", "/v1/chat/completions", {
        "messages": messages[:-1], "temperature": 0, "max_tokens": 6, "logprobs": True, "ignore_eos": True})
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["logprobs"]["content"], reply.json["usage"]["prompt_tokens"]


def test_pictures_in_turns_count_their_tokens(family):
    server, wide_tokens, tall_tokens = family
    none, one, both = ([], []), ([WIDE], []), ([WIDE], [TALL])
    empty = ask(server, *none)[1]
    assert ask(server, *one)[1] - empty == wide_tokens
    assert ask(server, *both)[1] - empty == wide_tokens + tall_tokens
    assert ask(server, [WIDE, TALL], [])[1] - empty == wide_tokens + tall_tokens


def test_the_answer_hangs_on_what_is_shown_and_where(family):
    server, _, _ = family
    answers = [ask(server, *turns)[0] for turns in (([WIDE], [TALL]), ([TALL], [WIDE]), ([WIDE], [WIDE]), ([TALL], [TALL]))]
    assert ask(server, [WIDE], [TALL])[0] == answers[0]
    for i, answer in enumerate(answers):
        assert answer not in answers[:i]
