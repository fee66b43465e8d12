/*
 * One pass over the bytes that follows nesting and skips strings with memchr(): an image of
 * megabytes is one string.
 */
#include "frontend/serve/models/body_model.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const char *at;
    const char *end;
};

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at)
        reader->at++;
}

/* `at` is the opening quote. Moves past the closing one, or to the end if there is none. */
static void skip_string(struct reader *reader)
{
    const char *begin = ++reader->at;
    while (reader->at < reader->end) {
        const char *quote = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
        if (!quote)
            break;
        const char *before = quote;
        while (before > begin && before[-1] == '\\')
            before--;
        reader->at = quote + 1;
        if ((quote - before) % 2 == 0)
            return;
        begin = reader->at; /* an escaped quote: backslashes are counted once */
    }
    reader->at = reader->end;
}

/* True, and `at` at the value, if the string [quote, at) is `key`, which has its quotes. */
static bool is_key(struct reader *reader, const char *quote, const char *key)
{
    size_t key_bytes = strlen(key);
    if ((size_t)(reader->at - quote) != key_bytes || memcmp(quote, key, key_bytes) != 0)
        return false;
    skip_blanks(reader);
    if (reader->at == reader->end || *reader->at != ':')
        return false;
    reader->at++;
    skip_blanks(reader);
    return true;
}

static enum body_model value_read(struct reader *reader, char *name, size_t capacity)
{
    const char *quote = reader->at;
    if (quote == reader->end || *quote != '"')
        return BODY_MODEL_INVALID;
    skip_string(reader);
    /* An escape of six bytes gives one byte or more. */
    if ((size_t)(reader->at - quote) / 6 > capacity)
        return BODY_MODEL_INVALID;
    cJSON *value = cJSON_ParseWithLength(quote, (size_t)(reader->at - quote));
    const char *text = cJSON_GetStringValue(value);
    bool fits = text && strlen(text) < capacity;
    if (fits)
        strcpy(name, text);
    cJSON_Delete(value);
    return fits ? BODY_MODEL_NAMED : BODY_MODEL_INVALID;
}

/* Moves to the value of the first member `wanted` of the outer object. False: there is none. */
static bool member_find(struct reader *reader, const char *wanted)
{
    uint64_t depth = 0;
    bool key = false; /* a string here is a key of the outer object */
    skip_blanks(reader);
    if (reader->at == reader->end || *reader->at != '{')
        return false;
    while (reader->at < reader->end) {
        const char *here = reader->at;
        switch (*here) {
        case '"':
            skip_string(reader);
            if (key && is_key(reader, here, wanted))
                return true;
            key = false;
            continue;
        case '{':
        case '[':
            depth++;
            key = depth == 1;
            break;
        case '}':
        case ']':
            if (--depth == 0)
                return false;
            break;
        case ',': key = depth == 1; break;
        default: break;
        }
        reader->at++;
    }
    return false;
}

enum body_model body_model_find(const char *json, size_t json_bytes, char *name, size_t capacity)
{
    struct reader reader = {json, json + json_bytes};
    name[0] = '\0';
    if (!member_find(&reader, "\"model\""))
        return BODY_MODEL_ABSENT;
    return value_read(&reader, name, capacity);
}

bool body_model_streams(const char *json, size_t json_bytes)
{
    static const char word[] = "true";
    struct reader reader = {json, json + json_bytes};
    return member_find(&reader, "\"stream\"") &&
           (size_t)(reader.end - reader.at) >= sizeof word - 1 &&
           memcmp(reader.at, word, sizeof word - 1) == 0;
}
