/*
 * The grammar of one answer: from where it holds, the state that the tokens so far have led to, and
 * the mask of the next draw. A function of the blob and the generated tokens alone
 * (proto/run_params.h), so a replayed or preempted sequence gets the same masks.
 *
 *   BEFORE ─── the first token that it governs ───▶ HOLDS
 *
 * BEFORE lasts while the prefix is forced and, if the grammar begins after thinking, while the
 * sequence thinks. In HOLDS no token is forced by other rules.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_GRAMMAR_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_GRAMMAR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/run_params.h"
#include "worker/sample/grammar_matcher.h"
#include "worker/sample/token_forcer.h"

enum grammar_verdict {
    GRAMMAR_GOES_ON = 0,
    GRAMMAR_IS_COMPLETE, /* nothing but the end is allowed */
    GRAMMAR_HAS_FAILED   /* `failure` says why; the request fails */
};

/* Zeroed: the answer is free. */
struct sequence_grammar {
    struct grammar_matcher *matcher; /* owned; NULL: the answer is free */
    uint32_t *mask;                  /* [words] owned; of the next token, if has_mask */
    uint32_t words;
    uint64_t family; /* hash of the blob: matchers of one family are used by one thread at a time */
    bool waits_for_thinking; /* SUBMIT_FLAG_GRAMMAR_AFTER_THINKING */
    bool holds;
    bool has_mask;
    enum grammar_verdict verdict; /* with has_mask */
    enum result failure;
    uint32_t allowed; /* tokens in the mask */
};

/* RESULT_CORRUPT: the blob breaks a rule; RESULT_OUT_OF_MEMORY. The blob is copied. */
enum result sequence_grammar_open(struct sequence_grammar *grammar,
                                  struct grammar_vocabulary *vocabulary, const void *blob,
                                  const struct run_params *run,
                                  struct error_text *error) RESULT_CHECKED;
void sequence_grammar_close(struct sequence_grammar *grammar);

/* Takes the next token of the answer, before `forcer` follows it. RESULT_GRAMMAR_FUEL,
 * RESULT_GRAMMAR_DEAD_END (the grammar does not allow it) or RESULT_OUT_OF_MEMORY: the request
 * fails. */
enum result sequence_grammar_follow(struct sequence_grammar *grammar,
                                    const struct token_forcer *forcer,
                                    uint32_t token) RESULT_CHECKED;

/* Whether the token `unread` (0 or 1) tokens after those that the forcer follows is drawn under a
 * mask; with `unread` 1 also if that depends on the token before it. */
bool sequence_grammar_masks(const struct sequence_grammar *grammar,
                            const struct token_forcer *forcer, uint32_t unread);

struct grammar_stops {
    const uint32_t *ids; /* [count] stop ids of the request */
    uint32_t count;
    bool barred; /* by min_tokens or SUBMIT_FLAG_IGNORE_END, as long as another token is allowed */
};
/* Computes mask and verdict for the next token, unless it has them. Sequences of one family on one
 * thread at a time. */
void sequence_grammar_compute(struct sequence_grammar *grammar, const struct token_forcer *forcer,
                              const struct grammar_stops *stops);
/* The first token of a mask that has one. */
uint32_t sequence_grammar_only(const uint32_t *mask);

#endif
