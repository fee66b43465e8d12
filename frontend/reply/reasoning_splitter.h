/*
 * What a model thinks, split from what it says, while both arrive in pieces.
 *
 * The rules, for any cuts the same:
 *
 * - A section lasts from an opening tag, or the beginning of the answer where the prompt opened
 *   one, to the first closing tag, else to the end. There may be several; tags vanish.
 * - Outside a section an opening tag counts at the start of a line (of the answer, after a
 *   section), white space before it aside, and not within a ``` fence: elsewhere somebody writes
 *   about tags. Tags that are control tokens count everywhere. Inside a tool call none does.
 * - A closing tag without a section vanishes where nothing was said yet: the section was empty.
 *   Later it is content: what was streamed before it cannot be taken back, and with the tag a
 *   reader can still part the two. An opening tag inside a section vanishes where nothing was
 *   thought yet: prompt and model both wrote it. Later it is reasoning.
 * - A text with which a tool call begins, at the start of a line as above, ends a section that was
 *   never closed, and is content. One that looks like a control token counts everywhere.
 * - White space next to tags is trimmed: after an opening and before a closing tag, after a closing
 *   tag unless it stands between two words of content, and between the beginning of the answer and
 *   a first opening tag. Of white space that must be held back until it is known what follows,
 *   only the last REASONING_SPACE_BYTES are trimmed. An answer without tags stays as it is.
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
    const struct reasoning_format *format; /* with tags; copied with its texts */
    bool open;                             /* the answer begins inside a section */
    const char *const *call_marks;         /* with which calls begin, and sections end; copied */
    size_t call_mark_count;                /* at most REASONING_CALL_MARKS */
    struct reply_event_sink sink;          /* hears REASONING and CONTENT */
    /* Whether the sink is inside of what the CONTENT it heard so far began; NULL: never. */
    bool (*in_call)(void *sink_context);
};

struct reasoning_splitter *
reasoning_splitter_create(const struct reasoning_splitter_config *config);
void reasoning_splitter_destroy(struct reasoning_splitter *splitter); /* NULL is fine */

/* The text of one token, perhaps empty, or text that came without one; whole characters. */
void reasoning_splitter_push(struct reasoning_splitter *splitter, const char *bytes, size_t length,
                             bool is_token);
/* What was held back comes; all tokens are counted. */
void reasoning_splitter_finish(struct reasoning_splitter *splitter);

bool reasoning_splitter_is_inside(const struct reasoning_splitter *splitter);
struct reply_token_counts reasoning_splitter_counts(const struct reasoning_splitter *splitter);
bool reasoning_splitter_failed(const struct reasoning_splitter *splitter);

#endif
