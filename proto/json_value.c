/*
 * Looks up members by name in the text of a document that was checked once.
 *
 * The check costs one pass, each look-up another pass over the object's text. A config has about
 * forty members that are read about forty times, so an index would not pay. Names are compared
 * unescaped.
 *
 * There are no paths ("a.b.c"), no writing, and no numbers beyond double.
 */
#include "proto/json_value.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "proto/limits.h"

enum result json_value_open(const char *json, size_t json_bytes, size_t most_bytes,
                            struct json_value *value, struct error_text *error)
{
    *value = (struct json_value){0};
    if (json_bytes > most_bytes)
        return error_set(error, RESULT_TOO_LARGE, "%zu bytes of JSON, over %zu", json_bytes,
                         most_bytes);
    struct json_reader reader = json_reader_open(json, json_bytes);
    json_reader_peek(&reader);
    const char *start = reader.at;
    json_reader_check(&reader);
    if (reader.failed)
        return error_set(error, RESULT_INVALID, "no valid JSON");
    size_t bytes = (size_t)(reader.at - start);
    if (json_reader_peek(&reader) != 0 || reader.at != reader.end)
        return error_set(error, RESULT_INVALID, "something follows the JSON, at byte %zu",
                         (size_t)(reader.at - json));
    *value = (struct json_value){start, bytes};
    return RESULT_OK;
}

enum json_type json_value_type(struct json_value value)
{
    if (value.byte_count == 0)
        return JSON_ABSENT;
    switch (value.bytes[0]) {
    case '{': return JSON_OBJECT;
    case '[': return JSON_ARRAY;
    case '"': return JSON_STRING;
    case 't':
    case 'f': return JSON_BOOL;
    case 'n': return JSON_ABSENT;
    default: return JSON_NUMBER;
    }
}

/* The last member of this name, null too. */
static struct json_value find_member(struct json_value object, const char *name)
{
    struct json_value found = {0};
    char candidate[LIMIT_JSON_NAME_BYTES];
    if (json_value_type(object) != JSON_OBJECT)
        return found;
    struct json_reader reader = json_reader_open(object.bytes, object.byte_count);
    json_reader_enter(&reader, '{');
    for (;;) {
        size_t name_bytes, value_bytes;
        if (!json_reader_next_member(&reader, candidate, sizeof candidate, &name_bytes))
            break;
        const char *value = json_reader_skip(&reader, &value_bytes);
        if (name_bytes == strlen(name) && memcmp(candidate, name, name_bytes) == 0)
            found = (struct json_value){value, value_bytes};
    }
    return found;
}

struct json_value json_value_member(struct json_value object, const char *name)
{
    struct json_value found = find_member(object, name);
    return json_value_type(found) == JSON_ABSENT ? (struct json_value){0} : found;
}

bool json_value_member_is_null(struct json_value object, const char *name)
{
    struct json_value found = find_member(object, name);
    return found.byte_count > 0 && json_value_type(found) == JSON_ABSENT;
}

struct json_reader json_value_elements(struct json_value array)
{
    struct json_reader reader = json_reader_open(array.bytes, array.byte_count);
    json_reader_enter(&reader, '[');
    return reader;
}

bool json_value_next(struct json_reader *at, struct json_value *element)
{
    if (!json_reader_next_element(at))
        return false;
    element->bytes = json_reader_skip(at, &element->byte_count);
    return !at->failed;
}

static enum result read_number(struct json_value value, double *number)
{
    enum json_type type = json_value_type(value);
    if (type != JSON_NUMBER)
        return type == JSON_ABSENT ? RESULT_NOT_FOUND : RESULT_INVALID;
    struct json_reader reader = json_reader_open(value.bytes, value.byte_count);
    *number = json_reader_f64(&reader);
    return reader.failed ? RESULT_INVALID : RESULT_OK;
}

enum result json_value_u32(struct json_value value, uint32_t *out)
{
    double number;
    enum result result = read_number(value, &number);
    if (result != RESULT_OK)
        return result;
    if (!(number >= 0 && number <= (double)UINT32_MAX) || fabs(number - floor(number)) > 0)
        return RESULT_INVALID;
    *out = (uint32_t)number;
    return RESULT_OK;
}

enum result json_value_member_u32(struct json_value object, const char *name, uint32_t most,
                                  uint32_t absent, uint32_t *out, struct error_text *error)
{
    *out = absent;
    enum result result = json_value_u32(json_value_member(object, name), out);
    if (result == RESULT_NOT_FOUND || (result == RESULT_OK && *out >= 1 && *out <= most))
        return RESULT_OK;
    return error_set(error, RESULT_INVALID, "its %s is not a number from 1 to %u", name, most);
}

enum result json_value_f32(struct json_value value, float *out)
{
    double number;
    enum result result = read_number(value, &number);
    if (result != RESULT_OK)
        return result;
    if (!(fabs(number) <= (double)FLT_MAX))
        return RESULT_INVALID;
    *out = (float)number;
    return RESULT_OK;
}

enum result json_value_bool(struct json_value value, bool *out)
{
    enum json_type type = json_value_type(value);
    if (type != JSON_BOOL)
        return type == JSON_ABSENT ? RESULT_NOT_FOUND : RESULT_INVALID;
    *out = value.bytes[0] == 't';
    return RESULT_OK;
}

enum result json_value_string(struct json_value value, char *text, size_t capacity)
{
    enum json_type type = json_value_type(value);
    if (type != JSON_STRING)
        return type == JSON_ABSENT ? RESULT_NOT_FOUND : RESULT_INVALID;
    struct json_reader reader = json_reader_open(value.bytes, value.byte_count);
    size_t bytes = json_reader_string(&reader, text, capacity - 1);
    if (reader.failed || memchr(text, '\0', bytes)) {
        text[0] = '\0';
        return RESULT_INVALID;
    }
    text[bytes] = '\0';
    return RESULT_OK;
}
