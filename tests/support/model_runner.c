/*
 * Paged memory and steps for model tests, without scheduler or block pool. The free list is a stack
 * of ids in scattered order, so consecutive blocks of a sequence are not adjacent in memory, and a
 * freed block is the next one taken.
 */
#include "tests/support/model_runner.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/mapped_file.h"
#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "worker/model/lora/lora_file.h"

#define MODEL_RUNNER_RANGES     256u /* of features that rows of a step attend to */
#define MODEL_RUNNER_PATCH_ROWS 4096u

struct slot {
    uint32_t position;
    uint32_t *tables[KV_GROUPS_MAX];    /* [table_blocks] */
    uint32_t first_held[KV_GROUPS_MAX]; /* blocks before this one were freed */
    uint32_t kept_position;             /* after which state was kept; 0: none kept */
    bool rewound;                       /* the next rows begin with the kept state */
    uint32_t room;                      /* positions with blocks, at least `position` */
    uint32_t drafts;                    /* of its last part */
    uint32_t late;                      /* of them, accepted and not in the state yet */
    uint32_t half;                      /* of its places, which keeps these drafts */
};

struct model_runner {
    struct model *model;
    struct backend *backend;
    struct model_runner_options options;
    uint32_t table_blocks;
    uint32_t *free_blocks[KV_GROUPS_MAX]; /* stacks */
    uint32_t free_count[KV_GROUPS_MAX];
    struct slot slots[MODEL_RUNNER_SEQUENCES_MAX];
    /* One step's batch. */
    uint32_t *token_ids;
    uint32_t *feature_rows;
    struct rope_position *rope_positions;
    uint32_t *visible_ends;
    struct row_crossing *crossed;
    struct feature_range ranges[MODEL_RUNNER_RANGES];
    uint32_t *logit_rows;
    struct row_sampling *samplings;
    struct sampled_token *results;
    struct step_sequence sequences[MODEL_RUNNER_SEQUENCES_MAX];
    struct sampling_params greedy;
};

static void check(enum result result, const struct error_text *error)
{
    if (result == RESULT_OK)
        return;
    fprintf(stderr, "model_runner: %s: %s\n", result_name(result), error->text);
    exit(1);
}

static const struct kv_layout *layout_of(const struct model_runner *runner)
{
    return &model_plan(runner->model)->kv;
}

/* Ids 0..count-1 in steps of a stride that has no common divisor with the count. */
static void fill_free_blocks(struct model_runner *runner, uint32_t group, uint32_t count)
{
    uint32_t stride = 7;
    while (count % stride == 0)
        stride++; /* 7 and its successors: the first that does not divide may still share a factor
                   */
    uint32_t a = stride, b = count;
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    stride = a == 1 ? stride : 1;
    runner->free_blocks[group] = must_alloc(count, sizeof(uint32_t));
    runner->free_count[group] = count;
    for (uint32_t i = 0; i < count; i++)
        runner->free_blocks[group][i] = (uint32_t)((uint64_t)i * stride % count);
}

static void load(struct model_runner *runner)
{
    const struct model_runner_options *o = &runner->options;
    struct backend_options options = {
        .threads = o->threads,
        .cpu_tier = o->cpu_tier,
        .activation_bits = o->activation_bits,
        .kv_type = o->kv_type,
        .keeps_logits = true,
        .adapters = o->adapters,
        .max_step_rows = o->step_rows,
        .max_logit_rows = o->logit_rows > 0 ? o->logit_rows : o->step_rows,
    };
    struct error_text error = {""};
    options.deferred_places = 2 * MODEL_RUNNER_DRAFTS_MAX * o->sequences;
    options.state_slots = 2 * o->sequences; /* each sequence has a second slot for its kept state */
    if (o->feature_rows > 0) {
        options.vision = model_vision_plan(runner->model);
        options.max_patch_rows = MODEL_RUNNER_PATCH_ROWS;
        options.feature_rows = o->feature_rows;
    }
    for (uint32_t group = 0; group < layout_of(runner)->group_count; group++) {
        uint32_t each =
            kv_layout_blocks_needed(layout_of(runner), group, o->sequence_tokens, o->step_rows);
        options.kv_blocks[group] = each * o->sequences;
        fill_free_blocks(runner, group, options.kv_blocks[group]);
    }
    if (o->vulkan)
        options.vulkan = *o->vulkan;
    options.stage_count = o->stage_count;
    memcpy(options.stages, o->stages, sizeof options.stages);
    runner->backend = o->stage_count > 0 ? split_backend_create()
                      : o->vulkan        ? vulkan_backend_create()
                                         : cpu_backend_create();
    check(runner->backend->interface->load(runner->backend, model_plan(runner->model), &options,
                                           NULL, NULL, &error),
          &error);
}

