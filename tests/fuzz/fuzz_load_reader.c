/*
 * Replies of a hostile server to the load tool: framing, events and chunks read from any bytes in
 * any pieces. The first byte of the input chooses the size of the pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "scripts/load/chat_event.h"
#include "scripts/load/http_reply_reader.h"
#include "scripts/load/sse_event_reader.h"

static enum result on_event(void *context, const char *data, size_t length)
{
    (void)context;
    must(strlen(data) == length);
    struct chat_event event;
    enum result result = chat_event_read(data, length, &event);
    must(strlen(event.error) < sizeof event.error);
    return result == RESULT_OK && event.done ? RESULT_CANCELLED : RESULT_OK;
}

static enum result on_body(void *context, const char *bytes, size_t count)
{
    must(count > 0);
    return sse_event_reader_feed(context, bytes, count, on_event, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t step = 1 + data[0];
    struct http_reply_reader *reply = must_alloc(1, sizeof *reply);
    struct sse_event_reader events = {0};
    enum result result = RESULT_OK;
    for (size_t at = 1; at < size && result == RESULT_OK; at += step) {
        size_t count = size - at < step ? size - at : step;
        char *piece = must_alloc(1, count);
        memcpy(piece, data + at, count);
        result = http_reply_reader_feed(reply, piece, count, on_body, &events);
        free(piece);
    }
    must(events.line_capacity <= SSE_EVENT_BYTES && events.data_capacity <= SSE_EVENT_BYTES);
    (void)http_reply_reader_is_whole_at_close(reply);
    sse_event_reader_fini(&events);
    free(reply);
    return 0;
}
