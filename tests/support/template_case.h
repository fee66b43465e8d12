/*
 * Renders a chat template and compares the result with a recording of Python's jinja2
 * (tests/golden/templates).
 */
#ifndef SHOAL_TESTS_SUPPORT_TEMPLATE_CASE_H
#define SHOAL_TESTS_SUPPORT_TEMPLATE_CASE_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/prompt/chat_template.h"

struct cJSON;

/* 2024-07-06 09:05:03 UTC, what the recordings show for strftime_now(). */
#define TEMPLATE_CASE_NOW_UNIX_S 1720256703

/* malloc'd, NUL-terminated; ends the program when the file cannot be read. */
char *template_case_read(const char *path, size_t *bytes);
struct cJSON *template_case_read_json(const char *path);

/* Compiles and renders. `prompt` is only filled on RESULT_OK. */
enum result template_case_render(const char *source, size_t source_bytes,
                                 const struct cJSON *variables, const char *const trusted_names[],
                                 struct chat_prompt *prompt, struct error_text *error);

/*
 * True when rendering gives what `expected` ({"output": …} or {"error": kind, "message": words})
 * says. Otherwise prints both under `name`.
 */
bool template_case_agrees(const char *name, const char *source, size_t source_bytes,
                          const struct cJSON *variables, const struct cJSON *expected);

/* All of a prompt's spans as "T<text>U<text>…" (T: trusted), malloc'd. */
char *template_case_spans(const struct chat_prompt *prompt);

#endif
