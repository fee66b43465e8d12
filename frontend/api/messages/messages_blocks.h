/*
 * The content blocks of an answer in Anthropic's shape (thinking, text, tool_use), made from parser
 * events (reply_event.h): as events of a stream, or as the members of a message's `content`.
 * At most one block is open. An event of another kind closes it and opens the next; a call's block
 * ends with its call. Streamed, each event becomes a delta at once and only thinking is also kept,
 * for its signature; not streamed, the open block's text is kept until it closes.
 *
 * A call that was cut off by a limit is closed as it is: the pieces of a stream then do not form
 * valid JSON, and a whole message gives {} if the input is no object. stop_reason max_tokens tells
 * the client.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_BLOCKS_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/reply_event.h"

enum block_kind { BLOCK_NONE = 0, BLOCK_THINKING, BLOCK_TEXT, BLOCK_TOOL_USE };

struct messages_blocks {
    const char *message_id; /* "msg_…"; ids of calls are made from it */
    const char *model_id;   /* signs thinking */
    bool stream;
    bool omits_thinking;     /* thinking blocks have a signature and no text */
    struct text_buffer *out; /* where a stream's events go; set before every call */

    enum block_kind open;
    uint32_t count;          /* opened so far */
    struct text_buffer text; /* of the open block, if it must be kept */
    struct text_buffer
        content; /* not streaming: the closed blocks, separated by commas; failed: out of memory */
};

/* Starts an event of a stream: `event: NAME`, `data: {"type":"NAME"`; messages_event_end() closes
 * it. */
void messages_event_begin(const char *name, struct text_buffer *out);
void messages_event_end(struct text_buffer *out);

void messages_blocks_fini(struct messages_blocks *blocks);
void messages_blocks_event(struct messages_blocks *blocks, const struct reply_event *event);
/* Closes the open block at the end of the answer. */
void messages_blocks_end(struct messages_blocks *blocks);

#endif
