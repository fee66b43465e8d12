"""Answers of the demo model to drawn schemas, forms of request and sampling fields are valid; scripts/random_answers runs thousands."""

import random

import pytest

import demo_model
import schema_draws
from shoal_server import ShoalServer

pytestmark = pytest.mark.long
REQUESTS = 25


def test_every_finished_answer_is_valid():
    valid = 0
    with ShoalServer("--prepare-threads", "1", model=demo_model.FOLDER) as server:
        server.wait_ready()
        for number in range(REQUESTS):
            schema, form, body = schema_draws.draw_request(random.Random(f"seven {number}"))
            reply = server.request("POST", "/v1/chat/completions", body)
            if reply.status == 400:
                assert reply.json["error"]["code"] in ("grammar_refused", "grammar_too_complex", "grammar_too_expensive"), reply.json
                continue
            assert reply.status == 200, reply.body
            for finish, text in schema_draws.answers_of(reply.json, form):
                if finish != "length" and "x-shoal-loose-tools" not in reply.headers:
                    assert schema_draws.check(schema, text) is None, (schema, text)
                    valid += 1
    assert valid > REQUESTS
