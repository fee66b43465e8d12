/*
 * The form in which a chat template takes turns in which the assistant called tools.
 *
 * Arguments: most templates want an object, which they print themselves; some (DeepSeek V3 and R1,
 * functionary) concatenate text and fail on an object. Content of a turn that has only calls:
 * clients send null, but some templates fail on null (Qwen 3, gpt-oss) or print "None" (GLM,
 * MiniMax), and some (DeepSeek R1) recognise a call by it. Ids: Mistral's templates accept only
 * nine letters and digits, which no client library generates.
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
    bool nine_character_ids; /* the template accepts only nine letters and digits */
};

/* Found by rendering a call in all forms. */
struct call_form call_form_find(const struct chat_template *template);

/* Converts the turns of a checked list of messages to the form: arguments that are objects become
 * their JSON text, spaced as in Python; content that is null, empty or missing beside calls becomes
 * the template's form; ids, also those of results, become nine characters if the template requires
 * it, equal ids the same. RESULT_OUT_OF_MEMORY (also for arguments of more than
 * LIMIT_TEMPLATE_OUTPUT) leaves some unchanged. */
enum result call_form_apply(const struct call_form *form, struct cJSON *messages) RESULT_CHECKED;
/* Makes missing and null content of the assistant's turns "". Returns true if there was any, so
 * that a template that failed can be tried again. */
bool call_form_fill_content(struct cJSON *messages);

#endif