struct model_runner *model_runner_create(const char *path,
                                         const struct model_runner_options *options)
{
    struct model_runner *runner = must_alloc(1, sizeof(*runner));
    struct error_text error = {""};
    must(options->sequences <= MODEL_RUNNER_SEQUENCES_MAX);
    runner->options = *options;
    runner->greedy = sampling_params_default();
    check(model_open(path, &runner->model, &error), &error);
    if (options->tower)
        check(model_open_tower(runner->model, options->tower, &error), &error);
    check(model_quantize_kv(runner->model, &options->quantization, &error), &error);
    load(runner);
    runner->table_blocks = options->sequence_tokens / KV_BLOCK_TOKENS + 1;
    for (uint32_t slot = 0; slot < options->sequences; slot++)
        for (uint32_t group = 0; group < layout_of(runner)->group_count; group++)
            runner->slots[slot].tables[group] = must_alloc(runner->table_blocks, sizeof(uint32_t));
    runner->token_ids = must_alloc(options->step_rows, sizeof(*runner->token_ids));
    runner->feature_rows = must_alloc(options->step_rows, sizeof(*runner->feature_rows));
    runner->rope_positions = must_alloc(options->step_rows, sizeof(*runner->rope_positions));
    runner->visible_ends = must_alloc(options->step_rows, sizeof(*runner->visible_ends));
    runner->crossed = must_alloc(options->step_rows, sizeof(*runner->crossed));
    runner->logit_rows = must_alloc(options->step_rows, sizeof(*runner->logit_rows));
    runner->samplings = must_alloc(options->step_rows, sizeof(*runner->samplings));
    runner->results = must_alloc(options->step_rows, sizeof(*runner->results));
    return runner;
}

void model_runner_destroy(struct model_runner *runner)
{
    runner->backend->interface->destroy(runner->backend);
    for (uint32_t group = 0; group < layout_of(runner)->group_count; group++) {
        free(runner->free_blocks[group]);
        for (uint32_t slot = 0; slot < runner->options.sequences; slot++)
            free(runner->slots[slot].tables[group]);
    }
    model_close(runner->model);
    free(runner->token_ids);
    free(runner->feature_rows);
    free(runner->rope_positions);
    free(runner->visible_ends);
    free(runner->crossed);
    free(runner->logit_rows);
    free(runner->samplings);
    free(runner->results);
    free(runner);
}

const struct model *model_runner_model(const struct model_runner *runner)
{
    return runner->model;
}

void model_runner_adapter_load(struct model_runner *runner, uint32_t slot,
                               const struct lora_adapter *adapter)
{
    struct error_text error = {""};
    check(runner->backend->interface->adapter_load(runner->backend, slot, adapter, &error), &error);
}

void model_runner_adapter_drop(struct model_runner *runner, uint32_t slot)
{
    runner->backend->interface->adapter_drop(runner->backend, slot);
}

void model_runner_adapter(struct model_runner *runner, uint32_t slot, const char *folder)
{
    struct error_text error;
    struct mapped_file config = {0}, tensors = {0};
    struct lora_adapter adapter;
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    enum result result = mapped_file_open(fd, "adapter_config.json", &config, &error);
    if (result == RESULT_OK)
        result = mapped_file_open(fd, "adapter_model.safetensors", &tensors, &error);
    const struct lora_bytes bytes = {config.bytes, config.byte_count, tensors.bytes,
                                     tensors.byte_count};
    if (result == RESULT_OK)
        result = lora_file_open(&bytes, model_runner_plan(runner), &adapter, &error);
    if (result == RESULT_OK)
        result = runner->backend->interface->adapter_load(runner->backend, slot, &adapter, &error);
    if (result != RESULT_OK) {
        fprintf(stderr, "%s: %s\n", folder, error.text);
        exit(1);
    }
    lora_file_close(&adapter);
    mapped_file_close(&config);
    mapped_file_close(&tensors);
    close(fd);
}

static void encode_some(struct model_runner *runner, const struct encode_batch *batch)
{
    const struct backend_interface *interface = runner->backend->interface;
    struct error_text error = {""};
    check(interface->encode_begin(runner->backend, batch, &error), &error);
    for (uint64_t left = 1; left > 0;)
        check(interface->encode_part(runner->backend, 1, &left, &error), &error);
}

