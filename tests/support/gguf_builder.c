/*
 * A buffer of fixed size to which calls append, in the order of the file. A test that exceeds it
 * aborts.
 */
#include "tests/support/gguf_builder.h"

#include <string.h>

#include "proto/must.h"

static void add_bytes(struct gguf_builder *builder, const void *bytes, size_t byte_count)
{
    must(byte_count <= sizeof builder->bytes - builder->byte_count);
    memcpy(builder->bytes + builder->byte_count, bytes, byte_count);
    builder->byte_count += byte_count;
}

void gguf_builder_init(struct gguf_builder *builder, uint64_t tensor_count, uint64_t key_count)
{
    memset(builder, 0, sizeof *builder);
    add_bytes(builder, "GGUF", 4);
    gguf_builder_add_u32(builder, 3);
    gguf_builder_add_u64(builder, tensor_count);
    gguf_builder_add_u64(builder, key_count);
}

void gguf_builder_add_u8(struct gguf_builder *builder, uint8_t value)
{
    add_bytes(builder, &value, sizeof value);
}

void gguf_builder_add_u32(struct gguf_builder *builder, uint32_t value)
{
    add_bytes(builder, &value, sizeof value);
}

void gguf_builder_add_u64(struct gguf_builder *builder, uint64_t value)
{
    add_bytes(builder, &value, sizeof value);
}

void gguf_builder_add_string(struct gguf_builder *builder, const char *text)
{
    gguf_builder_add_u64(builder, strlen(text));
    add_bytes(builder, text, strlen(text));
}

void gguf_builder_add_key(struct gguf_builder *builder, const char *key, uint32_t type)
{
    gguf_builder_add_string(builder, key);
    gguf_builder_add_u32(builder, type);
}

void gguf_builder_add_key_u32(struct gguf_builder *builder, const char *key, uint32_t value)
{
    gguf_builder_add_key(builder, key, 4);
    gguf_builder_add_u32(builder, value);
}

void gguf_builder_add_key_f32(struct gguf_builder *builder, const char *key, float value)
{
    gguf_builder_add_key(builder, key, 6);
    add_bytes(builder, &value, sizeof value);
}

void gguf_builder_add_key_string(struct gguf_builder *builder, const char *key, const char *text)
{
    gguf_builder_add_key(builder, key, 8);
    gguf_builder_add_string(builder, text);
}

void gguf_builder_add_key_array(struct gguf_builder *builder, const char *key, uint32_t type,
                                uint64_t count)
{
    gguf_builder_add_key(builder, key, 9);
    gguf_builder_add_u32(builder, type);
    gguf_builder_add_u64(builder, count);
}

void gguf_builder_add_tensor(struct gguf_builder *builder, const char *name,
                             uint32_t dimension_count, const uint64_t *dimensions, uint32_t type,
                             uint64_t offset)
{
    gguf_builder_add_string(builder, name);
    gguf_builder_add_u32(builder, dimension_count);
    for (uint32_t i = 0; i < dimension_count; i++)
        gguf_builder_add_u64(builder, dimensions[i]);
    gguf_builder_add_u32(builder, type);
    gguf_builder_add_u64(builder, offset);
}

void gguf_builder_add_data(struct gguf_builder *builder, size_t alignment, size_t data_bytes)
{
    while (builder->byte_count % alignment != 0)
        gguf_builder_add_u8(builder, 0);
    for (size_t i = 0; i < data_bytes; i++)
        gguf_builder_add_u8(builder, (uint8_t)i);
}
