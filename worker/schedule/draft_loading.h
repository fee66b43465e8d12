/*
 * Opens and loads the draft model of --draft-model (worker/draft/draft_model.h) beside the target.
 */
#ifndef SHOAL_WORKER_SCHEDULE_DRAFT_LOADING_H
#define SHOAL_WORKER_SCHEDULE_DRAFT_LOADING_H

#include "worker/draft/draft_model.h"
#include "worker/model/model.h"
#include "worker/schedule/worker_options.h"

/* Zeroed: no draft model. */
struct draft_loading {
    struct model *model; /* NULL: none, or the plan is the target's */
    const struct plan
        *plan; /* of the draft model, or of the target's ahead layer or drafter; NULL: none */
    const struct target_drafter *drafter; /* NULL: no such drafter */
    enum device_kind device_kind;         /* the target's, on which it is computed */
    struct backend *backend;
    struct draft_model *draft; /* NULL until it is loaded */
    /* Of a drafter of blocks: what computes its cells; else NULL. */
    struct backend *context_backend;
    struct draft_model *context;
};

/* Opens the checkpoint at options->draft_model; if it is a drafter that reads inner states of `target`, that
 * model's plan then keeps them. RESULT_UNSUPPORTED if it has recurrent layers or no logits, or if `target`
 * keeps the keys and values of no layer for a whole sequence; errors of model_open(). The frontend has compared
 * the vocabularies. */
enum result draft_loading_open(struct draft_loading *loading, const struct worker_options *options,
                               struct model *target, struct error_text *error) RESULT_CHECKED;
/* What drafts, for texts: "the draft model" and the like. */
const char *draft_loading_name(const struct draft_loading *loading);
/* The same for the ahead layer of the target (model_open_ahead()), which was opened. */
enum result draft_loading_open_ahead(struct draft_loading *loading, const struct model *target,
                                     const struct worker_options *options,
                                     struct error_text *error) RESULT_CHECKED;
/* Bytes that it needs beside each block of the target's first FULL group; 0 without a draft model. */
uint64_t draft_loading_block_bytes(const struct draft_loading *loading,
                                   const struct worker_options *options);
/* Loads it on the device of the target's backend with its options, for sequences and blocks of the target.
 * It uses what that backend lends (backend_options.h), so draft_loading_close() precedes its end. */
enum result draft_loading_load(struct draft_loading *loading, const struct plan *target,
                               const struct backend *backend, const struct backend_options *options,
                               uint32_t max_sequences, struct error_text *error) RESULT_CHECKED;
void draft_loading_close(struct draft_loading *loading);

#endif
