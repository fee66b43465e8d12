/*
 * Metadata keys of one architecture, each with the range it must lie in.
 *
 * A config has some twenty fields; an `if` and a `return` after each would hide which fields there
 * are. The first refusal is latched instead, so that reading looks like a list, and the caller
 * checks once. Every message names the full key, the value found and the range wanted.
 *
 * Refuses to guess: a key of the wrong type is an error even where the key is optional.
 */
#include "worker/model/checkpoint_keys.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void checkpoint_keys_refuse(struct checkpoint_keys *keys, enum result result, const char *format,
                            ...)
{
    if (keys->result != RESULT_OK)
        return;
    struct error_text text;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text.text, sizeof(text.text), format, arguments);
    va_end(arguments);
    keys->result = error_set(keys->error, result, "%s", text.text);
}

struct key_name {
    char text[LIMIT_GGUF_NAME_BYTES];
};

static struct key_name full_name(const struct checkpoint_keys *keys, const char *name)
{
    struct key_name full;
    snprintf(full.text, sizeof(full.text), "%s.%s", keys->architecture, name);
    return full;
}

static uint32_t take_u32(struct checkpoint_keys *keys, const char *name, struct u32_range range,
                         const uint32_t *absent)
{
    if (keys->result != RESULT_OK)
        return range.least;
    struct key_name key = full_name(keys, name);
    uint32_t value = range.least;
    enum result result = gguf_file_u32(keys->file, key.text, &value);
    if (result == RESULT_NOT_FOUND && absent)
        return *absent;
    if (result == RESULT_NOT_FOUND)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is missing", key.text);
    else if (result != RESULT_OK)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not a 32-bit count", key.text);
    else if (value < range.least)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is %u, less than %u", key.text, value,
                               range.least);
    else if (value > range.most)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "key %s is %u, more than %u", key.text,
                               value, range.most);
    return keys->result == RESULT_OK ? value : range.least;
}

uint32_t checkpoint_keys_u32(struct checkpoint_keys *keys, const char *name, struct u32_range range)
{
    return take_u32(keys, name, range, NULL);
}

uint32_t checkpoint_keys_u32_or(struct checkpoint_keys *keys, const char *name,
                                struct u32_range range, uint32_t absent)
{
    return take_u32(keys, name, range, &absent);
}

static float take_f32(struct checkpoint_keys *keys, const char *name, struct f32_range range,
                      const float *absent)
{
    if (keys->result != RESULT_OK)
        return range.least;
    struct key_name key = full_name(keys, name);
    float value = range.least;
    enum result result = gguf_file_f32(keys->file, key.text, &value);
    if (result == RESULT_NOT_FOUND && absent)
        return *absent;
    if (result == RESULT_NOT_FOUND)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is missing", key.text);
    else if (result != RESULT_OK)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not a finite float", key.text);
    else if (!(value >= range.least && value <= range.most))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is %g, not within %g to %g", key.text,
                               (double)value, (double)range.least, (double)range.most);
    return keys->result == RESULT_OK ? value : range.least;
}

float checkpoint_keys_f32(struct checkpoint_keys *keys, const char *name, struct f32_range range)
{
    return take_f32(keys, name, range, NULL);
}

float checkpoint_keys_f32_or(struct checkpoint_keys *keys, const char *name, struct f32_range range,
                             float absent)
{
    return take_f32(keys, name, range, &absent);
}

struct gguf_string checkpoint_keys_string_or_empty(struct checkpoint_keys *keys, const char *name)
{
    struct gguf_string value = {"", 0};
    if (keys->result != RESULT_OK)
        return value;
    struct key_name key = full_name(keys, name);
    enum result result = gguf_file_string(keys->file, key.text, &value);
    if (result != RESULT_OK && result != RESULT_NOT_FOUND)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not a string", key.text);
    return value;
}

void checkpoint_keys_expect_neutral(struct checkpoint_keys *keys, const char *name, double neutral)
{
    struct key_name key = full_name(keys, name);
    uint32_t integer = 0;
    float real = 0;
    bool truth = false;
    double value;
    if (gguf_file_u32(keys->file, key.text, &integer) == RESULT_OK)
        value = integer;
    else if (gguf_file_f32(keys->file, key.text, &real) == RESULT_OK)
        value = (double)real;
    else if (gguf_file_bool(keys->file, key.text, &truth) == RESULT_OK)
        value = truth;
    else if (gguf_file_u32(keys->file, key.text, &integer) == RESULT_NOT_FOUND)
        return;
    else
        value = NAN;
    /* NaN, a value of no number type, is neutral to nothing. */
    if (!(fabs(value - neutral) <= 0.0))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "key %s: only %g is supported", key.text,
                               neutral);
}
