/*
 * Every invalid input of the engine is a typed failure and leaves the engine unchanged (running and
 * waiting sequences, pools, caches of prefixes and features, byte for byte) while other requests
 * stream, and these get the same tokens as when they run alone.
 *
 * Each rule of a record is tested in tests/unit/proto/submit_record_test.c; this file tests that
 * nothing of an invalid record is kept.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/log.h"
#include "proto/must.h"
#include "proto/submit_payload.h"
#include "tests/support/request_crowd.h"
#include "worker/cache/prefix_cache.h"
#include "worker/schedule/submit_intake.h"

#define VOCAB       97u
#define PLACEHOLDER (VOCAB - 1)
#define STREAMS     3u
#define VICTIM      9u /* the slot of the broken request */

static const struct model_vision vision = {
    .patch_side = 2, .merge_side = 2, .hidden = 8, .text_hidden = 8, .stages = 3};

/* All of the engine's state that a request could touch. */
struct engine_state {
    uint32_t running;
    uint32_t waiting;
    bool draining;
    struct sequence sequences[STREAMS];
    uint32_t free_blocks[KV_GROUPS_MAX];
    uint32_t idle_blocks[KV_GROUPS_MAX];
    struct prefix_cache_figures prefixes;
    struct feature_cache_figures features;
    uint64_t patch_work;
};

static void look(const struct engine_rig *rig, struct engine_state *state)
{
    const struct worker_engine *engine = rig->engine;
    memset(state, 0, sizeof *state);
    state->running = sequence_table_running(engine->table);
    state->waiting = sequence_table_waiting(engine->table);
    state->draining = engine->draining;
    for (uint32_t slot = 0; slot < STREAMS; slot++) {
        const struct sequence *sequence =
            sequence_table_find(engine->table, rig->frontend->replies[slot].id);
        must(sequence != NULL);
        memcpy(&state->sequences[slot], sequence, sizeof *sequence);
    }
    for (uint32_t group = 0; group < engine->pools.layout->group_count; group++) {
        state->free_blocks[group] = kv_block_pool_free(engine->pools.group[group]);
        state->idle_blocks[group] = kv_block_pool_idle(engine->pools.group[group]);
    }
    state->prefixes = prefix_cache_figures(engine->pools.prefixes);
    state->features = feature_cache_figures(engine->pools.features);
    state->patch_work = engine->patch_work;
}

/* A request that is fine, and what a case makes of it. */
struct broken {
    struct drawn_request drawn;
    struct drawn_catalog catalog;
    uint32_t forced[4];
};

static void make_good(struct broken *broken)
{
    struct test_random random = {.state = 6};
    drawn_request_begin(&broken->drawn);
    drawn_request_add_text(&broken->drawn, &random, 20, 3);
    drawn_request_add_image(&broken->drawn, &broken->catalog, 1, &random);
    drawn_request_add_text(&broken->drawn, &random, 5, 3);
    drawn_request_sample(&broken->drawn, &random, VOCAB);
    memset(broken->forced, 0, sizeof broken->forced);
    struct test_request *request = &broken->drawn.request;
    request->max_new_tokens = 3;
    request->stop_token_count = 2;
    request->logit_bias_count = 2;
    request->flags = 0;
    request->forced_ids = broken->forced;
    request->prefix_count = request->think_start_count = request->think_end_count = 1;
    drawn_request_end(&broken->drawn);
}

static struct image_record *record_of(struct broken *broken)
{
    return (struct image_record *)(void *)broken->drawn.part;
}

