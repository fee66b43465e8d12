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

/* True, and `at` after the colon, if the string [quote, at) is the key "model". */
static bool is_model_key(struct reader *reader, const char *quote)
{
    static const char key[] = "\"model\"";
    if ((size_t)(reader->at - quote) != sizeof key - 1 || memcmp(quote, key, sizeof key - 1) != 0)
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

enum body_model body_model_find(const char *json, size_t json_bytes, char *name, size_t capacity)
{
    struct reader reader = {json, json + json_bytes};
    uint64_t depth = 0;
    bool key = false; /* a string here is a key of the outer object */
    name[0] = '\0';
    skip_blanks(&reader);
    if (reader.at == reader.end || *reader.at != '{')
        return BODY_MODEL_ABSENT;
    while (reader.at < reader.end) {
        const char *here = reader.at;
        switch (*here) {
        case '"':
            skip_string(&reader);
            if (key && is_model_key(&reader, here))
                return value_read(&reader, name, capacity);
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
                return BODY_MODEL_ABSENT;
            break;
        case ',': key = depth == 1; break;
        default: break;
        }
        reader.at++;
    }
    return BODY_MODEL_ABSENT;
}
