/*
 * The fields of a sequence. sequence.h draws its states and has the functions that change them,
 * sequence_prefix.h those of the prefix cache's part.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_FACTS_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/submit_payload.h"
#include "proto/submit_record.h"
#include "proto/token_event.h"
#include "worker/cache/block_table.h"
#include "worker/cache/kv_pools.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sample/row_sampler.h"
#include "worker/sample/token_counts.h"
#include "worker/sample/token_forcer.h"
#include "worker/schedule/sequence_images.h"

/* A submitted request, checked and copied out of shared memory. */
struct sequence_request {
    struct request_id id;
    struct run_params run;
    uint32_t stop_ids[LIMIT_STOP_TOKENS];
    uint32_t *tokens;                    /* [run.prompt_tokens] owned, malloc */
    struct logit_bias_entry *logit_bias; /* [run.logit_bias_count] owned, malloc; NULL for none */
    /* Prefix, think-start and think-end ids ("Forced tokens" in proto/run_params.h), one after the
     * other; owned, malloc; NULL for none. */
    uint32_t *forced_ids;
    struct sequence_images images; /* zeroed for none */
};

enum sequence_state {
    SEQUENCE_FREE = 0,
    SEQUENCE_WAITING,
    SEQUENCE_PREEMPTED,
    SEQUENCE_PREFILL,
    SEQUENCE_DECODE
};

struct sequence {
    enum sequence_state state;
    uint64_t arrival;          /* grows with every request; what "older" means */
    struct sequence *previous; /* neighbours in the waiting queue (sequence_table.c) */
    struct sequence *next;
    struct sequence_request request; /* request.tokens grows to hold [tokens_max] ids */
    uint32_t tokens_max;             /* known tokens at which it ends by length */
    uint32_t token_capacity;         /* of request.tokens */
    uint32_t known_tokens;
    uint32_t drawn_tokens;       /* drawn by launched steps and not yet known */
    uint32_t last_draw;          /* drawn_tokens > 0: the last one's draw in its step */
    uint32_t computed_tokens;    /* positions whose keys and values launched steps write */
    uint32_t told_prompt_tokens; /* progress already told */
    struct token_counts *counts; /* NULL when no penalty is on */
    struct token_forcer forcer;
    uint32_t barred[ROW_BARRED_MAX]; /* the token that begins thinking, then the stop ids */
    struct block_table tables[KV_GROUPS_MAX];
    struct kv_block_ref
        recurrent; /* its slot of recurrent state; block KV_BLOCK_NONE: it has none */

    /* The prefix cache, all of it sequence_prefix.h's. */
    struct prefix_name *names; /* [name_count] of its full blocks, owned */
    uint32_t name_count;
    uint32_t name_capacity;
    uint32_t shared_blocks;       /* that were there when it began to run */
    uint32_t left_blocks;         /* that others can share now */
    uint32_t cached_tokens;       /* of the prompt, that were there when it first began */
    struct kv_block_ref restored; /* checkpoint that its state begins as, until rows are launched */
    struct kv_block_ref saved; /* checkpoint that a launched step makes, until it is left behind */
    uint32_t saved_blocks;     /* behind so many blocks */
    uint32_t follower_blocks;  /* where the checkpoint that follows its answer stands; 0: none */
};

#endif
