/*
 * What the body of every API's request becomes: messages and tools in the shape of OpenAI's chat
 * API, which is the one that chat templates expect, and settings. Readers (chat_request.h and its
 * neighbours) fill it; generation_prepare.h makes a prompt of it.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_GENERATION_REQUEST_H
#define SHOAL_FRONTEND_API_GENERATION_GENERATION_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/api/generation/request_images.h"
#include "frontend/reply/reasoning_format.h"
#include "frontend/reply/stop_matcher.h"
#include "proto/limits.h"
#include "proto/submit_record.h"

struct cJSON;

/* How far the answer is free to call tools. */
enum tool_choice {
    TOOL_CHOICE_AUTO = 0, /* the model decides */
    TOOL_CHOICE_NONE,     /* the template is not told of tools, and calls are not looked for */
    TOOL_CHOICE_REQUIRED, /* some tool must be called */
    TOOL_CHOICE_NAMED     /* the one of tool_name must */
};

enum thinking_choice { THINKING_UNSET = 0, THINKING_ON, THINKING_OFF };

#define THINKING_BUDGET_NONE UINT32_MAX

/* What a format's reader leaves to its writer, behind the body that is freed before. */
struct format_state {
    void *state;
    void (*destroy)(void *state); /* on whichever thread the request ends */
};

/* Whose cached prefixes it may take: frontend/serve/routes/tenant_salt.h. */
struct cache_salt {
    uint32_t words[4];
};

struct generation_request {
    struct cJSON *body;     /* owned; strings below point into it */
    struct cJSON *messages; /* as chat_messages_normalize() leaves them; inside body */
    struct request_images
        images; /* the conversation's pictures, where they have {"type": "image"} */
    struct cJSON
        *tools; /* [{"type":"function","function":{"name",…}}, …]; inside body; NULL: none */
    enum tool_choice tool_choice;
    const char *tool_name;            /* NAMED; inside body */
    bool single_tool_call;            /* the answer ends with its first call */
    struct cJSON *template_variables; /* object with more variables for the template; inside body;
                                        or NULL */
    enum thinking_choice thinking;
    uint32_t thinking_budget;   /* tokens of reasoning at most; THINKING_BUDGET_NONE: any number */
    const char *thinking_start; /* other tags around reasoning than the model's; inside body */
    const char *thinking_end;
    bool continue_final_message; /* the answer goes on with the last message, the assistant's */
    bool no_generation_prompt;   /* the template does not open an answer */
    struct cJSON *prompts; /* instead of messages: texts and lists of token ids; inside body */
    uint32_t box_width;    /* resize_shape: what pictures are fitted into; 0: not given */
    uint32_t box_height;
    uint32_t choices; /* answers to each prompt; 0 and 1: one */
    bool echo;        /* of a text completion: the prompt comes before the answer */
    bool stream;
    bool include_usage;
    bool timings_per_token;  /* llama.cpp's: figures with every chunk */
    bool return_progress;    /* likewise: how far the prompt is */
    bool background;         /* the client does not wait for the answer */
    uint32_t max_new_tokens; /* 0 = not given */
    uint32_t min_tokens;     /* stop ids cannot be drawn before that many */
    bool ignore_end;         /* stop ids do not stop */
    bool logprobs;           /* of every token */
    uint32_t top_logprobs;   /* alternatives of each, <= LIMIT_TOP_LOGPROBS; 0 without logprobs */
    struct sampling_params sampling;
    struct stop_string stops[LIMIT_STOP_STRINGS];
    size_t stop_count;
    struct logit_bias_entry *logit_bias; /* owned */
    uint32_t logit_bias_count;
    bool no_prefix_cache; /* takes no cached prefix and leaves none */
    struct cache_salt cache_salt;
    struct format_state own; /* {NULL, NULL}: nothing */
};

void generation_request_fini(struct generation_request *request);
/* How the answer's reasoning is marked: the model's format, or with tags of the request's own, then
 * *custom, which points into the body. NULL: not at all. Once the request is prepared. */
const struct reasoning_format *
generation_request_reasoning(const struct generation_request *request,
                             const struct reasoning_format *model, struct reasoning_format *custom);
/* Frees the body (messages, what pictures are named by and stop strings go with it) and keeps the
 * rest: all that a request needs once its prompt is tokens and its reply has begun. */
void generation_request_drop_body(struct generation_request *request);

#endif
