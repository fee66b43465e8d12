/*
 * Contexts grow in chunks of random lengths; keys and values of an earlier block are overwritten by those of the
 * context.
 */
#include "tests/support/block_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "tests/support/drafter_trial.h"
#include "tests/support/model_runner.h"
#include "tests/support/test_random.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"

#define FOLDER    "tests/golden/drafters/dflash"
#define SEQUENCES 5u
#define CONTEXTS  20u /* of a sequence */
#define TOKENS    (CONTEXTS + 1)
#define BLOCK     8u
#define SHOWN     3u /* last contexts of the first sequence, whose logits are known */
#define BLOCKS    3u

struct golden {
    uint32_t ids[SEQUENCES][TOKENS];
    uint32_t proposals[SEQUENCES * CONTEXTS][BLOCK - 1];
    float *logits; /* [SHOWN, BLOCK - 1, vocab] */
};

struct drafting {
    const struct block_trial *trial;
    uint32_t differing; /* tokens of proposals */
    struct model *model;
    struct backend *target;
    struct backend *block;
    struct backend *context;
    uint32_t columns; /* of the target's states */
    uint32_t vocab;
};

static void read_golden(uint32_t vocab, struct golden *golden)
{
    size_t floats = (size_t)SHOWN * (BLOCK - 1) * vocab;
    drafter_trial_numbers(FOLDER "/ids.txt", golden->ids[0], SEQUENCES * TOKENS);
    drafter_trial_numbers(FOLDER "/proposals.txt", golden->proposals[0],
                          SEQUENCES * CONTEXTS * (BLOCK - 1));
    golden->logits = drafter_trial_floats(FOLDER "/logits.f32", floats);
}

static struct drafting open_drafting(const struct block_trial *trial)
{
    struct drafting d = {.trial = trial};
    struct error_text error = {""};
    must(model_open("build/checkpoints/smollm3-f32", &d.model, &error) == RESULT_OK);
    if (model_open_drafter(d.model, FOLDER, NULL, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    const struct target_drafter *drafter = model_drafter(d.model);
    const struct plan *plan = model_plan(d.model);
    assert_int_equal(drafter->block_tokens, BLOCK);
    struct drafter_trial_load load = {
        .on_vulkan = trial->on_vulkan, .rows = TOKENS, .blocks = BLOCKS};
    d.target = drafter_trial_backend(plan, &load, NULL);
    d.block = drafter_trial_backend(drafter->plan, &load, d.target);
    load.shares_kv = true;
    d.context = drafter_trial_backend(drafter->context_plan, &load, d.block);
    d.columns = plan->tensors[plan->hidden_out].columns;
    d.vocab = plan->config.vocab_tokens;
    /* The matrices that both passes use, and the model's, are there once. */
    if (!trial->on_vulkan)
        assert_int_equal(d.context->interface->weights_bytes(d.context),
                         (size_t)d.columns * plan->config.hidden * sizeof(uint16_t));
    return d;
}

static void close_drafting(struct drafting *d)
{
    d->context->interface->destroy(d->context);
    d->block->interface->destroy(d->block);
    d->target->interface->destroy(d->target);
    model_close(d->model);
}

/* Rows at positions first..; `draws`: of the last so many. `sees_all`: every row sees all. */
static void run(struct backend *backend, const uint32_t *tokens, const float *hidden,
                uint32_t first, uint32_t rows, uint32_t draws, bool sees_all,
                struct sampled_token *drawn)
{
    static const uint32_t blocks[BLOCKS] = {2, 0, 1};
    struct sampling_params greedy = sampling_params_default();
    uint32_t logit_rows[TOKENS], ends[TOKENS];
    struct row_sampling samplings[TOKENS];
    struct error_text error = {""};
    greedy.temperature = 0.0f;
    for (uint32_t i = 0; i < draws; i++) {
        logit_rows[i] = rows - draws + i;
        samplings[i] = (struct row_sampling){.params = &greedy};
    }
    for (uint32_t i = 0; i < rows; i++)
        ends[i] = first + rows;
    const struct step_sequence sequence = {.row_count = rows,
                                           .first_position = first,
                                           .block_tables = {blocks, blocks},
                                           .state_slot = STATE_SLOT_NONE,
                                           .state_source = STATE_SLOT_NONE,
                                           .state_copy = STATE_SLOT_NONE};
    const struct step_batch batch = {.row_count = rows,
                                     .token_ids = tokens,
                                     .sequence_count = 1,
                                     .sequences = &sequence,
                                     .logit_row_count = draws,
                                     .logit_rows = logit_rows,
                                     .samplings = samplings,
                                     .visible_ends = sees_all ? ends : NULL,
                                     .hidden = hidden};
    must(backend_step_run(backend, &batch, drawn, &error) == RESULT_OK);
}

static void check_context(struct drafting *d, const struct golden *golden, uint32_t sequence,
                          uint32_t known)
{
    uint32_t tokens[BLOCK], context = sequence * CONTEXTS + known - 1;
    struct sampled_token drawn[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++)
        tokens[i] = i == 0 ? golden->ids[sequence][known] : model_drafter(d->model)->mask_token;
    run(d->block, tokens, NULL, known, BLOCK, BLOCK - 1, true, drawn);
    for (uint32_t i = 0; i + 1 < BLOCK; i++)
        d->differing += drawn[i].token != golden->proposals[context][i];
    if (sequence > 0 || known <= CONTEXTS - SHOWN)
        return;
    const float *logits = d->block->interface->last_logits(d->block);
    const float *wanted =
        golden->logits + (size_t)(known - CONTEXTS + SHOWN - 1) * (BLOCK - 1) * d->vocab;
    for (uint32_t i = 0; i + 1 < BLOCK; i++) {
        double off = model_runner_row_difference(logits + (size_t)i * d->vocab,
                                                 wanted + (size_t)i * d->vocab, d->vocab);
        if (!(off <= d->trial->tolerance))
            fail_msg("context %u, row %u: %g off", known, i, off);
    }
}

void block_trial_run(const struct block_trial *trial)
{
    static struct golden golden;
    struct test_random random = {.state = 3};
    struct drafting d = open_drafting(trial);
    read_golden(d.vocab, &golden);
    for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++) {
        const uint32_t *ids = golden.ids[sequence];
        run(d.target, ids, NULL, 0, TOKENS, 0, false, NULL);
        const float *states = d.target->interface->last_hidden(d.target);
        for (uint32_t first = 0; first < CONTEXTS;) { /* all at once or one by one */
            uint32_t most = CONTEXTS - first, rows = 1 + test_random_below(&random, most);
            for (uint32_t known = first + 1; known <= first + rows; known++) {
                run(d.context, ids + first, states + (size_t)first * d.columns, first,
                    known - first, 0, false, NULL);
                check_context(&d, &golden, sequence, known);
            }
            first += rows;
        }
    }
    assert_true(d.differing <= trial->differing);
    free(golden.logits);
    close_drafting(&d);
}
