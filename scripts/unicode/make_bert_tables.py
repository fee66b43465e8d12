#!/usr/bin/env python3
"""Writes frontend/prompt/tokenizer/bert_text_table.c from what PyPI's tokenizers does to every character.

Usage: scripts/unicode/make_bert_tables.py > frontend/prompt/tokenizer/bert_text_table.c
Needs: pip install tokenizers. Its version is written into the file's opening comment.
"""
import sys

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from c_table import table

EVERY = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def bert(**on):
    flags = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False, **on}
    return normalizers.BertNormalizer(**flags).normalize_str


def classes():
    clean, cjk, strip = bert(clean_text=True), bert(handle_chinese_chars=True), bert(strip_accents=True)
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    for code in EVERY:
        char = chr(code)
        yield code, (("R" if clean("a" + char + "b") == "ab" else "") + ("I" if cjk(char) != char else "")
                     + ("N" if strip("a" + char) == "a" else "") + ("P" if len(split("a" + char + "b")) == 3 else ""))


def class_ranges():
    ranges = []
    for code, name in classes():
        if not name:
            continue
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == name:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, name])
    return ranges


def lower_runs():
    """Runs (first, last, step, difference); the only character with two is U+0130, which the code knows."""
    lower, runs = bert(lowercase=True), []
    for code in EVERY:
        low = lower(chr(code))
        if low == chr(code) or code == 0x130:
            continue
        assert len(low) == 1, hex(code)
        difference = ord(low) - code
        if runs and runs[-1][3] == difference and (
                code - runs[-1][1] == runs[-1][2] or runs[-1][0] == runs[-1][1] and code - runs[-1][1] <= 2):
            runs[-1][2] = code - runs[-1][1]
            runs[-1][1] = code
        else:
            runs.append([code, code, 1, difference])
    return runs


BITS = {"R": 1, "I": 2, "N": 4, "P": 8}
sys.stdout.write(f"""/*
 * What BERT's normalizer and pre-tokenizer of tokenizers {tokenizers.__version__} do to each character. Written by
 * scripts/unicode/make_bert_tables.py; not edited by hand.
 */
#include "frontend/prompt/tokenizer/bert_text_table.h"

// clang-format off
const struct bert_class bert_classes[] = {{
{table("{0x%X,0x%X,%d}," % (a, b, sum(BITS[n] for n in name)) for a, b, name in class_ranges())}
}};
const size_t bert_class_count = sizeof bert_classes / sizeof bert_classes[0];

const struct bert_lower_run bert_lower_runs[] = {{
{table("{0x%X,0x%X,%d,%d}," % tuple(run) for run in lower_runs())}
}};
const size_t bert_lower_run_count = sizeof bert_lower_runs / sizeof bert_lower_runs[0];
""")
