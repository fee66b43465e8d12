/*
 * Every length is checked against the bytes left before it is followed; a number has at most ten
 * bytes.
 */
#include "frontend/prompt/tokenizer/protobuf_reader.h"

struct protobuf_reader protobuf_reader_open(const void *bytes, size_t byte_count)
{
    const uint8_t *at = bytes;
    return (struct protobuf_reader){.at = at, .end = at + byte_count};
}

static bool fail(struct protobuf_reader *reader)
{
    reader->failed = true;
    return false;
}

/* Seven bits a byte, the lowest first. */
static bool take_number(struct protobuf_reader *reader, uint64_t *value)
{
    *value = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
        if (reader->at == reader->end)
            return fail(reader);
        uint8_t byte = *reader->at++;
        if (shift < 64)
            *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return fail(reader);
}

static bool take_fixed(struct protobuf_reader *reader, uint32_t byte_count, uint64_t *value)
{
    *value = 0;
    if ((size_t)(reader->end - reader->at) < byte_count)
        return fail(reader);
    for (uint32_t i = 0; i < byte_count; i++)
        *value |= (uint64_t)*reader->at++ << (8 * i);
    return true;
}

static bool take_bytes(struct protobuf_reader *reader, struct protobuf_field *field)
{
    uint64_t length;
    if (!take_number(reader, &length))
        return false;
    if (length > (uint64_t)(reader->end - reader->at))
        return fail(reader);
    field->bytes = reader->at;
    field->byte_count = (size_t)length;
    reader->at += length;
    return true;
}

bool protobuf_reader_next(struct protobuf_reader *reader, struct protobuf_field *field)
{
    uint64_t tag;
    *field = (struct protobuf_field){0};
    if (reader->failed || reader->at == reader->end)
        return false;
    if (!take_number(reader, &tag))
        return false;
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
        return fail(reader);
    field->number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case 0: field->kind = PROTOBUF_NUMBER; return take_number(reader, &field->value);
    case 1: field->kind = PROTOBUF_FIXED64; return take_fixed(reader, 8, &field->value);
    case 2: field->kind = PROTOBUF_BYTES; return take_bytes(reader, field);
    case 5: field->kind = PROTOBUF_FIXED32; return take_fixed(reader, 4, &field->value);
    default: return fail(reader);
    }
}
