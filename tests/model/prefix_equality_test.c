/*
 * Real models with the prefix cache on, thrashing and off: random conversations that go on, branch
 * and share their beginnings give the same tokens, family by family: full attention, sliding
 * windows beside it, recurrent states. Each request runs in two engines at once, of which one has
 * the cache, in whatever company it meets there.
 *
 * Log-probabilities of what is drawn are compared bit for bit, so one wrong key is seen long before
 * it would change a token.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/engine_rig.h"
#include "tests/support/test_random.h"
#include "worker/backend/backend.h"
#include "worker/model/model.h"

#define SLOTS         10u
#define TEXT_MAX      260u
#define CONVERSATIONS 4u
#define VOCABULARY    200u /* ids of the prompts: below that of every tiny checkpoint */

struct conversation {
    uint32_t text[TEXT_MAX];
    uint32_t tokens;
};

struct owned_request {
    struct test_request request;
    uint32_t prompt[TEXT_MAX];
    uint32_t conversation;
    bool used;
};

struct scene {
    struct model *model;
    struct engine_rig rigs[2]; /* with the cache, and without */
    struct test_random random;
    struct conversation conversations[CONVERSATIONS];
    struct owned_request owned[SLOTS];
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
};

static struct backend *load(const struct model *model, const struct engine_rig_options *options)
{
    struct error_text error;
    struct backend *backend = cpu_backend_create();
    struct backend_options wanted = {.threads = 1,
                                     .max_step_rows = options->step_tokens,
                                     .max_logit_rows = options->max_sequences,
                                     .state_slots =
                                         options->max_sequences + options->checkpoint_slots};
    memcpy(wanted.kv_blocks, options->kv_blocks, sizeof wanted.kv_blocks);
    must(backend->interface->load(backend, model_plan(model), &wanted, NULL, NULL, &error) ==
         RESULT_OK);
    return backend;
}

static void open_scene(struct scene *scene, const char *path, uint32_t sequences)
{
    struct error_text error;
    *scene = (struct scene){.random = {.state = 20261122}};
    must(model_open(path, &scene->model, &error) == RESULT_OK);
    const struct plan *plan = model_plan(scene->model);
    for (uint32_t i = 0; i < 2; i++) {
        struct engine_rig_options options = engine_rig_defaults();
        options.layout = &plan->kv;
        options.vocab_tokens = plan->config.vocab_tokens;
        options.context_tokens = TEXT_MAX;
        options.step_tokens = 48;
        options.mixed_prefill_tokens = 24;
        options.recurrent = plan->state.layers > 0;
        options.prefix_cache = i == 0;
        options.checkpoint_slots = i == 0 && options.recurrent ? 3 * sequences : 0;
        for (uint32_t group = 0; group < plan->kv.group_count; group++)
            options.kv_blocks[group] =
                sequences * kv_layout_blocks_needed(&plan->kv, group, TEXT_MAX, 48) + 1;
        options.backend = load(scene->model, &options);
        engine_rig_open(&scene->rigs[i], &options);
    }
}

static void make_request(struct scene *scene, struct owned_request *owned)
{
    struct test_random *random = &scene->random;
    owned->conversation = test_random_below(random, CONVERSATIONS);
    const struct conversation *from =
        &scene->conversations[test_random_below(random, 4) ? owned->conversation : 0];
    uint32_t shared =
        test_random_below(random, 3) ? from->tokens : test_random_below(random, from->tokens + 1);
    uint32_t more = 1 + test_random_below(random, 24);
    if (shared + more > TEXT_MAX - 30)
        shared = 0;
    memcpy(owned->prompt, from->text, shared * sizeof owned->prompt[0]);
    for (uint32_t i = 0; i < more; i++)
        owned->prompt[shared + i] = test_random_below(random, VOCABULARY);
    owned->used = true;
    owned->request = (struct test_request){.prompt = owned->prompt,
                                           .prompt_tokens = shared + more,
                                           .max_new_tokens = 1 + test_random_below(random, 20),
                                           .flags = SUBMIT_FLAG_IGNORE_END | SUBMIT_FLAG_LOGPROBS,
                                           .sampling = sampling_params_default()};
    owned->request.sampling.temperature = test_random_below(random, 2) ? 0.0f : 1.0f;
    owned->request.sampling.seed = test_random_next(random);
}

