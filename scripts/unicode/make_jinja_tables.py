#!/usr/bin/env python3
"""Writes frontend/prompt/jinja/jinja_unicode_table.c: character properties as in this Python's str methods.

Usage: scripts/unicode/make_jinja_tables.py > frontend/prompt/jinja/jinja_unicode_table.c
The Unicode version is the interpreter's; it is written into the file's opening comment.
"""
import sys
import unicodedata

from c_table import table

EVERY = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def runs(points, same):
    """Maximal runs (first, last, stride) of stride 1 or 2 in which all members satisfy `same` with the first."""
    out, i = [], 0
    while i < len(points):
        best, stride = i, 1
        for step in (1, 2):
            k = i
            while k + 1 < len(points) and points[k + 1] == points[k] + step and same(points[i], points[k + 1]):
                k += 1
            if k > best:
                best, stride = k, step
        out.append((points[i], points[best], stride))
        i = best + 1
    return out


def write_set(name, predicate):
    points = [c for c in EVERY if predicate(chr(c))]
    items = ["{0x%X,0x%X,%d}," % run for run in runs(points, lambda a, b: True)]
    print(f"const struct jinja_unicode_run jinja_unicode_{name}[] = {{\n{table(items)}\n}};")
    print(f"const size_t jinja_unicode_{name}_count =\n"
          f"    sizeof(jinja_unicode_{name}) / sizeof(jinja_unicode_{name}[0]);\n")


def write_map(name, function, base=lambda c: c):
    """Characters whose image is one character and differs from that of `base`."""
    delta = {c: ord(function(chr(c))) - c for c in EVERY
             if len(function(chr(c))) == 1 and function(chr(c)) != base(chr(c))}
    found = runs(sorted(delta), lambda a, b: delta[a] == delta[b])
    items = ["{0x%X,0x%X,%d,%d}," % (*run, delta[run[0]]) for run in found]
    print(f"const struct jinja_unicode_shift jinja_unicode_{name}[] = {{\n{table(items)}\n}};")
    print(f"const size_t jinja_unicode_{name}_count =\n"
          f"    sizeof(jinja_unicode_{name}) / sizeof(jinja_unicode_{name}[0]);\n")


def write_expansions(name, function):
    items = []
    for c in EVERY:
        image = function(chr(c))
        if len(image) > 1:
            items.append("{0x%X,{%s}}," % (c, ",".join("0x%X" % ord(x) for x in image)))
    print(f"const struct jinja_unicode_expansion jinja_unicode_{name}[] = {{\n{table(items)}\n}};")
    print(f"const size_t jinja_unicode_{name}_count =\n"
          f"    sizeof(jinja_unicode_{name}) / sizeof(jinja_unicode_{name}[0]);\n")


sys.stdout.write(f"""/*
 * Character classes and case mappings of Unicode {unicodedata.unidata_version}, as Python's str methods give them.
 * Written by scripts/unicode/make_jinja_tables.py; not edited by hand.
 *
 * Sets are sorted runs (first, last, stride); simple mappings are such runs with the distance to the image;
 * expansions are characters whose image has two or three characters. Title case lists only characters that differ from upper case.
 */
#include "frontend/prompt/jinja/jinja_unicode_table.h"

// clang-format off
""")
write_set("alpha", str.isalpha)
write_set("decimal", str.isdecimal)
write_set("digit", str.isdigit)
write_set("numeric", str.isnumeric)
write_set("lower", str.islower)
write_set("upper", str.isupper)
write_set("unprintable", lambda c: not c.isprintable())
write_map("to_upper", str.upper)
write_map("to_lower", str.lower)
write_map("to_title", str.title, str.upper)
write_expansions("long_upper", str.upper)
write_expansions("long_title", str.title)
print("// clang-format on")
