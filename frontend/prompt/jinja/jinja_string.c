/*
 * Strings with provenance.
 *
 * The tokenizer must know, for each byte of a prompt, whether the template or a caller's text
 * supplied it, through every concatenation, slice and join. Most strings are all of one kind and
 * carry one flag. A string with both kinds has a parallel array with one entry per byte, so a slice
 * is two pointers and a copy is two memcpys.
 *
 * Templates that gather text with `ns.out = ns.out + piece` would cost quadratic memory in an
 * arena. A larger concatenation therefore gets a buffer with spare room; appending to the string
 * that ends at that buffer's end writes only the new bytes. This is not visible, because no string
 * covers the spare room.
 */
#include "frontend/prompt/jinja/jinja_string.h"

#include <string.h>

#include "proto/utf8.h"

#define TAIL_MIN_BYTES 512u

struct jinja_buffer {
    char *bytes;
    uint8_t *trust; /* one entry per byte, or NULL while all are of one kind */
    size_t used;
    size_t capacity;
};

static bool string_make(struct jinja_run *run, struct jinja_string string, struct jinja_value *out)
{
    struct jinja_string *made = jinja_run_take(run, 1, sizeof(*made));
    if (made == NULL)
        return false;
    *made = string;
    *out = jinja_string(made);
    return true;
}

bool jinja_string_view(struct jinja_run *run, const char *bytes, size_t length, bool trusted,
                       struct jinja_value *out)
{
    return string_make(
        run, (struct jinja_string){.bytes = bytes, .length = length, .trusted = trusted}, out);
}

bool jinja_string_literal(struct jinja_run *run, const char *text, struct jinja_value *out)
{
    return jinja_string_view(run, text, strlen(text), true, out);
}

bool jinja_string_slice(struct jinja_run *run, const struct jinja_string *string, size_t start,
                        size_t end, struct jinja_value *out)
{
    struct jinja_string slice = {.bytes = string->bytes + start,
                                 .trust = string->trust == NULL ? NULL : string->trust + start,
                                 .length = end > start ? end - start : 0,
                                 .trusted = string->trusted};
    return string_make(run, slice, out);
}

static void trust_fill(uint8_t *to, const struct jinja_string *string)
{
    if (string->trust != NULL)
        memcpy(to, string->trust, string->length);
    else
        memset(to, string->trusted ? 1 : 0, string->length);
}

/* A new buffer that starts with left + right. */
static struct jinja_buffer *buffer_start(struct jinja_run *run, const struct jinja_string *left,
                                         const struct jinja_string *right, bool mixed)
{
    size_t length = left->length + right->length;
    struct jinja_buffer *buffer = jinja_run_take(run, 1, sizeof(*buffer));
    if (buffer == NULL)
        return NULL;
    *buffer = (struct jinja_buffer){.used = length,
                                    .capacity = length >= TAIL_MIN_BYTES ? length * 2 : length};
    buffer->bytes = jinja_run_take(run, buffer->capacity, 1);
    if (buffer->bytes == NULL)
        return NULL;
    memcpy(buffer->bytes, left->bytes, left->length);
    memcpy(buffer->bytes + left->length, right->bytes, right->length);
    if (!mixed)
        return buffer;
    buffer->trust = jinja_run_take(run, buffer->capacity, 1);
    if (buffer->trust == NULL)
        return NULL;
    trust_fill(buffer->trust, left);
    trust_fill(buffer->trust + left->length, right);
    return buffer;
}

static bool buffer_append(const struct jinja_string *left, const struct jinja_string *right,
                          bool mixed)
{
    struct jinja_buffer *buffer = left->tail;
    if (buffer == NULL || left->bytes + left->length != buffer->bytes + buffer->used ||
        buffer->capacity - buffer->used < right->length || mixed != (buffer->trust != NULL))
        return false;
    memcpy(buffer->bytes + buffer->used, right->bytes, right->length);
    if (mixed)
        trust_fill(buffer->trust + buffer->used, right);
    buffer->used += right->length;
    return true;
}

bool jinja_string_concat(struct jinja_run *run, const struct jinja_string *left,
                         const struct jinja_string *right, struct jinja_value *out)
{
    if (left->length == 0 || right->length == 0) {
        struct jinja_string only = left->length == 0 ? *right : *left;
        only.markup = false;
        return string_make(run, only, out);
    }
    bool mixed = left->trust != NULL || right->trust != NULL || left->trusted != right->trusted;
    struct jinja_buffer *buffer = left->tail;
    if (!jinja_run_scan(run, right->length))
        return false;
    if (!buffer_append(left, right, mixed)) {
        if (!jinja_run_scan(run, left->length))
            return false;
        buffer = buffer_start(run, left, right, mixed);
        if (buffer == NULL)
            return false;
    }
    struct jinja_string joined = {.length = left->length + right->length,
                                  .trusted = left->trusted && right->trusted};
    joined.bytes = buffer->bytes + (buffer->used - joined.length);
    joined.trust = mixed ? buffer->trust + (buffer->used - joined.length) : NULL;
    joined.tail = buffer->capacity > buffer->used ? buffer : NULL;
    return string_make(run, joined, out);
}

bool jinja_string_is_trusted(const struct jinja_string *string)
{
    if (string->trust == NULL)
        return string->trusted || string->length == 0;
    return memchr(string->trust, 0, string->length) == NULL;
}

bool jinja_string_equals(const struct jinja_string *string, const char *text)
{
    return strlen(text) == string->length && memcmp(string->bytes, text, string->length) == 0;
}

