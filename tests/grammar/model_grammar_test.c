/*
 * Answers of the demo model on the CPU backend under a grammar of JSON objects, with the tokens of
 * its own tokenizer: each that ends is such an object, and is the same alone and among others that
 * preempt it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/assets/model_assets.h"
#include "frontend/grammar/grammar_builder.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/log.h"
#include "proto/must.h"
#include "tests/support/engine_rig.h"
#include "worker/backend/host/backend.h"
#include "worker/model/model.h"

#define DEMO     "tests/model/demo"
#define REQUESTS 64u
#define ANSWER   80u
#define PROMPT   16u

static struct model *model;
static struct model_assets assets;
static struct grammar_blob_out blob;

static regex_id literal(struct grammar_builder *b, const char *text)
{
    return grammar_regex_literal(b, text, strlen(text));
}

/* {"name": "…", "sizes": [N, …]}: up to 12 printable characters, one to three numbers. */
static void build_blob(void)
{
    struct grammar_builder *b = grammar_builder_open(&(struct grammar_bounds){0});
    const struct code_point_range letters[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}};
    const struct code_point_range digits = {'0', '9'}, first = {'1', '9'};
    regex_id number = grammar_regex_concat(
        b, grammar_regex_code_points(b, &first, 1),
        grammar_regex_repeat(b, grammar_regex_code_points(b, &digits, 1), 0, 3));
    regex_id name = grammar_regex_repeat(b, grammar_regex_code_points(b, letters, 3), 0, 12);
    symbol_id numbers = grammar_separated(b, grammar_terminal(b, number),
                                          grammar_terminal(b, literal(b, ", ")), 1, 3);
    const symbol_id parts[] = {grammar_terminal(b, literal(b, "{\"name\": \"")),
                               grammar_terminal(b, name),
                               grammar_terminal(b, literal(b, "\", \"sizes\": [")), numbers,
                               grammar_terminal(b, literal(b, "]}"))};
    must(grammar_builder_finish(b, grammar_sequence(b, parts, sizeof parts / sizeof parts[0]),
                                &blob));
    grammar_builder_close(b);
}

static int setup(void **state)
{
    (void)state;
    struct error_text error;
    must(model_open(DEMO, &model, &error) == RESULT_OK);
    must(model_assets_open(&(struct model_assets_options){.path = DEMO}, &assets, &error) ==
         RESULT_OK);
    must(assets.stop_id_count > 0);
    build_blob();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(blob.bytes);
    model_assets_close(&assets);
    model_close(model);
    return 0;
}

/* --- the engine ------------------------------------------------------------------------------- */

static void send_vocabulary(struct engine_rig *rig)
{
    struct token_table_sizes sizes = {rig->options.vocab_tokens, assets.stop_id_count, 0};
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t *payload = must_alloc(token_table_bytes(&sizes) / 4 + 1, sizeof *payload);
        struct token_table table = token_table_place(&sizes, payload);
        uint32_t used = 0;
        for (uint32_t id = 0; id < sizes.token_count; id++) {
            const char *bytes;
            size_t length;
            tokenizer_token_bytes(assets.tokenizer, id, &bytes, &length);
            if (tokenizer_is_special(assets.tokenizer, id))
                length = 0;
            table.offsets[id] = used;
            if (pass == 1 && length > 0)
                memcpy(table.text + used, bytes, length);
            used += (uint32_t)length;
        }
        table.offsets[sizes.token_count] = used;
        memcpy(table.end_tokens, assets.stop_ids, assets.stop_id_count * sizeof(uint32_t));
        sizes.text_bytes = used;
        if (pass == 1)
            test_frontend_send_vocabulary(rig->frontend, &sizes, payload);
        free(payload);
    }
}

