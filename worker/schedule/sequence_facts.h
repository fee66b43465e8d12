/*
 * The fields of a sequence. sequence.h draws its states and declares the functions that change
 * them; sequence_prefix.h does so for the prefix cache's fields.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_FACTS_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/dry_breakers.h"
#include "proto/submit_payload.h"
#include "proto/submit_record.h"
#include "proto/token_event.h"
#include "worker/cache/block_table.h"
#include "worker/cache/kv_pools.h"
#include "worker/cache/prefix_cache.h"
#include "worker/draft/drafter.h"
#include "worker/sample/row_sampler.h"
#include "worker/sample/token_counts.h"
#include "worker/sample/token_forcer.h"
#include "worker/schedule/sequence_grammar.h"
#include "worker/schedule/sequence_images.h"

/* A submitted request, checked and copied out of shared memory. */
struct sequence_request {
    struct request_id id;
    struct run_params run;
    uint32_t stop_ids[LIMIT_STOP_TOKENS];
    uint32_t *tokens;                    /* [run.prompt_tokens] owned, malloc */
    struct logit_bias_entry *logit_bias; /* [run.logit_bias_count] owned, malloc; NULL for none */
    /* Ids of prefix, think-start and think-end in this order ("Forced tokens" in
     * proto/run_params.h); owned, malloc; NULL for none. */
    uint32_t *forced_ids;
    struct dry_breakers dry_breakers; /* owned; zeroed for none */
    void *grammar_blob; /* [run.grammar_bytes] owned, malloc; NULL for none, or once it is open */
    struct sequence_grammar grammar; /* zeroed for none */
    struct sequence_images images;   /* likewise */
};

enum sequence_state {
    SEQUENCE_FREE = 0,
    SEQUENCE_WAITING,
    SEQUENCE_PREEMPTED,
    SEQUENCE_PREFILL,
    SEQUENCE_DECODE
};

/* With penalties, each drafted row has counts of its own, so fewer rows are drafted. */
#define SEQUENCE_COUNTED_DRAFTS 8u

/* The grammar's mask of the draw after a drafted token. */
struct draft_mask {
    uint32_t *words;  /* [grammar.words] owned and kept for later steps; NULL: never needed */
    uint32_t allowed; /* tokens in the mask; 0: no mask governs the draw */
};

/* What a draft model has computed of a sequence (model_drafts.h): positions [0, count). */
struct model_cells {
    /* For an ahead layer: the rows [hidden_row, + hidden_rows) of step number hidden_step, from position
     * hidden_from on, have hidden states. */
    uint64_t hidden_step;
    uint32_t hidden_row;
    uint32_t hidden_rows;
    uint32_t hidden_from;
    /* Likewise that of position held_from - 1, kept because the next token is an image whose features were
     * not there yet; 0: none. Owned. */
    uint32_t held_from;
    float *held;
    uint32_t count;
    uint32_t tail_at;             /* logical block of the first cell of the last round, */
    struct kv_block_ref tails[2]; /* that block and the next one, as they were then */
    /* Tokens that the last proposal computed as if they were known, from this position on. */
    uint32_t guessed_from;
    uint32_t guessed_count;
    uint32_t guesses[DRAFT_MODEL_TOKENS];
};

/* Drafts of the step that is being planned or under way (sequence_draft.h). Zeroed: none. */
struct sequence_draft {
    uint32_t count; /* drafted tokens, at request.tokens[known_tokens ...] */
    uint8_t classes[LIMIT_DRAFT_TOKENS];
    uint32_t accepted_count; /* of those of this step */
    uint32_t mask_count;     /* masks computed while proposing, from the first */
    struct draft_mask masks[LIMIT_DRAFT_TOKENS];
    uint32_t masks_computed; /* masks that the gauges do not count yet, */
    uint64_t masks_us;       /* and the time that they took */
    /* Before the draws at the drafted rows, if a penalty is on; owned and kept for later steps. */
    struct token_counts *counts[SEQUENCE_COUNTED_DRAFTS];
    const struct drafter *drafter; /* of `state`, owned; NULL: not opened */
    void *state;
    /* What was proposed for the next position but not drafted: it is judged all the same, which
     * costs nothing and teaches how reliable proposals are. */
    bool foresees;
    uint8_t foreseen_class;
    uint32_t foreseen_token;
    /* In a model with recurrent state: where the drafted rows are kept (struct step_sequence), and
     * how many of them were accepted and do not count in the state yet. */
    uint32_t place;
    uint32_t late_rows;
    uint32_t late_place;
    double accepted; /* proposed tokens of late that were right, */
    double expected; /* and how many were expected to be (draft_pace.h) */
    struct model_cells cells;
};

struct sequence {
    enum sequence_state state;
    uint64_t arrival;          /* grows with every request and defines which sequence is older */
    struct sequence *previous; /* neighbours in the waiting queue (sequence_table.c) */
    struct sequence *next;
    struct sequence_request request; /* request.tokens grows to hold [tokens_max] ids */
    uint32_t tokens_max;             /* known tokens at which it ends by length */
    uint32_t token_capacity;         /* of request.tokens */
    uint32_t known_tokens;
    uint32_t drawn_tokens;           /* drawn by launched steps but not known yet */
    uint32_t last_draw;              /* if drawn_tokens > 0: index of the last draw in its step */
    uint32_t computed_tokens;        /* positions whose keys and values launched steps write */
    uint32_t reported_prompt_tokens; /* progress already sent */
    /* The next prompt token whose log-probability is published, from run.score_from on; the prompt's
     * end if none is left (sequence_score.h). */
    uint32_t next_score;
    double *pooled; /* sums or maxima of vectors (vector_publisher.h), owned; NULL: none yet */
    struct token_counts *counts; /* NULL if no penalty is on */
    struct token_forcer forcer;
    struct sequence_draft draft;
    uint32_t barred[ROW_BARRED_MAX]; /* the token that starts thinking, then the stop ids */
    struct block_table tables[KV_GROUPS_MAX];
    struct kv_block_ref recurrent; /* slot of recurrent state; block KV_BLOCK_NONE: none */

    /* Fields of sequence_prefix.h. */
    struct prefix_name *names; /* [name_count] names of its full blocks, owned */
    uint32_t name_count;
    uint32_t name_capacity;
    uint32_t shared_blocks;       /* shared when it started to run */
    uint32_t published_blocks;    /* kept in the prefix cache for others */
    uint32_t cached_tokens;       /* prompt tokens found in the cache when it first started */
    struct kv_block_ref restored; /* checkpoint to start from, until its first rows are launched */
    struct kv_block_ref saved;    /* checkpoint that a launched step makes, until it is published */
    uint32_t saved_blocks;        /* number of blocks before `saved` */
    uint32_t answer_checkpoint_blocks; /* blocks before the answer's checkpoint; 0: none */
    uint32_t older_checkpoint_blocks;  /* and before the one that it replaces; 0: none */
};

#endif
