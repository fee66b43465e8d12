/*
 * Frontend and engine have separate mappings of one segment, as two processes would, but run in one
 * thread, so every run is the same.
 */
#include "tests/support/engine_rig.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/sample/token_counts.h"

/* Before any prefill has begun, a sequence with less to compute may overtake the oldest one. */
#define UNBEGUN_TURNS 32u

struct engine_rig_options engine_rig_defaults(void)
{
    return (struct engine_rig_options){
        .group_count = 1,
        .kv_blocks = {64},
        .vocab_tokens = 97,
        .context_tokens = 1024,
        .max_sequences = 8,
        .step_tokens = 32,
        .mixed_prefill_tokens = 16,
        .event_capacity = 4096,
        .step_depth = 1,
    };
}

void engine_rig_set_overlap(struct engine_rig_options *options, uint32_t overlap)
{
    must(overlap < ENGINE_RIG_OVERLAPS);
    options->step_depth = overlap > 0 ? 2 : 1;
    options->late = overlap > 1;
    options->counts_ahead = overlap == 3;
    options->halves = overlap == ENGINE_RIG_HALVES;
}

static void make_layout(struct engine_rig *rig, const struct engine_rig_options *options)
{
    if (options->layout) {
        rig->layout = *options->layout;
        return;
    }
    rig->layout.group_count = options->group_count;
    for (uint32_t group = 0; group < options->group_count; group++)
        rig->layout.groups[group] =
            (struct kv_group){.kind = options->windows[group] ? KV_SLIDING : KV_FULL,
                              .window = options->windows[group],
                              .layers = 1,
                              .kv_heads = 1,
                              .head_dim = 8};
    if (options->quantized_kv_start == 0)
        return;
    must(options->group_count < KV_GROUPS_MAX);
    rig->layout.groups[rig->layout.group_count++] =
        (struct kv_group){.kind = KV_OPENING, .layers = 1, .opening = options->quantized_kv_start};
}

static struct backend *make_backend(const struct engine_rig *rig, uint32_t state_slots)
{
    const struct engine_rig_options *options = &rig->options;
    if (options->backend)
        return options->backend;
    struct fake_backend_options backend = {.layout = &rig->layout,
                                           .state_slots = state_slots,
                                           .deferred_places = STEP_DRAFTS_PLACES,
                                           .vocab_tokens = options->vocab_tokens,
                                           .step_depth = options->step_depth,
                                           .late = options->late,
                                           .counts_ahead = options->counts_ahead,
                                           .masks_follow = options->masks_follow,
                                           .vision = options->vision,
                                           .patch_rows = options->patch_rows,
                                           .feature_rows = options->feature_rows};
    memcpy(backend.kv_blocks, options->kv_blocks, sizeof backend.kv_blocks);
    return fake_backend_create(&backend);
}

/* A fake draft model with a full and a sliding group, both with the blocks of the first full group
 * of the target. */
static void make_draft_model(struct engine_rig *rig)
{
    const struct engine_rig_options *options = &rig->options;
    rig->draft_model = options->draft_model;
    if (options->draft_vocab_tokens == 0)
        return;
    uint32_t full = 0;
    while (rig->layout.groups[full].kind != KV_FULL)
        full++;
    rig->draft_layout = (struct kv_layout){
        .group_count = 2,
        .groups = {{.kind = KV_FULL, .layers = 1, .kv_heads = 1, .head_dim = 8},
                   {.kind = KV_SLIDING, .window = 40, .layers = 1, .kv_heads = 1, .head_dim = 8}}};
    rig->draft_backend = fake_backend_create(&(struct fake_backend_options){
        .layout = &rig->draft_layout,
        .kv_blocks = {options->kv_blocks[full], options->kv_blocks[full]},
        .vocab_tokens = options->draft_vocab_tokens,
        .step_depth = 1});
    rig->draft_model =
        draft_model_create(&(struct draft_model_parts){.backend = rig->draft_backend,
                                                       .group_count = rig->draft_layout.group_count,
                                                       .vocab_tokens = options->draft_vocab_tokens,
                                                       .context_tokens = options->context_tokens,
                                                       .max_sequences = options->max_sequences});
}

