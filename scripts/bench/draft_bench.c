/*
 * Drafted beside plain decoding through the whole engine, without server, with draws that are scripted
 * (tests/support/scripted_draws.h): so a checkpoint with random weights has drafts that are right as often as asked.
 * Kernels, rows, states of inner layers and the choice of how many drafts are those of the worker.
 *
 *   draft_bench --model FILE [--drafter FOLDER] [--shares 0.8,0.81,0.77] [--streams 1,8,64] [--tokens 256]
 *               [--prompt 64] [--threads T] [--device cpu|vulkan[:N]] [--modes default,invariant]
 *               [--pipeline-cache FOLDER]
 *
 * Without --drafter the checkpoint's own layer that predicts a further token drafts. A share is that of the drafts at
 * this place whose predecessors are right. Modes are those of a Vulkan device: as users get it without drafts, which has no
 * drafts here, and with --batch-invariant and --step-depth 1, which drafts need; a CPU has the second alone.
 *
 * Prints a row for each number of streams: tokens a second of all streams together, from the eighth token of the last stream
 * on for --tokens of each stream on average; a stream has room for SPARE + ROOM times as many.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/device_name.h"
#include "proto/must.h"
#include "tests/support/engine_rig.h"
#include "tests/support/scripted_draws.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"
#include "worker/schedule/draft_loading.h"

#define STREAMS_MAX 64u
#define COUNTS_MAX  8u
#define STEP_ROWS   512u
#define SETTLED     8u   /* tokens of every stream before the clock starts */
#define SPARE       512u /* tokens of streams that begin before others */
#define ROOM        4u
#define PATIENCE    10000000u

struct bench {
    struct worker_options options; /* those that draft_loading_open() reads */
    const char *model_path;
    const char *drafter_path;
    uint32_t streams[COUNTS_MAX];
    uint32_t stream_counts;
    uint32_t prompt_tokens;
    uint32_t answer_tokens;
    uint32_t threads;
    uint32_t device;
    const char *pipeline_cache;
    bool has_default, has_invariant;
    struct scripted_draws script;
    struct model *model;
    uint32_t *prompts; /* [STREAMS_MAX, prompt_tokens] */
};

struct loaded {
    struct backend_options options;
    struct backend *backend;
    struct draft_loading draft;
    bool drafts;
};

