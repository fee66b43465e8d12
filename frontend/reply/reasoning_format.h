/*
 * How models mark reasoning before (or between) the text of an answer.
 *
 * A format is a row of a table: its tags, and the marks by which a chat template is recognised.
 * reasoning_splitter.h defines how the tags are read. Whether a prompt has already opened a section
 * is read from its end, since templates open sections in many ways.
 */
#ifndef SHOAL_FRONTEND_REPLY_REASONING_FORMAT_H
#define SHOAL_FRONTEND_REPLY_REASONING_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/result.h"

enum { REASONING_TAGS = 4, REASONING_NAMES = 8, REASONING_TEMPLATE_MARKS = 2 };

/* Lists end at the first NULL or when they are full. All texts belong to the table or the
 * caller. */
struct reasoning_format {
    const char *names[REASONING_NAMES]; /* the first is the format's own name, the others are
                                           aliases from other servers */
    const char *template_marks[REASONING_TEMPLATE_MARKS]; /* a template of this format contains all
                                           of them; a format without any is chosen by name only */
    const char *opening[REASONING_TAGS];                  /* the first is what models write */
    const char *closing[REASONING_TAGS];                  /* the first is what models write */
    const char *frames[REASONING_TAGS]; /* marks around the answer or parts of it; removed */
    bool control_tags; /* tags are control tokens, which do not occur in prose: they count anywhere.
                          Others count at a line's start only */
    bool always_open; /* an answer begins inside a section though neither prompt nor model opens one
                       */
    bool joint; /* reasoning and tool calls share one syntax (harmony), read by its own parser; the
                   tags only send_certain where reasoning begins and ends */
};

/* By any of its names; NULL if unknown. "none" and "auto" are not formats. */
const struct reasoning_format *reasoning_format_find(const char *name);
/* The format whose marks a chat template's source contains; NULL: none. */
const struct reasoning_format *reasoning_format_detect(const char *source, size_t source_bytes);
/* The names of all formats, separated by ", ", for messages. */
void reasoning_format_list(char *text, size_t text_bytes);

/*
 * A format with tags from a request (thinking_start_token, thinking_end_token). If one is NULL it
 * is taken from `base`, or is <think> or </think> if `base` is NULL or has none. *custom points to
 * the caller's strings. RESULT_INVALID for a tag that is empty or longer than
 * LIMIT_REASONING_TAG_BYTES bytes, RESULT_UNSUPPORTED for a joint base.
 */
enum result reasoning_format_set_custom(struct reasoning_format *custom,
                                        const struct reasoning_format *base, const char *opening,
                                        const char *closing) RESULT_CHECKED;

/*
 * True if an answer to this prompt begins inside a section: the prompt ends with an opening tag
 * (white space ignored), or the format is always open and the prompt does not end with a closing
 * tag. The end of a prompt suffices: LIMIT_REASONING_TAG_BYTES and the white space after the tag.
 * `format` may be NULL.
 */
bool reasoning_format_is_open(const struct reasoning_format *format, const char *prompt,
                              size_t prompt_bytes);
/*
 * The same for an answer that continues `text`, the part of the answer that the prompt contains
 * (continue_final_message); `open` is the state before that text.
 */
bool reasoning_format_is_open_after(const struct reasoning_format *format, bool open,
                                    const char *text, size_t text_bytes);

#endif
