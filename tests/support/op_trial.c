/*
 * Builds the plan of a case and runs its steps on a backend.
 *
 * Tokens are spread over the vocabulary by a fixed sequence, so that adjacent rows differ; if the
 * vocabulary is smaller than the number of rows, some repeat. Physical KV blocks are scattered.
 *
 * In a cache of rotated codes a number between two levels may get either one's code, by how a backend
 * rounds the rotation, and the two differ visibly. Tokens with such numbers are passed over.
 */
#include "tests/support/op_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "tests/support/drawn_adapter.h"
#include "tests/support/plan_sketch.h"
#include "tests/support/test_random.h"
#include "worker/plan/kv_codec.h"
#include "worker/plan/kv_layout.h"

enum {
    BLOCKS = 64, /* physical ones, all together: 1,024 positions */
    KV_LAYERS = 2,
    KV_LAYER = 1, /* the one that is used */
    SPREAD = 61,  /* between the tokens of neighbouring rows */
    CLEAR_TRIALS = 4,
    PLACES = 64, /* of the deferred rows of a sequence in one of PLACE_STEPS steps */
    PLACE_STEPS = 4
};
#define OP_TRIAL_ADAPTERS 2u
#define CLEAR_SIZE        2e-6f /* of a row's largest number */

struct fed_row {
    struct op_trial_row row;
    bool wanted;
};

/* Deferred rows of a sequence's last part. */
struct op_trial_late {
    uint32_t rows;
    uint32_t place;
};

struct op_trial {
    struct op_case c;
    char name[96];
    struct plan_sketch *sketch;
    uint32_t vocab;
    float *inputs[OP_TRIAL_INPUTS];       /* [vocab, input_columns] */
    float *weights[OP_WEIGHTS_MAX];       /* [rows, columns] */
    uint32_t lengths[OP_TRIAL_SEQUENCES]; /* positions fed */
    uint32_t fed_count;
    struct fed_row *fed; /* [fed_count] in the order of steps */
    uint32_t output_count;
    uint32_t *outputs; /* [output_count] -> fed */
    uint32_t table_blocks;
    uint32_t *block_tables[OP_TRIAL_SEQUENCES];    /* [table_blocks] */
    uint32_t *openings[OP_TRIAL_SEQUENCES];        /* likewise; of an OPENING group */
    uint32_t *left;                                /* likewise: nothing */
    struct op_trial_late late[OP_TRIAL_SEQUENCES]; /* while it runs */
};

static bool is_kv(const struct op_case *c)
{
    return c->stem == OP_attention || c->stem == OP_kv_write;
}

/* --- the plan --- */

/* A weight of the plan and its f32 copy. */
static plan_weight_id add_weight(struct op_trial *t, enum ggml_type type, uint32_t rows,
                                 uint32_t columns, float scale, float **copy)
{
    plan_weight_id id = plan_sketch_weight(t->sketch, type, rows, columns);
    *copy = must_alloc((size_t)rows * columns, sizeof(float));
    for (uint32_t row = 0; row < rows; row++)
        plan_sketch_weight_row(t->sketch, id, row, *copy + (size_t)row * columns);
    for (size_t i = 0; i < (size_t)rows * columns; i++)
        (*copy)[i] *= scale;
    return id;
}

static void append(struct op_trial *t, enum op_stem stem, plan_tensor_id input,
                   plan_tensor_id output, plan_weight_id weight, union op_params params)
{
    plan_sketch_append(t->sketch, (struct plan_op){.stem = stem,
                                                   .inputs = {input, PLAN_NONE},
                                                   .output = output,
                                                   .weights = {weight, PLAN_NONE, PLAN_NONE},
                                                   .params = params});
}

/* The rows of `from` whose logits are wanted. */
static plan_tensor_id append_gather(struct op_trial *t, plan_tensor_id from, uint32_t columns)
{
    plan_tensor_id to = plan_sketch_tensor(t->sketch, PLAN_ROWS_LOGITS, columns);
    append(t, OP_gather_rows, from, to, PLAN_NONE, (union op_params){.gather_rows = {0}});
    return to;
}

