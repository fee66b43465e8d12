/*
 * The element types of GGUF tensors that Shoal reads: number, name, and the size of one block
 * (contract in proto/gguf_file.h). A quantized row is a run of blocks, each holding `elements`
 * numbers in `bytes` bytes with its own scales, so a row's length must be a multiple of `elements`.
 * Source: ggml's published block layouts.
 *
 * A type that is not in this table has no reader anywhere, and gguf_file_open() refuses tensors of
 * it.
 */
#include "proto/gguf_file.h"

static const struct {
    enum ggml_type type;
    const char *name;
    struct ggml_block block;
} ggml_types[] = {
    {GGML_F32, "F32", {1, 4}},       {GGML_F16, "F16", {1, 2}},
    {GGML_BF16, "BF16", {1, 2}},     {GGML_Q4_0, "Q4_0", {32, 18}},
    {GGML_Q4_1, "Q4_1", {32, 20}},   {GGML_Q5_0, "Q5_0", {32, 22}},
    {GGML_Q5_1, "Q5_1", {32, 24}},   {GGML_Q8_0, "Q8_0", {32, 34}},
    {GGML_Q2_K, "Q2_K", {256, 84}},  {GGML_Q3_K, "Q3_K", {256, 110}},
    {GGML_Q4_K, "Q4_K", {256, 144}}, {GGML_Q5_K, "Q5_K", {256, 176}},
    {GGML_Q6_K, "Q6_K", {256, 210}},
};

struct ggml_block ggml_type_block(enum ggml_type type)
{
    for (size_t i = 0; i < sizeof ggml_types / sizeof ggml_types[0]; i++)
        if (ggml_types[i].type == type)
            return ggml_types[i].block;
    return (struct ggml_block){0, 0};
}

const char *ggml_type_name(enum ggml_type type)
{
    for (size_t i = 0; i < sizeof ggml_types / sizeof ggml_types[0]; i++)
        if (ggml_types[i].type == type)
            return ggml_types[i].name;
    return "?";
}