static void no_prompt(struct broken *b)
{
    b->drawn.request.prompt_tokens = 0;
    b->drawn.request.image_count = 0;
    b->drawn.request.image_bytes = 0;
}
static void no_new_tokens(struct broken *b)
{
    b->drawn.request.max_new_tokens = 0;
}
static void nothing_but_generated(struct broken *b)
{
    b->drawn.request.generated_tokens = b->drawn.request.prompt_tokens;
}
static void prompt_id(struct broken *b)
{
    b->drawn.prompt[7] = VOCAB;
}
static void prompt_id_of_a_draw(struct broken *b)
{
    b->drawn.prompt[0] = STEP_TOKEN_SAMPLED;
}
static void stop_id(struct broken *b)
{
    b->drawn.stop_ids[1] = UINT32_MAX;
}
static void bias_id(struct broken *b)
{
    b->drawn.bias[1].token = VOCAB;
}
static void bias_that_is_no_number(struct broken *b)
{
    b->drawn.bias[0].bias = (float)NAN;
}
static void forced_id(struct broken *b)
{
    b->forced[2] = VOCAB;
}
static void temperature(struct broken *b)
{
    b->drawn.request.sampling.temperature = -1.0f;
}
static void unknown_flag(struct broken *b)
{
    b->drawn.request.flags = 1u << 31;
}
static void thinking_without_end(struct broken *b)
{
    b->drawn.request.think_end_count = 0;
    b->drawn.request.flags = SUBMIT_FLAG_THINKING_OPEN;
}
static void alternatives_without_logprobs(struct broken *b)
{
    b->drawn.request.top_logprobs = 1;
}
static void too_many_alternatives(struct broken *b)
{
    b->drawn.request.flags = SUBMIT_FLAG_LOGPROBS;
    b->drawn.request.top_logprobs = LIMIT_TOP_LOGPROBS + 1;
}
static void more_images_than_records(struct broken *b)
{
    b->drawn.request.image_count = 2;
}
static void placeholders_of_another_size(struct broken *b)
{
    record_of(b)->width += 4;
    record_of(b)->pixels_bytes = (uint64_t)record_of(b)->width * record_of(b)->height * 3;
}
static void span_behind_the_prompt(struct broken *b)
{
    record_of(b)->first_token = 1000;
}
static void span_that_begins_with_text(struct broken *b)
{
    record_of(b)->first_token -= 1;
}
static void pixels_elsewhere(struct broken *b)
{
    record_of(b)->pixels_offset = 1u << 30;
}
static void longer_than_the_context(struct broken *b)
{
    no_prompt(b);
    b->drawn.request.prompt_tokens = 300;
}

static const struct {
    const char *name;
    void (*make)(struct broken *broken);
    enum result failure;
} cases[] = {
    {"no prompt", no_prompt, RESULT_CORRUPT},
    {"no new tokens", no_new_tokens, RESULT_CORRUPT},
    {"nothing but generated tokens", nothing_but_generated, RESULT_CORRUPT},
    {"a prompt id", prompt_id, RESULT_INVALID},
    {"a prompt id that names a draw", prompt_id_of_a_draw, RESULT_INVALID},
    {"a stop id", stop_id, RESULT_INVALID},
    {"a bias' id", bias_id, RESULT_INVALID},
    {"a bias that is no number", bias_that_is_no_number, RESULT_INVALID},
    {"a forced id", forced_id, RESULT_INVALID},
    {"a temperature", temperature, RESULT_CORRUPT},
    {"an unknown flag", unknown_flag, RESULT_CORRUPT},
    {"thinking without an end", thinking_without_end, RESULT_CORRUPT},
    {"alternatives without logprobs", alternatives_without_logprobs, RESULT_CORRUPT},
    {"too many alternatives", too_many_alternatives, RESULT_CORRUPT},
    {"more images than records", more_images_than_records, RESULT_CORRUPT},
    {"placeholders of another size", placeholders_of_another_size, RESULT_CORRUPT},
    {"a span behind the prompt", span_behind_the_prompt, RESULT_CORRUPT},
    {"a span that begins with text", span_that_begins_with_text, RESULT_INVALID},
    {"pixels elsewhere", pixels_elsewhere, RESULT_CORRUPT},
    {"a prompt longer than the context", longer_than_the_context, RESULT_CONTEXT_EXCEEDED},
};

static struct engine_rig_options rig_options(void)
{
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = VOCAB;
    options.context_tokens = 200;
    options.prefix_cache = true;
    options.vision = &vision;
    options.patch_rows = 200;
    options.feature_rows = 64;
    options.kept_images = 4;
    return options;
}

/* Some stream, and the last one waits for its turn. */
static void start_streams(struct engine_rig *rig, struct drawn_request *streams)
{
    struct test_random random = {.state = 4};
    for (uint32_t slot = 0; slot < STREAMS; slot++) {
        drawn_request_begin(&streams[slot]);
        drawn_request_add_text(&streams[slot], &random, 40, 3);
        streams[slot].request.max_new_tokens = 150;
        streams[slot].request.flags = SUBMIT_FLAG_IGNORE_END;
        drawn_request_end(&streams[slot]);
        assert_true(test_frontend_submit(rig->frontend, slot, &streams[slot].request));
    }
    for (uint32_t turn = 0; turn < 6; turn++)
        engine_rig_turn(rig);
    test_frontend_collect(rig->frontend);
}

static void check_untouched(struct engine_rig *rig, const char *name)
{
    struct engine_state before, after;
    look(rig, &before);
    must(submit_intake_drain(rig->engine) == RESULT_OK);
    look(rig, &after);
    if (memcmp(&before, &after, sizeof before) != 0)
        fail_msg("%s changed the engine", name);
    must(frontend_link_flush(rig->link) == RESULT_OK);
    test_frontend_collect(rig->frontend);
}

