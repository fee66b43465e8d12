#!/usr/bin/env python3
"""Writes frontend/prompt/tokenizer/utf8_nfc_table.c from this Python's unicodedata.

Usage: scripts/unicode/make_nfc_tables.py > frontend/prompt/tokenizer/utf8_nfc_table.c
The Unicode version is the interpreter's; it is written into the file's opening comment.
"""
import sys
import unicodedata as u

from c_table import table

HANGUL = range(0xAC00, 0xD7A4)
EVERY = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def canonical(code):
    """(first, second) of the canonical decomposition, second 0 for a singleton; None without one."""
    text = u.decomposition(chr(code))
    if not text or text.startswith("<") or code in HANGUL:
        return None
    parts = [int(part, 16) for part in text.split()]
    return (parts[0], parts[1] if len(parts) > 1 else 0)


decompositions = [(c, canonical(c)) for c in EVERY if canonical(c)]
# A pair composes only if Unicode does not exclude it; the library decides.
composes = [i for i, (c, (a, b)) in enumerate(decompositions)
            if b and u.normalize("NFC", chr(a) + chr(b)) == chr(c)]
composes.sort(key=lambda i: decompositions[i][1])
seconds = {decompositions[i][1][1] for i in composes}
seconds |= set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))


def unsafe(code):
    char = chr(code)
    return u.combining(char) or code in seconds or u.normalize("NFC", char) != char


ranges = []
for c in EVERY:
    if not unsafe(c):
        continue
    order = u.combining(chr(c))
    if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == order:
        ranges[-1][1] = c
    else:
        ranges.append([c, c, order])


sys.stdout.write(f"""/*
 * What normalization form C needs of Unicode {u.unidata_version}. Written by scripts/unicode/make_nfc_tables.py; not
 * edited by hand.
 *
 * nfc_classes: ranges of characters that may change, or be changed by, their neighbours (a combining
 * class other than 0, or NFC_Quick_Check other than Yes), with the class. Text without any is in form C.
 * nfc_decompositions: one step of canonical decomposition, by character; `second` is 0 for a singleton.
 * Hangul syllables are not listed: they are arithmetic.
 * nfc_compositions: indices into nfc_decompositions of the pairs that compose, ordered by (first, second).
 */
#include "frontend/prompt/tokenizer/utf8_nfc_table.h"

// clang-format off
const struct nfc_class nfc_classes[] = {{
{table("{0x%X,0x%X,%d}," % tuple(r) for r in ranges)}
}};
const size_t nfc_class_count = sizeof nfc_classes / sizeof nfc_classes[0];

const struct nfc_decomposition nfc_decompositions[] = {{
{table("{0x%X,0x%X,%s}," % (c, a, "0x%X" % b if b else "0") for c, (a, b) in decompositions)}
}};
const size_t nfc_decomposition_count = sizeof nfc_decompositions / sizeof nfc_decompositions[0];

const uint16_t nfc_compositions[] = {{
{table("%d," % i for i in composes)}
}};
const size_t nfc_composition_count = sizeof nfc_compositions / sizeof nfc_compositions[0];
""")
