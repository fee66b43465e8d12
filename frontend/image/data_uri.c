/*
 * Decodes images inside a request's JSON: megabytes of text from any client.
 *
 * One pass undoes the escapes and one the base64, both into a single buffer whose size is bounded
 * before it is allocated: neither form is longer decoded than encoded. The URL-safe alphabet, text
 * after the padding, and parameters that end without a comma are errors.
 */
#include "frontend/image/data_uri.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "frontend/base/base64.h"
#include "frontend/base/hex_digit.h"

#define HEAD_BYTES 256u /* type and parameters; real ones have some 30 */

void file_bytes_fini(struct file_bytes *file)
{
    free(file->bytes);
    *file = (struct file_bytes){0};
}

static bool has_data_scheme(const char *text)
{
    return strncasecmp(text, "data:", 5) == 0;
}

/* Undoes escapes; `to` has room for as many bytes as `text` has. */
static enum result escapes_read(const char *text, uint8_t *to, size_t *count,
                                struct error_text *error)
{
    size_t made = 0;
    for (const char *at = text; *at; at++) {
        if (*at != '%') {
            to[made++] = (uint8_t)*at;
            continue;
        }
        int high = hex_digit_value(at[1]);
        int low = high < 0 ? -1 : hex_digit_value(at[2]);
        if (low < 0)
            return error_set(error, RESULT_INVALID, "the data URI has a %% without two hex digits");
        to[made++] = (uint8_t)(high * 16 + low);
        at += 2;
    }
    *count = made;
    return RESULT_OK;
}

char *data_uri_unescape(const char *text)
{
    struct error_text error;
    size_t count;
    char *made = malloc(strlen(text) + 1);
    if (made && (escapes_read(text, (uint8_t *)made, &count, &error) != RESULT_OK ||
                 memchr(made, '\0', count))) {
        free(made);
        return NULL;
    }
    if (made)
        made[count] = '\0';
    return made;
}

/* --- the whole ------------------------------------------------------------------------------- */

static enum result too_large(size_t most_bytes, struct error_text *error)
{
    return error_set(error, RESULT_TOO_LARGE, "it has more than the %zu bytes that are taken",
                     most_bytes);
}

static enum result payload_read(const char *text, bool escaped, bool base64, size_t most_bytes,
                                struct file_bytes *file, struct error_text *error)
{
    *file = (struct file_bytes){0};
    size_t count = strlen(text);
    /* Escapes make text 3 times as long, base64 4/3, white space in it a little. */
    if (count / (escaped ? 3 : 1) / 2 > most_bytes)
        return too_large(most_bytes, error);
    struct file_bytes made = {.bytes = malloc(count + 1), .count = count};
    if (!made.bytes)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    enum result result = RESULT_OK;
    if (escaped)
        result = escapes_read(text, made.bytes, &made.count, error);
    else
        memcpy(made.bytes, text, count);
    if (result == RESULT_OK && base64)
        result = base64_decode(made.bytes, &made.count, error);
    if (result == RESULT_OK && made.count > most_bytes)
        result = too_large(most_bytes, error);
    if (result == RESULT_OK && made.count == 0)
        result = error_set(error, RESULT_INVALID, "it is empty");
    if (result == RESULT_OK)
        *file = made;
    else
        file_bytes_fini(&made);
    return result;
}

enum result data_uri_read(const char *uri, size_t most_bytes, struct file_bytes *file,
                          struct error_text *error)
{
    static const char mark[] = ";base64";
    const size_t mark_bytes = sizeof mark - 1;
    *file = (struct file_bytes){0};
    if (!has_data_scheme(uri))
        return error_set(error, RESULT_INVALID, "it is no data URI");
    const char *head = uri + 5;
    size_t head_bytes = strnlen(head, HEAD_BYTES);
    const char *comma = memchr(head, ',', head_bytes);
    if (!comma)
        return error_set(error, RESULT_INVALID, "the data URI has no comma before its data");
    bool base64 = (size_t)(comma - head) >= mark_bytes &&
                  strncasecmp(comma - mark_bytes, mark, mark_bytes) == 0;
    return payload_read(comma + 1, strchr(comma + 1, '%') != NULL, base64, most_bytes, file, error);
}

enum result data_uri_read_base64(const char *text, size_t most_bytes, struct file_bytes *file,
                                 struct error_text *error)
{
    return payload_read(text, false, true, most_bytes, file, error);
}
