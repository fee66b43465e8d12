/*
 * Assembles the parts of a worker. All memory of steps is allocated here, so a worker's memory use
 * is known before its first request.
 */
#include "worker/schedule/worker_engine.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/cache/kv_budget.h"

static void create_vision(struct worker_engine *engine)
{
    const struct worker_engine_parts *parts = &engine->parts;
    if (!parts->vision)
        return;
    engine->pools.features = feature_cache_create(parts->feature_rows, parts->kept_images);
    if (parts->feature_ledger)
        engine->restored_features =
            feature_cache_keep(engine->pools.features, parts->feature_ledger);
    /* A step has room for an uncut span beside one row of every other sequence. */
    engine->image_limits =
        (struct image_limits){.vision = parts->vision,
                              .patch_rows = parts->patch_rows,
                              .feature_rows = parts->feature_rows,
                              .whole_tokens = parts->step_tokens - (parts->max_sequences - 1)};
    engine->encoder = (struct image_encoder){.backend = parts->backend,
                                             .vision = parts->vision,
                                             .features = engine->pools.features,
                                             .table = engine->table,
                                             .link = parts->link,
                                             .gauges = engine->gauges,
                                             .max_patch_rows = parts->patch_rows};
}

static void create_drafts(struct worker_engine *engine)
{
    const struct worker_engine_parts *parts = &engine->parts;
    if (!parts->drafter)
        return;
    must(engine->pipeline.depth == 1);
    engine->drafts = (struct step_drafts){
        .proposals = must_alloc(parts->max_sequences, sizeof(struct draft_proposal)),
        .candidates = must_alloc(parts->max_sequences, sizeof(struct draft_candidate)),
        .running = must_alloc(parts->max_sequences, sizeof(uint32_t)),
        .counts = must_alloc(parts->max_sequences, sizeof(uint32_t))};
}

static void create_model_drafts(struct worker_engine *engine)
{
    const struct worker_engine_parts *parts = &engine->parts;
    struct model_drafts *drafts = &engine->model_drafts;
    if (!parts->draft_model)
        return;
    while (drafts->group < parts->layout->group_count &&
           parts->layout->groups[drafts->group].kind != KV_FULL)
        drafts->group++;
    must(parts->drafter && drafts->group < parts->layout->group_count);
    uint32_t blocks = parts->kv_blocks[drafts->group];
    drafts->filled = must_alloc(blocks, sizeof *drafts->filled);
    for (uint32_t i = 0; i < blocks; i++)
        drafts->filled[i] = MODEL_DRAFTS_UNFILLED;
    drafts->picks = must_alloc(parts->max_sequences, sizeof *drafts->picks);
    drafts->trusts = must_alloc(parts->max_sequences, sizeof *drafts->trusts);
    drafts->rounds = must_alloc(parts->max_sequences, sizeof *drafts->rounds);
    const struct draft_model_parts *draft = draft_model_parts(parts->draft_model);
    drafts->results = must_alloc(draft_model_draws(draft), sizeof *drafts->results);
    uint32_t columns = draft->state_columns;
    if (columns > 0)
        drafts->states = must_alloc((size_t)parts->max_sequences * columns, sizeof(float));
    if (draft->takes_images) {
        must(columns > 0 && parts->vision && !parts->vision->spans_whole);
        drafts->feature_rows = must_alloc(DRAFT_MODEL_ROWS, sizeof *drafts->feature_rows);
        drafts->rope_positions = must_alloc(DRAFT_MODEL_ROWS, sizeof *drafts->rope_positions);
        engine->pools.features_are_read_again = true;
    }
}

