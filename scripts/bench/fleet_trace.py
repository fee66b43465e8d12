"""Arrival traces of scripts/bench/fleet_sim: files, and a generator with a seed.

A trace has one JSON object a line, in order of time:

    {"timestamp": 1250, "input_length": 700, "output_length": 120, "hash_ids": [4, 5, 9], "answer_hash_ids": [10, 11]}

timestamp        ms since the start
input_length     prompt tokens
output_length    tokens of the answer
hash_ids         identity of each block of the prompt (--trace-block tokens, 512 unless stated): two prompts that begin with the same ids begin
                 with the same tokens. A last block that is not full counts for nothing. Without the list no prompt shares anything.
answer_hash_ids  optional: the blocks that the answer fills behind those, so that a later prompt with this answer in it finds them

The first four are the fields of the traces that Mooncake published (github.com/kvcache-ai/Mooncake, FAST25-release/traces), so these can be
replayed as they are.
"""

import dataclasses
import json
import random

LINE_BYTES = 1 << 20
REQUESTS = 1 << 20
TOKENS = 1 << 20


@dataclasses.dataclass
class Request:
    at_s: float
    prompt: int  # tokens, >= 1
    answer: int  # tokens, >= 1
    ids: tuple = ()  # of the full blocks of the prompt
    answer_ids: tuple = ()  # of the full blocks after them


class TraceError(Exception):
    pass


def _whole(value, least, name, place):
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= TOKENS:
        raise TraceError(f"{place}: {name} is a whole number from {least} to {TOKENS}")
    return value


def _ids(record, name, place):
    ids = record.get(name, [])
    if not isinstance(ids, list) or not all(isinstance(one, (int, str)) for one in ids):
        raise TraceError(f"{place}: {name} is a list of numbers or texts")
    return tuple(ids)


def parse(record, block, place):
    """The Request of one line's object."""
    if not isinstance(record, dict):
        raise TraceError(f"{place}: not an object")
    at_ms = record.get("timestamp")
    if isinstance(at_ms, bool) or not isinstance(at_ms, (int, float)) or not 0 <= at_ms < 1e12:
        raise TraceError(f"{place}: timestamp is a number of milliseconds")
    prompt = _whole(record.get("input_length"), 1, "input_length", place)
    answer = _whole(record.get("output_length"), 1, "output_length", place)
    full = prompt // block
    after = (prompt + answer - 1) // block - full  # the last token is sent, not computed
    return Request(at_ms / 1000, prompt, answer, _ids(record, "hash_ids", place)[:full], _ids(record, "answer_hash_ids", place)[:after])


def read(path, block):
    requests = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            place = f"{path}:{number}"
            if len(line) > LINE_BYTES or number > REQUESTS:
                raise TraceError(f"{place}: more than {LINE_BYTES} bytes a line or {REQUESTS} lines")
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:
                raise TraceError(f"{place}: not JSON") from None
            requests.append(parse(record, block, place))
            if len(requests) > 1 and requests[-1].at_s < requests[-2].at_s:
                raise TraceError(f"{place}: earlier than the line before")
    if not requests:
        raise TraceError(f"{path}: no request")
    return requests


def write(path, requests):
    with open(path, "w", encoding="utf-8") as out:
        for one in requests:
            record = {"timestamp": round(one.at_s * 1000, 3), "input_length": one.prompt, "output_length": one.answer, "hash_ids": one.ids}
            if one.answer_ids:
                record["answer_hash_ids"] = one.answer_ids
            out.write(json.dumps(record) + "\n")


@dataclasses.dataclass
class Shape:
    """What the generator draws. Lengths are exponential with these means, at least 1 and at most four times the mean."""
    rate: float = 4.0  # conversations a second begin, as a Poisson process
    seconds: float = 300.0
    systems: int = 8  # system prompts that conversations share
    system_tokens: int = 512
    question_tokens: int = 128
    answer_tokens: int = 128
    turns: int = 4  # of a conversation, at most; each number from 1 on is as likely
    pause_s: float = 10.0  # mean time that a user reads and writes before the next turn


def _length(draw, mean):
    return min(max(1, round(draw.expovariate(1 / mean))), 4 * mean)


def generate(shape, seed, block):
    """Conversations: a system prompt, then turns whose prompts hold all before them. The next turn is planned from the time of the turn before,
    whatever a server takes, so that all policies see the same arrivals."""
    draw = random.Random(seed)
    requests, names, at_s = [], iter(range(1, 1 << 62)), 0.0
    systems = [[next(names) for _ in range(shape.system_tokens // block)] for _ in range(shape.systems)]
    while True:
        at_s += draw.expovariate(shape.rate)
        if at_s >= shape.seconds:
            break
        ids, tokens, turn_s = list(draw.choice(systems)), shape.system_tokens, at_s
        for _ in range(draw.randint(1, shape.turns)):
            prompt = tokens + _length(draw, shape.question_tokens)
            answer = _length(draw, shape.answer_tokens)
            tokens = prompt + answer
            full, all_full = prompt // block, (tokens - 1) // block
            ids += [next(names) for _ in range(tokens // block - len(ids))]
            if turn_s < shape.seconds:
                requests.append(Request(turn_s, prompt, answer, tuple(ids[:full]), tuple(ids[full:all_full])))
            turn_s += draw.expovariate(1 / shape.pause_s)
    return sorted(requests, key=lambda one: one.at_s)