void model_runner_encode(struct model_runner *runner, const struct encode_batch *batch)
{
    uint32_t sounds = 0;
    while (sounds < batch->image_count && batch->images[sounds].shape.sound)
        sounds++;
    if (sounds > 0)
        encode_some(runner, &(const struct encode_batch){sounds, batch->images});
    if (sounds < batch->image_count)
        encode_some(runner, &(const struct encode_batch){batch->image_count - sounds,
                                                         batch->images + sounds});
}

const struct plan *model_runner_plan(const struct model_runner *runner)
{
    return model_plan(runner->model);
}

const char *model_runner_description(const struct model_runner *runner)
{
    return runner->backend->interface->description(runner->backend);
}

static uint32_t blocks_of(uint32_t tokens)
{
    return (tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

/* Blocks of a sequence of `tokens` positions. */
static uint32_t covered_blocks(const struct model_runner *runner, uint32_t group, uint32_t tokens)
{
    return blocks_of(kv_layout_covered_tokens(layout_of(runner), group, tokens));
}

static void give_back(struct model_runner *runner, struct slot *slot, uint32_t group,
                      uint32_t before)
{
    for (; slot->first_held[group] < before; slot->first_held[group]++) {
        uint32_t *entry = &slot->tables[group][slot->first_held[group]];
        runner->free_blocks[group][runner->free_count[group]++] = *entry;
        *entry = KV_BLOCK_NONE;
    }
}

/* Frees blocks that the next row does not see, then takes blocks for `count` more positions. */
static void make_room(struct model_runner *runner, struct slot *slot, uint32_t count)
{
    must(slot->position + count <= runner->options.sequence_tokens);
    for (uint32_t group = 0; group < layout_of(runner)->group_count; group++) {
        give_back(runner, slot, group,
                  kv_layout_first_block(layout_of(runner), group, slot->position));
        for (uint32_t b = covered_blocks(runner, group, slot->room);
             b < covered_blocks(runner, group, slot->position + count); b++) {
            must(runner->free_count[group] > 0);
            slot->tables[group][b] = runner->free_blocks[group][--runner->free_count[group]];
        }
    }
    if (slot->room < slot->position + count)
        slot->room = slot->position + count;
}

void model_runner_reset(struct model_runner *runner, uint32_t number)
{
    struct slot *slot = &runner->slots[number];
    for (uint32_t group = 0; group < layout_of(runner)->group_count; group++) {
        give_back(runner, slot, group, covered_blocks(runner, group, slot->room));
        slot->first_held[group] = 0;
    }
    slot->position = slot->room = 0;
    slot->drafts = slot->late = 0;
    slot->kept_position = 0;
    slot->rewound = false;
}

void model_runner_rewind(struct model_runner *runner, uint32_t number)
{
    struct slot *slot = &runner->slots[number];
    must(slot->kept_position > 0 && slot->kept_position <= slot->position);
    for (uint32_t group = 0; group < layout_of(runner)->group_count; group++) {
        must(slot->first_held[group] == 0);
        for (uint32_t b = blocks_of(slot->kept_position); b < blocks_of(slot->room); b++)
            runner->free_blocks[group][runner->free_count[group]++] = slot->tables[group][b];
    }
    slot->position = slot->room = slot->kept_position;
    slot->drafts = slot->late = 0;
    slot->rewound = true;
}

uint32_t model_runner_blocks_held(const struct model_runner *runner, uint32_t number,
                                  uint32_t group)
{
    const struct slot *slot = &runner->slots[number];
    return covered_blocks(runner, group, slot->room) - slot->first_held[group];
}

void model_runner_accept(struct model_runner *runner, uint32_t number, uint32_t drafts)
{
    struct slot *slot = &runner->slots[number];
    must(drafts <= slot->drafts && slot->late == 0);
    slot->late = drafts;
    slot->position += drafts;
}

/* How the part advances recurrent state. */
static void set_state(struct model_runner *runner, const struct model_runner_part *part,
                      struct step_sequence *sequence)
{
    struct slot *slot = &runner->slots[part->slot];
    uint32_t kept = runner->options.sequences + part->slot, first = 2 * part->slot;
    must(part->drafts < part->count && part->drafts <= MODEL_RUNNER_DRAFTS_MAX);
    sequence->state_slot = runner->options.sequences - 1 - part->slot;
    sequence->state_source = slot->rewound ? kept : STATE_SLOT_NONE;
    sequence->state_copy = part->keeps_state ? kept : STATE_SLOT_NONE;
    sequence->rows_after_copy = part->rows_after_kept;
    sequence->late_rows = slot->late;
    sequence->late_place = (first + slot->half) * MODEL_RUNNER_DRAFTS_MAX;
    slot->half = 1 - slot->half;
    sequence->deferred_rows = part->drafts;
    sequence->deferred_place = (first + slot->half) * MODEL_RUNNER_DRAFTS_MAX;
    slot->drafts = part->drafts;
    slot->late = 0;
    slot->rewound = false;
    if (part->keeps_state)
        slot->kept_position = slot->position + part->count - part->drafts - part->rows_after_kept;
}

/* The part's value for its row `i`, or the default if the array is NULL. */
static void set_sight(struct model_runner *runner, uint32_t row,
                      const struct model_runner_part *part, uint32_t i, uint32_t first_range)
{
    uint32_t position = runner->slots[part->slot].position + i;
    struct rope_position plain = {position, position, position};
    runner->feature_rows[row] = part->feature_rows ? part->feature_rows[i] : ROW_FEATURE_NONE;
    runner->rope_positions[row] = part->rope_positions ? part->rope_positions[i] : plain;
    runner->visible_ends[row] = part->visible_ends ? part->visible_ends[i] : position + 1;
    runner->crossed[row] = part->crossed ? part->crossed[i] : (struct row_crossing){0};
    runner->crossed[row].first_range += first_range;
}

static void add_part(struct model_runner *runner, struct step_batch *batch,
                     const struct model_runner_part *part)
{
    struct slot *slot = &runner->slots[part->slot];
    struct step_sequence *sequence = &runner->sequences[batch->sequence_count++];
    must(batch->row_count + part->count <= runner->options.step_rows);
    make_room(runner, slot, part->count);
    *sequence = (struct step_sequence){
        .first_row = batch->row_count,
        .row_count = part->count,
        .first_position = slot->position,
        .adapter = part->adapter,
    };
    set_state(runner, part, sequence);
    for (uint32_t group = 0; group < layout_of(runner)->group_count; group++)
        sequence->block_tables[group] = slot->tables[group];
    uint32_t first_range = batch->range_count;
    must(part->range_count <= MODEL_RUNNER_RANGES - first_range);
    for (uint32_t i = 0; i < part->range_count; i++)
        runner->ranges[batch->range_count++] = part->ranges[i];
    for (uint32_t i = 0; i < part->count; i++, batch->row_count++) {
        runner->token_ids[batch->row_count] = part->tokens[i];
        set_sight(runner, batch->row_count, part, i, first_range);
        if (i < part->logit_from)
            continue;
        runner->logit_rows[batch->logit_row_count] = batch->row_count;
        struct row_sampling *sampling = &runner->samplings[batch->logit_row_count++];
        *sampling =
            part->sampling ? *part->sampling : (struct row_sampling){.params = &runner->greedy};
        sampling->position = slot->position + i + 1;
    }
    slot->position += part->count - part->drafts;
}

const float *model_runner_step(struct model_runner *runner, const struct model_runner_part *parts,
                               uint32_t part_count)
{
    struct step_batch batch = {
        .token_ids = runner->token_ids,
        .sequences = runner->sequences,
        .logit_rows = runner->logit_rows,
        .samplings = runner->samplings,
    };
    if (runner->options.feature_rows > 0) {
        batch.feature_rows = runner->feature_rows;
        batch.rope_positions = runner->rope_positions;
        batch.visible_ends = runner->visible_ends;
        batch.ranges = runner->ranges;
        if (model_plan(runner->model)->config.crossed_layers > 0)
            batch.crossed = runner->crossed;
    }
    struct error_text error = {""};
    for (uint32_t i = 0; i < part_count; i++)
        add_part(runner, &batch, &parts[i]);
    check(backend_step_run(runner->backend, &batch, runner->results, &error), &error);
    return runner->backend->interface->last_logits(runner->backend);
}

const struct sampled_token *model_runner_drawn(const struct model_runner *runner)
{
    return runner->results;
}

double model_runner_row_difference(const float *row, const float *reference, uint32_t count)
{
    double largest = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        double difference = (double)row[i] - (double)reference[i];
        largest = fmax(largest, fabs((double)reference[i]));
        squares += difference * difference;
    }
    return sqrt(squares / count) / largest;
}
