/*
 * A request in the form that all APIs share: messages and tools in the shape of OpenAI's chat API,
 * which chat templates expect, and settings. The APIs' readers (chat_request.h and others) fill it;
 * generation_prepare.h makes a prompt of it.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_GENERATION_REQUEST_H
#define SHOAL_FRONTEND_API_GENERATION_GENERATION_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/api/generation/cache_salt.h"
#include "frontend/api/generation/request_images.h"
#include "frontend/grammar/grammar_source.h"
#include "frontend/reply/reasoning_format.h"
#include "frontend/reply/stop_matcher.h"
#include "proto/limits.h"
#include "proto/submit_record.h"

struct cJSON;
struct adapter;      /* frontend/assets/adapter_set.h */
struct shared_bytes; /* frontend/base/shared_bytes.h */

/* How far the answer is free to call tools. */
enum tool_choice {
    TOOL_CHOICE_AUTO = 0, /* the model decides */
    TOOL_CHOICE_NONE,     /* the template gets no tools, and the answer is not searched for calls */
    TOOL_CHOICE_REQUIRED, /* a tool must be called */
    TOOL_CHOICE_NAMED     /* the tool of tool_name must be called */
};

enum thinking_choice { THINKING_UNSET = 0, THINKING_ON, THINKING_OFF };

#define THINKING_BUDGET_NONE UINT32_MAX

/* Where in the answer its grammar begins (proto/run_params.h); a forced prefix precedes it. */
enum grammar_start {
    GRAMMAR_AT_ONCE = 0, /* the grammar includes a section of reasoning, if the prompt opens one */
    GRAMMAR_AFTER_REASONING /* at once if the answer has no reasoning */
};

/* What a format's reader leaves to its writer; it outlives the body. */
struct format_state {
    void *state;
    void (*destroy)(void *state); /* on the thread on which the request ends */
};

struct generation_request {
    struct cJSON *body;      /* owned; strings below point into it */
    struct format_state own; /* of the API's format; {NULL, NULL}: nothing */

    /* The prompt: a conversation, or texts. */

    struct cJSON *messages;     /* as chat_messages_normalize() leaves them; inside body */
    struct cJSON *prompts;      /* instead of messages: texts and lists of token ids; inside body */
    bool prompts_mixed;         /* lists of ids in them may also have texts */
    bool pools;                 /* the answer to each prompt is its vector */
    uint32_t input_tokens;      /* with pools: texts are cut after so many tokens; 0: not */
    uint32_t separator;         /* with pools: run_params.separator */
    struct speech_rules speech; /* run_params.speech */
    bool prompts_special;       /* the texts of special tokens in them are these tokens */
    struct request_images images; /* where messages have {"type": "image"} */
    uint32_t box_width;           /* resize_shape: images are fitted into it; 0: not given */
    uint32_t box_height;
    struct cJSON
        *template_variables;     /* object of further template variables; inside body; or NULL */
    bool continue_final_message; /* the answer continues the last message, the assistant's */
    bool truncates;              /* old turns are left out if the prompt is too long */
    bool no_generation_prompt;   /* the template does not open an answer */

    /* Tools and reasoning: both change the prompt and how the answer is read. */

    struct cJSON *tools; /* [{"type":"function","function":{"name",…}}, …]; in body; NULL: none */
    enum tool_choice tool_choice;
    const char *tool_name;             /* NAMED; inside body */
    bool single_tool_call;             /* the answer ends with its first call */
    const struct cJSON *allowed_tools; /* names of the tools that may be called, a list inside body;
                                          NULL: all */
    const struct cJSON *strict_tools;  /* names of tools whose schemas must be obeyed; likewise;
                                          NULL: none */
    /* {name: {"syntax": "lark" or "regex", "definition"}} of tools whose one argument `input` is a
     * text of a grammar; inside body; NULL: none */
    const struct cJSON *tool_inputs;
    const char *ignored_tools; /* types of tools that were left out; inside body; NULL: none */
    enum thinking_choice thinking;
    uint32_t thinking_budget;   /* maximum of reasoning tokens; THINKING_BUDGET_NONE: no limit */
    const char *thinking_start; /* tags around reasoning instead of the model's; inside body */
    const char *thinking_end;

