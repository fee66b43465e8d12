/*
 * A drafter that reads a model's inner states: a folder of its own (proto/drafter_kind.h), opened for one model,
 * some of whose matrices it uses. Its files stay mapped until it is closed; it does not outlive the model.
 */
#ifndef SHOAL_WORKER_MODEL_TARGET_DRAFTER_H
#define SHOAL_WORKER_MODEL_TARGET_DRAFTER_H

#include "proto/drafter_kind.h"
#include "proto/result.h"
#include "worker/model/build/plan_source.h"
#include "worker/plan/model_config.h"
#include "worker/plan/plan.h"
#include "worker/plan/plan_taps.h"

struct opened_files;

struct target_drafter {
    struct checkpoint_folder *folder;
    enum drafter_kind kind;
    struct plan *plan;
    /* Of a DFlash drafter: `plan` is of a block of tokens, this one of the context before it, whose keys and
     * values it shares; else NULL. */
    struct plan *context_plan;
    uint32_t block_tokens; /* likewise: with the last known token; else 0 */
    uint32_t mask_token;
    uint32_t tap_count;
    uint32_t taps[PLAN_TAPS_MAX]; /* as in plan_taps_add() */
    /* Of an assistant: it has no taps, but takes the model's last hidden states, and its layers read keys and values
     * of the model's layers. */
    bool borrows_caches;
    /* [plan_drawn_tokens(plan)] the model's token of each of its own; NULL: they are the same */
    uint32_t *token_map;
};

/* `source` and `plan`: the model's; with `opened` the drafter's files are those and no others. RESULT_UNSUPPORTED, INVALID, IO and so on as model_open(); the error
 * begins with the path. *drafter is zeroed then. */
enum result target_drafter_open(const char *path, const struct opened_files *opened,
                                const struct plan_source *source, const struct plan *plan,
                                struct target_drafter *drafter,
                                struct error_text *error) RESULT_CHECKED;
/* Of a drafter that borrows caches, after the layout of the model's caches changed: the same in its plan. */
void target_drafter_follow_caches(struct target_drafter *drafter, const struct plan *plan);
void target_drafter_close(struct target_drafter *drafter);

#endif
