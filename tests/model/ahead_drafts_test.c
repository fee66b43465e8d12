/*
 * What the engine gives a layer that predicts a further token: each row of position p has the token at
 * p + 1 and, to the bit, the hidden state that the model computes at p over the finished sequence, each
 * such row once and in order; rows of guesses have the layer's own state of the row before. Wrong offsets
 * would change no answer, only acceptance. Requests run one after the other, prompts in chunks. A drafter that
 * reads inner states is given them in the same way, beside its own states.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "tests/support/draft_oracle.h"
#include "tests/support/drawn_request.h"
#include "tests/support/engine_rig.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"

#define REQUESTS 6u
#define PROMPT   50u
#define ANSWER   40u
#define LONGEST  (PROMPT + ANSWER)
#define BLOCKS   8u
#define CHUNK    16u /* rows of a step */
#define ROWS_MAX 2000u

struct noted_row {
    uint32_t position;
    uint32_t token;
    bool begins;   /* the first row of its run */
    float *hidden; /* [hidden] */
    float *before; /* likewise: the layer's own state of the run before; zeros: it drew nothing */
};

/* Notes what the layer's backend is given, and lets it compute. */
struct recorder {
    struct backend base;
    struct backend *inner;
    uint32_t hidden; /* columns of a row */
    uint32_t first;  /* of the layer's own state in them */
    uint32_t own;    /* columns of that */
    bool is_block;   /* of a drafter of blocks: rows of tokens alone */
    bool draws;      /* in the run under way */
    float *last; /* [hidden] its own state of the last draw, where a row has it; zeros elsewhere */
    uint32_t count;
    struct noted_row rows[ROWS_MAX];
};

static struct recorder *of(const struct backend *backend)
{
    return (struct recorder *)(uintptr_t)backend;
}

static float *copy_floats(const float *from, uint32_t count)
{
    float *to = must_alloc(count, sizeof *to);
    memcpy(to, from, count * sizeof *to);
    return to;
}

static uint32_t note_depth(const struct backend *backend)
{
    return of(backend)->inner->interface->step_depth(of(backend)->inner);
}

static enum result note_launch(struct backend *backend, const struct step_batch *batch,
                               struct error_text *error)
{
    struct recorder *recorder = of(backend);
    assert_int_equal(batch->sequence_count, 1);
    for (uint32_t i = 0; i < batch->row_count; i++) {
        must(recorder->count < ROWS_MAX);
        recorder->rows[recorder->count++] = (struct noted_row){
            .position = batch->sequences[0].first_position + i,
            .token = batch->token_ids[i],
            .begins = i == 0,
            .hidden = recorder->is_block ? NULL
                                         : copy_floats(batch->hidden + (size_t)i * recorder->hidden,
                                                       recorder->hidden),
            .before = recorder->is_block ? NULL : copy_floats(recorder->last, recorder->hidden)};
    }
    recorder->draws = batch->logit_row_count > 0;
    assert_true(!recorder->is_block || batch->logit_row_count == batch->row_count - 1);
    return recorder->inner->interface->step_launch(recorder->inner, batch, error);
}

static enum result note_wait(struct backend *backend, struct sampled_token *results,
                             struct error_text *error)
{
    struct recorder *recorder = of(backend);
    enum result result = recorder->inner->interface->step_wait(recorder->inner, results, error);
    if (recorder->hidden == 0)
        return result;
    memset(recorder->last, 0, recorder->hidden * sizeof *recorder->last);
    if (recorder->draws)
        memcpy(recorder->last + recorder->first,
               recorder->inner->interface->last_hidden(recorder->inner),
               recorder->own * sizeof *recorder->last);
    return result;
}

static const float *note_hidden(const struct backend *backend)
{
    return of(backend)->inner->interface->last_hidden(of(backend)->inner);
}

static const struct backend_interface noting = {.step_depth = note_depth,
                                                .step_launch = note_launch,
                                                .step_wait = note_wait,
                                                .last_hidden = note_hidden};

/* shares: NULL, or whose keys and values it has. */
static struct backend *load_sharing(const struct plan *plan, uint32_t rows, uint32_t logit_rows,
                                    uint32_t deferred, const struct backend *shares)
{
    struct backend *backend = cpu_backend_create();
    struct backend_options options = {.threads = 1,
                                      .lender = shares,
                                      .shares_kv = shares != NULL,
                                      .max_step_rows = rows,
                                      .max_logit_rows = logit_rows,
                                      .state_slots = 1,
                                      .deferred_places = deferred};
    struct error_text error = {""};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = BLOCKS;
    must(backend->interface->load(backend, plan, &options, NULL, NULL, &error) == RESULT_OK);
    return backend;
}

static struct backend *load(const struct plan *plan, uint32_t rows, uint32_t logit_rows,
                            uint32_t deferred)
{
    return load_sharing(plan, rows, logit_rows, deferred, NULL);
}