    /* What the worker draws, and when it ends. */

    struct sampling_params sampling;
    struct logit_bias_entry *logit_bias; /* owned */
    uint32_t logit_bias_count;
    /* DRY's sequence breakers, words of proto/dry_breakers.h, a reference; NULL: none. */
    struct shared_bytes *dry_breakers;
    uint32_t max_new_tokens; /* 0 = not given */
    /* [first_token_count] answer i to a prompt begins with first_tokens[i]; 0: with any token. Only of
     * prompts without a template. */
    uint32_t first_tokens[2];
    uint32_t first_token_count;
    uint32_t min_tokens; /* stop ids cannot be drawn before */
    bool ignore_end;     /* stop ids do not end the answer */
    struct stop_string stops[LIMIT_STOP_STRINGS];
    size_t stop_count;
    uint32_t stop_tokens[LIMIT_REQUEST_STOP_TOKENS]; /* end the answer like the model's own */
    uint32_t stop_token_count;
    bool include_stop;          /* the text of the stop string or token is part of the answer */
    struct grammar_source form; /* what the text of the answer must be; inside body */
    const char *form_param;     /* the field that says so; static; NULL: none */
    /* A compiled grammar that the answer obeys (proto/grammar_blob.h), a reference; NULL: a free
     * answer. It is set before forced_prepare(), which finds the marks of reasoning. */
    struct shared_bytes *grammar;
    enum grammar_start grammar_start;
    /* Names of offered tools whose schemas the grammar does not hold exactly, "a, b"; a reference;
     * NULL: none. */
    struct shared_bytes *loose_tools;
    bool no_prefix_cache; /* neither uses nor leaves a cached prefix */
    bool no_speculation;  /* no token is drafted */
    struct cache_salt cache_salt;
    const struct adapter *adapter; /* that the request's model names; NULL: none */

    /* The form of the reply. */

    uint32_t choices; /* answers to each prompt; 0 and 1: one */
    bool echo;        /* text completion: the answer repeats the prompt first */
    bool
        no_answer; /* text completion with max_tokens 0: max_new_tokens is 1, and nothing is shown */
    bool stream;
    bool background; /* the client does not wait for the answer */
    bool keeps;      /* Ollama's keep_alive is given */
    int64_t keep_ms; /* that long the model stays loaded; KEEP_ALIVE_FOREVER (keep_alive.h) */
    bool include_usage;
    bool continuous_usage;  /* vLLM's: usage in every chunk */
    bool hide_reasoning;    /* chat: reasoning is not part of the reply */
    bool return_token_ids;  /* vLLM's: ids of prompt and answer in the reply */
    bool timings_per_token; /* llama.cpp's: timings in every chunk */
    bool return_progress;   /* llama.cpp's: progress of the prompt */
    bool logprobs;          /* of every token */
    uint32_t top_logprobs;  /* alternatives of each, <= LIMIT_TOP_LOGPROBS; 0 without logprobs */
    bool prompt_logprobs;   /* vLLM's: log-probabilities of the prompt's tokens */
    uint32_t prompt_logprobs_top; /* alternatives of each */
    /* The worker computes those of the prompt, for prompt_logprobs or for echo with logprobs, with
     * as many alternatives as either has. */
    bool scores_prompt;
    uint32_t top_prompt_logprobs;
};

void generation_request_fini(struct generation_request *request);
/* How the answer's reasoning is marked: the model's format, or the request's own tags in *custom,
 * which points into the body. NULL: not marked. Valid once the request is prepared. */
const struct reasoning_format *
generation_request_reasoning(const struct generation_request *request,
                             const struct reasoning_format *model, struct reasoning_format *custom);
/* Frees the body with messages, image names and stop strings. The rest is all that a request needs
 * once its prompt is tokenized and its reply has begun. */
void generation_request_drop_body(struct generation_request *request);

#endif