static plan_tensor_id append_input(struct op_trial *t, uint32_t input)
{
    const struct op_case *c = &t->c;
    uint32_t columns = c->input_columns[input];
    float scale = input == 0 ? c->input_scale : 1.0f;
    plan_tensor_id tensor = plan_sketch_tensor(t->sketch, PLAN_ROWS_STEP, columns);
    plan_weight_id table =
        add_weight(t, c->input_type, t->vocab, columns, scale, &t->inputs[input]);
    append(t, OP_embed_rows, PLAN_NONE, tensor, table,
           (union op_params){.embed_rows = {.scale = scale}});
    return c->on_logit_rows ? append_gather(t, tensor, columns) : tensor;
}

static plan_weight_id append_weight(struct op_trial *t, uint32_t w)
{
    const struct op_trial_weight *weight = &t->c.weights[w];
    uint32_t experts = t->c.stem == OP_moe_linear ? t->c.input_columns[1] : 0;
    plan_weight_id id = add_weight(t, weight->type, (experts > 0 ? experts : 1) * weight->rows,
                                   weight->columns, 1.0f, &t->weights[w]);
    if (experts > 0)
        plan_sketch_split_weight(t->sketch, id, experts);
    return id;
}

static bool takes_route(const struct op_case *c)
{
    return c->stem == OP_moe_linear || c->stem == OP_moe_gate || c->stem == OP_moe_combine;
}

static plan_tensor_id append_route(struct op_trial *t, plan_tensor_id scores)
{
    enum plan_rows kind = t->c.on_logit_rows ? PLAN_ROWS_LOGITS : PLAN_ROWS_STEP;
    plan_tensor_id route = plan_sketch_tensor(t->sketch, kind, 2 * t->c.route.chosen);
    append(t, OP_moe_route, scores, route, PLAN_NONE, (union op_params){.moe_route = t->c.route});
    return route;
}

/* The pair's slices: see struct op_case. */
static void append_kv_pair(struct op_trial *t, plan_tensor_id input, plan_weight_id sinks,
                           plan_tensor_id output)
{
    struct attention_params ask = t->c.params.attention;
    struct kv_write_params write = t->c.params.kv_write;
    if (t->c.stem == OP_attention) {
        const struct column_slice *q = &ask.queries;
        uint32_t keys_at = q->offset + q->heads * q->head_dim;
        uint32_t values_at = keys_at + ask.kv_heads * q->head_dim;
        write.keys = (struct column_slice){keys_at, ask.kv_heads, q->head_dim};
        write.values = (struct column_slice){values_at, ask.kv_heads, q->head_dim};
        write.values = t->c.latent ? write.keys : write.values;
    } else {
        ask = (struct attention_params){
            .queries = write.keys, .kv_heads = write.keys.heads, .scale = 1.0f};
    }
    write.layer = ask.layer = KV_LAYER;
    ask.window = t->c.window;
    plan_sketch_set_kv(t->sketch, KV_LAYERS, ask.kv_heads, ask.queries.head_dim, ask.window);
    plan_sketch_quantize_kv(t->sketch, &t->c.quantization);
    plan_sketch_plan(t->sketch)->kv.groups[0].latent = t->c.latent;
    append(t, OP_kv_write, input, PLAN_NONE, PLAN_NONE, (union op_params){.kv_write = write});
    append(t, OP_attention, input, output, sinks, (union op_params){.attention = ask});
}

/* `op` is the moe_linear, all of the mixture's weights in it. */
static void append_experts(struct op_trial *t, struct plan_op op, enum plan_rows kind)
{
    const struct op_case *c = &t->c;
    uint32_t stacks = op.weights[2] == PLAN_NONE ? 1 : 2, chosen = c->route.chosen;
    plan_tensor_id gate_up = plan_sketch_tensor(t->sketch, kind, chosen * 2 * c->experts.wide);
    plan_tensor_id gated = plan_sketch_tensor(t->sketch, kind, chosen * c->experts.wide);
    plan_tensor_id down = plan_sketch_tensor(t->sketch, kind, chosen * c->output_columns);
    struct plan_op step = op;
    step.weights[stacks] = PLAN_NONE;
    step.output = gate_up;
    plan_sketch_append(t->sketch, step);
    step = (struct plan_op){.stem = OP_moe_gate,
                            .inputs = {gate_up, op.inputs[1]},
                            .output = gated,
                            .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                            .params = {.moe_gate = c->experts.gate}};
    plan_sketch_append(t->sketch, step);
    step.stem = OP_moe_linear;
    step.inputs[0] = gated;
    step.output = down;
    step.weights[0] = op.weights[stacks];
    step.params = (union op_params){.moe_linear = {0}};
    plan_sketch_append(t->sketch, step);
    step.stem = OP_moe_combine;
    step.inputs[0] = down;
    step.output = op.output;
    step.weights[0] = PLAN_NONE;
    step.params = (union op_params){.moe_combine = {c->input_columns[OP_TRIAL_INPUTS - 1] > 0}};
    plan_sketch_append(t->sketch, step);
}

