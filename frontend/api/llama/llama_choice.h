/*
 * One answer to a prompt of llama.cpp's API: tokens in, text and lists of tokens out.
 */
#ifndef SHOAL_FRONTEND_API_LLAMA_LLAMA_CHOICE_H
#define SHOAL_FRONTEND_API_LLAMA_LLAMA_CHOICE_H

#include "frontend/api/generation/answer_timings.h"
#include "frontend/api/llama/llama_request.h"
#include "frontend/reply/reply_text.h"
#include "frontend/reply/stop_matcher.h"

enum llama_stop { LLAMA_STOP_NONE = 0, LLAMA_STOP_EOS, LLAMA_STOP_LIMIT, LLAMA_STOP_WORD };

struct llama_choice {
    const struct tokenizer *tokenizer;
    const struct llama_state *state;
    struct reply_text *decoder;
    struct stop_matcher stops;
    struct text_buffer text;  /* not yet sent: of one event, or of the whole answer */
    struct text_buffer ids;   /* "1,2": likewise */
    struct text_buffer probs; /* objects separated by commas: likewise */
    struct text_buffer piece; /* scratch */
    struct answer_timings timings;
    struct text_buffer prompt; /* decoded */
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t tokens;
    bool has_new_line;
    bool at_line_start; /* only blanks since the last line end; not in the first line */
    uint32_t indent;    /* their number */
    bool context_full;  /* the answer could have been longer */
    enum llama_stop stop;
};

/* `state` must outlive the choice. */
void llama_choice_init(struct llama_choice *choice, const struct tokenizer *tokenizer,
                       const struct generation_request *request, const struct llama_state *state);
void llama_choice_fini(struct llama_choice *choice);
/* True: the answer is complete. */
bool llama_choice_push(struct llama_choice *choice, const struct reply_token *token);
void llama_choice_end(struct llama_choice *choice, enum finish_reason finish);
/* "none", "eos", "limit" or "word" */
const char *llama_choice_stop_name(const struct llama_choice *choice);

#endif
