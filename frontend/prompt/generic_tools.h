/*
 * Tools for a chat template that knows none: a list of functions in the system message, calls and
 * results as text. The counterpart of the format `generic` of reply/tool_format.h:
 *
 *     <tool_call>
 *     {"name": "f", "arguments": {"a": 1}}
 *     </tool_call>
 */
#ifndef SHOAL_FRONTEND_PROMPT_GENERIC_TOOLS_H
#define SHOAL_FRONTEND_PROMPT_GENERIC_TOOLS_H

#include <stdbool.h>

#include "proto/result.h"

struct cJSON;
struct chat_template;

/* True if the template renders a conversation with a tool and does not show the tool. */
bool generic_tools_needed(const struct chat_template *template);

/*
 * Changes a checked list of messages: tools (NULL: none are offered) are described at the end of
 * the first message, of the role system, which is added if there is none; calls become text of
 * their message; results become messages of the user, neighbours in one. RESULT_OUT_OF_MEMORY
 * leaves some unchanged.
 */
enum result generic_tools_apply(struct cJSON *messages, const struct cJSON *tools) RESULT_CHECKED;

#endif
