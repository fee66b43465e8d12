/*
 * The model computes all rows of a sequence at once; a context's chain reads those of its keys that lie before it.
 */
#include "tests/support/assistant_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "tests/support/drafter_trial.h"
#include "tests/support/model_runner.h"
#include "worker/draft/draft_model.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"

#define SEQUENCES 3u
#define TOKENS    21u
#define CONTEXTS  (TOKENS - 1) /* of a sequence */
#define CHAIN     3u
#define SHOWN     3u /* last contexts of the first sequence, whose logits are known */
#define BLOCKS    3u

struct golden {
    uint32_t ids[SEQUENCES][TOKENS];
    uint32_t proposals[SEQUENCES * CONTEXTS][CHAIN];
    float *logits; /* [SHOWN, CHAIN, vocab] */
};

struct drafting {
    const struct assistant_trial *trial;
    uint32_t differing; /* tokens of proposals */
    struct model *model;
    struct backend *target;
    struct draft_model *draft;
    uint32_t vocab;
    struct golden golden;
};

static const uint32_t blocks[BLOCKS] = {2, 0, 1};
static const uint32_t *const group_blocks[KV_GROUPS_MAX] = {blocks, blocks, blocks, blocks};

static void read_golden(const char *folder, struct drafting *d)
{
    char path[200];
    snprintf(path, sizeof path, "%s/ids.txt", folder);
    drafter_trial_numbers(path, d->golden.ids[0], SEQUENCES * TOKENS);
    snprintf(path, sizeof path, "%s/proposals.txt", folder);
    drafter_trial_numbers(path, d->golden.proposals[0], SEQUENCES * CONTEXTS * CHAIN);
    snprintf(path, sizeof path, "%s/logits.f32", folder);
    d->golden.logits = drafter_trial_floats(path, (size_t)SHOWN * CHAIN * d->vocab);
}

static void open_drafting(struct drafting *d, const char *checkpoint, const char *folder)
{
    struct error_text error = {""};
    must(model_open(checkpoint, &d->model, &error) == RESULT_OK);
    if (model_open_drafter(d->model, folder, NULL, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    const struct plan *plan = model_plan(d->model), *own = model_ahead_plan(d->model);
    struct drafter_trial_load load = {
        .on_vulkan = d->trial->on_vulkan, .rows = TOKENS, .blocks = BLOCKS};
    d->vocab = plan->config.vocab_tokens;
    d->target = drafter_trial_backend(plan, &load, NULL);
    load.shares_kv = true;
    load.rows = DRAFT_MODEL_ROWS;
    struct draft_model_parts parts = {.max_sequences = 1};
    parts.backend = drafter_trial_backend(own, &load, d->target);
    draft_model_describe(plan, own, &parts);
    assert_true(parts.borrows_caches);
    d->draft = draft_model_create(&parts);
    read_golden(folder, d);
}

static void close_drafting(struct drafting *d)
{
    struct backend *backend = draft_model_parts(d->draft)->backend;
    draft_model_destroy(d->draft);
    backend->interface->destroy(backend);
    d->target->interface->destroy(d->target);
    model_close(d->model);
    free(d->golden.logits);
}

static void run_target(struct drafting *d, const uint32_t *tokens)
{
    struct error_text error = {""};
    const struct step_sequence sequence = {.row_count = TOKENS,
                                           .block_tables = {blocks, blocks, blocks, blocks},
                                           .state_slot = STATE_SLOT_NONE,
                                           .state_source = STATE_SLOT_NONE,
                                           .state_copy = STATE_SLOT_NONE};
    const struct step_batch batch = {
        .row_count = TOKENS, .token_ids = tokens, .sequence_count = 1, .sequences = &sequence};
    must(backend_step_run(d->target, &batch, NULL, &error) == RESULT_OK);
}

static void check_logits(struct drafting *d, uint32_t known, uint32_t step)
{
    struct backend *backend = draft_model_parts(d->draft)->backend;
    const float *wanted =
        d->golden.logits + (size_t)((known + SHOWN - TOKENS - 1) * CHAIN + step) * d->vocab;
    double off =
        model_runner_row_difference(backend->interface->last_logits(backend), wanted, d->vocab);
    if (!(off <= d->trial->tolerance))
        fail_msg("%u known tokens, draft %u: %g off", known, step, off);
}

/* Of a wrong draft the golden one is fed on. */
static void check_context(struct drafting *d, uint32_t sequence, uint32_t known)
{
    const struct draft_model_parts *parts = draft_model_parts(d->draft);
    const uint32_t *wanted = d->golden.proposals[sequence * CONTEXTS + known - 2];
    struct sampling_params greedy = sampling_params_default();
    const struct row_sampling sampling = {.params = &greedy};
    float *own = must_alloc(parts->state_columns, sizeof *own);
    struct error_text error = {""};
    greedy.temperature = 0.0f;
    for (uint32_t step = 0; step < CHAIN; step++) {
        struct sampled_token drawn;
        const float *states = d->target->interface->last_hidden(d->target);
        const struct draft_model_rows rows = {
            .tokens = step == 0 ? &d->golden.ids[sequence][known - 1] : &wanted[step - 1],
            .hidden = step == 0 ? states + (size_t)(known - 2) * parts->hidden_columns : NULL,
            .own = step == 0 ? NULL : own,
            .first_position = known - 2,
            .row_count = 1,
            .group_blocks = group_blocks,
            .samplings = &sampling,
            .draw_count = 1};
        draft_model_add(d->draft, &rows);
        must(draft_model_run(d->draft, &drawn, &error) == RESULT_OK);
        for (uint32_t i = 0; i < parts->state_columns; i++)
            own[i] = draft_model_hidden(d->draft)[i];
        d->differing += drawn.token != wanted[step];
        if (sequence == 0 && known > TOKENS - SHOWN)
            check_logits(d, known, step);
    }
    free(own);
}

void assistant_trial_run(const struct assistant_trial *trial)
{
    static const char *const cases[2][2] = {
        {"build/checkpoints/gemma4-f32", "tests/golden/drafters/gemma4_assistant"},
        {"build/checkpoints/gemma4_moe-f32", "tests/golden/drafters/gemma4_assistant_moe"}};
    uint32_t differing = 0;
    for (uint32_t i = 0; i < 2; i++) {
        static struct drafting d;
        d = (struct drafting){.trial = trial};
        open_drafting(&d, cases[i][0], cases[i][1]);
        for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++) {
            run_target(&d, d.golden.ids[sequence]);
            for (uint32_t known = 2; known <= TOKENS; known++)
                check_context(&d, sequence, known);
        }
        differing += d.differing;
        close_drafting(&d);
    }
    assert_true(differing <= trial->differing);
}
