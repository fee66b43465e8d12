/*
 * A whole worker in one process without a model: test frontend, real segment and rings, engine and
 * fake backend. Also computes the expected reply of each request without them.
 */
#ifndef SHOAL_TESTS_SUPPORT_ENGINE_RIG_H
#define SHOAL_TESTS_SUPPORT_ENGINE_RIG_H

#include "tests/support/fake_backend.h"
#include "tests/support/test_frontend.h"
#include "worker/schedule/step_loop.h"

struct engine_rig_options {
    uint32_t windows[KV_GROUPS_MAX]; /* one group each; 0 = full */
    uint32_t group_count;
    uint32_t kv_blocks[KV_GROUPS_MAX];
    /* 0, or the first group is quantized after so many tokens; this adds a last group. */
    uint32_t quantized_kv_start;
    bool recurrent; /* rows have state */
    bool prefix_cache;
    uint32_t checkpoint_slots;
    uint32_t vocab_tokens;
    uint32_t context_tokens;
    uint32_t max_sequences;
    uint32_t step_tokens;
    uint32_t logit_rows;             /* 0: max_sequences */
    const struct drafter *drafter;   /* NULL: no tokens are drafted */
    uint32_t draft_vocab_tokens;     /* 0, or a fake draft model has so many; it needs a drafter */
    struct draft_model *draft_model; /* a real one, instead; the caller's */
    uint32_t mixed_prefill_tokens;
    uint32_t event_capacity;
    bool halves;         /* struct worker_engine_parts */
    uint32_t step_depth; /* this and the next three configure the fake backend */
    bool late;
    bool counts_ahead;
    bool masks_follow;                 /* likewise; masks must then be computed after the launch */
    const struct model_vision *vision; /* NULL: no images; the next three are for images */
    uint32_t patch_rows;
    uint32_t feature_rows;
    uint32_t kept_images;
    struct step_pace pace;        /* at every turn's beginning; zeroed: as the machine goes */
    struct draft_pace draft_pace; /* likewise */
    struct thread_pool *helpers;  /* of the engine, for masks; the caller's */
    struct backend *backend;      /* a real one, loaded, instead of the fake one; the rig ends it */
    bool leaves_backend;          /* the caller ends it */
    const struct kv_layout *layout; /* of its plan, instead of the groups above */
};
/* One full group of 64 blocks, 8 sequences, steps of 32 rows, room for all events, one step in
 * flight. */
struct engine_rig_options engine_rig_defaults(void);

/* Every way in which a backend may overlap steps: 0 is one step in flight; the others are two,
 * computed at launch or when waited for, with token counts kept by the host or by the backend; the
 * last is two of half the streams each, as where devices share the layers. */
#define ENGINE_RIG_OVERLAPS 5u
#define ENGINE_RIG_HALVES   4u
void engine_rig_set_overlap(struct engine_rig_options *options, uint32_t overlap);

struct engine_rig {
    struct engine_rig_options options;
    struct kv_layout layout;
    struct test_frontend *frontend;
    struct frontend_link *link;
    struct backend *backend;
    struct kv_layout draft_layout;
    struct backend *draft_backend; /* NULL: none */
    struct draft_model *draft_model;
    struct worker_engine *engine;
    uint32_t idle_turns; /* in which neither the oldest running sequence nor an image advanced */
};

void engine_rig_open(struct engine_rig *rig, const struct engine_rig_options *options);
/* Aborts if no sequences are left but blocks are still taken. */
void engine_rig_close(struct engine_rig *rig);

/* Runs one turn of the engine and checks its invariants: order and facts of all sequences, and that
 * the oldest running sequence advances in every turn, or in every other one if steps are launched
 * ahead. Collects no events. */
enum step_outcome engine_rig_turn(struct engine_rig *rig);
/* Runs turns and collects events until no request is live; aborts after `turns`. */
void engine_rig_finish(struct engine_rig *rig, uint32_t turns);

uint64_t engine_rig_preemptions(const struct engine_rig *rig);

/* Asserts that the reply equals the one that `request` gets alone; the reply of a cancelled request
 * must be a prefix of it. The rig's `limits` decide where it ends by length. */
void engine_rig_check_reply(const struct engine_rig *rig, const struct test_request *request,
                            const struct test_reply *reply);

#endif
