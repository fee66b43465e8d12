/*
 * Determines the forced tokens of an answer: its prefix, and the end of thinking once the budget is
 * spent, by the rules of proto/run_params.h ("Forced tokens"). A function of the generated tokens
 * alone, so a replayed or preempted sequence gets the same forced tokens.
 */
#ifndef SHOAL_WORKER_SAMPLE_TOKEN_FORCER_H
#define SHOAL_WORKER_SAMPLE_TOKEN_FORCER_H

#include <stdbool.h>
#include <stdint.h>

/* The ids outlive the forcer. All zero: no token is forced. */
struct token_forcer_rules {
    const uint32_t *prefix;      /* [prefix_count] */
    const uint32_t *think_start; /* [think_start_count] */
    const uint32_t *think_end;   /* [think_end_count], > 0 if is_open or has_budget */
    uint32_t prefix_count;
    uint32_t think_start_count;
    uint32_t think_end_count;
    bool is_open; /* the prompt has already started thinking */
    bool has_budget;
    uint32_t budget; /* maximum number of tokens while thinking */
};

struct token_forcer {
    struct token_forcer_rules rules;
    uint32_t followed; /* generated tokens seen */
    bool is_thinking;
    bool prefix_due;      /* the prefix is being generated or may start */
    uint32_t prefix_next; /* generated tokens of the prefix */
    uint32_t spent;       /* thinking tokens, without those that complete think_end */
    uint32_t
        start_matched;    /* tokens of think_start that the answer ends with, while not thinking */
    uint32_t end_matched; /* tokens of think_end, while thinking */
};

void token_forcer_init(struct token_forcer *forcer, const struct token_forcer_rules *rules);
/* Takes the answer up to its first `count` tokens; those of earlier calls are known already. */
void token_forcer_follow(struct token_forcer *forcer, const uint32_t *generated, uint32_t count);

enum forced_kind {
    FORCED_NONE,
    FORCED_TOKEN,
    FORCED_UNKNOWN /* depends on the previous token, which has not been read */
};
struct forced_draw {
    enum forced_kind kind;
    uint32_t token;  /* FORCED_TOKEN */
    bool bars_start; /* FORCED_NONE: think_start is one token, which must not be drawn */
};
/* The draw `unread` (0 or 1) tokens after the last followed one. */
struct forced_draw token_forcer_next(const struct token_forcer *forcer, uint32_t unread);

#endif
