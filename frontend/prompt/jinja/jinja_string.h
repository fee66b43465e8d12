/*
 * Strings with the provenance of each byte, and the builder for longer strings.
 *
 * Positions are in bytes unless stated otherwise. A slice shares its bytes with the string it was
 * cut from.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_STRING_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_STRING_H

#include "frontend/prompt/jinja/jinja_run.h"

/* A string over bytes that outlive the run (or live in its arena), not copied. */
bool jinja_string_view(struct jinja_run *run, const char *bytes, size_t length, bool trusted,
                       struct jinja_value *out) JINJA_CHECKED;

/* A C literal, as the template's own. */
bool jinja_string_literal(struct jinja_run *run, const char *text,
                          struct jinja_value *out) JINJA_CHECKED;

/* Bytes [start, end) of a string. */
bool jinja_string_slice(struct jinja_run *run, const struct jinja_string *string, size_t start,
                        size_t end, struct jinja_value *out) JINJA_CHECKED;

/* left + right without escaping. Repeated appending to the last result costs linear time and
 * memory. */
bool jinja_string_concat(struct jinja_run *run, const struct jinja_string *left,
                         const struct jinja_string *right, struct jinja_value *out) JINJA_CHECKED;

/* True if every byte is the template's. */
bool jinja_string_is_trusted(const struct jinja_string *string);

bool jinja_string_equals(const struct jinja_string *string, const char *text);

/* Number of characters. */
size_t jinja_string_chars(const struct jinja_string *string);

/* Byte position of the character at index `chars` (or the end). */
size_t jinja_string_offset(const struct jinja_string *string, size_t chars);

/* The first position >= from at which the needle occurs, or SIZE_MAX. */
size_t jinja_string_find(const struct jinja_string *string, size_t from,
                         const struct jinja_string *needle);

/*
 * Grows by appending; `finish` makes a string of the bytes and must be the last call. With a limit
 * of 0 only the arena bounds it.
 */
struct jinja_builder {
    char *bytes;
    uint8_t *trust; /* NULL while all bytes are of `trusted`'s kind */
    size_t length;
    size_t capacity;
    size_t limit_bytes;
    bool trusted;
};

/* Makes room for bytes that will follow, so that a result that is too large fails before any
 * work. */
bool jinja_builder_reserve(struct jinja_run *run, struct jinja_builder *builder,
                           uint64_t more) JINJA_CHECKED;
bool jinja_builder_bytes(struct jinja_run *run, struct jinja_builder *builder, const char *bytes,
                         size_t length, bool trusted) JINJA_CHECKED;
bool jinja_builder_text(struct jinja_run *run, struct jinja_builder *builder,
                        const char *text) JINJA_CHECKED; /* trusted */
bool jinja_builder_string(struct jinja_run *run, struct jinja_builder *builder,
                          const struct jinja_string *string) JINJA_CHECKED;
bool jinja_builder_char(struct jinja_run *run, struct jinja_builder *builder, uint32_t code_point,
                        bool trusted) JINJA_CHECKED;
bool jinja_builder_repeat(struct jinja_run *run, struct jinja_builder *builder, char byte,
                          size_t count) JINJA_CHECKED; /* trusted */
bool jinja_builder_finish(struct jinja_run *run, struct jinja_builder *builder,
                          struct jinja_value *out) JINJA_CHECKED;

#endif
