/*
 * Which token of an answer is not the sampler's to choose: the prefix and the end of thinking once
 * its budget is spent, by the rules of proto/run_params.h ("Forced tokens"). A function of the
 * generated tokens alone, followed as they become known, so a replay or a preempted sequence comes
 * to the same.
 */
#ifndef SHOAL_WORKER_SAMPLE_TOKEN_FORCER_H
#define SHOAL_WORKER_SAMPLE_TOKEN_FORCER_H

#include <stdbool.h>
#include <stdint.h>

/* The ids outlive the forcer. All zero: nothing is ever forced. */
struct token_forcer_rules {
    const uint32_t *prefix;      /* [prefix_count] */
    const uint32_t *think_start; /* [think_start_count] */
    const uint32_t *think_end;   /* [think_end_count], not 0 when is_open or has_budget */
    uint32_t prefix_count;
    uint32_t think_start_count;
    uint32_t think_end_count;
    bool is_open; /* thinking has begun when the first token is generated */
    bool has_budget;
    uint32_t budget; /* tokens while thinking */
};

struct token_forcer {
    struct token_forcer_rules rules;
    uint32_t followed; /* generated tokens seen */
    bool is_thinking;
    bool prefix_due;        /* the prefix has begun or may begin */
    uint32_t prefix_next;   /* tokens of it that are there */
    uint32_t spent;         /* tokens while thinking, but for those that complete its end */
    uint32_t start_matched; /* of think_start, how much the last tokens are, while not thinking */
    uint32_t end_matched;   /* of think_end, while thinking */
};

void token_forcer_init(struct token_forcer *forcer, const struct token_forcer_rules *rules);
/* The answer's first `count` tokens, of which it was given the beginning before. */
void token_forcer_follow(struct token_forcer *forcer, const uint32_t *generated, uint32_t count);

enum forced_kind {
    FORCED_NONE,
    FORCED_TOKEN,
    FORCED_UNKNOWN /* it depends on the token before, which nobody has read */
};
struct forced_draw {
    enum forced_kind kind;
    uint32_t token;  /* FORCED_TOKEN */
    bool bars_start; /* FORCED_NONE: think_start, one token, cannot be drawn */
};
/* The token that comes `unread` (0 or 1) tokens after the last one followed. */
struct forced_draw token_forcer_next(const struct token_forcer *forcer, uint32_t unread);

#endif
