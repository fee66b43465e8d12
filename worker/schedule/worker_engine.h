/*
 * The parts of a worker, assembled once: link, backend, pools, sequences and scratch memory of a
 * step. The step itself is in step_loop.c, submit_intake.c and step_publisher.c.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_ENGINE_H
#define SHOAL_WORKER_SCHEDULE_WORKER_ENGINE_H

#include "proto/pooling.h"
#include "worker/backend/host/backend.h"
#include "worker/backend/host/thread_pool.h"
#include "worker/draft/draft_model.h"
#include "worker/draft/drafter.h"
#include "worker/schedule/adapter_slots.h"
#include "worker/schedule/admission_policy.h"
#include "worker/schedule/draft_policy.h"
#include "worker/schedule/frontend_link.h"
#include "worker/schedule/image_encoder.h"
#include "worker/schedule/sequence_table.h"
#include "worker/schedule/step_pace.h"
#include "worker/schedule/step_pipeline.h"
#include "worker/schedule/step_snapshot.h"
#include "worker/schedule/trace_board.h"

/* All pointers outlive the engine. */
struct worker_engine_parts {
    struct frontend_link *link;
    struct backend *backend; /* loaded with kv_blocks and the limits below */
    const struct kv_layout *layout;
    uint32_t kv_blocks[KV_GROUPS_MAX];
    uint32_t state_slots;      /* >= max_sequences, or 0: the model has no recurrent layers */
    uint32_t checkpoint_slots; /* checkpoint slots of the backend, after state_slots */
    bool keeps_prefixes;       /* the prefix cache is on */
    struct kv_ledger *ledger;  /* of the backend's blocks, if these outlive the worker; else NULL */
    struct feature_ledger *feature_ledger; /* of the backend's features, likewise */
    uint32_t vocab_tokens;
    enum pooling pooling;    /* OFF: the plan gives logits */
    uint32_t vector_columns; /* of the plan's vectors, with pooling */
    bool encoder;            /* a prompt is computed in one step; step_tokens is larger than
                                context_tokens + max_sequences, and no prefix is kept */
    uint32_t context_tokens;
    uint32_t max_sequences; /* <= step_tokens */
    uint32_t step_tokens;   /* <= LIMIT_STEP_ROWS */
    uint32_t logit_rows;    /* of a step, >= max_sequences; as given to the backend */
    /* NULL: no tokens are drafted. Otherwise the backend has one step under way, the row rule of
     * backend.h and, if the model has recurrent layers, STEP_DRAFTS_PLACES places of deferred rows. */
    const struct drafter *drafter;
    struct draft_model
        *draft_model;              /* proposes too; NULL: none. Needs a drafter and a FULL group */
    uint32_t mixed_prefill_tokens; /* 0: chosen by the price of rows (chunk_pace.h) */
    bool halves;                   /* decodes alternate (step_snapshot.h); the depth is 2 */
    uint32_t itl_target_ms;        /* time of a step with waiting streams, at most; > 0 */
    const struct model_vision *vision; /* NULL unless model and backend take images */
    uint32_t patch_rows;               /* this and the next two: as given to the backend at load */
    uint32_t feature_rows;
    uint32_t feature_row_bytes;
    uint32_t kept_images;           /* images that the feature cache keeps */
    struct adapter_slots *adapters; /* NULL: none is loaded, and none can be */
    struct thread_pool *helpers;    /* compute masks of grammars; NULL: the engine's thread alone */
    struct worker_fault fault;
};

/* Of a model with recurrent state: drafted rows of a step, at most, and places that they need. */
#define STEP_DRAFTS_DEFERRED (1u + LIMIT_DRAFT_TOKENS)
#define STEP_DRAFTS_PLACES   (2u * STEP_DRAFTS_DEFERRED)

/* Scratch and figures of step_drafts.c; the arrays are NULL without a drafter. */
struct step_drafts {
    struct draft_pace pace;
    struct draft_proposal *proposals; /* [max_sequences], like the next three */
    struct draft_candidate *candidates;
    uint32_t *running; /* their numbers among the running sequences */
    uint32_t *counts;
    uint32_t half; /* of the places of deferred rows, used last */
};

/* A stream for which a draft model proposes (model_drafts.h). */
struct model_pick {
    struct sequence *sequence;
    uint32_t most; /* tokens at most, > 0 */
    double trust;  /* as in struct draft_candidate */
    struct draft_proposal *proposal;
};

/* Its rounds in the step that is being planned. */
struct model_round {
    uint32_t tokens; /* proposed */
    bool ends;
    double chance; /* that the last one is accepted */
    struct sampling_params params;
};

#define MODEL_DRAFTS_UNFILLED UINT32_MAX
/* Scratch and figures of model_drafts.c; the arrays are NULL without a draft model. */
struct model_drafts {
    uint32_t group;   /* whose blocks hold the draft model's keys and values */
    uint32_t *filled; /* [kv_blocks[group]] generation of the block that it filled, or UNFILLED */
    struct model_pick *picks; /* [max_sequences], like the next two */
    double *trusts;
    struct model_round *rounds;
    struct sampled_token *results; /* [draft_model_draws()] */
    float
        *states; /* [max_sequences, state_columns] an ahead layer's own, of each pick; else NULL */
    /* [DRAFT_MODEL_ROWS] of an ahead layer of a model that takes images, for one sequence; else NULL */
    uint32_t *feature_rows;
    struct rope_position *rope_positions;
    uint64_t target_step; /* number of the target's last step */
    uint64_t rounds_us;   /* of the step that is being planned or under way */
    uint32_t prompt_rows; /* of the last step */
};

struct worker_engine {
    struct worker_engine_parts parts;
    struct worker_gauges *gauges;
    struct trace_board trace;
    struct admission_limits limits;
    struct image_limits image_limits;
    struct kv_pools pools;
    struct prefix_restored restored; /* what the ledgers told at the start */
    struct feature_restored restored_features;
    struct sequence_table *table;
    struct step_pipeline pipeline;
    struct image_encoder encoder;
    uint64_t patch_work;      /* launched and not counted with a step yet */
    uint64_t patch_us;        /* encoding time, on a backend that works within the call */
    bool image_rows_deferred; /* rows of prompts with images wait for a step without encoding */
    struct step_pace pace;
    struct step_drafts drafts;
    struct model_drafts model_drafts;
    struct step_candidate *candidates; /* [max_sequences], like the next two */
    struct image_tile *whole_prompts;  /* of an encoder: prompts as tiles that are not cut */
    uint32_t *rows;
    struct sequence **masked;              /* [max_sequences] scratch of grammar_masks.c */
    struct grammar_vocabulary *vocabulary; /* NULL until the frontend has sent it */
    bool draining;
    bool
        adapter_due; /* `adapter` is to be read when no step is under way; no record is taken before */
    struct adapter_id adapter;
};

/* RESULT_OUT_OF_MEMORY if the pools' bookkeeping cannot be allocated. */
enum result worker_engine_create(const struct worker_engine_parts *parts,
                                 struct worker_engine **engine) RESULT_CHECKED;
/* Replaces the roster by the requests whose rows or images are under way. */
void worker_engine_publish_roster(const struct worker_engine *engine);
/* Ends the remaining sequences without events. */
void worker_engine_destroy(struct worker_engine *engine);

#endif
