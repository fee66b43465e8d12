#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets fuzz_state_file and fuzz_prefix_file.

usage: state_seeds.py FOLDER

FOLDER is tests/fuzz/corpus; the seeds go to its folders state_file and prefix_file. A seed of the first is a 1, which has the target complete the head and the
checksum, and a file of a stored response as the byte map in frontend/api/responses/response_file.h describes it. One of the second is a 1 and a saved prefix cache (worker/cache/prefix_file.h) without head and end, which the target completes, or
a 2 and records of a ledger (worker/cache/kv_ledger.h). The same bytes every time.
"""

import pathlib
import struct
import sys

QUEUED, COMPLETED, FAILED = 0, 2, 4  # enum response_status
STEP_QUEUED, STARTED, RUNNING, CONTENT, REASONING, CALL_BEGIN, ARGUMENTS, CALL_END, LOGPROBS, LAST = range(1, 11)  # enum response_step_kind
STEP_FAILED = 12
ID, EARLIER = b"resp_0123456789abcdef00000001", b"resp_00"


def step(kind, text=b"", more=b""):
    return struct.pack("<BII", kind, len(text), len(more)) + text + more


def items(*texts):
    """(text, spans) of items; one that begins with an id has no prefix."""
    spans, start = b"", 0
    for text in texts:
        spans += struct.pack("<QQ8s", start, len(text), b"" if text.startswith(b'{"id":"') else b"msg_")
        start += len(text) + 1
    return b",".join(texts), spans


def file_bytes(status, given, made=(), outcome=b"", script=b"", body=b"", model=b"", previous=b""):
    sections = [*items(*given), b',"model":"m"', *items(*made), outcome, script, body, model]
    head = struct.pack("<64s64s32sIIqqqQ16s", ID, previous, bytes(32), status, 0, 7, 9, 8, 42, bytes(16))
    return bytes(40) + head + b"".join(struct.pack("<Q", len(one)) for one in sections) + b"".join(sections)


def seeds():
    hello = b'{"type":"message","role":"user","content":"hi"}'
    named = b'{"id":"msg_0o0000","type":"message"}'
    answer = step(STARTED) + step(REASONING, b"so") + step(CONTENT, b"caf\xc3\xa9", b'{"token":"a"}') + step(LOGPROBS, b"", b"{}")
    call = step(STEP_QUEUED) + step(RUNNING) + step(CALL_BEGIN, b"f", b"call_1") + step(ARGUMENTS, b"{}") + step(CALL_END)
    return {
        "answer": file_bytes(COMPLETED, [hello], [named], b',"error":null', answer + step(LAST)),
        "call": file_bytes(COMPLETED, [hello, named], [named], b',"error":null', call + step(LAST), previous=EARLIER),
        "failed": file_bytes(FAILED, [], [], b',"error":{}', step(STEP_QUEUED) + step(STEP_FAILED, b"died", b"worker_crashed")),
        "unfinished": file_bytes(QUEUED, [hello], body=b'{"input":"hi","background":true}', model=b"m"),
    }


def block(name):
    return struct.pack("<16s16I16s", bytes(16), name, *[0] * 15, bytes(16))


def entry(store, name, block_bytes):
    return struct.pack("<II", store, 0) + block(name) + bytes([name]) * block_bytes


def record(store, number):
    return struct.pack("<QQ", 0, number) + block(number) + struct.pack("<IIQ", store, number, 0)


def prefix_seeds():
    """Stores, their blocks and bytes as in tests/fuzz/fuzz_prefix_file.c."""
    blocks = entry(0, 1, 40) + entry(1, 2, 40) + entry(4, 3, 8)
    records = [record(store, number) for store, count in ((0, 9), (1, 5), (4, 3)) for number in range(count)]
    return {"blocks": b"\1" + bytes(88) + blocks + bytes(104), "empty": b"\1" + bytes(88 + 104), "records": b"\2" + b"".join(records)}


def write(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def main():
    corpus = pathlib.Path(sys.argv[1])
    write(corpus / "state_file", {name: b"\1" + content for name, content in seeds().items()})
    write(corpus / "prefix_file", prefix_seeds())


if __name__ == "__main__":
    main()
