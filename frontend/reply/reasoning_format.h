/*
 * How models mark what they think before (or between) what they say.
 *
 * A format is a row of a table: its tags, and by which text of a chat template it is recognised.
 * What the rows mean to an answer is in reasoning_splitter.h; that a prompt has already opened a
 * section is read off its end, since templates do so in many ways.
 */
#ifndef SHOAL_FRONTEND_REPLY_REASONING_FORMAT_H
#define SHOAL_FRONTEND_REPLY_REASONING_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/result.h"

enum { REASONING_TAGS = 4, REASONING_NAMES = 8, REASONING_SIGNS = 2 };

/* Lists end at the first NULL or when they are full. All texts are the table's or the caller's. */
struct reasoning_format {
    const char *names[REASONING_NAMES];  /* the first is its own, the rest other servers' */
    const char *signs[REASONING_SIGNS];  /* all of them stand in a template of this format; a format
                                            without any is chosen by name only */
    const char *opening[REASONING_TAGS]; /* the first is what the model itself writes */
    const char *closing[REASONING_TAGS]; /* the first is what the model itself writes */
    const char *frames[REASONING_TAGS];  /* around the answer or parts of it; they vanish */
    bool control_tags; /* tags are control tokens, which nobody writes about: they count wherever
                          they stand. Others count at a line's start only */
    bool
        always_open; /* an answer begins inside a section though neither prompt nor model says so */
    bool joint;      /* reasoning and tool calls share one syntax (harmony), read by a parser of its
                        own: the tags only say where thinking begins and ends */
};

/* By any of its names; NULL when there is none. "none" and "auto" are no formats. */
const struct reasoning_format *reasoning_format_find(const char *name);
/* The format whose signs stand in a chat template's source; NULL: none. */
const struct reasoning_format *reasoning_format_detect(const char *source, size_t source_bytes);
/* The own names of all formats with ", " between, for messages. */
void reasoning_format_list(char *text, size_t text_bytes);

/*
 * A format with tags from a request (thinking_start_token, thinking_end_token), of which one may be
 * NULL: then it is that of `base`, or <think> or </think> when `base` is NULL or has none.
 * *custom points to the caller's strings. RESULT_INVALID for a tag of no or more than
 * LIMIT_REASONING_TAG_BYTES bytes, RESULT_UNSUPPORTED for a joint base.
 */
enum result reasoning_format_set_custom(struct reasoning_format *custom,
                                        const struct reasoning_format *base, const char *opening,
                                        const char *closing) RESULT_CHECKED;

/*
 * Whether an answer to this prompt begins inside a section: but for white space the prompt ends
 * with an opening tag, or the format is always open and the prompt does not end with a closing one.
 * The tail of a prompt is enough: LIMIT_REASONING_TAG_BYTES and the white space behind the tag.
 * `format` may be NULL.
 */
bool reasoning_format_is_open(const struct reasoning_format *format, const char *prompt,
                              size_t prompt_bytes);
/*
 * The same for an answer that goes on after `text`, the beginning of itself that the prompt holds
 * (continue_final_message): `open` is what was so in front of the text.
 */
bool reasoning_format_is_open_after(const struct reasoning_format *format, bool open,
                                    const char *text, size_t text_bytes);

#endif
