/*
 * Chat templates as publishers ship them: a Jinja interpreter whose output equals that of Python's
 * jinja2 with Hugging Face's settings (trim_blocks, lstrip_blocks, loopcontrols, `tojson` without
 * ASCII escapes or HTML escapes, raise_exception, strftime_now, generation blocks) byte for byte.
 *
 * A template is untrusted input: steps, depth and output are bounded (proto/limits.h), and it can
 * read only the values it is given. A compiled template is immutable; any number of threads may
 * render it.
 *
 * Every rendered byte records whether the template or a caller's string supplied it, so that the
 * tokenizer turns only the template's own special tokens into special tokens. A string built from
 * both (`'<s>' + content`) keeps the distinction per byte through concatenation, slices, strip,
 * replace, join and format; a string that any other filter makes of a caller's value counts as the
 * caller's.
 */
#ifndef SHOAL_FRONTEND_PROMPT_CHAT_TEMPLATE_H
#define SHOAL_FRONTEND_PROMPT_CHAT_TEMPLATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/prompt_span.h"
#include "proto/result.h"

struct cJSON;
struct chat_template;

/* Compiles; for RESULT_INVALID the error names line and reason. `source` need not outlive the
 * call. */
enum result chat_template_open(const char *source, size_t source_bytes,
                               struct chat_template **template,
                               struct error_text *error) RESULT_CHECKED;
void chat_template_close(struct chat_template *template);
/* The source it was compiled from, NUL-terminated; the formats of replies are detected in it. */
const char *chat_template_source(const struct chat_template *template, size_t *source_bytes);

/* A rendered prompt. Spans point into `text`. chat_prompt_fini() frees. */
struct chat_prompt {
    char *text;
    size_t text_bytes;
    struct prompt_span *spans;
    size_t span_count;
};
void chat_prompt_fini(struct chat_prompt *prompt);

/*
 * Renders with the members of `variables` (a JSON object: messages, tools, add_generation_prompt,
 * bos_token, …) as globals. Strings inside the members named in `trusted_names` (NULL-terminated;
 * e.g. "bos_token","eos_token") count as the template's own. `now_unix_s` is the time of
 * strftime_now() (UTC). `cancelled`: NULL, or true once rendering is to end. RESULT_INVALID with the template's message if it calls raise_exception or
 * fails on these values; RESULT_TOO_LARGE if a bound is exceeded; RESULT_CANCELLED.
 */
enum result chat_template_render(const struct chat_template *template,
                                 const struct cJSON *variables, const char *const trusted_names[],
                                 int64_t now_unix_s, const atomic_bool *cancelled,
                                 struct chat_prompt *prompt,
                                 struct error_text *error) RESULT_CHECKED;

#endif