/* The model's hidden states over the whole sequence: [count, hidden], the caller's. */
static float *states_of(const struct plan *plan, const uint32_t *tokens, uint32_t count)
{
    static const uint32_t blocks[BLOCKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct backend *backend = load(plan, LONGEST, 1, 0);
    struct error_text error;
    const struct step_sequence sequence = {.row_count = count,
                                           .block_tables = {blocks},
                                           .state_source = STATE_SLOT_NONE,
                                           .state_copy = STATE_SLOT_NONE};
    const struct step_batch batch = {
        .row_count = count, .token_ids = tokens, .sequence_count = 1, .sequences = &sequence};
    must(backend_step_run(backend, &batch, NULL, &error) == RESULT_OK);
    float *states = copy_floats(backend->interface->last_hidden(backend),
                                count * plan->tensors[plan->hidden_out].columns);
    backend->interface->destroy(backend);
    return states;
}

/* Whether the row has these states of the target, and none of the layer's own if it has room for them. */
static bool has_states(const struct recorder *recorder, const struct noted_row *row,
                       const float *states, uint32_t columns)
{
    if (memcmp(row->hidden, states, columns * sizeof *states) != 0)
        return false;
    for (uint32_t i = columns; i < recorder->hidden; i++)
        if (row->hidden[i] > 0.0f || row->hidden[i] < 0.0f)
            return false;
    return true;
}

/* states: [count, columns]. Returns the number of rows of guesses. */
static uint32_t check_rows(struct recorder *recorder, const uint32_t *tokens, uint32_t count,
                           const float *states, uint32_t columns)
{
    uint32_t next = 0, guesses = 0, hidden = recorder->hidden;
    size_t bytes = hidden * sizeof(float);
    for (uint32_t i = 0; i < recorder->count; i++) {
        struct noted_row *row = &recorder->rows[i];
        bool real = row->position == next && next + 2 < count &&
                    has_states(recorder, row, states + (size_t)next * columns, columns);
        if (real) {
            assert_int_equal(row->token, tokens[row->position + 1]);
            next++;
        } else {
            assert_true(row->begins && row->position >= next);
            assert_memory_equal(row->hidden, row->before, bytes);
            guesses++;
        }
        free(row->hidden);
        free(row->before);
    }
    assert_int_equal(next, count - 2); /* the last token is never computed */
    recorder->count = 0;
    return guesses;
}

/* Blocks of a drafter: the last known token, and masks. Returns their number. */
static uint32_t check_blocks(struct recorder *recorder, const uint32_t *tokens, uint32_t count,
                             uint32_t mask)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < recorder->count; i++) {
        const struct noted_row *row = &recorder->rows[i];
        assert_true(row->begins || row->position == recorder->rows[i - 1].position + 1);
        assert_true(row->position < count || !row->begins);
        assert_int_equal(row->token, row->begins ? tokens[row->position] : mask);
        blocks += row->begins;
    }
    recorder->count = 0;
    return blocks;
}

/* blocks: NULL, or of a drafter of blocks. Returns the number of guesses. */
static uint32_t run_request(struct engine_rig *rig, struct recorder *recorder,
                            struct recorder *blocks, uint32_t mask, const struct plan *plan,
                            struct test_random *random)
{
    struct drawn_request drawn = {0};
    uint32_t tokens[LONGEST];
    drawn_request_begin(&drawn);
    uint32_t prompt = 2 + test_random_below(random, PROMPT - 2);
    for (uint32_t i = 0; i < prompt; i++)
        drawn_request_add_token(&drawn, test_random_below(random, 250));
    drawn_request_sample(&drawn, random, 250);
    drawn.request.stop_token_count = 0;
    drawn.request.max_new_tokens = 3 + test_random_below(random, ANSWER - 3);
    drawn_request_end(&drawn);
    memcpy(tokens, drawn.request.prompt, prompt * sizeof *tokens);
    must(test_frontend_submit(rig->frontend, 0, &drawn.request));
    engine_rig_finish(rig, 2000);
    const struct test_reply *reply = &rig->frontend->replies[0];
    memcpy(tokens + prompt, reply->tokens, reply->token_count * sizeof *tokens);
    uint32_t count = prompt + reply->token_count;
    float *states = states_of(plan, tokens, count);
    uint32_t columns = plan->tensors[plan->hidden_out].columns;
    uint32_t guesses = check_rows(recorder, tokens, count, states, columns);
    if (blocks)
        guesses += check_blocks(blocks, tokens, count, mask);
    free(states);
    drawn_request_fini(&drawn);
    return guesses;
}

