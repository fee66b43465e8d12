"""Bodies are JSON as RFC 8259 defines it: what Python's strict reader refuses is a 400, and so is an object with a name twice."""

import json
import random

import pytest

BODY = json.dumps({"messages": [{"role": "user", "content": "Hi \u00e9\n"}], "max_tokens": 1, "temperature": 0.5,
                   "stop": ["x"], "stream": False, "seed": 7, "logit_bias": {"5": -1.5e1}})


def strictly_read(text):
    """The value, or None for what is no JSON; raises KeyError for a name twice."""
    def unique(pairs):
        if len(dict(pairs)) < len(pairs):
            raise KeyError(pairs)
        return dict(pairs)

    def refuse(word):
        raise ValueError(word)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except ValueError:
        return None


@pytest.mark.parametrize("before, after", [("0.5", "00.5"), ("1,", "007,"), ("1,", "+1,"), ("1,", "1.,"), ("Hi ", "Hi \n"),
                                           ("Hi ", "Hi \t"), ("Hi ", "\\x41"), ("[\"x\"]", "[\"x\",]"), ("false", "False"),
                                           ("0.5", "NaN"), ("0.5", "Infinity"), ("}}", "}} x"), ("Hi ", "\\u0000")])
def test_what_is_no_json_is_refused(server, before, after):
    assert before in BODY
    reply = server.request("POST", "/v1/chat/completions", BODY.replace(before, after, 1))
    assert reply.status == 400 and "JSON" in reply.error["message"] and "byte" in reply.error["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/tokenize"])
def test_bytes_that_are_not_utf8_are_refused(server, path):
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xc3"):
        body = b'{"prompt":"a%sb","input":"a","messages":[],"max_tokens":1}' % bad
        reply = server.request("POST", path, body)
        assert reply.status == 400 and "not valid UTF-8 (byte 12)" in reply.json["error"]["message"], reply.body


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/tokenize"])
def test_a_name_twice_is_refused(server, path):
    for body in ('{"max_tokens":1,"max_tokens":2,"prompt":"x"}', '{"prompt":"x","a":{"b":[{"max_tokens":1,"max_tokens":1}]}}'):
        reply = server.request("POST", path, body)
        assert reply.status == 400 and "two members 'max_tokens'" in reply.json["error"]["message"]


def test_every_mutation_is_read_as_pythons_reader_reads_it(server):
    """2,000 bodies with one to three bytes changed; those that stay JSON may be refused for what they ask, not as JSON."""
    draw = random.Random(random.randrange(1 << 30))
    letters = '{}[]",:\\0123456789.-+eEtrufalsn \n\t\x01'
    for _ in range(2000):
        text = list(BODY)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(text))
            text[at:at + draw.randint(0, 1)] = [draw.choice(letters)] if draw.random() < 0.8 else []
        text = "".join(text)
        try:
            refused = not isinstance(strictly_read(text), dict)
        except KeyError:
            refused = True
        reply = server.request("POST", "/tokenize", text)  # refuses these fields in another way: no answer is computed
        words = reply.error["message"] if reply.status == 400 else ""
        as_json = "JSON" in words or "two members" in words
        assert as_json == refused, (text, reply.status, words)