static void build_plan(struct op_trial *t)
{
    const struct op_case *c = &t->c;
    struct plan *plan = plan_sketch_plan(t->sketch);
    enum plan_rows kind = c->on_logit_rows ? PLAN_ROWS_LOGITS : PLAN_ROWS_STEP;
    struct plan_op op = {.stem = c->stem,
                         .inputs = {PLAN_NONE, PLAN_NONE},
                         .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                         .params = c->params};
    plan->config.vocab_tokens = t->vocab;
    plan->config.rope_count = 1;
    plan->config.ropes[0] = c->rope;
    plan_sketch_set_kv(t->sketch, KV_LAYERS, 1, 64, 0); /* unless the case has its own */
    uint32_t inputs = 0;
    for (; inputs < OP_INPUTS_MAX && c->input_columns[inputs] > 0; inputs++)
        op.inputs[inputs] = append_input(t, inputs);
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++)
        op.weights[w] = append_weight(t, w);
    if (takes_route(c))
        op.inputs[1] = append_route(t, op.inputs[1]);
    if (c->stem == OP_gather_rows)
        op.output = op.inputs[0]; /* the gathering below is the op */
    else if (c->input_columns[OP_TRIAL_INPUTS - 1] > 0)
        op.output = append_input(t, OP_TRIAL_INPUTS - 1);
    else
        op.output = c->in_place ? op.inputs[inputs - 1]
                                : plan_sketch_tensor(t->sketch, kind, c->output_columns);
    if (c->stem == OP_gated_delta) /* behind a convolution's state */
        plan_sketch_set_state(t->sketch, KV_LAYERS, 7,
                              c->output_columns * c->params.gated_delta.key_dim, 5,
                              c->input_columns[0] + c->input_columns[1]);
    if (c->stem == OP_ssm_scan) /* likewise */
        plan_sketch_set_state(t->sketch, KV_LAYERS, 7, c->output_columns * c->params.ssm_scan.state,
                              5, c->input_columns[0] + c->params.ssm_scan.heads);
    if (c->stem == OP_short_conv) /* the second of two layers, as of caches */
        plan_sketch_set_state(t->sketch, KV_LAYERS, c->output_columns * (c->weights[0].columns - 1),
                              0, c->output_columns, 0);
    if (is_kv(c))
        append_kv_pair(t, op.inputs[0], op.weights[0], op.output);
    else if (c->experts.wide > 0)
        append_experts(t, op, kind);
    else if (c->stem != OP_gather_rows)
        plan_sketch_append(t->sketch, op);
    plan->logits = c->on_logit_rows ? op.output : append_gather(t, op.output, c->output_columns);
}

/* --- the rows --- */

static uint32_t step_rows(const struct op_case *c, uint32_t step)
{
    uint32_t rows = 0;
    for (uint32_t s = 0; step < OP_TRIAL_STEPS && s < OP_TRIAL_SEQUENCES; s++)
        rows += c->steps[step][s];
    return rows;
}

static void list_rows(struct op_trial *t)
{
    const struct op_case *c = &t->c;
    uint32_t every = c->wanted_every > 0 ? c->wanted_every : 1;
    for (uint32_t step = 0; step_rows(c, step) > 0; step++)
        t->fed_count += step_rows(c, step);
    t->fed = must_alloc(t->fed_count, sizeof *t->fed);
    t->outputs = must_alloc(t->fed_count, sizeof *t->outputs);
    uint32_t at = 0;
    for (uint32_t step = 0; step_rows(c, step) > 0; step++) {
        uint32_t last = at + step_rows(c, step) - 1;
        for (uint32_t s = 0, in_step = 0; s < OP_TRIAL_SEQUENCES; s++) {
            for (uint32_t i = 0; i < c->steps[step][s]; i++, in_step++, at++) {
                t->fed[at].row = (struct op_trial_row){
                    .token = at * SPREAD % t->vocab,
                    .sequence = s,
                    .position = c->first_positions[s] + t->lengths[s]++,
                };
                t->fed[at].wanted = in_step % every == 0 || at == last;
                if (t->fed[at].wanted)
                    t->outputs[t->output_count++] = at;
            }
        }
    }
}