static struct engine_rig_options rig_options(const struct plan *plan, struct draft_model *draft)
{
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = plan->config.vocab_tokens;
    options.context_tokens = LONGEST;
    options.max_sequences = 1;
    options.step_tokens = CHUNK;
    options.logit_rows = CHUNK;
    options.recurrent = plan->state.layers > 0;
    options.kv_blocks[0] = BLOCKS;
    options.layout = &plan->kv;
    options.backend = load(plan, CHUNK, CHUNK, options.recurrent ? STEP_DRAFTS_PLACES : 0);
    options.drafter = &suffix_drafter;
    options.draft_model = draft;
    options.draft_pace = draft_oracle_pace();
    return options;
}

static void run_requests(const struct plan *plan, struct draft_model *draft,
                         struct recorder *recorder, struct recorder *blocks)
{
    struct test_random random = {.state = 4};
    struct engine_rig_options options = rig_options(plan, draft);
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    uint32_t guesses = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        guesses += run_request(&rig, recorder, blocks, draft_model_parts(draft)->mask_token, plan,
                               &random);
    assert_true(guesses > 20);
    assert_true(rig.frontend->draft_tokens > 20);
    engine_rig_close(&rig);
}

/* Of the opened model's layer or head. */
static void check(struct model *model)
{
    static struct recorder recorder;
    const struct plan *plan = model_plan(model), *ahead = model_ahead_plan(model);
    struct draft_model_parts parts = {.backend = &recorder.base, .max_sequences = 1};
    draft_model_describe(plan, ahead, &parts);
    if (model_drafter(model))
        parts.token_map = model_drafter(model)->token_map;
    recorder = (struct recorder){.base.interface = &noting,
                                 .hidden = ahead->tensors[ahead->hidden_in].columns,
                                 .first = parts.states_apart ? parts.hidden_columns : 0,
                                 .own = parts.state_columns};
    recorder.inner = load(ahead, DRAFT_MODEL_ROWS, 1, 0);
    recorder.last = must_alloc(recorder.hidden, sizeof *recorder.last);
    struct draft_model *draft = draft_model_create(&parts);
    run_requests(plan, draft, &recorder, NULL);
    draft_model_destroy(draft);
    recorder.inner->interface->destroy(recorder.inner);
    free(recorder.last);
    model_close(model);
}

static void test_rows_of_the_layer(void **state)
{
    (void)state;
    struct model *model;
    struct error_text error;
    must(model_open("build/checkpoints/qwen3_5-ahead", &model, &error) == RESULT_OK);
    must(model_open_ahead(model, &error) == RESULT_OK);
    check(model);
}

static void test_rows_of_an_eagle_head(void **state)
{
    (void)state;
    struct model *model;
    struct error_text error;
    must(model_open("build/checkpoints/smollm3-f32.gguf", &model, &error) == RESULT_OK);
    must(model_open_drafter(model, "tests/golden/drafters/eagle3", NULL, &error) == RESULT_OK);
    check(model);
}

/* Its context has the states of the model, in order; its blocks begin with the last known token. */
static void test_rows_of_a_drafter_of_blocks(void **state)
{
    (void)state;
    static struct recorder context, blocks;
    struct model *model;
    struct error_text error;
    must(model_open("build/checkpoints/smollm3-f32.gguf", &model, &error) == RESULT_OK);
    must(model_open_drafter(model, "tests/golden/drafters/dflash", NULL, &error) == RESULT_OK);
    const struct plan *plan = model_plan(model);
    const struct target_drafter *drafter = model_drafter(model);
    struct draft_model_parts parts[2] = {{.backend = &context.base, .max_sequences = 1},
                                         {.backend = &blocks.base,
                                          .max_sequences = 1,
                                          .block_tokens = drafter->block_tokens,
                                          .mask_token = drafter->mask_token}};
    draft_model_describe(plan, drafter->context_plan, &parts[0]);
    draft_model_describe(plan, drafter->plan, &parts[1]);
    context =
        (struct recorder){.base.interface = &noting, .hidden = parts[0].hidden_columns, .own = 0};
    blocks = (struct recorder){.base.interface = &noting, .is_block = true};
    blocks.inner = load(drafter->plan, DRAFT_MODEL_ROWS, drafter->block_tokens, 0);
    context.inner = load_sharing(drafter->context_plan, DRAFT_MODEL_ROWS, 1, 0, blocks.inner);
    context.last = must_alloc(context.hidden, sizeof *context.last);
    parts[1].context = draft_model_create(&parts[0]);
    struct draft_model *draft = draft_model_create(&parts[1]);
    run_requests(plan, draft, &context, &blocks);
    draft_model_destroy(draft);
    draft_model_destroy(parts[1].context);
    context.inner->interface->destroy(context.inner);
    blocks.inner->interface->destroy(blocks.inner);
    free(context.last);
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_of_the_layer),
                                       cmocka_unit_test(test_rows_of_an_eagle_head),
                                       cmocka_unit_test(test_rows_of_a_drafter_of_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
