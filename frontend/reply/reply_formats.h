/*
 * How the answers of one model are parsed: its reasoning format, its tool-call format, and the
 * special tokens that spell the marks of both. Chosen once, from names on the command line or from
 * the chat template.
 */
#ifndef SHOAL_FRONTEND_REPLY_REPLY_FORMATS_H
#define SHOAL_FRONTEND_REPLY_REPLY_FORMATS_H

#include <stddef.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/reply/reasoning_format.h"
#include "frontend/reply/tool_format.h"
#include "proto/result.h"

/* "auto" (or NULL): from the template; "none"; or a format's name. */
struct reply_format_names {
    const char *reasoning;
    const char *tools;
};

struct reply_formats {
    const struct reasoning_format *reasoning; /* NULL: none */
    const struct tool_format *tools;          /* NULL: none */
    struct token_list mark_tokens;            /* mark_tokens.h */
};

/* RESULT_INVALID with a message for an unknown name. */
enum result reply_format_names_check(const struct reply_format_names *names,
                                     struct error_text *error) RESULT_CHECKED;

/*
 * `names` passed the check; `source` is the chat template's, NULL and 0 without one. Harmony is
 * both formats or neither: if one is harmony, the other is too if it is automatic, else the
 * automatic one becomes none. Call reply_formats_fini() in any case.
 */
enum result reply_formats_choose(struct reply_formats *formats,
                                 const struct reply_format_names *names, const char *source,
                                 size_t source_bytes,
                                 const struct tokenizer *tokenizer) RESULT_CHECKED;
void reply_formats_fini(struct reply_formats *formats);

#endif