static void open_engine(struct engine_rig *rig, uint32_t blocks)
{
    const struct plan *plan = model_plan(model);
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = plan->config.vocab_tokens;
    options.step_tokens = 64;
    options.backend = cpu_backend_create();
    options.layout = &plan->kv;
    struct backend_options load = {.threads = 2,
                                   .kv_type = KV_CACHE_F32,
                                   .max_step_rows = options.step_tokens,
                                   .max_logit_rows = options.max_sequences};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = load.kv_blocks[group] = blocks;
    must(options.backend->interface->load(options.backend, plan, &load, NULL, NULL, NULL) ==
         RESULT_OK);
    engine_rig_open(rig, &options);
    send_vocabulary(rig);
}

static void submit(struct engine_rig *rig, uint32_t slot)
{
    uint32_t prompt[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = 300 + (slot * 7919 + i * 104729) % 3000;
    struct test_request request = test_request_of(prompt, 4 + slot % 12, ANSWER);
    request.sampling.seed = slot + 1;
    request.sampling.temperature = slot % 4 == 0 ? 0.0f : 1.0f;
    request.stop_ids = assets.stop_ids;
    request.stop_token_count = assets.stop_id_count;
    request.grammar = blob.bytes;
    request.grammar_bytes = (uint32_t)blob.size;
    assert_true(test_frontend_submit(rig->frontend, slot, &request));
}

/* Whether the answer is one of the objects, read by another program. */
static bool is_object(const struct test_reply *reply)
{
    char text[ANSWER * 64] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < reply->token_count; i++) {
        const char *bytes;
        size_t length;
        tokenizer_token_bytes(assets.tokenizer, reply->tokens[i], &bytes, &length);
        if (tokenizer_is_special(assets.tokenizer, reply->tokens[i]))
            length = 0;
        must(used + length < sizeof text);
        memcpy(text + used, bytes, length);
        used += length;
    }
    cJSON *object = cJSON_ParseWithLength(text, used);
    const cJSON *sizes = cJSON_GetObjectItemCaseSensitive(object, "sizes");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "name"));
    bool good = name && strlen(name) <= 12 && cJSON_IsArray(sizes) &&
                cJSON_GetArraySize(object) == 2 && cJSON_GetArraySize(sizes) >= 1 &&
                cJSON_GetArraySize(sizes) <= 3;
    cJSON_Delete(object);
    return good;
}

static void answers_are_objects_and_the_same_alone(void **state)
{
    (void)state;
    static uint32_t alone[REQUESTS][ANSWER];
    static uint32_t counts[REQUESTS];
    struct engine_rig rig;
    uint32_t whole = 0;
    open_engine(&rig, 64);
    for (uint32_t slot = 0; slot < REQUESTS; slot++) {
        submit(&rig, slot);
        engine_rig_finish(&rig, 1000);
        const struct test_reply *reply = &rig.frontend->replies[slot];
        assert_int_equal(reply->failure, RESULT_OK);
        counts[slot] = reply->token_count;
        memcpy(alone[slot], reply->tokens, reply->token_count * sizeof *reply->tokens);
        if (reply->finish == FINISH_LENGTH)
            continue;
        assert_int_equal(reply->finish, FINISH_GRAMMAR);
        assert_true(is_object(reply));
        whole++;
    }
    assert_true(whole > REQUESTS / 2);
    engine_rig_close(&rig);
    open_engine(&rig, 10); /* about two answers at once */
    for (uint32_t slot = 0; slot < REQUESTS; slot++)
        submit(&rig, slot);
    engine_rig_finish(&rig, 50000);
    for (uint32_t slot = 0; slot < REQUESTS; slot++) {
        const struct test_reply *reply = &rig.frontend->replies[slot];
        assert_int_equal(reply->failure, RESULT_OK);
        assert_int_equal(reply->token_count, counts[slot]);
        assert_memory_equal(reply->tokens, alone[slot], counts[slot] * sizeof(uint32_t));
    }
    assert_true(engine_rig_preemptions(&rig) > 5);
    engine_rig_close(&rig);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_objects_and_the_same_alone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
