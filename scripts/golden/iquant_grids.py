#!/usr/bin/env python3
"""Writes worker/plan/iquant_grids.c: the code books of GGUF's i-quants, from the `gguf` Python package's tables.

usage: iquant_grids.py > worker/plan/iquant_grids.c

A word is one entry of a book: the positions of its eight (IQ1, IQ2) or four (IQ3) numbers in the type's list of numbers, two
or four bits each, the first number lowest. Needs gguf and numpy.
"""
import importlib.metadata

from gguf import quants

HEADER = """/*
 * Code books of GGUF's i-quants, made by scripts/golden/iquant_grids.py from the tables of the gguf Python package %s:
 * constants of the file format. A word holds the positions of eight numbers (IQ1, IQ2), two bits each, or of four (IQ3), four
 * bits each, the first one lowest, in the list of numbers of weight_iquant.c.
 */
#include "worker/plan/iquant_grids.h"

/* clang-format off */"""


def main():
    print(HEADER % importlib.metadata.version("gguf"))
    for name, bits in (("IQ1_S", 2), ("IQ2_XXS", 2), ("IQ2_XS", 2), ("IQ2_S", 2), ("IQ3_XXS", 4), ("IQ3_S", 4)):
        kind = getattr(quants, name)
        kind.init_grid()
        grid = kind.grid.reshape(kind.grid_shape)
        places = {value: place for place, value in enumerate(kind.grid_map)}
        words = [sum(places[int(value)] << bits * i for i, value in enumerate(entry)) for entry in grid]
        print(f"\nconst uint16_t {name.lower()}_grid[{len(words)}] = {{")
        for at in range(0, len(words), 16):
            print("    " + " ".join(f"0x{word:04x}," for word in words[at:at + 16]))
        print("};")
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
