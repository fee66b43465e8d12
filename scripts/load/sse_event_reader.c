/*
 * The event stream format of the HTML standard, as far as APIs use it: lines end with CR, LF or
 * both; "data:" lines of an event are joined by line feeds; an empty line ends the event; comments
 * and other fields are skipped. A stream that ends inside an event loses that event.
 *
 * Buffers grow with a line's length up to a bound, so a server that sends one endless line costs a
 * megabyte at most.
 */
#include "scripts/load/sse_event_reader.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

void sse_event_reader_fini(struct sse_event_reader *reader)
{
    free(reader->line);
    free(reader->data);
    *reader = (struct sse_event_reader){0};
}

static enum result append(char **buffer, size_t *length, size_t *capacity, const char *bytes,
                          size_t count)
{
    if (count >= SSE_EVENT_BYTES - *length)
        return RESULT_TOO_LARGE;
    if (*length + count + 1 > *capacity) {
        size_t wanted = *capacity ? *capacity : 512;
        while (wanted < *length + count + 1)
            wanted *= 2;
        *buffer = realloc(*buffer, wanted);
        must(*buffer != NULL);
        *capacity = wanted;
    }
    if (count > 0)
        memcpy(*buffer + *length, bytes, count);
    *length += count;
    (*buffer)[*length] = '\0';
    return RESULT_OK;
}

static enum result end_line(struct sse_event_reader *reader,
                            enum result (*event)(void *context, const char *data, size_t length),
                            void *context)
{
    enum result result = RESULT_OK;
    const char *line = reader->line;
    size_t length = reader->line_length;
    reader->line_length = 0;
    if (length == 0) {
        if (reader->has_data)
            result = event(context, reader->data, reader->data_length);
        reader->has_data = false;
        reader->data_length = 0;
        return result;
    }
    if (memchr(line, '\0', length))
        return RESULT_CORRUPT;
    if (length < 5 || memcmp(line, "data:", 5) != 0)
        return RESULT_OK;
    size_t skip = length > 5 && line[5] == ' ' ? 6 : 5;
    if (reader->has_data)
        result = append(&reader->data, &reader->data_length, &reader->data_capacity, "\n", 1);
    if (result == RESULT_OK)
        result = append(&reader->data, &reader->data_length, &reader->data_capacity, line + skip,
                        length - skip);
    reader->has_data = true;
    return result;
}

enum result sse_event_reader_feed(struct sse_event_reader *reader, const char *bytes, size_t count,
                                  enum result (*event)(void *context, const char *data,
                                                       size_t length),
                                  void *context)
{
    enum result result = RESULT_OK;
    size_t at = 0;
    while (at < count && result == RESULT_OK) {
        if (reader->after_return && bytes[at] == '\n')
            at++;
        reader->after_return = false;
        size_t from = at;
        while (at < count && bytes[at] != '\n' && bytes[at] != '\r')
            at++;
        result = append(&reader->line, &reader->line_length, &reader->line_capacity, bytes + from,
                        at - from);
        if (at == count || result != RESULT_OK)
            break;
        reader->after_return = bytes[at++] == '\r';
        result = end_line(reader, event, context);
    }
    return result;
}