void engine_rig_open(struct engine_rig *rig, const struct engine_rig_options *options)
{
    *rig = (struct engine_rig){.options = *options};
    make_layout(rig, options);
    struct test_frontend_sizes sizes = {.submit_capacity = 1024,
                                        .event_capacity = options->event_capacity,
                                        .slab_bytes = 1u << 20,
                                        .vocab_tokens = options->vocab_tokens};
    rig->frontend = test_frontend_create(&sizes);
    struct process_pair *pair = &rig->frontend->pair;
    struct frontend_link_fds fds = {.segment = dup(pair->segment.fd),
                                    .submit_bell = pair->submit_bell.event_fd,
                                    .event_bell = pair->event_bell.event_fd,
                                    .parent = -1};
    must(frontend_link_open(&fds, &rig->link, NULL) == RESULT_OK);
    uint32_t state_slots = options->recurrent ? options->max_sequences : 0;
    rig->backend = make_backend(rig, state_slots + options->checkpoint_slots);
    if (options->masks_follow)
        fake_backend_watch_masks(rig->backend, &pair->segment.gauges->grammar_masks_total);
    make_draft_model(rig);
    struct worker_engine_parts parts = {
        .link = rig->link,
        .backend = rig->backend,
        .layout = &rig->layout,
        .state_slots = state_slots,
        .checkpoint_slots = options->checkpoint_slots,
        .keeps_prefixes = options->prefix_cache,
        .vocab_tokens = options->vocab_tokens,
        .context_tokens = options->context_tokens,
        .max_sequences = options->max_sequences,
        .step_tokens = options->step_tokens,
        .logit_rows = options->logit_rows ? options->logit_rows : options->max_sequences,
        .drafter = options->drafter,
        .draft_model = rig->draft_model,
        .mixed_prefill_tokens = options->mixed_prefill_tokens,
        .itl_target_ms = 100,
        .halves = options->halves,
        .vision = options->vision,
        .patch_rows = options->patch_rows,
        .feature_rows = options->feature_rows,
        .feature_row_bytes = 4,
        .kept_images = options->kept_images,
        .helpers = options->helpers,
    };
    memcpy(parts.kv_blocks, options->kv_blocks, sizeof parts.kv_blocks);
    must(worker_engine_create(&parts, &rig->engine) == RESULT_OK);
}

void engine_rig_close(struct engine_rig *rig)
{
    if (sequence_table_running(rig->engine->table) + sequence_table_waiting(rig->engine->table) ==
        0)
        must(kv_pools_used(&rig->engine->pools) == 0);
    worker_engine_destroy(rig->engine);
    if (!rig->options.leaves_backend)
        rig->backend->interface->destroy(rig->backend);
    if (rig->draft_backend) {
        draft_model_destroy(rig->draft_model);
        rig->draft_backend->interface->destroy(rig->draft_backend);
    }
    frontend_link_close(rig->link);
    test_frontend_destroy(rig->frontend);
}

/* Changes after every turn that encoded something. */
static uint64_t encoding_progress(const struct engine_rig *rig)
{
    uint64_t whole = atomic_load_explicit(&rig->frontend->pair.segment.gauges->patch_rows_total,
                                          memory_order_relaxed);
    return whole * 1000000 + rig->engine->encoder.work_left;
}

enum step_outcome engine_rig_turn(struct engine_rig *rig)
{
    struct sequence_table *table = rig->engine->table;
    struct sequence *oldest =
        sequence_table_running(table) > 0 ? sequence_table_running_at(table, 0) : NULL;
    struct request_id id = oldest ? oldest->request.id : (struct request_id){0, 0};
    uint32_t progress = oldest ? oldest->computed_tokens + oldest->known_tokens : 0;
    uint64_t encoded = encoding_progress(rig);

    if (rig->options.pace.stream_us > 0)
        rig->engine->pace = rig->options.pace;
    if (rig->options.draft_pace.step_us[1] > 0)
        rig->engine->drafts.pace = rig->options.draft_pace;
    enum step_outcome outcome;
    must(step_loop_turn(rig->engine, &outcome, NULL) == RESULT_OK);
    sequence_table_check(table, &rig->engine->pools);
    if (oldest && outcome == STEP_WORKED) {
        oldest = sequence_table_find(table, id);
        bool moved = !oldest || oldest->computed_tokens + oldest->known_tokens > progress ||
                     encoding_progress(rig) != encoded;
        bool begun = oldest && oldest->computed_tokens > 0;
        rig->idle_turns = moved ? 0 : rig->idle_turns + 1;
        must(rig->idle_turns < (begun ? rig->options.step_depth : UNBEGUN_TURNS));
    }
    must(sequence_table_running(table) <= rig->options.max_sequences);
    must(rig->options.backend ||
         fake_backend_totals(rig->backend).most_rows <= rig->options.step_tokens);
    return outcome;
}