/* Whether changes of the size of rounding errors leave the codes of row x as they are. */
static bool is_clear(const struct kv_side *side, const float *x)
{
    uint8_t *codes = must_alloc(side->bytes, 1), *others = must_alloc(side->bytes, 1);
    float *moved = must_alloc(side->head_dim, sizeof *moved), largest = 0.0f;
    bool same = true;
    for (uint32_t d = 0; d < side->head_dim; d++)
        largest = fmaxf(largest, fabsf(x[d]));
    kv_codec_encode(side, x, 0, codes);
    for (uint32_t trial = 0; trial < CLEAR_TRIALS && same; trial++) {
        for (uint32_t d = 0; d < side->head_dim; d++)
            moved[d] = x[d] + ((d * 7 + trial * 3) % 5 < 2 ? CLEAR_SIZE : -CLEAR_SIZE) * largest *
                                  (trial % 2 == 0 ? 1.0f : -1.0f);
        kv_codec_encode(side, moved, 0, others);
        same = memcmp(codes, others, side->code_bytes) == 0;
    }
    free(codes);
    free(others);
    free(moved);
    return same;
}

static bool has_clear_codes(const struct op_trial *t, const struct kv_codec *codec, uint32_t token)
{
    const struct attention_params *ask = &t->c.params.attention;
    const struct column_slice *q = &ask->queries;
    const float *row = t->inputs[0] + (size_t)token * t->c.input_columns[0];
    const float *keys = row + q->offset + q->heads * q->head_dim;
    const float *values = keys + ask->kv_heads * q->head_dim;
    bool clear = true;
    for (uint32_t h = 0; h < ask->kv_heads && clear; h++)
        clear = is_clear(&codec->key, keys + h * q->head_dim) &&
                is_clear(&codec->value, values + h * q->head_dim);
    return clear;
}

static void pass_over_unclear_tokens(struct op_trial *t)
{
    struct kv_codec codec;
    if (t->c.stem != OP_attention || t->c.quantization.scheme != KV_QUANT_TURBOQUANT)
        return;
    kv_codec_init(&codec, &t->c.quantization, t->c.params.attention.queries.head_dim);
    for (uint32_t i = 0; i < t->fed_count; i++) {
        uint32_t *token = &t->fed[i].row.token, passed = 0;
        while (!has_clear_codes(t, &codec, *token) && passed++ < t->vocab)
            *token = (*token + 1) % t->vocab;
    }
    kv_codec_fini(&codec);
}

static void make_tables(struct op_trial *t)
{
    for (uint32_t s = 0; s < OP_TRIAL_SEQUENCES; s++) {
        uint32_t blocks = (t->c.first_positions[s] + t->lengths[s]) / KV_BLOCK_TOKENS + 1;
        t->table_blocks = blocks > t->table_blocks ? blocks : t->table_blocks;
    }
    plan_sketch_plan(t->sketch)->config.context_tokens = t->table_blocks * KV_BLOCK_TOKENS;
    must(!is_kv(&t->c) || t->table_blocks * OP_TRIAL_SEQUENCES <= BLOCKS);
    t->left = must_alloc(t->table_blocks, sizeof(uint32_t));
    memset(t->left, 0xff, t->table_blocks * sizeof(uint32_t));
    for (uint32_t s = 0; s < OP_TRIAL_SEQUENCES; s++) {
        t->block_tables[s] = must_alloc(t->table_blocks, sizeof(uint32_t));
        t->openings[s] = must_alloc(t->table_blocks, sizeof(uint32_t));
        for (uint32_t b = 0; b < t->table_blocks; b++) { /* 37 and the count share no factor */
            uint32_t at = (s * t->table_blocks + b) * 37;
            t->block_tables[s][b] = (at + 5) % BLOCKS;
            t->openings[s][b] = b * KV_BLOCK_TOKENS < t->c.quantization.start_tokens
                                    ? (at + 12) % BLOCKS
                                    : KV_BLOCK_NONE;
        }
    }
}