enum result worker_engine_create(const struct worker_engine_parts *parts,
                                 struct worker_engine **created)
{
    must(parts->max_sequences > 0 && parts->max_sequences <= parts->step_tokens);
    must(parts->state_slots == 0 || parts->state_slots >= parts->max_sequences);
    must(parts->itl_target_ms > 0 && parts->context_tokens > 0);
    must(parts->logit_rows >= parts->max_sequences);
    must(!parts->encoder || !parts->keeps_prefixes);
    struct worker_engine *engine = must_alloc(1, sizeof *engine);
    engine->parts = *parts;
    engine->gauges = frontend_link_gauges(parts->link);
    engine->trace.trace = frontend_link_trace(parts->link);
    engine->limits.context_tokens = parts->context_tokens;
    engine->limits.longest_positions = kv_budget_longest(parts->layout, parts->kv_blocks,
                                                         parts->context_tokens, parts->step_tokens);
    struct kv_pools_options pools = {.layout = parts->layout,
                                     .state_slots = parts->state_slots,
                                     .checkpoint_slots = parts->checkpoint_slots,
                                     .keeps_prefixes = parts->keeps_prefixes,
                                     .ledger = parts->ledger};
    memcpy(pools.blocks, parts->kv_blocks, sizeof pools.blocks);
    enum result result = kv_pools_init(&engine->pools, &pools);
    if (result != RESULT_OK) {
        free(engine);
        return result;
    }
    if (engine->pools.prefixes && parts->ledger)
        engine->restored = prefix_cache_restore(engine->pools.prefixes);
    engine->table = sequence_table_create(parts->max_sequences);
    create_vision(engine);
    step_pipeline_init(&engine->pipeline,
                       &(struct step_pipeline_options){.link = parts->link,
                                                       .backend = parts->backend,
                                                       .fault = parts->fault,
                                                       .max_rows = parts->step_tokens,
                                                       .max_sequences = parts->max_sequences,
                                                       .max_logit_rows = parts->logit_rows,
                                                       .group_count = parts->layout->group_count,
                                                       .encoder = parts->encoder,
                                                       .vision = parts->vision,
                                                       .ledger = parts->ledger,
                                                       .features = parts->feature_ledger,
                                                       .pools = parts->pooling != POOLING_OFF});
    create_drafts(engine);
    create_model_drafts(engine);
    engine->candidates = must_alloc(parts->max_sequences, sizeof *engine->candidates);
    engine->whole_prompts = must_alloc(parts->max_sequences, sizeof *engine->whole_prompts);
    engine->rows = must_alloc(parts->max_sequences, sizeof *engine->rows);
    engine->masked = must_alloc(parts->max_sequences, sizeof(struct sequence *));
    frontend_link_set_vocabulary(parts->link, parts->vocab_tokens);
    *created = engine;
    return RESULT_OK;
}

void worker_engine_publish_roster(const struct worker_engine *engine)
{
    step_pipeline_publish_roster(&engine->pipeline);
    image_encoder_add_to_roster(&engine->encoder);
}

void worker_engine_destroy(struct worker_engine *engine)
{
    if (!engine)
        return;
    if (engine->pools.prefixes) /* what is committed stays for the next worker */
        prefix_cache_detach(engine->pools.prefixes);
    sequence_table_destroy(engine->table, &engine->pools);
    image_encoder_fini(&engine->encoder);
    feature_cache_destroy(engine->pools.features);
    step_pipeline_fini(&engine->pipeline);
    kv_pools_fini(&engine->pools);
    free(engine->candidates);
    free(engine->whole_prompts);
    free(engine->rows);
    free(engine->masked);
    free(engine->drafts.proposals);
    free(engine->drafts.candidates);
    free(engine->drafts.running);
    free(engine->drafts.counts);
    free(engine->model_drafts.filled);
    free(engine->model_drafts.picks);
    free(engine->model_drafts.trusts);
    free(engine->model_drafts.rounds);
    free(engine->model_drafts.results);
    free(engine->model_drafts.states);
    free(engine->model_drafts.feature_rows);
    free(engine->model_drafts.rope_positions);
    if (engine->vocabulary) /* after the sequences, which have matchers */
        grammar_vocabulary_close(engine->vocabulary);
    free(engine);
}
