#!/usr/bin/env python3
"""Rewrites a GGUF file with every tensor as F32; metadata stays, except for the file type.

usage: dequantize_gguf.py IN.gguf OUT.gguf

The reference on such a file tells mistakes in the model's arithmetic from differences in quantized arithmetic. The file is
written under a temporary name first, so OUT is complete or absent. Needs the packages gguf and numpy.
"""
import os
import sys

import gguf
import numpy as np
from gguf.quants import dequantize


def copy_metadata(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue  # written by the writer itself
        value_type = field.types[0]
        value = field.contents()
        if field.name == "general.file_type":
            value = int(gguf.LlamaFileType.ALL_F32)
        sub_type = field.types[-1] if value_type == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, value_type, sub_type=sub_type)


def as_f32(tensor):
    if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
        return np.asarray(tensor.data, dtype=np.float32)
    return dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    temporary = f"{target}.{os.getpid()}.part"
    writer = gguf.GGUFWriter(temporary, reader.get_field("general.architecture").contents())
    try:
        copy_metadata(reader, writer)
        for tensor in reader.tensors:
            shape = [int(size) for size in reversed(tensor.shape)]
            writer.add_tensor_info(tensor.name, shape, np.dtype(np.float32), int(np.prod(shape)) * 4)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in reader.tensors:  # one at a time: a whole model may not fit into memory
            writer.write_tensor_data(as_f32(tensor))
        writer.close()
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


if __name__ == "__main__":
    main()