void engine_rig_finish(struct engine_rig *rig, uint32_t turns)
{
    test_frontend_collect(rig->frontend);
    while (rig->frontend->live_count > 0) {
        must(turns-- > 0);
        engine_rig_turn(rig);
        test_frontend_collect(rig->frontend);
    }
}

uint64_t engine_rig_preemptions(const struct engine_rig *rig)
{
    return atomic_load_explicit(&rig->frontend->pair.segment.gauges->preemptions_total,
                                memory_order_relaxed);
}

static bool stops_at(const struct test_request *request, uint32_t token)
{
    bool stops = false;
    for (uint32_t i = 0; i < request->stop_token_count; i++)
        stops = stops || request->stop_ids[i] == token;
    return stops && !(request->flags & SUBMIT_FLAG_IGNORE_END);
}

static struct token_counts *prompt_counts(const struct test_request *request)
{
    const struct sampling_params *params = &request->sampling;
    if (params->repetition_penalty == 1.0f && params->presence_penalty == 0.0f &&
        params->frequency_penalty == 0.0f)
        return NULL;
    struct token_counts *counts =
        token_counts_create(params, request->prompt_tokens - request->generated_tokens);
    must(token_counts_follow(counts, request->prompt, request->prompt_tokens) == RESULT_OK);
    return counts;
}

static struct token_forcer forcer_of(const struct test_request *request)
{
    struct token_forcer_rules rules = {
        .prefix_count = request->prefix_count,
        .think_start_count = request->think_start_count,
        .think_end_count = request->think_end_count,
        .is_open = (request->flags & SUBMIT_FLAG_THINKING_OPEN) != 0,
        .has_budget = (request->flags & SUBMIT_FLAG_THINKING_BUDGET) != 0,
        .budget = request->thinking_budget,
    };
    if (request->forced_ids) {
        rules.prefix = request->forced_ids;
        rules.think_start = rules.prefix + rules.prefix_count;
        rules.think_end = rules.think_start + rules.think_start_count;
    }
    struct token_forcer forcer;
    token_forcer_init(&forcer, &rules);
    return forcer;
}

/* The forced token and the barred ones at the answer's next position; `barred`: [ROW_BARRED_MAX]. */
static void add_rules(const struct test_request *request, const struct token_forcer *forcer,
                      uint32_t *barred, struct row_sampling *sampling)
{
    struct forced_draw next = token_forcer_next(forcer, 0);
    sampling->is_forced = next.kind == FORCED_TOKEN;
    sampling->forced_token = next.token;
    sampling->barred = barred;
    if (next.bars_start)
        barred[sampling->barred_count++] = request->forced_ids[request->prefix_count];
    bool is_short = forcer->followed < request->min_tokens;
    for (uint32_t i = 0; i < request->stop_token_count && is_short; i++)
        if (!(request->flags & SUBMIT_FLAG_IGNORE_END))
            barred[sampling->barred_count++] = request->stop_ids[i];
}

/* Positions of the rows of one request, computed differently from the engine: one token at a time,
 * as the reference code of MRoPE does. */
struct expected_rows {
    const struct model_vision *vision;
    uint32_t image;
    uint32_t feature; /* of this image, the next one */
    uint32_t start;   /* of the tile in hand, in time */
    uint32_t next;    /* position of the next token of text */
};

