/*
 * Settings of one model, each with its permitted range.
 *
 * A config has some twenty fields; an `if` and a `return` after each would hide which fields there
 * are. So the first error is kept, reading looks like a list, and the caller checks once. Every
 * message names the full key, the value found and the permitted range. A key of the wrong type is
 * an error even if the key is optional.
 */
#include "worker/model/checkpoint/checkpoint_keys.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/must.h"

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
    snprintf(full.text, sizeof(full.text), "%s%s%s", keys->section, keys->section[0] ? "." : "",
             name);
    return full;
}

/* --- both formats ----------------------------------------------------------------------------- */

static enum result fetch_u32(const struct checkpoint_keys *keys, const char *name, uint32_t *out)
{
    return keys->file ? gguf_file_u32(keys->file, full_name(keys, name).text, out)
                      : json_value_u32(json_value_member(keys->object, name), out);
}

static enum result fetch_f32(const struct checkpoint_keys *keys, const char *name, float *out)
{
    return keys->file ? gguf_file_f32(keys->file, full_name(keys, name).text, out)
                      : json_value_f32(json_value_member(keys->object, name), out);
}

static enum result fetch_bool(const struct checkpoint_keys *keys, const char *name, bool *out)
{
    return keys->file ? gguf_file_bool(keys->file, full_name(keys, name).text, out)
                      : json_value_bool(json_value_member(keys->object, name), out);
}

static enum result fetch_string(const struct checkpoint_keys *keys, const char *name,
                                struct gguf_string *out)
{
    if (keys->file)
        return gguf_file_string(keys->file, full_name(keys, name).text, out);
    struct json_value value = json_value_member(keys->object, name);
    enum json_type type = json_value_type(value);
    if (type != JSON_STRING)
        return type == JSON_ABSENT ? RESULT_NOT_FOUND : RESULT_INVALID;
    if (memchr(value.bytes, '\\', value.byte_count))
        return RESULT_INVALID;
    *out = (struct gguf_string){value.bytes + 1, value.byte_count - 2};
    return RESULT_OK;
}

/* --- with ranges ------------------------------------------------------------------------------ */

static uint32_t take_u32(struct checkpoint_keys *keys, const char *name, struct u32_range range,
                         const uint32_t *absent)
{
    if (keys->result != RESULT_OK)
        return range.least;
    struct key_name key = full_name(keys, name);
    uint32_t value = range.least;
    enum result result = fetch_u32(keys, name, &value);
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

uint32_t checkpoint_keys_u32_at(struct checkpoint_keys *keys, const char *name, uint32_t index,
                                struct u32_range range)
{
    struct gguf_array array;
    must(keys->file);
    if (keys->result != RESULT_OK)
        return range.least;
    struct key_name key = full_name(keys, name);
    if (gguf_file_array(keys->file, key.text, &array) != RESULT_OK)
        return checkpoint_keys_u32(keys, name, range);
    if (array.type == GGUF_STRING || array.type == GGUF_ARRAY || index >= array.count) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s has no count %u", key.text, index);
        return range.least;
    }
    int64_t value = gguf_array_i64(&array, index);
    if (value < range.least || value > range.most)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key %s: element %u is %lld, not within %u to %u", key.text, index,
                               (long long)value, range.least, range.most);
    return keys->result == RESULT_OK ? (uint32_t)value : range.least;
}

/* Copies the array's elements to `out` if there are `count` of them. Returns the number of
 * elements, UINT32_MAX if one is not a 32-bit count, or -1 if there is no array. */
static int64_t fetch_array(const struct checkpoint_keys *keys, const char *name, uint32_t count,
                           uint32_t *out)
{
    struct gguf_array array;
    int64_t found = 0;
    if (keys->file) {
        if (gguf_file_array(keys->file, full_name(keys, name).text, &array) != RESULT_OK)
            return -1;
        if (array.type == GGUF_STRING || array.type == GGUF_ARRAY || array.count != count)
            return array.count == count ? UINT32_MAX : (int64_t)(array.count % UINT32_MAX);
        for (; found < (int64_t)array.count; found++) {
            int64_t value = gguf_array_i64(&array, (uint64_t)found);
            if (value < 0 || value > UINT32_MAX)
                return UINT32_MAX;
            out[found] = (uint32_t)value;
        }
        return found;
    }
    struct json_value list = json_value_member(keys->object, name), element;
    if (json_value_type(list) != JSON_ARRAY)
        return -1;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);) {
        uint32_t value;
        if (json_value_u32(element, &value) != RESULT_OK)
            return UINT32_MAX;
        if (found < count)
            out[found] = value;
        found++;
    }
    return found;
}