static void write_name(struct op_trial *t)
{
    int at = snprintf(t->name, sizeof t->name, "%s", op_stem_name(t->c.stem));
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && t->c.weights[w].rows > 0; w++)
        at += snprintf(t->name + at, sizeof t->name - (size_t)at, " %s[%u, %u]",
                       ggml_type_name(t->c.weights[w].type), t->c.weights[w].rows,
                       t->c.weights[w].columns);
    snprintf(t->name + at, sizeof t->name - (size_t)at, "%s -> %u columns",
             t->c.in_place ? " in place" : "", t->c.output_columns);
}

struct op_trial *op_trial_create(const struct op_case *c)
{
    struct op_trial *t = must_alloc(1, sizeof *t);
    t->c = *c;
    t->vocab = c->output_columns;
    t->sketch = plan_sketch_create(c->output_columns * 31u + c->stem);
    write_name(t);
    build_plan(t);
    list_rows(t);
    pass_over_unclear_tokens(t);
    make_tables(t);
    return t;
}

void op_trial_destroy(struct op_trial *t)
{
    for (uint32_t i = 0; i < OP_TRIAL_INPUTS; i++)
        free(t->inputs[i]);
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX; w++)
        free(t->weights[w]);
    for (uint32_t s = 0; s < OP_TRIAL_SEQUENCES; s++) {
        free(t->block_tables[s]);
        free(t->openings[s]);
    }
    free(t->left);
    free(t->fed);
    free(t->outputs);
    plan_sketch_destroy(t->sketch);
    free(t);
}

/* --- looking --- */

const struct op_case *op_trial_case(const struct op_trial *t)
{
    return &t->c;
}

const char *op_trial_name(const struct op_trial *t)
{
    return t->name;
}

uint32_t op_trial_row_count(const struct op_trial *t)
{
    return t->output_count;
}

struct op_trial_row op_trial_row(const struct op_trial *t, uint32_t output)
{
    return t->fed[t->outputs[output]].row;
}

const float *op_trial_input(const struct op_trial *t, uint32_t input, uint32_t output)
{
    return t->inputs[input] + (size_t)op_trial_row(t, output).token * t->c.input_columns[input];
}

const float *op_trial_input_at(const struct op_trial *t, uint32_t input, uint32_t sequence,
                               uint32_t position)
{
    uint32_t at = 0;
    while (at < t->fed_count &&
           (t->fed[at].row.sequence != sequence || t->fed[at].row.position != position))
        at++;
    must(at < t->fed_count);
    return t->inputs[input] + (size_t)t->fed[at].row.token * t->c.input_columns[input];
}

const float *op_trial_weight(const struct op_trial *t, uint32_t weight)
{
    return t->weights[weight];
}

/* --- running --- */

/* Blocks of an opening that a sequence at `position` holds; after the start it holds none. */
static const uint32_t *opening_table(const struct op_trial *t, uint32_t sequence, uint32_t position)
{
    return position < t->c.quantization.start_tokens ? t->openings[sequence] : t->left;
}

/* Defers all rows of a part but the first; *late: those of the sequence's part before it. */
static void defer(const struct op_trial *t, uint32_t step, uint32_t s, struct op_trial_late *late,
                  struct step_sequence *part)
{
    if (!t->c.defers)
        return;
    part->late_rows = late->rows;
    part->late_place = late->place;
    part->deferred_rows = part->row_count - 1;
    part->deferred_place = (step % PLACE_STEPS * OP_TRIAL_SEQUENCES + s) * PLACES;
    must(part->deferred_rows <= PLACES);
    *late = (struct op_trial_late){part->deferred_rows, part->deferred_place};
}

