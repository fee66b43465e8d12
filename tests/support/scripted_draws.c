/*
 * What a launched step draws is noted at the launch: block tables may change before the draws are read. A drafter
 * says how sure it is with the share of its place, as a calibrated one would.
 */
#include "tests/support/scripted_draws.h"

#include <math.h>
#include <stdlib.h>

#include "proto/must.h"
#include "tests/support/test_random.h"

struct scripted_draw {
    uint32_t slot;
    uint32_t place; /* of the token that is drawn */
    uint32_t known; /* tokens of the sequence at the launch */
};

struct scripted_backend {
    struct backend backend;
    struct backend_interface interface;
    struct backend *inner;
    const struct scripted_draws *script;
    enum scripted_role role;
    uint32_t launched, waited; /* steps */
    uint32_t draw_counts[STEP_DEPTH_MAX];
    struct scripted_draw draws[STEP_DEPTH_MAX][LIMIT_SEQUENCES];
};

static struct scripted_backend *of(const struct backend *backend)
{
    return (struct scripted_backend *)(uintptr_t)backend;
}

static uint64_t mixed(uint64_t a, uint64_t b, uint64_t c)
{
    struct test_random random = {.state = a * 0x9e3779b97f4a7c15u + b};
    random.state = test_random_next(&random) + c;
    return test_random_next(&random);
}

uint32_t scripted_draws_token(const struct scripted_draws *script, uint32_t slot, uint32_t place)
{
    return (uint32_t)(mixed(slot, place, 1) % script->vocab_tokens);
}

/* The running sequence whose first block is blocks[0]. */
static const struct sequence *owner(const struct scripted_draws *script, const uint32_t *blocks)
{
    struct sequence_table *table = script->engine->table;
    const struct sequence *sequence = NULL;
    for (uint32_t i = 0; !sequence; i++) {
        must(i < sequence_table_running(table));
        const struct sequence *one = sequence_table_running_at(table, i);
        if (one->tables[script->group].blocks[0] == blocks[0])
            sequence = one;
    }
    return sequence;
}

static enum result launch(struct backend *backend, const struct step_batch *batch,
                          struct error_text *error)
{
    struct scripted_backend *own = of(backend);
    uint32_t group = own->role == SCRIPTED_TARGET ? own->script->group : 0, part = 0;
    struct scripted_draw *draws = own->draws[own->launched % STEP_DEPTH_MAX];
    must(batch->logit_row_count <= LIMIT_SEQUENCES);
    for (uint32_t i = 0; i < batch->logit_row_count; i++) {
        uint32_t row = batch->logit_rows[i];
        while (row >= batch->sequences[part].first_row + batch->sequences[part].row_count)
            part++;
        const struct step_sequence *rows = &batch->sequences[part];
        const struct sequence *sequence = owner(own->script, rows->block_tables[group]);
        uint32_t ahead = own->role == SCRIPTED_BLOCK ? 0 : own->role == SCRIPTED_LAYER ? 2 : 1;
        draws[i] =
            (struct scripted_draw){.slot = sequence->request.id.slot,
                                   .place = rows->first_position + row - rows->first_row + ahead,
                                   .known = sequence->known_tokens};
    }
    own->draw_counts[own->launched++ % STEP_DEPTH_MAX] = batch->logit_row_count;
    return own->inner->interface->step_launch(own->inner, batch, error);
}

static void replace(const struct scripted_backend *own, const struct scripted_draw *draw,
                    struct sampled_token *result)
{
    const struct scripted_draws *script = own->script;
    result->token = scripted_draws_token(script, draw->slot, draw->place);
    if (own->role == SCRIPTED_TARGET)
        return;
    must(draw->place >= draw->known);
    uint32_t ahead = draw->place - draw->known;
    double share = script->shares[ahead < script->share_count ? ahead : script->share_count - 1];
    double drawn = (double)(mixed(draw->slot, draw->place, 2 + draw->known) >> 11) * 0x1p-53;
    if (drawn >= share)
        result->token = (result->token + 1) % script->vocab_tokens;
    result->logprob = (float)log(share);
}

static enum result wait(struct backend *backend, struct sampled_token *results,
                        struct error_text *error)
{
    struct scripted_backend *own = of(backend);
    enum result result = own->inner->interface->step_wait(own->inner, results, error);
    uint32_t step = own->waited++ % STEP_DEPTH_MAX;
    for (uint32_t i = 0; result == RESULT_OK && i < own->draw_counts[step]; i++)
        replace(own, &own->draws[step][i], &results[i]);
    return result;
}

static uint32_t depth(const struct backend *backend)
{
    return of(backend)->inner->interface->step_depth(of(backend)->inner);
}

static bool draws_ahead(const struct backend *backend, const struct row_sampling *sampling)
{
    return of(backend)->inner->interface->draws_ahead(of(backend)->inner, sampling);
}

static enum result draw(struct backend *backend, const struct row_sampling *samplings,
                        struct error_text *error)
{
    return of(backend)->inner->interface->step_draw(of(backend)->inner, samplings, error);
}

static const float *last_hidden(const struct backend *backend)
{
    return of(backend)->inner->interface->last_hidden(of(backend)->inner);
}

static bool is_gpu(const struct backend *backend)
{
    const struct backend *inner = of(backend)->inner;
    return inner->interface->is_gpu && inner->interface->is_gpu(inner);
}

static void destroy(struct backend *backend)
{
    free(backend);
}

struct backend *scripted_draws_wrap(const struct scripted_draws *script, enum scripted_role role,
                                    struct backend *inner)
{
    struct scripted_backend *own = must_alloc(1, sizeof *own);
    *own = (struct scripted_backend){.interface = {.step_depth = depth,
                                                   .draws_ahead = draws_ahead,
                                                   .step_launch = launch,
                                                   .step_wait = wait,
                                                   .last_hidden = last_hidden,
                                                   .is_gpu = is_gpu,
                                                   .destroy = destroy},
                                     .inner = inner,
                                     .script = script,
                                     .role = role};
    if (inner->interface->step_draw)
        own->interface.step_draw = draw;
    own->backend.interface = &own->interface;
    return &own->backend;
}