static void settle(struct scene *scene, uint32_t slot)
{
    struct owned_request *owned = &scene->owned[slot];
    const struct test_reply *with = &scene->rigs[0].frontend->replies[slot];
    const struct test_reply *without = &scene->rigs[1].frontend->replies[slot];
    assert_int_equal(with->failure, RESULT_OK);
    assert_int_equal(with->finish, FINISH_LENGTH);
    assert_int_equal(with->token_count, without->token_count);
    assert_memory_equal(with->tokens, without->tokens, with->token_count * sizeof(uint32_t));
    assert_memory_equal(with->logprobs, without->logprobs, with->token_count * sizeof(float));
    scene->prompt_tokens += owned->request.prompt_tokens;
    scene->cached_tokens += with->cached_tokens;
    struct conversation *to = &scene->conversations[owned->conversation];
    to->tokens = owned->request.prompt_tokens + with->token_count;
    memcpy(to->text, owned->prompt, owned->request.prompt_tokens * sizeof to->text[0]);
    memcpy(to->text + owned->request.prompt_tokens, with->tokens,
           with->token_count * sizeof to->text[0]);
    owned->used = false;
}

static void take_turn(struct scene *scene, uint32_t *submitted, uint32_t *finished,
                      uint32_t requests)
{
    uint32_t slot = test_random_below(&scene->random, SLOTS);
    struct owned_request *owned = &scene->owned[slot];
    if (!owned->used && *submitted < requests) {
        make_request(scene, owned);
        for (uint32_t i = 0; i < 2; i++)
            must(test_frontend_submit(scene->rigs[i].frontend, slot, &owned->request));
        (*submitted)++;
    }
    for (uint32_t i = 0; i < 2; i++) {
        engine_rig_turn(&scene->rigs[i]);
        test_frontend_collect(scene->rigs[i].frontend);
    }
    for (slot = 0; slot < SLOTS; slot++) {
        if (!scene->owned[slot].used || scene->rigs[0].frontend->replies[slot].live ||
            scene->rigs[1].frontend->replies[slot].live)
            continue;
        settle(scene, slot);
        (*finished)++;
    }
}

/* `sequences`: the longest ones that the memory holds at once. */
static void check(const char *path, uint32_t sequences, uint32_t requests, double least_share)
{
    struct scene *scene = must_alloc(1, sizeof *scene);
    open_scene(scene, path, sequences);
    uint32_t submitted = 0, finished = 0, turns = 0;
    while (finished < requests) {
        must(turns++ < requests * 200);
        take_turn(scene, &submitted, &finished, requests);
    }
    double share = (double)scene->cached_tokens / (double)scene->prompt_tokens;
    print_message("%s, memory for %u: %.2f of all prompt tokens were there\n", path, sequences,
                  share);
    assert_true(share > least_share);
    for (uint32_t i = 0; i < 2; i++)
        engine_rig_close(&scene->rigs[i]);
    model_close(scene->model);
    free(scene);
}

static void test_full_attention(void **state)
{
    (void)state;
    check("build/checkpoints/llama-bf16", 20, 200, 0.5);
    check("build/checkpoints/llama-bf16", 1, 100, 0.3);
}

static void test_sliding_windows(void **state)
{
    (void)state;
    check("build/checkpoints/gemma3-bf16", 20, 200, 0.5);
    check("build/checkpoints/gemma3-bf16", 2, 100, 0.1);
}

static void test_gated_delta_nets(void **state)
{
    (void)state;
    check("build/checkpoints/qwen3_5-bf16", 20, 200, 0.5);
    check("build/checkpoints/qwen3_5-bf16", 2, 50, 0.1);
}

static void test_short_convolutions(void **state)
{
    (void)state;
    check("build/checkpoints/lfm2-bf16", 20, 150, 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_attention),
        cmocka_unit_test(test_sliding_windows),
        cmocka_unit_test(test_gated_delta_nets),
        cmocka_unit_test(test_short_convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
