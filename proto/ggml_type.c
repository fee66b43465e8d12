/*
 * Sizes and names of the element types of GGUF tensors (contract in proto/gguf_file.h), looked up
 * in the table of proto/ggml_type_list.h. A row's length must be a multiple of its type's block.
 */
#include "proto/ggml_type_list.h"
#include "proto/gguf_file.h"

enum reader { READ_BY_KERNELS, CONVERTED_AT_LOAD, MADE_AT_LOAD, UNSUPPORTED };

static const struct {
    const char *name;
    uint32_t number;
    struct ggml_block block;
    enum reader reader;
} ggml_types[] = {
#define QUANT_ROW(kind, name, number, columns, bytes, ...)                                         \
    {#name,                                                                                        \
     number,                                                                                       \
     {columns, bytes},                                                                             \
     (number) >= GGML_MADE_AT_LOAD ? MADE_AT_LOAD : READ_BY_KERNELS},
#define FLOAT_ROW(kind, name, number, bits, scaled, table)                                         \
    {#name,                                                                                        \
     number,                                                                                       \
     {(scaled) > 0 ? (scaled) : 1, (scaled) > 0 ? 4 + (scaled) * (bits) / 8 : (bits) / 8},         \
     (number) >= GGML_MADE_AT_LOAD ? MADE_AT_LOAD : READ_BY_KERNELS},
#define CONVERTED_ROW(name, number, columns, bytes)                                                \
    {#name, number, {columns, bytes}, CONVERTED_AT_LOAD},
#define UNSUPPORTED_ROW(name, number) {#name, number, {0, 0}, UNSUPPORTED},
    GGML_QUANT_LIST(QUANT_ROW) GGML_FLOAT_LIST(FLOAT_ROW) GGML_CONVERTED_LIST(CONVERTED_ROW)
        GGML_UNSUPPORTED_LIST(UNSUPPORTED_ROW)
#undef QUANT_ROW
#undef FLOAT_ROW
#undef CONVERTED_ROW
#undef UNSUPPORTED_ROW
};

static const size_t type_count = sizeof ggml_types / sizeof ggml_types[0];

struct ggml_block ggml_type_block(enum ggml_type type)
{
    for (size_t i = 0; i < type_count; i++)
        if (ggml_types[i].number == type && ggml_types[i].reader != CONVERTED_AT_LOAD)
            return ggml_types[i].block;
    return (struct ggml_block){0, 0};
}

struct ggml_block ggml_type_stored_block(enum ggml_type type)
{
    for (size_t i = 0; i < type_count; i++)
        if (ggml_types[i].number == type && ggml_types[i].reader != MADE_AT_LOAD)
            return ggml_types[i].block;
    return (struct ggml_block){0, 0};
}

const char *ggml_type_name(enum ggml_type type)
{
    for (size_t i = 0; i < type_count; i++)
        if (ggml_types[i].number == type)
            return ggml_types[i].name;
    return "?";
}
