#!/usr/bin/env python3
"""Writes the seeds of the fuzz target fuzz_state_file.

usage: state_seeds.py FOLDER

FOLDER is tests/fuzz/corpus; the seeds go to its folder state_file. A seed is a 1, which has the target complete the head and the
checksum, and a file of a stored response as the byte map in frontend/api/responses/response_file.h describes it. The same bytes every time.
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


def main():
    folder = pathlib.Path(sys.argv[1]) / "state_file"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in seeds().items():
        (folder / name).write_bytes(b"\1" + content)


if __name__ == "__main__":
    main()
