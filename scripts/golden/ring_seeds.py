#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets fuzz_submit_ring and fuzz_ring_records.

usage: ring_seeds.py FOLDER

FOLDER is tests/fuzz/corpus; the seeds go to its folders submit_ring and ring_records. Records are laid out by the byte
maps in the headers of proto/ and shm/, so a changed record needs only another run. The same bytes every time.
"""

import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from byte_maps import byte_maps  # noqa: E402

MAPS = {one.struct: one for one in byte_maps(ROOT)}
RUN, CANCEL, DRAIN, RESET, VOCABULARY, ADAPTER = 1, 2, 3, 4, 5, 6  # enum submit_kind
TOKEN, FINISHED, FAILED, PAYLOAD_DONE, PROGRESS, ALTERNATIVES, PROMPT_TOKEN, ADAPTER_READ = 1, 2, 3, 4, 5, 6, 7, 9  # enum token_event_kind
LOGPROBS, THINKING_OPEN, THINKING_BUDGET = 2, 4, 8  # SUBMIT_FLAG_*
CHUNK_OFFSET = 64  # of the first chunk's payload in a slab
PAGE = 4096
REQUEST = struct.pack("<II", 5, 9)


def pack(name, **fields):
    """The bytes of a struct: numbers, floats, lists of either, or bytes; other fields are zero."""
    record = bytearray(MAPS[name].bytes)
    places = {field: (offset, size) for offset, size, field in MAPS[name].rows}
    for field, value in fields.items():
        offset, size = places[field]
        values = value if isinstance(value, list) else [value]
        if isinstance(value, bytes):
            part = value
        elif isinstance(values[0], float):
            part = struct.pack(f"<{len(values)}f", *values)
        else:
            part = b"".join(number.to_bytes(size // len(values), "little") for number in values)
        assert len(part) <= size, (name, field)
        record[offset:offset + len(part)] = part
    return bytes(record)


def ids(*values):
    return struct.pack(f"<{len(values)}I", *values)


SAMPLING = pack("sampling_params", temperature=0.7, top_p=0.9, typical_p=1.0, repetition_penalty=1.0, top_k=40)


def submit(kind=RUN, generation=1, payload=b"", **run):
    """A submit record whose counts are those of its payload."""
    parameters = pack("run_params", **{"max_new_tokens": 16, "sampling": SAMPLING, **run})
    return pack("submit_record", kind=kind, payload_generation=generation, request=REQUEST,
                payload_offset=CHUNK_OFFSET, payload_bytes=len(payload), run=parameters)


def vocabulary(tokens, ends):
    """The payload of a vocabulary record: the bytes of each token, and the tokens that end a text."""
    offsets = [sum(map(len, tokens[:count])) for count in range(len(tokens) + 1)]
    return ids(*offsets, *ends) + b"".join(tokens)


def submit_vocabulary(tokens, ends, generation=1):
    sizes = pack("token_table_sizes", token_count=len(tokens), end_count=len(ends), text_bytes=sum(map(len, tokens)))
    return pack("submit_record", kind=VOCABULARY, payload_generation=generation, payload_offset=CHUNK_OFFSET,
                payload_bytes=len(vocabulary(tokens, ends)), vocabulary=sizes)


def image(**fields):
    return pack("image_record", **{"content_hash": b"\1" * 16, "width": 3, "height": 2, "tiles": 1,
                                   "scale": [0.1, 0.2, 0.3], **fields})


# --- submit_ring: records, then the slab; as many bytes of slab as of records, or up to a pair of records more -------

PLAIN = ids(3, 1, 4, 1, 5, 9, 2, 6) + ids(7) + struct.pack("<If", 8, -1.5)
PLAIN_COUNTS = {"prompt_tokens": 8, "generated_tokens": 2, "stop_token_count": 1, "logit_bias_count": 1}
FORCED = ids(3, 1, 4) + ids(20, 21) + ids(30) + ids(31, 32)  # prompt, prefix, think-start, think-end
FORCED_COUNTS = {"flags": LOGPROBS | THINKING_OPEN | THINKING_BUDGET, "prompt_tokens": 3, "top_logprobs": 3,
                 "prefix_count": 2, "think_start_count": 1, "think_end_count": 2, "thinking_budget": 10, "min_tokens": 4}
GRAMMAR = ids(3, 1, 4, 1) + bytes(range(16))  # not a grammar that passes its own check
GRAMMAR_COUNTS = {"flags": 32, "prompt_tokens": 4, "grammar_bytes": 16}
TOKENS, ENDS = [b"a", b"b", b"", b"abc", b"{\"", b"\xc3", b"\xa9"], [2]
PIXELS = bytes(range(18))
IMAGE = (ids(10, 50, 50, 11).ljust(64, b"\0")
         + image(first_token=1, span_tokens=2, token_count=2, pixels_offset=128, pixels_bytes=18) + PIXELS)
IMAGE_COUNTS = {"prompt_tokens": 4, "image_count": 1, "image_bytes": 128 + 18, "cache_salt": [1, 2, 3, 4]}


def with_slab(records, payload=b"", generation=1):
    slab = pack("payload_chunk_header", generation=generation) + payload
    return records + slab.ljust(len(records), b"\0")


def submit_ring():
    yield "run", with_slab(submit(payload=PLAIN, **PLAIN_COUNTS), PLAIN)
    yield "run_forced", with_slab(submit(payload=FORCED, **FORCED_COUNTS), FORCED)
    yield "run_scores", with_slab(submit(payload=PLAIN, **PLAIN_COUNTS, score_from=2, score_top=3), PLAIN)
    yield "run_grammar", with_slab(submit(payload=GRAMMAR, **GRAMMAR_COUNTS), GRAMMAR)
    yield "vocabulary", with_slab(submit_vocabulary(TOKENS, ENDS), vocabulary(TOKENS, ENDS))
    yield "run_image", with_slab(submit(payload=IMAGE, **IMAGE_COUNTS), IMAGE)
    outside = PLAIN.replace(ids(9), ids(1000))
    yield "run_id_outside", with_slab(submit(payload=outside, **PLAIN_COUNTS), outside)
    yield "stale", with_slab(submit(generation=2, payload=PLAIN, **PLAIN_COUNTS), PLAIN)
    yield "adapter", with_slab(2 * pack("submit_record", kind=ADAPTER, adapter=[3, 7]))
    yield "cancel_drain_reset", with_slab(submit(CANCEL) + submit(DRAIN) + submit(RESET))


# --- ring_records: the first byte chooses what the rest is ------------------------------------------------------------

OLD_WORD = 0x01010101  # generation of every chunk of the target's slab
STEPS = [(4, 0, 5, 1), (2, 1, 2, 1), (1, 1, 1, 0), (0xFFFFFFFF, 0, 1, 1)]  # foreign tail, relative, peeks, release


def event(kind, **fields):
    return pack("token_event", kind=kind, request=REQUEST, **fields)


EVENTS = {
    "event_token": event(TOKEN, token=7, index=2, logprob=-1.0, cached_images=1, cached_tokens=3),
    "event_prompt_token": event(PROMPT_TOKEN, token=7, index=2, logprob=-1.0),
    "event_finished": event(FINISHED, finish=2),
    "event_failed": event(FAILED, failure=4),
    "event_payload": event(PAYLOAD_DONE, payload_generation=1, payload_offset=CHUNK_OFFSET),
    "event_progress": event(PROGRESS, prompt_done=3, prompt_total=9, step_time_us=1500),
    "event_adapter": pack("token_event", kind=ADAPTER_READ, adapter=[3, 7], failure=4),
    "event_alternatives": event(ALTERNATIVES, alternative_count=2, alternatives=struct.pack("<IfIf", 7, -0.5, 8, -1.5)),
}


def header(submit_capacity, event_capacity, slab_bytes):
    constants = dict(re.findall(r"#define SEGMENT_(MAGIC|VERSION)\s+(\w+?)u", (ROOT / "shm/segment.h").read_text()))
    records = submit_capacity * MAPS["submit_record"].bytes + event_capacity * MAPS["token_event"].bytes
    slab_offset = PAGE + -(-records // PAGE) * PAGE
    segment_bytes = -(-(slab_offset + slab_bytes) // PAGE) * PAGE
    found = pack("segment_header", magic=int(constants["MAGIC"], 16), version=int(constants["VERSION"]), generation=1,
                 segment_bytes=segment_bytes, slab_offset=slab_offset, slab_bytes=slab_bytes,
                 submit_capacity=submit_capacity, event_capacity=event_capacity,
                 submit_record_bytes=MAPS["submit_record"].bytes, event_bytes=MAPS["token_event"].bytes)
    return bytes([2, segment_bytes // PAGE]) + found


def ring_records():
    run = submit(generation=OLD_WORD, payload=PLAIN, **PLAIN_COUNTS)
    for name, record in (("run", run), ("run_image", submit(generation=OLD_WORD, payload=IMAGE, **IMAGE_COUNTS)),
                         ("grammar", submit(generation=OLD_WORD, payload=GRAMMAR, **GRAMMAR_COUNTS)),
                         ("vocabulary", submit_vocabulary(TOKENS, ENDS, OLD_WORD)), ("cancel", submit(CANCEL)),
                         ("drain", submit(DRAIN)), ("reset", submit(RESET)), ("adapter", pack("submit_record", kind=ADAPTER, adapter=[3, 7]))):
        yield f"submit_{name}", b"\0" + record
    for name, record in EVENTS.items():
        yield name, b"\1" + record
    yield "header", header(16, 64, 65536)
    yield "header_small", header(1, 1, 64)
    steps = b"".join(struct.pack("<IBBBx", *step) for step in STEPS)
    yield "consume_submits", b"\3" + 4 * run + steps
    order = ("event_token", "event_payload", "event_alternatives", "event_progress")
    yield "consume_events", b"\4" + b"".join(EVENTS[name] for name in order) + steps
    yield "produce", b"\5" + 3 * bytes([0, 0, 0, 0, 11, 1]) + 3 * bytes([4, 0, 0, 0, 10, 1])
    give = bytes([2, 8, 0, 1]) + bytes(4)  # by reference, then the newest
    yield "slab", b"\6" + 5 * bytes([1, 100, 0, 7]) + give + 3 * bytes([1, 200, 1, 3])
    first = {"first_token": 1, "span_tokens": 4, "token_count": 4}
    yield "images", b"\7" + struct.pack("<4I", 1, 8, 128 + 18, 0) + image(**first, pixels_offset=128, pixels_bytes=18)
    second = image(first_token=5, span_tokens=2, token_count=2)
    yield "images_placed", b"\7" + struct.pack("<4I", 2, 8, 0, 1) + image(**first) + second


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for folder, seeds in (("submit_ring", submit_ring()), ("ring_records", ring_records())):
        target = pathlib.Path(sys.argv[1]) / folder
        target.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds:
            (target / name).write_bytes(seed)


if __name__ == "__main__":
    main()