static void test_requests(void **state)
{
    (void)state;
    static struct drawn_request streams[STREAMS];
    static struct broken broken;
    struct engine_rig rig;
    struct engine_rig_options options = rig_options();
    options.max_sequences = STREAMS - 1;
    engine_rig_open(&rig, &options);
    drawn_catalog_make(&broken.catalog, 2, 4, PLACEHOLDER);
    start_streams(&rig, streams);
    const struct test_reply *reply = &rig.frontend->replies[VICTIM];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_good(&broken);
        cases[i].make(&broken);
        assert_true(test_frontend_submit(rig.frontend, VICTIM, &broken.drawn.request));
        check_untouched(&rig, cases[i].name);
        if (reply->live || reply->failure != cases[i].failure || reply->token_count > 0)
            fail_msg("%s: %s", cases[i].name, result_name(reply->failure));
        engine_rig_turn(&rig);
        test_frontend_collect(rig.frontend);
    }
    make_good(&broken); /* and with nothing broken it runs */
    assert_true(test_frontend_submit(rig.frontend, VICTIM, &broken.drawn.request));
    engine_rig_finish(&rig, 2000);
    engine_rig_check_reply(&rig, &broken.drawn.request, reply);
    for (uint32_t slot = 0; slot < STREAMS; slot++) {
        engine_rig_check_reply(&rig, &streams[slot].request, &rig.frontend->replies[slot]);
        drawn_request_fini(&streams[slot]);
    }
    assert_int_equal(payload_slab_used_bytes(rig.frontend->slab), 0);
    engine_rig_close(&rig);
    drawn_request_fini(&broken.drawn);
    drawn_catalog_fini(&broken.catalog);
}

/* Records whose counts and payload disagree, of unknown requests. */
static void test_records(void **state)
{
    (void)state;
    static struct drawn_request streams[STREAMS];
    struct engine_rig rig;
    struct engine_rig_options options = rig_options();
    options.max_sequences = STREAMS - 1;
    engine_rig_open(&rig, &options);
    start_streams(&rig, streams);
    const _Atomic uint64_t *rejected = &rig.frontend->pair.segment.gauges->rejected_records_total;
    struct submit_record good = {.kind = SUBMIT_RUN,
                                 .request = {.slot = VICTIM, .generation = 77},
                                 .run.prompt_tokens = 8,
                                 .run.max_new_tokens = 1,
                                 .payload_offset = 64,
                                 .payload_generation = 12345,
                                 .run.sampling = sampling_params_default()};
    good.payload_bytes = submit_payload_bytes(&good.run);
    const struct {
        const char *name;
        size_t offset;
        uint32_t value;
        uint32_t rejected;
    } lies[] = {
        {"a payload that is not there", offsetof(struct submit_record, payload_generation), 1, 1},
        {"fewer bytes than ids", offsetof(struct submit_record, run.prompt_tokens), 9, 1},
        {"stop ids without bytes", offsetof(struct submit_record, run.stop_token_count), 1, 1},
        {"biases without bytes", offsetof(struct submit_record, run.logit_bias_count), 1, 1},
        {"forced ids without bytes", offsetof(struct submit_record, run.prefix_count), 1, 1},
        {"images without bytes", offsetof(struct submit_record, run.image_count), 1, 1},
        {"a first token of an empty range", offsetof(struct submit_record, run.speech.first_from),
         1, 1},
        {"a slot beyond the table", offsetof(struct submit_record, request), UINT32_MAX, 1},
        {"no kind", offsetof(struct submit_record, kind), 0, 1},
        {"a cancel of an unknown request", offsetof(struct submit_record, kind), SUBMIT_CANCEL, 0},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct submit_record record = good;
        uint64_t before = atomic_load(rejected);
        memcpy((uint8_t *)&record + lies[i].offset, &lies[i].value, sizeof lies[i].value);
        test_frontend_send(rig.frontend, &record);
        check_untouched(&rig, lies[i].name);
        if (atomic_load(rejected) - before != lies[i].rejected)
            fail_msg("%s: %llu records refused", lies[i].name,
                     (unsigned long long)(atomic_load(rejected) - before));
    }
    engine_rig_finish(&rig, 2000);
    for (uint32_t slot = 0; slot < STREAMS; slot++) {
        engine_rig_check_reply(&rig, &streams[slot].request, &rig.frontend->replies[slot]);
        drawn_request_fini(&streams[slot]);
    }
    engine_rig_close(&rig);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