struct figures {
    double rate; /* tokens a second */
    double drafted, accepted;
    double per_step; /* tokens of a stream */
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void end(const struct error_text *error)
{
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static bool on_vulkan(const struct bench *bench)
{
    return bench->options.device_kind == DEVICE_VULKAN;
}

/* --- set-up ----------------------------------------------------------------------------------- */

static void parse_streams(struct bench *bench, const char *text)
{
    bench->stream_counts = 0;
    while (*text && bench->stream_counts < COUNTS_MAX) {
        char *rest;
        uint32_t streams = (uint32_t)strtoul(text, &rest, 10);
        must(streams > 0 && streams <= STREAMS_MAX);
        bench->streams[bench->stream_counts++] = streams;
        text = *rest == ',' ? rest + 1 : "";
    }
}

static void parse_shares(struct scripted_draws *script, const char *text)
{
    script->share_count = 0;
    while (*text && script->share_count < SCRIPTED_SHARES_MAX) {
        char *rest;
        double share = strtod(text, &rest);
        must(share > 0 && share <= 1);
        script->shares[script->share_count++] = share;
        text = *rest == ',' ? rest + 1 : "";
    }
}

static void parse_device(struct bench *bench, const char *name)
{
    struct device_set devices;
    must(device_set_parse(name, &devices) == 0 && devices.count == 1);
    bench->options.device_kind = device_set_kind(&devices);
    bench->device = devices.devices[0].index;
}

static void parse_modes(struct bench *bench, const char *text)
{
    bench->has_default = strstr(text, "default") != NULL;
    bench->has_invariant = strstr(text, "invariant") != NULL;
}

static void parse_options(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {{"model", required_argument, NULL, 'm'},
                                            {"drafter", required_argument, NULL, 'f'},
                                            {"shares", required_argument, NULL, 'a'},
                                            {"streams", required_argument, NULL, 's'},
                                            {"tokens", required_argument, NULL, 'n'},
                                            {"prompt", required_argument, NULL, 'p'},
                                            {"device", required_argument, NULL, 'd'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"modes", required_argument, NULL, 'o'},
                                            {"pipeline-cache", required_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    *bench = (struct bench){.prompt_tokens = 64,
                            .answer_tokens = 256,
                            .has_default = true,
                            .has_invariant = true,
                            .streams = {1, 8, 64},
                            .stream_counts = 3};
    parse_shares(&bench->script, "0.8,0.8125,0.7692");
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'm': bench->model_path = optarg; break;
        case 'f': bench->drafter_path = optarg; break;
        case 'a': parse_shares(&bench->script, optarg); break;
        case 's': parse_streams(bench, optarg); break;
        case 'n': bench->answer_tokens = (uint32_t)atoi(optarg); break;
        case 'p': bench->prompt_tokens = (uint32_t)atoi(optarg); break;
        case 't': bench->threads = (uint32_t)atoi(optarg); break;
        case 'd': parse_device(bench, optarg); break;
        case 'c': bench->pipeline_cache = optarg; break;
        case 'o': parse_modes(bench, optarg); break;
        default: exit(2);
        }
    }
    if (!bench->model_path || bench->answer_tokens == 0 || bench->prompt_tokens == 0) {
        fprintf(stderr, "--model FILE is needed\n");
        exit(2);
    }
    bench->options.draft_model = bench->drafter_path;
}

static uint32_t full_group(const struct kv_layout *layout)
{
    uint32_t group = 0;
    while (layout->groups[group].kind != KV_FULL)
        must(++group < layout->group_count);
    return group;
}

/* A plan that keeps hidden states computes a little more, so plain decoding has one without. */
static void open_model(struct bench *bench, struct loaded *loaded, bool drafts)
{
    struct error_text error = {{0}};
    *loaded = (struct loaded){.drafts = drafts};
    if (model_open(bench->model_path, &bench->model, &error) != RESULT_OK)
        end(&error);
    enum result result = RESULT_OK;
    if (drafts && bench->drafter_path)
        result = draft_loading_open(&loaded->draft, &bench->options, bench->model, &error);
    else if (drafts && (result = model_open_ahead(bench->model, &error)) == RESULT_OK)
        result = draft_loading_open_ahead(&loaded->draft, bench->model, &bench->options, &error);
    if (result != RESULT_OK)
        end(&error);
    const struct plan *plan = model_plan(bench->model);
    bench->script.vocab_tokens = plan->config.vocab_tokens;
    bench->script.group = full_group(&plan->kv);
}

static void load(struct bench *bench, struct loaded *loaded, bool invariant)
{
    struct error_text error = {{0}};
    const struct plan *plan = model_plan(bench->model);
    uint32_t tokens =
        bench->prompt_tokens + SPARE + ROOM * bench->answer_tokens + 2 * LIMIT_DRAFT_TOKENS;
    uint32_t blocks = STREAMS_MAX * (2 + tokens / KV_BLOCK_TOKENS);
    loaded->options = (struct backend_options){
        .threads = bench->threads,
        .vulkan = {.device = bench->device,
                   .tier_limit = VULKAN_TIER_HIGHEST,
                   .batch_invariant = invariant,
                   .pipeline_cache = bench->pipeline_cache},
        .step_depth = invariant ? 1 : 0,
        .max_step_rows = STEP_ROWS,
        .max_logit_rows = STREAMS_MAX,
        .state_slots = plan->state.layers > 0 ? STREAMS_MAX : 0,
        .deferred_places = plan->state.layers > 0 && loaded->drafts ? STEP_DRAFTS_PLACES : 0};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        loaded->options.kv_blocks[group] = blocks;
    loaded->backend = on_vulkan(bench) ? vulkan_backend_create() : cpu_backend_create();
    if (loaded->backend->interface->load(loaded->backend, plan, &loaded->options, NULL, NULL,
                                         &error) != RESULT_OK ||
        draft_loading_load(&loaded->draft, plan, loaded->backend, &loaded->options, STREAMS_MAX,
                           &error) != RESULT_OK)
        end(&error);
}

static void unload(struct bench *bench, struct loaded *loaded)
{
    draft_loading_close(&loaded->draft);
    loaded->backend->interface->destroy(loaded->backend);
    model_close(bench->model);
}

/* --- measuring -------------------------------------------------------------------------------- */

static void open_rig(const struct bench *bench, const struct loaded *loaded,
                     struct draft_model *draft, struct engine_rig *rig)
{
    const struct plan *plan = model_plan(bench->model);
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = plan->config.vocab_tokens;
    options.context_tokens = plan->config.context_tokens;
    options.max_sequences = STREAMS_MAX;
    options.step_tokens = STEP_ROWS;
    options.logit_rows = loaded->options.max_logit_rows;
    options.mixed_prefill_tokens = 0;
    options.event_capacity = 1u << 16;
    options.recurrent = plan->state.layers > 0;
    options.backend = scripted_draws_wrap(&bench->script, SCRIPTED_TARGET, loaded->backend);
    options.layout = &plan->kv;
    options.drafter = loaded->drafts ? &suffix_drafter : NULL;
    options.draft_model = draft;
    memcpy(options.kv_blocks, loaded->options.kv_blocks, sizeof options.kv_blocks);
    engine_rig_open(rig, &options);
}

static struct draft_model *wrap_draft(const struct bench *bench, const struct loaded *loaded,
                                      struct backend **wrapped)
{
    if (!loaded->drafts)
        return NULL;
    struct draft_model_parts parts = *draft_model_parts(loaded->draft.draft);
    enum scripted_role role = parts.block_tokens > 0 ? SCRIPTED_BLOCK : SCRIPTED_LAYER;
    parts.backend = *wrapped = scripted_draws_wrap(&bench->script, role, loaded->draft.backend);
    return draft_model_create(&parts);
}

static void turn(struct engine_rig *rig)
{
    enum step_outcome outcome;
    struct error_text error = {{0}};
    if (step_loop_turn(rig->engine, &outcome, &error) != RESULT_OK)
        end(&error);
    test_frontend_collect(rig->frontend);
}

/* The fewest tokens that a stream has; *sum: of all. */
static uint32_t count_tokens(const struct engine_rig *rig, uint32_t streams, uint64_t *sum)
{
    uint32_t fewest = UINT32_MAX;
    *sum = 0;
    for (uint32_t i = 0; i < streams; i++) {
        uint32_t count = rig->frontend->replies[i].token_count;
        fewest = count < fewest ? count : fewest;
        *sum += count;
    }
    return fewest;
}

static uint64_t accepted(const struct engine_rig *rig)
{
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= LIMIT_DRAFT_TOKENS; i++)
        sum += rig->frontend->accepted_drafts[i];
    return sum;
}

static void check_tokens(const struct bench *bench, const struct engine_rig *rig, uint32_t streams)
{
    for (uint32_t i = 0; i < streams; i++)
        for (uint32_t token = 0; token < rig->frontend->replies[i].token_count; token++)
            must(rig->frontend->replies[i].tokens[token] ==
                 scripted_draws_token(&bench->script, i, bench->prompt_tokens + token));
}

static struct figures measure_streams(const struct bench *bench, struct engine_rig *rig,
                                      uint32_t streams)
{
    uint64_t began, ended, turns = 0, wanted = (uint64_t)streams * bench->answer_tokens;
    while (count_tokens(rig, streams, &began) < SETTLED && turns++ < PATIENCE)
        turn(rig);
    uint64_t drafted = rig->frontend->draft_tokens, right = accepted(rig);
    double start = now_s();
    (void)count_tokens(rig, streams, &ended);
    while (ended < began + wanted && rig->frontend->live_count == streams && turns++ < PATIENCE) {
        turn(rig);
        (void)count_tokens(rig, streams, &ended);
    }
    double took = now_s() - start, tokens = (double)(ended - began);
    right = accepted(rig) - right;
    return (struct figures){.rate = tokens / took,
                            .drafted = (double)(rig->frontend->draft_tokens - drafted),
                            .accepted = (double)right,
                            .per_step = tokens / (tokens - (double)right)};
}

static struct figures run(struct bench *bench, const struct loaded *loaded, uint32_t streams)
{
    struct engine_rig rig;
    struct backend *wrapped = NULL;
    struct draft_model *draft = wrap_draft(bench, loaded, &wrapped);
    open_rig(bench, loaded, draft, &rig);
    bench->script.engine = rig.engine;
    for (uint32_t i = 0; i < streams; i++) {
        struct test_request request =
            test_request_of(bench->prompts + (size_t)i * bench->prompt_tokens, bench->prompt_tokens,
                            SPARE + ROOM * bench->answer_tokens);
        request.sampling.temperature = 0.0f;
        must(test_frontend_submit(rig.frontend, i, &request));
    }
    struct figures figures = measure_streams(bench, &rig, streams);
    check_tokens(bench, &rig, streams);
    for (uint32_t i = 0; i < streams; i++)
        if (rig.frontend->replies[i].live)
            test_frontend_cancel(rig.frontend, i);
    while (rig.frontend->live_count > 0)
        turn(&rig);
    engine_rig_close(&rig);
    if (draft) {
        draft_model_destroy(draft);
        wrapped->interface->destroy(wrapped);
    }
    return figures;
}

static void measure(struct bench *bench, bool invariant, bool drafts, struct figures *figures)
{
    struct loaded loaded;
    open_model(bench, &loaded, drafts);
    load(bench, &loaded, invariant);
    (void)run(bench, &loaded, 1); /* clocks and caches */
    for (uint32_t i = 0; i < bench->stream_counts; i++)
        figures[i] = run(bench, &loaded, bench->streams[i]);
    unload(bench, &loaded);
}

static void make_prompts(struct bench *bench)
{
    struct loaded loaded;
    open_model(bench, &loaded, false);
    bench->prompts = must_alloc((size_t)STREAMS_MAX * bench->prompt_tokens, sizeof *bench->prompts);
    for (uint32_t i = 0; i < STREAMS_MAX * bench->prompt_tokens; i++)
        bench->prompts[i] = scripted_draws_token(&bench->script, i / bench->prompt_tokens,
                                                 i % bench->prompt_tokens);
    model_close(bench->model);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static struct figures usual[COUNTS_MAX], plain[COUNTS_MAX], drafted[COUNTS_MAX];
    parse_options(&bench, argc, argv);
    make_prompts(&bench);
    bool usual_too = on_vulkan(&bench) && bench.has_default;
    if (usual_too)
        measure(&bench, false, false, usual);
    if (bench.has_invariant) {
        measure(&bench, true, false, plain);
        measure(&bench, true, true, drafted);
    }
    printf("| streams | plain, default | plain, invariant | drafted | to default | to invariant | "
           "drafted tokens | accepted | tokens a step |\n");
    printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (uint32_t i = 0; i < bench.stream_counts; i++) {
        const struct figures *own = &drafted[i];
        printf("| %u | %.1f | %.1f | %.1f | %.2f | %.2f | %.0f | %.2f | %.2f |\n", bench.streams[i],
               usual[i].rate, plain[i].rate, own->rate, usual_too ? own->rate / usual[i].rate : 0.0,
               bench.has_invariant ? own->rate / plain[i].rate : 0.0, own->drafted,
               own->drafted > 0 ? own->accepted / own->drafted : 0.0, own->per_step);
    }
    free(bench.prompts);
    return 0;
}
