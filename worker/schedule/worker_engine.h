/*
 * What a worker works with: link, backend, pools, sequences and the scratch of a step, assembled
 * once. The step itself is in step_loop.c, submit_intake.c and step_publisher.c.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_ENGINE_H
#define SHOAL_WORKER_SCHEDULE_WORKER_ENGINE_H

#include "worker/backend/host/backend.h"
#include "worker/schedule/admission_policy.h"
#include "worker/schedule/frontend_link.h"
#include "worker/schedule/image_encoder.h"
#include "worker/schedule/sequence_table.h"
#include "worker/schedule/step_pace.h"
#include "worker/schedule/step_pipeline.h"
#include "worker/schedule/step_snapshot.h"

/* All of it outlives the engine. */
struct worker_engine_parts {
    struct frontend_link *link;
    struct backend *backend; /* loaded with kv_blocks and the limits below */
    const struct kv_layout *layout;
    uint32_t kv_blocks[KV_GROUPS_MAX];
    uint32_t state_slots;      /* >= max_sequences, or 0: the model has no recurrent layers */
    uint32_t checkpoint_slots; /* that the backend has behind these */
    bool keeps_prefixes;       /* the prefix cache is on */
    uint32_t vocab_tokens;
    uint32_t context_tokens;
    uint32_t max_sequences;            /* <= step_tokens */
    uint32_t step_tokens;              /* <= LIMIT_STEP_ROWS */
    uint32_t mixed_prefill_tokens;     /* > 0 */
    const struct model_vision *vision; /* of a model and a backend that take pictures, or NULL */
    uint32_t patch_rows;               /* the next two: as the backend was loaded with */
    uint32_t feature_rows;
    uint32_t feature_row_bytes;
    uint32_t kept_images; /* of the feature cache */
    struct worker_fault fault;
};

struct worker_engine {
    struct worker_engine_parts parts;
    struct worker_gauges *gauges;
    struct admission_limits limits;
    struct image_limits image_limits;
    struct kv_pools pools;
    struct sequence_table *table;
    struct step_pipeline pipeline;
    struct image_encoder encoder;
    uint64_t patch_work;      /* launched and not yet counted as a step's */
    uint64_t patch_us;        /* that pictures took, on a device that works while it is called */
    bool image_rows_deferred; /* rows of prompts with pictures, for a step without patch work */
    struct step_pace pace;
    struct step_candidate *candidates; /* [max_sequences], as the next one */
    uint32_t *rows;
    bool draining;
};

/* RESULT_OUT_OF_MEMORY when the pools' bookkeeping does not fit. */
enum result worker_engine_create(const struct worker_engine_parts *parts,
                                 struct worker_engine **engine) RESULT_CHECKED;
/* Makes the roster say whose rows and pictures are under way, and nothing else. */
void worker_engine_publish_roster(const struct worker_engine *engine);
/* Ends every sequence that is left, silently. */
void worker_engine_destroy(struct worker_engine *engine);

#endif
