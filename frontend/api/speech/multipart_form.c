/*
 * A body is "--B", then for each part CRLF, header lines, an empty line and bytes up to CRLF "--B"; "--" follows the last
 * one. A boundary that a file happens to contain cannot be told from an end, so clients choose one that it does not.
 */
#include "frontend/api/speech/multipart_form.h"

#include <string.h>
#include <strings.h>

#define BOUNDARY_MAX 74u /* "--" and 70 characters (RFC 2046), and some */

struct reader {
    const char *at;
    const char *end;
};

static size_t left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static bool take(struct reader *reader, const char *text)
{
    size_t bytes = strlen(text);
    if (left(reader) < bytes || memcmp(reader->at, text, bytes) != 0)
        return false;
    reader->at += bytes;
    return true;
}

/* The value of parameter `name` of a Content-Disposition line, quoted or a token. Quoted pairs give their second
 * character. False: it is not there, or too long for `value`. */
static bool read_parameter(const char *line, size_t bytes, const char *name, char *value,
                           size_t capacity, bool *present)
{
    size_t name_bytes = strlen(name);
    *present = false;
    for (size_t i = 0; i + name_bytes + 1 < bytes; i++) {
        bool starts = i > 0 && (line[i - 1] == ';' || line[i - 1] == ' ' || line[i - 1] == '\t');
        if (line[i] == '"') { /* skip a quoted value */
            for (i++; i < bytes && line[i] != '"'; i++)
                i += line[i] == '\\';
            continue;
        }
        if (!starts || strncasecmp(line + i, name, name_bytes) != 0 || line[i + name_bytes] != '=')
            continue;
        *present = true;
        size_t at = i + name_bytes + 1, length = 0;
        bool quoted = at < bytes && line[at] == '"';
        for (at += quoted; at < bytes; at++) {
            if (quoted ? line[at] == '"' : line[at] == ';' || line[at] == ' ')
                break;
            if (quoted && line[at] == '\\' && at + 1 < bytes)
                at++;
            if (length + 1 >= capacity || line[at] == '\0')
                return false;
            value[length++] = line[at];
        }
        value[length] = '\0';
        return !quoted || (at < bytes && line[at] == '"');
    }
    return false;
}

/* Reads the header lines up to the empty one. */
static enum result read_head(struct reader *reader, struct multipart_part *part,
                             struct error_text *error)
{
    static const char disposition[] = "content-disposition:";
    char file[MULTIPART_HEADER_BYTES];
    const char *begin = reader->at;
    bool named = false;
    while (!take(reader, "\r\n")) {
        const char *line = reader->at;
        size_t room = left(reader) < MULTIPART_HEADER_BYTES ? left(reader) : MULTIPART_HEADER_BYTES;
        const char *stop = memmem(line, room, "\r\n", 2);
        if (!stop || (size_t)(stop - begin) > MULTIPART_HEADER_BYTES)
            return error_set(
                error, stop || room == MULTIPART_HEADER_BYTES ? RESULT_TOO_LARGE : RESULT_INVALID,
                "the headers of a part do not end within %u bytes", MULTIPART_HEADER_BYTES);
        size_t bytes = (size_t)(stop - line);
        bool present;
        if (bytes >= sizeof disposition - 1 &&
            strncasecmp(line, disposition, sizeof disposition - 1) == 0) {
            named = read_parameter(line, bytes, "name", part->name, sizeof part->name, &present);
            (void)read_parameter(line, bytes, "filename", file, sizeof file, &part->is_file);
            if (present && !named)
                return error_set(error, RESULT_TOO_LARGE,
                                 "the name of a part is not one of %u bytes",
                                 MULTIPART_NAME_BYTES - 1);
        }
        reader->at = stop + 2;
    }
    return named ? RESULT_OK : error_set(error, RESULT_INVALID, "a part has no name");
}

enum result multipart_form_read(const char *body, size_t body_bytes, struct multipart_form *form,
                                struct error_text *error)
{
    struct reader reader = {body, body + body_bytes};
    char boundary[BOUNDARY_MAX + 3] = "\r\n"; /* with the line's end before it */
    form->count = 0;
    const char *stop =
        memmem(body, body_bytes < BOUNDARY_MAX + 2 ? body_bytes : BOUNDARY_MAX + 2, "\r\n", 2);
    if (!stop || stop - body < 3 || memcmp(body, "--", 2) != 0)
        return error_set(error, RESULT_INVALID, "the body is not multipart/form-data");
    size_t length = (size_t)(stop - body);
    memcpy(boundary + 2, body, length);
    if (memchr(body, '\0', length))
        return error_set(error, RESULT_INVALID, "the body is not multipart/form-data");
    reader.at = stop;
    while (take(&reader, "\r\n")) {
        if (form->count == MULTIPART_PARTS_MAX)
            return error_set(error, RESULT_TOO_LARGE, "the form has more than %u parts",
                             MULTIPART_PARTS_MAX);
        struct multipart_part *part = &form->parts[form->count++];
        *part = (struct multipart_part){.is_file = false};
        enum result result = read_head(&reader, part, error);
        if (result != RESULT_OK)
            return result;
        part->bytes = reader.at;
        const char *next = memmem(reader.at, left(&reader), boundary, length + 2);
        if (!next)
            return error_set(error, RESULT_INVALID, "the form ends within a part");
        part->byte_count = (size_t)(next - reader.at);
        reader.at = next + length + 2;
    }
    return take(&reader, "--") ? RESULT_OK
                               : error_set(error, RESULT_INVALID, "the form has no end");
}

const struct multipart_part *multipart_form_find(const struct multipart_form *form,
                                                 const char *name)
{
    for (unsigned i = 0; i < form->count; i++)
        if (strcmp(form->parts[i].name, name) == 0)
            return &form->parts[i];
    return NULL;
}