size_t jinja_string_chars(const struct jinja_string *string)
{
    size_t chars = 0;
    for (size_t at = 0; at < string->length; chars++) {
        bool valid;
        at += (unsigned char)string->bytes[at] < 0x80
                  ? 1
                  : utf8_scan(string->bytes + at, string->length - at, &valid);
    }
    return chars;
}

size_t jinja_string_offset(const struct jinja_string *string, size_t chars)
{
    size_t at = 0;
    while (chars > 0 && at < string->length) {
        bool valid;
        at += (unsigned char)string->bytes[at] < 0x80
                  ? 1
                  : utf8_scan(string->bytes + at, string->length - at, &valid);
        chars--;
    }
    return at;
}

size_t jinja_string_find(const struct jinja_string *string, size_t from,
                         const struct jinja_string *needle)
{
    if (from > string->length || needle->length > string->length - from)
        return SIZE_MAX;
    if (needle->length == 0)
        return from;
    const char *found =
        memmem(string->bytes + from, string->length - from, needle->bytes, needle->length);
    return found == NULL ? SIZE_MAX : (size_t)(found - string->bytes);
}

bool jinja_builder_reserve(struct jinja_run *run, struct jinja_builder *builder, uint64_t more)
{
    if (builder->limit_bytes > 0 && more > builder->limit_bytes - builder->length)
        return jinja_fail_bound(run, "rendered prompt is too large");
    if (more <= builder->capacity - builder->length)
        return true;
    if (more > run->arena.limit_bytes)
        return jinja_fail_bound(run, "template needs too much memory");
    size_t capacity = (builder->length + more) * 2;
    if (capacity < 64)
        capacity = 64;
    if (builder->trust == NULL && builder->capacity > 0 &&
        jinja_arena_extend(&run->arena, builder->bytes, builder->capacity, capacity)) {
        builder->capacity = capacity;
        return true;
    }
    char *bytes = jinja_run_take(run, capacity, 1);
    if (bytes == NULL)
        return false;
    if (builder->length > 0)
        memcpy(bytes, builder->bytes, builder->length);
    builder->bytes = bytes;
    if (builder->trust != NULL) {
        uint8_t *trust = jinja_run_take(run, capacity, 1);
        if (trust == NULL)
            return false;
        memcpy(trust, builder->trust, builder->length);
        builder->trust = trust;
    }
    builder->capacity = capacity;
    return true;
}

/* Allocates `trust` entries when bytes of another kind arrive. */
static bool builder_mix(struct jinja_run *run, struct jinja_builder *builder)
{
    if (builder->trust != NULL)
        return true;
    builder->trust = jinja_run_take(run, builder->capacity, 1);
    if (builder->trust == NULL)
        return false;
    memset(builder->trust, builder->trusted ? 1 : 0, builder->length);
    return true;
}

bool jinja_builder_bytes(struct jinja_run *run, struct jinja_builder *builder, const char *bytes,
                         size_t length, bool trusted)
{
    if (length == 0)
        return true;
    if (!jinja_run_scan(run, length) || !jinja_builder_reserve(run, builder, length))
        return false;
    if (builder->length == 0 && builder->trust == NULL)
        builder->trusted = trusted;
    else if (builder->trusted != trusted && !builder_mix(run, builder))
        return false;
    memcpy(builder->bytes + builder->length, bytes, length);
    if (builder->trust != NULL)
        memset(builder->trust + builder->length, trusted ? 1 : 0, length);
    builder->length += length;
    return true;
}

bool jinja_builder_text(struct jinja_run *run, struct jinja_builder *builder, const char *text)
{
    return jinja_builder_bytes(run, builder, text, strlen(text), true);
}

bool jinja_builder_string(struct jinja_run *run, struct jinja_builder *builder,
                          const struct jinja_string *string)
{
    if (string->trust == NULL)
        return jinja_builder_bytes(run, builder, string->bytes, string->length, string->trusted);
    for (size_t at = 0; at < string->length;) {
        size_t end = at + 1;
        while (end < string->length && string->trust[end] == string->trust[at])
            end++;
        if (!jinja_builder_bytes(run, builder, string->bytes + at, end - at,
                                 string->trust[at] != 0))
            return false;
        at = end;
    }
    return true;
}

bool jinja_builder_char(struct jinja_run *run, struct jinja_builder *builder, uint32_t code_point,
                        bool trusted)
{
    char bytes[UTF8_MAX_CHAR_BYTES];
    size_t length = utf8_encode(code_point, bytes);
    return jinja_builder_bytes(run, builder, bytes, length, trusted);
}

bool jinja_builder_repeat(struct jinja_run *run, struct jinja_builder *builder, char byte,
                          size_t count)
{
    char block[64];
    memset(block, byte, sizeof(block));
    if (!jinja_builder_reserve(run, builder, count))
        return false;
    while (count > 0) {
        size_t part = count < sizeof(block) ? count : sizeof(block);
        if (!jinja_builder_bytes(run, builder, block, part, true))
            return false;
        count -= part;
    }
    return true;
}

bool jinja_builder_finish(struct jinja_run *run, struct jinja_builder *builder,
                          struct jinja_value *out)
{
    struct jinja_string string = {.bytes = builder->bytes == NULL ? "" : builder->bytes,
                                  .trust = builder->trust,
                                  .length = builder->length,
                                  .trusted = builder->length == 0 || builder->trusted};
    return string_make(run, string, out);
}
