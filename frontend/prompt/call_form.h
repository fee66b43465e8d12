/*
 * In which form a chat template takes turns in which the assistant called tools.
 *
 * Arguments: most templates want an object, which they print themselves; some (DeepSeek V3 and R1,
 * functionary) put text together and fail on one. The content beside a call that has none: null is
 * what clients send, but some templates fail on it (Qwen 3, gpt-oss) or print "None" (GLM,
 * MiniMax), and some (DeepSeek R1) know a call by it. Ids: Mistral's templates refuse all but nine
 * letters and digits, which no client's library makes.
 */
#ifndef SHOAL_FRONTEND_PROMPT_CALL_FORM_H
#define SHOAL_FRONTEND_PROMPT_CALL_FORM_H

#include <stdbool.h>

#include "proto/result.h"

struct cJSON;
struct chat_template;

enum call_content { CALL_CONTENT_AS_SENT = 0, CALL_CONTENT_EMPTY, CALL_CONTENT_NULL };

struct call_form {
    bool arguments_are_text;
    enum call_content content;
    bool ids_are_nine; /* letters and digits, or the template refuses */
};

/* Found out by rendering a call in all ways. */
struct call_form call_form_find(const struct chat_template *template);

/* Brings the turns of a checked list of messages into the form: arguments that are objects become
 * their JSON text, spaced as Python writes it; content that is null, empty or missing beside calls
 * becomes what the template takes; ids, also those of results, become nine signs where these must
 * be, the same for the same id. RESULT_OUT_OF_MEMORY (also for arguments of more than
 * LIMIT_TEMPLATE_OUTPUT) leaves some as they were. */
enum result call_form_apply(const struct call_form *form, struct cJSON *messages) RESULT_CHECKED;

#endif
