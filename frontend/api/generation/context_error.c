/*
 * The words are chosen for what clients search: litellm "this model's maximum context length is",
 * LangChain "context_length_exceeded" in the message, other agents "maximum context length is N
 * tokens" and "reduce the length of the messages".
 */
#include "frontend/api/generation/context_error.h"

#include <stdio.h>

enum result context_error_set(struct api_error *error, const char *param,
                              const struct context_overflow *overflow)
{
    char needs[128];
    if (overflow->answer_tokens > 0)
        snprintf(needs, sizeof needs,
                 "you requested %zu tokens (%zu in the prompt; %u for the completion)",
                 overflow->prompt_tokens + overflow->answer_tokens, overflow->prompt_tokens,
                 overflow->answer_tokens);
    else
        snprintf(needs, sizeof needs,
                 "your prompt has %s%zu tokens, and the completion needs at least one",
                 overflow->at_least ? "at least " : "", overflow->prompt_tokens);
    (void)api_error_set(
        error, RESULT_CONTEXT_EXCEEDED, 400, "context_length_exceeded",
        "This model's maximum context length is %u tokens%s%s%s. However, %s. Please "
        "reduce the length of the messages%s (context_length_exceeded).",
        overflow->most_tokens, overflow->option ? " (" : "",
        overflow->option ? overflow->option : "", overflow->option ? ")" : "", needs,
        overflow->answer_tokens > 0 ? " or completion" : "");
    error->overflow = *overflow;
    snprintf(error->param, sizeof error->param, "%s", param);
    return RESULT_CONTEXT_EXCEEDED;
}