static uint64_t expect_row(struct expected_rows *rows, const struct test_request *request,
                           uint32_t position, uint32_t token)
{
    const struct image_record *records =
        (const struct image_record *)(const void *)request->image_part;
    struct fake_row row = {token, position, {position, position, position}, position + 1};
    if (!rows->vision || request->image_count == 0)
        return fake_vision_row(&row);
    row.rope = (struct rope_position){rows->next, rows->next, rows->next};
    const struct image_record *record =
        rows->image < request->image_count ? &records[rows->image] : NULL;
    if (!record || position < record->first_token ||
        token != request->prompt[record->first_token]) {
        rows->next++;
    } else {
        struct encode_image encoded = {
            .shape = {record->tiles, record->width, record->height, record->frames},
            .pixels = request->image_part + record->pixels_offset,
            .scale = {record->scale[0], record->scale[1], record->scale[2]},
            .bias = {record->bias[0], record->bias[1], record->bias[2]}};
        struct feature_grid grid = model_vision_grid(rows->vision, encoded.shape);
        uint32_t in_tile = rows->feature % (grid.height * grid.width);
        if (in_tile == 0)
            rows->start = rows->next;
        row.value = fake_vision_feature(&encoded, rows->vision, rows->feature);
        row.rope.time = rows->start;
        row.rope.height = rows->start + in_tile / grid.width;
        row.rope.width = rows->start + in_tile % grid.width;
        if (rows->next <= rows->start + in_tile / grid.width)
            rows->next = rows->start + in_tile / grid.width + 1;
        if (rows->next <= rows->start + in_tile % grid.width)
            rows->next = rows->start + in_tile % grid.width + 1;
        if (rows->vision->spans_whole)
            row.visible_end = position - in_tile + grid.height * grid.width;
        if (++rows->feature == record->token_count) {
            rows->feature = 0;
            rows->image++;
        }
    }
    if (!rows->vision->grid_positions)
        row.rope = (struct rope_position){position, position, position};
    return fake_vision_row(&row);
}

static void check_alternatives(const struct test_reply *reply, uint32_t at,
                               const struct sampled_token *expected)
{
    must(reply->alternative_counts[at] == expected->alternative_count);
    must(memcmp(reply->alternatives + (size_t)at * LIMIT_TOP_LOGPROBS, expected->alternatives,
                expected->alternative_count * sizeof(struct token_logprob)) == 0);
}

void engine_rig_check_reply(const struct engine_rig *rig, const struct test_request *request,
                            const struct test_reply *reply)
{
    must(!reply->live && reply->failure == RESULT_OK);
    uint32_t tokens_max;
    must(admission_policy_size(&rig->engine->limits, request->prompt_tokens,
                               request->max_new_tokens, &tokens_max) == RESULT_OK);
    struct token_counts *counts = prompt_counts(request);
    struct expected_rows rows = {.vision = rig->options.vision};
    uint64_t prefix = 0;
    for (uint32_t i = 0; i < request->prompt_tokens; i++)
        prefix = fake_backend_hash(prefix, expect_row(&rows, request, i, request->prompt[i]));
    uint32_t *tokens = must_alloc(request->prompt_tokens + reply->token_count, sizeof *tokens);
    memcpy(tokens, request->prompt, request->prompt_tokens * sizeof *tokens);
    const uint32_t *generated = tokens + request->prompt_tokens - request->generated_tokens;
    struct token_forcer forcer = forcer_of(request);
    enum finish_reason finish = FINISH_NONE;
    for (uint32_t i = 0; i < reply->token_count; i++) {
        must(finish == FINISH_NONE);
        struct row_sampling sampling = {
            .params = &request->sampling,
            .counts = counts,
            .logit_bias = request->logit_bias,
            .logit_bias_count = request->logit_bias_count,
            .position = request->prompt_tokens + i,
            .wants_logprob = (request->flags & SUBMIT_FLAG_LOGPROBS) != 0,
            .top_logprobs = request->top_logprobs,
        };
        uint32_t barred[ROW_BARRED_MAX];
        token_forcer_follow(&forcer, generated, request->generated_tokens + i);
        add_rules(request, &forcer, barred, &sampling);
        struct sampled_token expected =
            fake_backend_draw(prefix, rig->options.vocab_tokens, &sampling);
        must(reply->tokens[i] == expected.token);
        must(reply->logprobs[i] == expected.logprob);
        check_alternatives(reply, i, &expected);
        prefix = fake_backend_hash(
            prefix, expect_row(&rows, request, request->prompt_tokens + i, expected.token));
        tokens[request->prompt_tokens + i] = expected.token;
        if (counts)
            must(token_counts_follow(counts, tokens, request->prompt_tokens + i + 1) == RESULT_OK);
        if (stops_at(request, expected.token))
            finish = FINISH_STOP_TOKEN;
        else if (request->prompt_tokens + i + 1 == tokens_max)
            finish = FINISH_LENGTH;
    }
    if (reply->finish != FINISH_CANCELLED)
        must(reply->finish == finish && finish != FINISH_NONE);
    token_counts_destroy(counts);
    free(tokens);
}
