/*
 * In which form a chat template takes the arguments of past tool calls. Most want an object, which
 * they print themselves; some (DeepSeek V3 and R1) put text together and fail on one.
 */
#ifndef SHOAL_FRONTEND_PROMPT_CALL_ARGUMENTS_H
#define SHOAL_FRONTEND_PROMPT_CALL_ARGUMENTS_H

#include <stdbool.h>

#include "proto/result.h"

struct cJSON;
struct chat_template;

/* Found out by rendering a call both ways: true where it shows as text only. */
bool call_arguments_are_text(const struct chat_template *template);

/* Turns arguments that are objects into their JSON text, spaced as Python writes it, in all
 * messages of a checked list. RESULT_OUT_OF_MEMORY (also for arguments of more than
 * LIMIT_TEMPLATE_OUTPUT) leaves some as they were. */
enum result call_arguments_write_text(struct cJSON *messages) RESULT_CHECKED;

#endif
