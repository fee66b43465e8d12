/*
 * The element types of GGUF tensors: number, name, and the size of one block (contract in
 * proto/gguf_file.h). A quantized row is a run of blocks, each holding `elements` numbers in
 * `bytes` bytes with its own scales, so a row's length must be a multiple of `elements`. Source:
 * ggml's published block layouts.
 *
 * Three sorts: kernels read the rows as they are; or the worker turns them into rows of another
 * type at load; or nobody reads them, and they are here so that a refusal can name them.
 */
#include "proto/gguf_file.h"

enum reader { BY_KERNELS, AT_LOAD, MADE_AT_LOAD, BY_NOBODY };

static const struct {
    enum ggml_type type;
    const char *name;
    struct ggml_block block;
    enum reader reader;
} ggml_types[] = {
    {GGML_F32, "F32", {1, 4}, BY_KERNELS},
    {GGML_F16, "F16", {1, 2}, BY_KERNELS},
    {GGML_BF16, "BF16", {1, 2}, BY_KERNELS},
    {GGML_Q4_0, "Q4_0", {32, 18}, BY_KERNELS},
    {GGML_Q4_1, "Q4_1", {32, 20}, BY_KERNELS},
    {GGML_Q5_0, "Q5_0", {32, 22}, BY_KERNELS},
    {GGML_Q5_1, "Q5_1", {32, 24}, BY_KERNELS},
    {GGML_Q8_0, "Q8_0", {32, 34}, BY_KERNELS},
    {GGML_Q2_K, "Q2_K", {256, 84}, BY_KERNELS},
    {GGML_Q3_K, "Q3_K", {256, 110}, BY_KERNELS},
    {GGML_Q4_K, "Q4_K", {256, 144}, BY_KERNELS},
    {GGML_Q5_K, "Q5_K", {256, 176}, BY_KERNELS},
    {GGML_Q6_K, "Q6_K", {256, 210}, BY_KERNELS},
    {GGML_A8, "A8", {32, 36}, MADE_AT_LOAD},
    {GGML_IQ4_NL, "IQ4_NL", {32, 18}, AT_LOAD},
    {GGML_MXFP4, "MXFP4", {32, 17}, AT_LOAD},
#define NOBODY(number, name)                                                                       \
    {                                                                                              \
        (enum ggml_type)(number), name, {0, 0}, BY_NOBODY                                          \
    }
    NOBODY(9, "Q8_1"),
    NOBODY(15, "Q8_K"),
    NOBODY(16, "IQ2_XXS"),
    NOBODY(17, "IQ2_XS"),
    NOBODY(18, "IQ3_XXS"),
    NOBODY(19, "IQ1_S"),
    NOBODY(21, "IQ3_S"),
    NOBODY(22, "IQ2_S"),
    NOBODY(23, "IQ4_XS"),
    NOBODY(24, "I8"),
    NOBODY(25, "I16"),
    NOBODY(26, "I32"),
    NOBODY(27, "I64"),
    NOBODY(28, "F64"),
    NOBODY(29, "IQ1_M"),
    NOBODY(34, "TQ1_0"),
    NOBODY(35, "TQ2_0"),
    NOBODY(40, "NVFP4"),
#undef NOBODY
};

static const size_t type_count = sizeof ggml_types / sizeof ggml_types[0];

struct ggml_block ggml_type_block(enum ggml_type type)
{
    for (size_t i = 0; i < type_count; i++)
        if (ggml_types[i].type == type && ggml_types[i].reader != AT_LOAD)
            return ggml_types[i].block;
    return (struct ggml_block){0, 0};
}

struct ggml_block ggml_type_stored_block(enum ggml_type type)
{
    for (size_t i = 0; i < type_count; i++)
        if (ggml_types[i].type == type && ggml_types[i].reader != MADE_AT_LOAD)
            return ggml_types[i].block;
    return (struct ggml_block){0, 0};
}

const char *ggml_type_name(enum ggml_type type)
{
    for (size_t i = 0; i < type_count; i++)
        if (ggml_types[i].type == type)
            return ggml_types[i].name;
    return "?";
}
