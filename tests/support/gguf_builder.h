/*
 * Writes small GGUF files byte by byte, valid or deliberately invalid, for tests. Checks nothing. The
 * bytes are 8-aligned, as gguf_file_open() requires.
 */
#ifndef SHOAL_TESTS_SUPPORT_GGUF_BUILDER_H
#define SHOAL_TESTS_SUPPORT_GGUF_BUILDER_H

#include <stddef.h>
#include <stdint.h>

struct gguf_builder {
    _Alignas(64) uint8_t bytes[1u << 16];
    size_t byte_count;
};

void gguf_builder_init(struct gguf_builder *builder, uint64_t tensor_count, uint64_t key_count);

void gguf_builder_add_u8(struct gguf_builder *builder, uint8_t value);
void gguf_builder_add_u32(struct gguf_builder *builder, uint32_t value);
void gguf_builder_add_u64(struct gguf_builder *builder, uint64_t value);
void gguf_builder_add_string(struct gguf_builder *builder, const char *text);

/* Key and type number; the value's bytes follow through the calls above. */
void gguf_builder_add_key(struct gguf_builder *builder, const char *key, uint32_t type);
void gguf_builder_add_key_u32(struct gguf_builder *builder, const char *key, uint32_t value);
void gguf_builder_add_key_f32(struct gguf_builder *builder, const char *key, float value);
void gguf_builder_add_key_string(struct gguf_builder *builder, const char *key, const char *text);
/* Head of an array: `count` elements of `type` follow. */
void gguf_builder_add_key_array(struct gguf_builder *builder, const char *key, uint32_t type,
                                uint64_t count);

/* One row of the tensor table; `dimensions` has dimension_count entries. */
void gguf_builder_add_tensor(struct gguf_builder *builder, const char *name,
                             uint32_t dimension_count, const uint64_t *dimensions, uint32_t type,
                             uint64_t offset);
/* Pads the table to `alignment` and appends data_bytes bytes counting up from 0. */
void gguf_builder_add_data(struct gguf_builder *builder, size_t alignment, size_t data_bytes);

#endif