static void check_each(struct checkpoint_keys *keys, const char *name, struct u32_range range,
                       uint32_t count, const uint32_t *values)
{
    uint32_t different[LAYER_SIZES_MAX], known = 0;
    struct key_name key = full_name(keys, name);
    for (uint32_t i = 0; i < count && keys->result == RESULT_OK; i++) {
        uint32_t at = 0;
        while (at < known && different[at] != values[i])
            at++;
        if (values[i] < range.least || values[i] > range.most)
            checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s: layer %u has %u, not %u to %u",
                                   key.text, i, values[i], range.least, range.most);
        else if (at == LAYER_SIZES_MAX)
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "key %s: more than %u different ones",
                                   key.text, LAYER_SIZES_MAX);
        else if (at == known)
            different[known++] = values[i];
    }
}

bool checkpoint_keys_u32_each(struct checkpoint_keys *keys, const char *name,
                              struct u32_range range, uint32_t count, uint32_t *out)
{
    uint32_t one = 0;
    if (keys->result != RESULT_OK || fetch_u32(keys, name, &one) == RESULT_NOT_FOUND)
        return false;
    int64_t found = fetch_array(keys, name, count, out);
    if (found < 0) {
        one = checkpoint_keys_u32(keys, name, range);
        for (uint32_t i = 0; i < count; i++)
            out[i] = one;
    } else if (found != count) {
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               found == UINT32_MAX ? "key %s has an element that is no 32-bit count"
                                                   : "key %s has not one element a layer",
                               full_name(keys, name).text);
    } else {
        check_each(keys, name, range, count, out);
    }
    return keys->result == RESULT_OK;
}

static float take_f32(struct checkpoint_keys *keys, const char *name, struct f32_range range,
                      const float *absent)
{
    if (keys->result != RESULT_OK)
        return range.least;
    struct key_name key = full_name(keys, name);
    float value = range.least;
    enum result result = fetch_f32(keys, name, &value);
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

float checkpoint_keys_f32_or_null(struct checkpoint_keys *keys, const char *name,
                                  struct f32_range range, float absent)
{
    if (!keys->file && json_value_member_is_null(keys->object, name))
        return 0.0f;
    return take_f32(keys, name, range, &absent);
}

struct gguf_string checkpoint_keys_string_or_empty(struct checkpoint_keys *keys, const char *name)
{
    struct gguf_string value = {"", 0};
    if (keys->result != RESULT_OK)
        return value;
    struct key_name key = full_name(keys, name);
    enum result result = fetch_string(keys, name, &value);
    if (result != RESULT_OK && result != RESULT_NOT_FOUND)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not a string", key.text);
    return value;
}

bool checkpoint_keys_is(struct gguf_string value, const char *word)
{
    return value.length == strlen(word) && memcmp(value.bytes, word, value.length) == 0;
}

bool checkpoint_keys_bool_or(struct checkpoint_keys *keys, const char *name, bool absent)
{
    bool value = absent;
    if (keys->result != RESULT_OK)
        return absent;
    enum result result = fetch_bool(keys, name, &value);
    if (result != RESULT_OK && result != RESULT_NOT_FOUND)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not true or false",
                               full_name(keys, name).text);
    return value;
}

void checkpoint_keys_expect_neutral(struct checkpoint_keys *keys, const char *name, double neutral)
{
    struct key_name key = full_name(keys, name);
    uint32_t integer = 0;
    float real = 0;
    bool truth = false;
    double value;
    if (fetch_u32(keys, name, &integer) == RESULT_OK)
        value = integer;
    else if (fetch_f32(keys, name, &real) == RESULT_OK)
        value = (double)real;
    else if (fetch_bool(keys, name, &truth) == RESULT_OK)
        value = truth;
    else if (fetch_u32(keys, name, &integer) == RESULT_NOT_FOUND)
        return;
    else
        value = NAN;
    /* NaN stands for a value that is not a number; it never equals `neutral`. */
    if (!(fabs(value - neutral) <= 0.0))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "key %s: only %g is supported", key.text,
                               neutral);
}

static bool is_listed(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

void checkpoint_keys_expect_all_neutral(struct checkpoint_keys *keys,
                                        const struct altering_key *altering, size_t count,
                                        const char *const *own)
{
    for (size_t i = 0; i < count; i++)
        if (!is_listed(own, altering[i].name))
            checkpoint_keys_expect_neutral(keys, altering[i].name, altering[i].neutral);
}

/* --- objects within the object ---------------------------------------------------------------- */

struct checkpoint_keys checkpoint_keys_enter(struct checkpoint_keys *keys, const char *name)
{
    struct checkpoint_keys inner = {.result = keys->result, .error = keys->error};
    snprintf(inner.section, sizeof(inner.section), "%s", name);
    inner.object = json_value_member(keys->object, name);
    enum json_type type = json_value_type(inner.object);
    if (type != JSON_OBJECT && type != JSON_ABSENT)
        checkpoint_keys_refuse(&inner, RESULT_INVALID, "key %s is not an object",
                               full_name(keys, name).text);
    return inner;
}

void checkpoint_keys_leave(struct checkpoint_keys *keys, const struct checkpoint_keys *inner)
{
    if (keys->result == RESULT_OK)
        keys->result = inner->result;
}