static void run_step(struct op_trial *t, struct backend *backend, uint32_t step, uint32_t first_fed,
                     float **outputs)
{
    uint32_t rows = step_rows(&t->c, step);
    uint32_t *ids = must_alloc(rows, sizeof *ids);
    uint32_t *wanted = must_alloc(rows, sizeof *wanted);
    struct row_sampling *samplings = must_alloc(rows, sizeof *samplings);
    struct sampled_token *results = must_alloc(rows, sizeof *results);
    struct sampling_params greedy = sampling_params_default();
    struct step_sequence sequences[OP_TRIAL_SEQUENCES];
    struct step_batch batch = {.row_count = rows,
                               .token_ids = ids,
                               .sequences = sequences,
                               .logit_rows = wanted,
                               .samplings = samplings};
    struct error_text error = {""};
    for (uint32_t r = 0; r < rows; r++) {
        ids[r] = t->fed[first_fed + r].row.token;
        samplings[r] = (struct row_sampling){.params = &greedy};
        if (t->fed[first_fed + r].wanted)
            wanted[batch.logit_row_count++] = r;
    }
    for (uint32_t s = 0, row = 0; s < OP_TRIAL_SEQUENCES; s++) {
        uint32_t count = t->c.steps[step][s];
        uint32_t position = count > 0 ? t->fed[first_fed + row].row.position : 0;
        if (count > 0)
            sequences[batch.sequence_count++] = (struct step_sequence){
                .first_row = row,
                .row_count = count,
                .first_position = position,
                .block_tables = {t->block_tables[s], opening_table(t, s, position)},
                .state_slot = OP_TRIAL_SEQUENCES - 1 - s,
                .state_source = STATE_SLOT_NONE,
                .state_copy = STATE_SLOT_NONE,
                .adapter = t->c.adapter_seed > 0 ? (s + step) % (OP_TRIAL_ADAPTERS + 1) : 0};
        if (count > 0)
            defer(t, step, s, &t->late[s], &sequences[batch.sequence_count - 1]);
        row += count;
    }
    if (backend_step_run(backend, &batch, results, &error) != RESULT_OK)
        fail_msg("%s: step %u: %s", t->name, step, error.text);
    size_t count = (size_t)batch.logit_row_count * t->c.output_columns;
    memcpy(*outputs, backend->interface->last_logits(backend), count * sizeof(float));
    *outputs += count;
    free(ids);
    free(wanted);
    free(samplings);
    free(results);
}

static void load_adapters(const struct op_trial *t, struct backend *backend)
{
    struct test_random random = {.state = t->c.adapter_seed};
    for (uint32_t slot = 0; slot < OP_TRIAL_ADAPTERS && t->c.adapter_seed > 0; slot++) {
        struct lora_adapter adapter;
        struct error_text error = {""};
        drawn_adapter_init(&adapter, plan_sketch_plan(t->sketch), &random, 0);
        if (backend->interface->adapter_load(backend, slot, &adapter, &error) != RESULT_OK)
            fail_msg("%s: adapter %u: %s", t->name, slot, error.text);
        drawn_adapter_fini(&adapter);
    }
}

bool op_trial_run(struct op_trial *t, struct backend *backend,
                  const struct backend_options *options, float *outputs, struct error_text *error)
{
    struct backend_options mine = *options;
    mine.keeps_logits = true;
    mine.adapters = t->c.adapter_seed > 0;
    for (uint32_t step = 0; step_rows(&t->c, step) > 0; step++)
        if (step_rows(&t->c, step) > mine.max_step_rows)
            mine.max_step_rows = step_rows(&t->c, step);
    mine.max_logit_rows = mine.max_step_rows;
    mine.kv_blocks[0] = mine.kv_blocks[1] = BLOCKS;
    mine.state_slots = OP_TRIAL_SEQUENCES;
    mine.deferred_places = t->c.defers ? PLACE_STEPS * OP_TRIAL_SEQUENCES * PLACES : 0;
    memset(t->late, 0, sizeof t->late);
    enum result result =
        backend->interface->load(backend, plan_sketch_plan(t->sketch), &mine, NULL, NULL, error);
    if (result == RESULT_UNSUPPORTED)
        return false;
    if (result != RESULT_OK)
        fail_msg("%s: load: %s", t->name, error->text);
    load_adapters(t, backend);
    uint32_t first_fed = 0;
    for (uint32_t step = 0; step_rows(&t->c, step) > 0; step++) {
        run_step(t, backend, step, first_fed, &outputs);
        first_fed += step_rows(&t->c, step);
    }
    return true;
}
