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


def test_a_side_beyond_the_towers_positions_is_refused_by_numbers(tmp_path):
    """The tiny mixture of Gemma 4 has 12 positions along a side: one square of 12 x 12 patches of them."""
    form = GEMMA4 | {"processor": GEMMA4["processor"] | {"pooling_kernel_size": 2}}
    with ShoalServer(model=make_folder(tmp_path, "gemma4_moe", form)) as server:
        server.wait_ready()
        reply = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": [text_part("a"), WIDE]}]})
        assert reply.status == 400, reply.body
        assert (reply.json["error"]["code"], reply.json["error"]["param"]) == ("invalid_image", "messages[0].content[1]")
        assert "48 x 24 pixels becomes 22 x 10 patches, and this model has positions for 12" in reply.json["error"]["message"]
        assert len(ask(server, [])[0]) == 6


def test_more_patches_than_a_worker_takes_are_refused_by_numbers(tmp_path):
    form = QWEN | {"processor": QWEN["processor"] | {"max_pixels": 1 << 20}}
    with ShoalServer(model=make_folder(tmp_path, "qwen2_5_vl", form)) as server:
        server.wait_ready()
        large = image_part(data_uri(png(640, 576, (250, 10, 10))))
        body = {"messages": [{"role": "user", "content": [text_part("a"), large]}]}
        reply = server.request("POST", "/v1/chat/completions", body)
        assert reply.status == 400, reply.body
        assert reply.json["error"]["param"] == "messages[0].content[1]"
        assert "640 x 576 pixels becomes 23040 patches, more than 20480" in reply.json["error"]["message"]
        reply = server.request("POST", "/v1/chat/completions", body | {"resize_shape": [64, 64], "max_tokens": 1})
        assert reply.status == 200, reply.body
