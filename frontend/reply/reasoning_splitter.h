/*
 * Splits a model's reasoning from its answer while both arrive in pieces.
 *
 * The result does not depend on where the text is cut. Rules:
 *
 * - A section lasts from an opening tag, or from the beginning of the answer if the prompt opened
 *   one, to the first closing tag, else to the end. There may be several; tags are removed.
 * - Outside a section an opening tag counts at the start of a line (of the answer, after a
 *   section), ignoring white space before it, and not within a ``` fence: elsewhere the text is
 *   about tags. Tags that are control tokens count anywhere. Inside a tool call no tag counts.
 * - A closing tag without a section is removed if no text came before it: the section was empty.
 *   Later it is content: the text before it was streamed and cannot be withdrawn, and with the tag
 *   a reader can still separate the two. An opening tag inside a section is removed if the section
 *   is empty so far: prompt and model both wrote it. Later it is reasoning.
 * - A text that begins a tool call, at the start of a line as above, ends an unclosed section, and
 *   is content. One that is spelled like a control token counts anywhere.
 * - White space next to tags is trimmed: after an opening and before a closing tag, after a closing
 *   tag unless it stands between two words of content, and between the beginning of the answer and
 *   a first opening tag. If white space has to be held back until the following text decides, at
 *   most the last REASONING_SPACE_BYTES are trimmed. An answer without tags is unchanged.
 *
 * Held back are at most the longest mark less a byte, and REASONING_SPACE_BYTES of white space.
 */
#ifndef SHOAL_FRONTEND_REPLY_REASONING_SPLITTER_H
#define SHOAL_FRONTEND_REPLY_REASONING_SPLITTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/reply/reasoning_format.h"
#include "frontend/reply/reply_event.h"

enum { REASONING_SPACE_BYTES = 64, REASONING_CALL_MARKS = 16 };

struct reasoning_splitter;

struct reasoning_splitter_config {
    const struct reasoning_format *format; /* with tags; copied, including its texts */
    bool open;                             /* the answer begins inside a section */
    const char *const *call_marks;         /* texts that begin calls and end sections; copied */
    size_t call_mark_count;                /* at most REASONING_CALL_MARKS */
    struct reply_event_sink sink;          /* receives REASONING and CONTENT */
    /* True if the CONTENT that the sink received so far ends inside a call; NULL: never. */
    bool (*in_call)(void *sink_context);
};

struct reasoning_splitter *
reasoning_splitter_create(const struct reasoning_splitter_config *config);
void reasoning_splitter_destroy(struct reasoning_splitter *splitter); /* NULL is allowed */

/* The text of one token (may be empty), or text without a token; whole characters. */
void reasoning_splitter_push(struct reasoning_splitter *splitter, const char *bytes, size_t length,
                             bool is_token);
/* Emits the text held back; then all tokens are counted. */
void reasoning_splitter_finish(struct reasoning_splitter *splitter);

struct reply_token_counts reasoning_splitter_counts(const struct reasoning_splitter *splitter);
bool reasoning_splitter_failed(const struct reasoning_splitter *splitter);

#endif
