/*
 * Launches steps and waits for them.
 *
 * A slot is free again after its step was waited for. Steps alternate between the slots, so the
 * previous step is always in the other slot: that is where a row finds a token that the host has
 * not read.
 *
 * A step whose draws await masks is two submissions: its rows, and once the masks are known its
 * draws. The device waits for nothing that the host has not submitted yet, so a host that ends
 * between the two leaves no work behind.
 *
 * A device that does not finish within STEP_WAIT_LIMIT_MS (ten times that on drivers for the CPU)
 * is an error. After any error only destruction is allowed.
 */
#include "worker/backend/vulkan/step/vulkan_step.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/program/vulkan_recurrent_states.h"
#include "worker/backend/vulkan/record/vulkan_plan_walk.h"
#include "worker/backend/vulkan/step/vulkan_host_draws.h"
#include "worker/backend/vulkan/step/vulkan_sampler.h"
#include "worker/backend/vulkan/step/vulkan_warm.h"

#define RECORDED_ROWS       64u /* decode steps of up to so many rows are recorded once */
#define FIRST_TABLE_ENTRIES 65536u
#define PROFILE_STEPS       64u                  /* between two tables */
#define ROWS_ALONE          VULKAN_SAMPLER_WORKS /* recorded commands without draws */

struct slot {
    struct vulkan_batch batch;
    struct vulkan_commands *once; /* recorded anew for each step */
    /* by the sampler's work, how far contexts reach, whether rows lie in an opening, whether rows
     * have adapters, and number of rows; NULL: not yet */
    struct vulkan_commands *recorded[ROWS_ALONE + 1][VULKAN_REACHES][2][2][RECORDED_ROWS + 1];
    struct vulkan_commands *current;
    struct vulkan_commands *draws; /* of the last step that awaited masks; NULL: none did yet */
    bool awaits_masks;             /* the draws are not submitted yet */
    bool draws_apart;              /* they are a submission of their own */
    /* Copies of recurrent state before the step; NULL: not made yet. They have finished when the
     * step has, whose commands begin after them. */
    struct vulkan_commands *copies;
    bool copies_submitted;
    uint32_t logit_rows;
    uint32_t sampling; /* bits of enum vulkan_sampler_work */
    struct vulkan_host_draws *host_draws;
    uint32_t host_rows; /* rows that the host draws */
    bool is_over;       /* the launch has waited for it */
    /* Of a part of a split plan, in host memory: [max_step_rows, columns] of plan->taken and passed. */
    struct vulkan_buffer taken[PLAN_PASSED_MAX];
    struct vulkan_buffer passed[PLAN_PASSED_MAX];
    /* Of plans that hand over hidden states, likewise; hidden_out: [rows of its kind, columns]. */
    struct vulkan_buffer hidden_in;
    struct vulkan_buffer hidden_out;
};

struct vulkan_steps {
    struct vulkan_program *program;
    struct vulkan_steps_options options;
    struct slot slots[STEP_DEPTH_MAX];
    struct vulkan_profile *profile; /* or NULL */
    uint64_t launched;              /* so far */
    uint64_t waited;
    struct vulkan_buffer logits;    /* of the last step, where options.keeps_logits */
    struct vulkan_sampler *sampler; /* NULL: the plan has no logits */
};

static uint64_t row_bytes(const struct vulkan_program *program, plan_tensor_id tensor)
{
    return (uint64_t)program->plan->tensors[tensor].columns * sizeof(float);
}

static enum result create_hand_over(const struct vulkan_program *program, struct slot *slot,
                                    struct error_text *error)
{
    const struct plan *plan = program->plan;
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < plan->taken_count && result == RESULT_OK; i++)
        result = vulkan_buffer_create(program->device, VULKAN_UPLOAD,
                                      program->max_step_rows * row_bytes(program, plan->taken[i]),
                                      "rows from another device", &slot->taken[i], error);
    for (uint32_t i = 0; i < plan->passed_count && result == RESULT_OK; i++)
        result = vulkan_buffer_create(program->device, VULKAN_READBACK,
                                      program->max_step_rows * row_bytes(program, plan->passed[i]),
                                      "rows for another device", &slot->passed[i], error);
    if (result == RESULT_OK && plan->takes_hidden)
        result = vulkan_buffer_create(program->device, VULKAN_UPLOAD,
                                      program->max_step_rows * row_bytes(program, plan->hidden_in),
                                      "hidden states of the model", &slot->hidden_in, error);
    if (result == RESULT_OK && plan->keeps_hidden)
        result = vulkan_buffer_create(
            program->device, VULKAN_READBACK,
            vulkan_program_rows(program, plan->tensors[plan->hidden_out].rows) *
                row_bytes(program, plan->hidden_out),
            "hidden states", &slot->hidden_out, error);
    return result;
}

/* Of the plan's attention ops; those that see near positions all have the same. */
static uint32_t near_of(const struct plan *plan)
{
    uint32_t near = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        if (op->stem != OP_attention || op->params.attention.near == 0)
            continue;
        must(near == 0 || near == op->params.attention.near);
        near = op->params.attention.near;
    }
    return near;
}

static enum result init_slot(struct vulkan_steps *steps, struct slot *slot,
                             struct error_text *error)
{
    const struct vulkan_program *program = steps->program;
    const struct vulkan_batch_limits limits = {.rows = program->max_step_rows,
                                               .layout = &program->plan->kv,
                                               .tile_rows = program->tile_rows,
                                               .sights = program->sees,
                                               .near = near_of(program->plan),
                                               .adapters = program->adapters != NULL,
                                               .tiles_only =
                                                   program->device->facts.batch_invariant};
    slot->host_draws = vulkan_host_draws_create(program->device, plan_drawn_tokens(program->plan),
                                                program->max_logit_rows);
    enum result result =
        vulkan_batch_init(&slot->batch, program->device, &limits, FIRST_TABLE_ENTRIES, error);
    uint32_t timestamps = steps->profile ? VULKAN_PROFILE_MARKS : 0;
    if (result == RESULT_OK)
        result = vulkan_commands_create(program->device, VULKAN_QUEUE_COMPUTE, timestamps,
                                        &slot->once, error);
    return result == RESULT_OK ? create_hand_over(program, slot, error) : result;
}

/* Of the first `works` kinds. */
static void forget_recordings(struct slot *slot, uint32_t works)
{
    struct vulkan_commands **kept = &slot->recorded[0][0][0][0][0];
    for (size_t i = 0; i < works * (sizeof slot->recorded[0] / sizeof *kept); i++) {
        vulkan_commands_destroy(kept[i]);
        kept[i] = NULL;
    }
}

static uint64_t logits_bytes(const struct vulkan_program *program, uint32_t rows)
{
    return (uint64_t)rows * plan_logit_columns(program->plan) * sizeof(float);
}

static enum result create_sampler(struct vulkan_steps *steps,
                                  const struct vulkan_steps_options *wanted,
                                  struct error_text *error)
{
    const struct vulkan_program *program = steps->program;
    if (program->plan->logits == PLAN_NONE)
        return RESULT_OK;
    const struct vulkan_sampler_options options = {
        .vocab_tokens = plan_drawn_tokens(program->plan),
        .max_rows = program->plan->pools ? 1 : program->max_logit_rows, /* not used to pool */
        .logits = program->tensors[program->plan->logits].f32,
        .history = program->history.address,
        .kernels_when_needed = wanted->kernels_when_needed,
    };
    return vulkan_sampler_create(program->device, program->kernels, &options, &steps->sampler,
                                 error);
}

enum result vulkan_steps_create(struct vulkan_program *program,
                                const struct vulkan_steps_options *options,
                                struct vulkan_steps **created, struct error_text *error)
{
    must(options->depth >= 1 && options->depth <= STEP_DEPTH_MAX);
    struct vulkan_steps *steps = must_alloc(1, sizeof *steps);
    steps->program = program;
    steps->options = *options;
    enum result result = RESULT_OK;
    if (options->profile)
        result = vulkan_profile_create(program->device, program->kernels, &steps->profile, error);
    for (uint32_t i = 0; i < STEP_DEPTH_MAX && result == RESULT_OK; i++)
        result = init_slot(steps, &steps->slots[i], error);
    if (result == RESULT_OK)
        result = create_sampler(steps, options, error);
    if (result == RESULT_OK && options->keeps_logits)
        result = vulkan_buffer_create(program->device, VULKAN_READBACK,
                                      logits_bytes(program, program->max_logit_rows), "logits",
                                      &steps->logits, error);
    if (result != RESULT_OK) {
        vulkan_steps_destroy(steps);
        return result;
    }
    *created = steps;
    return RESULT_OK;
}

void vulkan_steps_destroy(struct vulkan_steps *steps)
{
    if (!steps)
        return;
    for (uint32_t i = 0; i < STEP_DEPTH_MAX; i++) {
        struct slot *slot = &steps->slots[i];
        forget_recordings(slot, ROWS_ALONE + 1);
        vulkan_commands_destroy(slot->draws);
        vulkan_commands_destroy(slot->copies);
        vulkan_commands_destroy(slot->once);
        vulkan_batch_fini(&slot->batch);
        vulkan_host_draws_destroy(slot->host_draws);
        for (uint32_t t = 0; t < PLAN_PASSED_MAX; t++) {
            vulkan_buffer_destroy(steps->program->device, &slot->taken[t]);
            vulkan_buffer_destroy(steps->program->device, &slot->passed[t]);
        }
        vulkan_buffer_destroy(steps->program->device, &slot->hidden_in);
        vulkan_buffer_destroy(steps->program->device, &slot->hidden_out);
    }
    vulkan_sampler_destroy(steps->sampler);
    vulkan_buffer_destroy(steps->program->device, &steps->logits);
    vulkan_profile_destroy(steps->profile);
    free(steps);
}

static struct slot *slot_of(struct vulkan_steps *steps, uint64_t step)
{
    return &steps->slots[step % STEP_DEPTH_MAX];
}

/* Whether commands of this shape may be kept: every row is a sequence's next token, all of them are
 * drawn from, and none by the host within these commands. */
static bool is_replayable(const struct vulkan_steps *steps, const struct slot *slot,
                          const struct vulkan_shape *shape)
{
    /* The number of tiles that see only the opening changes from step to step. */
    bool opens = shape->openings && steps->program->device->facts.batch_invariant;
    return shape->rows == shape->sequences && shape->whole && shape->rows <= RECORDED_ROWS &&
           !shape->features && !opens && !steps->profile && slot->host_rows == 0;
}

/* Before sampling, which changes them by biases and penalties. */
static void record_logits(const struct vulkan_steps *steps, const struct vulkan_buffer *to,
                          uint32_t rows, struct vulkan_commands *commands)
{
    const struct vulkan_program *program = steps->program;
    const struct vulkan_piece *logits = &program->tensors[program->plan->logits].whole;
    vulkan_commands_barrier(commands);
    vulkan_commands_copy(commands, logits->buffer, logits->offset, to, 0,
                         logits_bytes(program, rows));
    vulkan_commands_barrier(commands);
}

/* After a barrier after the logits. */
static void record_draws(struct vulkan_steps *steps, struct slot *slot,
                         struct vulkan_commands *commands)
{
    const struct vulkan_sampler_step step = {.rows = slot->batch.rows_address,
                                             .sequences = slot->batch.sequences_address,
                                             .tables = slot->batch.tables.address,
                                             .logit_rows = slot->batch.logit_rows_address};
    if (slot->host_rows > 0)
        record_logits(steps, vulkan_host_draws_logits(slot->host_draws), slot->logit_rows,
                      commands);
    vulkan_sampler_record(steps->sampler, (uint32_t)(slot - steps->slots), slot->sampling,
                          slot->logit_rows, &step, commands);
}

static bool has_draws(const struct vulkan_steps *steps, const struct slot *slot)
{
    return slot->logit_rows > 0 && steps->sampler && !steps->program->plan->pools;
}

static void record_fill(const struct vulkan_program *program, const struct vulkan_buffer *from,
                        plan_tensor_id id, uint32_t rows, struct vulkan_commands *commands)
{
    const struct vulkan_piece *tensor = &program->tensors[id].whole;
    vulkan_commands_copy(commands, from, 0, tensor->buffer, tensor->offset,
                         rows * row_bytes(program, id));
}

static void record_keep(const struct vulkan_program *program, plan_tensor_id id,
                        const struct vulkan_buffer *to, uint32_t rows,
                        struct vulkan_commands *commands)
{
    const struct vulkan_piece *tensor = &program->tensors[id].whole;
    if (rows > 0)
        vulkan_commands_copy(commands, tensor->buffer, tensor->offset, to, 0,
                             rows * row_bytes(program, id));
}

/* Before the plan's ops, from the slot's memory to the tensors. */
static void record_taken(const struct vulkan_steps *steps, const struct slot *slot, uint32_t rows,
                         struct vulkan_commands *commands)
{
    const struct vulkan_program *program = steps->program;
    const struct plan *plan = program->plan;
    if (plan->taken_count == 0 && !plan->takes_hidden)
        return;
    vulkan_commands_barrier(commands); /* after the step before */
    for (uint32_t i = 0; i < plan->taken_count; i++)
        record_fill(program, &slot->taken[i], plan->taken[i], rows, commands);
    if (plan->takes_hidden)
        record_fill(program, &slot->hidden_in, plan->hidden_in, rows, commands);
}

/* After them, the other way. `plan`: the one that was recorded, whose tensors are the program's. */
static void record_passed(const struct vulkan_steps *steps, const struct slot *slot,
                          const struct plan *plan, const struct vulkan_shape *shape,
                          struct vulkan_commands *commands)
{
    const struct vulkan_program *program = steps->program;
    for (uint32_t i = 0; i < plan->passed_count; i++)
        record_keep(program, plan->passed[i], &slot->passed[i], shape->rows, commands);
    if (plan->keeps_hidden) {
        bool all = plan->tensors[plan->hidden_out].rows == PLAN_ROWS_STEP;
        record_keep(program, plan->hidden_out, &slot->hidden_out,
                    all ? shape->rows : shape->logit_rows, commands);
    }
    if (plan->passed_count > 0 || plan->keeps_hidden)
        vulkan_commands_barrier(commands);
}

static void fill_taken(const struct vulkan_program *program, const struct slot *slot,
                       const struct step_batch *batch)
{
    must((program->plan->taken_count > 0) == (batch->taken != NULL));
    for (uint32_t i = 0; i < program->plan->taken_count; i++)
        memcpy(slot->taken[i].mapped, batch->taken[i],
               batch->row_count * row_bytes(program, program->plan->taken[i]));
    must(program->plan->takes_hidden == (batch->hidden != NULL));
    if (program->plan->takes_hidden)
        memcpy(slot->hidden_in.mapped, batch->hidden,
               batch->row_count * row_bytes(program, program->plan->hidden_in));
}

static enum result record(struct vulkan_steps *steps, struct slot *slot,
                          const struct vulkan_shape *shape, struct vulkan_commands *commands,
                          struct error_text *error)
{
    uint32_t index = (uint32_t)(slot - steps->slots);
    const struct vulkan_program view = shape->adapted
                                           ? vulkan_program_adapted(steps->program, shape->whole)
                                       : shape->whole ? vulkan_program_whole(steps->program)
                                                      : *steps->program;
    const struct vulkan_recording recording = {
        .program = &view,
        .batch = &slot->batch,
        .shape = *shape,
        /* Without a sampler no token refers to it, but the address must be valid. */
        .drawn_before = steps->sampler ? vulkan_sampler_drawn(steps->sampler, 1 - index)
                                       : slot->batch.rows_address,
        .commands = commands,
        .profile = steps->profile,
    };
    enum result result = vulkan_commands_begin(commands, error);
    if (result == RESULT_OK && steps->profile)
        vulkan_profile_begin(steps->profile, commands);
    if (result == RESULT_OK)
        record_taken(steps, slot, shape->rows, commands);
    if (result == RESULT_OK)
        result = vulkan_plan_walk_run(&recording, error);
    if (result == RESULT_OK)
        record_passed(steps, slot, recording.program->plan, shape, commands);
    if (result == RESULT_OK && shape->logit_rows > 0 && steps->options.keeps_logits)
        record_logits(steps, &steps->logits, shape->logit_rows, commands);
    if (result == RESULT_OK && has_draws(steps, slot) && !slot->draws_apart) {
        record_draws(steps, slot, commands);
        if (steps->profile)
            vulkan_profile_mark(steps->profile, commands, "sampler", 0,
                                logits_bytes(steps->program, slot->logit_rows));
    }
    if (result == RESULT_OK)
        result = vulkan_commands_end(commands, error);
    return result;
}

static enum result choose_commands(struct vulkan_steps *steps, struct slot *slot,
                                   const struct vulkan_shape *shape, struct error_text *error)
{
    slot->current = slot->once;
    if (!is_replayable(steps, slot, shape))
        return record(steps, slot, shape, slot->once, error);
    uint32_t work = slot->draws_apart ? ROWS_ALONE : slot->sampling;
    struct vulkan_commands **kept =
        &slot->recorded[work][shape->reach][shape->openings][shape->adapted][shape->rows];
    if (*kept) {
        slot->current = *kept;
        return RESULT_OK;
    }
    enum result result =
        vulkan_commands_create(steps->program->device, VULKAN_QUEUE_COMPUTE, 0, kept, error);
    if (result == RESULT_OK)
        result = record(steps, slot, shape, *kept, error);
    slot->current = *kept;
    return result;
}

void vulkan_steps_forget(struct vulkan_steps *steps)
{
    must(steps->launched == steps->waited);
    for (uint32_t i = 0; i < STEP_DEPTH_MAX; i++)
        forget_recordings(&steps->slots[i], ROWS_ALONE + 1);
}

static uint32_t wait_limit_ms(const struct vulkan_steps *steps)
{
    return STEP_WAIT_LIMIT_MS * vulkan_device_time_factor(steps->program->device);
}

/* Copies the states that sequences begin with; records nothing if none does. */
static enum result copy_states(const struct vulkan_steps *steps, const struct step_batch *batch,
                               struct slot *slot, struct error_text *error)
{
    uint32_t first = 0;
    while (first < batch->sequence_count && batch->sequences[first].state_source == STATE_SLOT_NONE)
        first++;
    if (first == batch->sequence_count || steps->program->plan->state.layers == 0)
        return RESULT_OK;
    enum result result = RESULT_OK;
    if (!slot->copies)
        result = vulkan_commands_create(steps->program->device, VULKAN_QUEUE_COMPUTE, 0,
                                        &slot->copies, error);
    else if (slot->copies_submitted)
        result = vulkan_commands_wait(slot->copies, wait_limit_ms(steps), error);
    if (result == RESULT_OK)
        result = vulkan_commands_begin(slot->copies, error);
    if (result != RESULT_OK)
        return result;
    vulkan_commands_barrier(slot->copies);
    for (uint32_t s = first; s < batch->sequence_count; s++) {
        const struct step_sequence *sequence = &batch->sequences[s];
        if (sequence->state_source != STATE_SLOT_NONE)
            vulkan_recurrent_states_copy(steps->program, slot->copies, sequence->state_source,
                                         sequence->state_slot);
    }
    vulkan_commands_barrier(slot->copies);
    result = vulkan_commands_end(slot->copies, error);
    if (result == RESULT_OK)
        result = vulkan_commands_submit(slot->copies, error);
    slot->copies_submitted = result == RESULT_OK;
    return result;
}

/* Waits for the slot's step and beats the heartbeat meanwhile. */
static enum result wait_for(struct vulkan_steps *steps, struct slot *slot, struct error_text *error)
{
    enum result result = RESULT_TIMED_OUT;
    struct vulkan_commands *last = slot->draws_apart ? slot->draws : slot->current;
    uint32_t limit_ms = wait_limit_ms(steps);
    for (uint32_t waited_ms = 0; result == RESULT_TIMED_OUT && waited_ms < limit_ms;
         waited_ms += STEP_WAIT_BEAT_MS) {
        if (steps->options.heartbeat)
            atomic_fetch_add_explicit(steps->options.heartbeat, 1, memory_order_relaxed);
        result = vulkan_commands_wait(last, STEP_WAIT_BEAT_MS, error);
    }
    if (result == RESULT_OK && slot->draws_apart) /* it began before the draws and is over */
        result = vulkan_commands_wait(slot->current, STEP_WAIT_BEAT_MS, error);
    slot->is_over = result == RESULT_OK;
    return result;
}

/* Writes the parameters of the slot's draws. */
static enum result fill_draws(struct vulkan_steps *steps, struct slot *slot,
                              const struct row_sampling *samplings, struct error_text *error)
{
    bool moved = false;
    enum result result = vulkan_host_draws_begin(slot->host_draws, &samplings, slot->logit_rows,
                                                 &slot->host_rows, error);
    if (result == RESULT_OK)
        result = vulkan_sampler_fill(steps->sampler, (uint32_t)(slot - steps->slots), samplings,
                                     slot->logit_rows, &slot->sampling, &moved, error);
    if (result == RESULT_OK && moved)
        forget_recordings(slot, ROWS_ALONE);
    return result;
}

/* Draws the host's rows, for which it waits. */
static enum result draw_on_host(struct vulkan_steps *steps, struct slot *slot,
                                const struct row_sampling *samplings, struct error_text *error)
{
    if (slot->host_rows == 0)
        return RESULT_OK;
    enum result result = wait_for(steps, slot, error);
    if (result == RESULT_OK)
        vulkan_host_draws_run(slot->host_draws, samplings);
    return result;
}

static struct vulkan_shape shape_of(const struct slot *slot, const struct step_batch *batch)
{
    struct vulkan_shape shape = {
        .rows = batch->row_count,
        .sequences = batch->sequence_count,
        .logit_rows = batch->logit_row_count,
        .decodes = slot->batch.decode_count,
        .tiles = slot->batch.tile_count,
        .whole = slot->batch.draws_whole,
        .features = slot->batch.has_features,
        .spans = slot->batch.has_spans,
        .openings = slot->batch.has_openings,
        .adapted = slot->batch.has_adapters,
        .opening_tiles = slot->batch.opening_tiles,
        .reach = slot->batch.reach,
    };
    if (shape.reach == VULKAN_REACH_SHORT && !(shape.whole && shape.rows == shape.sequences))
        shape.reach = VULKAN_REACH_COMMON;
    return shape;
}

static enum result submit(struct vulkan_steps *steps, struct slot *slot,
                          const struct step_batch *batch, struct error_text *error)
{
    enum result result = copy_states(steps, batch, slot, error);
    if (result == RESULT_OK)
        result = vulkan_commands_submit(slot->current, error);
    return result;
}

enum result vulkan_steps_launch(struct vulkan_steps *steps, const struct step_batch *batch,
                                struct error_text *error)
{
    must(steps->launched - steps->waited < steps->options.depth);
    must(steps->launched == 0 || !slot_of(steps, steps->launched - 1)->awaits_masks);
    struct slot *slot = slot_of(steps, steps->launched);
    bool tables_moved = false;
    slot->host_rows = 0;
    slot->sampling = 0;
    slot->is_over = false;
    slot->logit_rows = batch->logit_row_count;
    slot->draws_apart = slot->awaits_masks = batch->awaits_masks;
    must(!slot->awaits_masks || has_draws(steps, slot));
    enum result result = vulkan_batch_fill(&slot->batch, batch, &tables_moved, error);
    if (result == RESULT_OK && tables_moved)
        forget_recordings(slot, ROWS_ALONE + 1);
    if (result == RESULT_OK && has_draws(steps, slot) && !slot->draws_apart)
        result = fill_draws(steps, slot, batch->samplings, error);
    if (result != RESULT_OK)
        return result;
    fill_taken(steps->program, slot, batch);
    const struct vulkan_shape shape = shape_of(slot, batch);
    result = choose_commands(steps, slot, &shape, error);
    if (result == RESULT_OK)
        result = submit(steps, slot, batch, error);
    if (result == RESULT_OK)
        result = draw_on_host(steps, slot, batch->samplings, error);
    if (result == RESULT_OK)
        steps->launched++;
    return result;
}

enum result vulkan_steps_draw(struct vulkan_steps *steps, const struct row_sampling *samplings,
                              struct error_text *error)
{
    must(steps->launched > steps->waited);
    struct slot *slot = slot_of(steps, steps->launched - 1);
    must(slot->awaits_masks);
    enum result result = fill_draws(steps, slot, samplings, error);
    if (result == RESULT_OK && !slot->draws)
        result = vulkan_commands_create(steps->program->device, VULKAN_QUEUE_COMPUTE, 0,
                                        &slot->draws, error);
    if (result == RESULT_OK)
        result = vulkan_commands_begin(slot->draws, error);
    if (result != RESULT_OK)
        return result;
    vulkan_commands_barrier(slot->draws);
    record_draws(steps, slot, slot->draws);
    result = vulkan_commands_end(slot->draws, error);
    if (result == RESULT_OK)
        result = vulkan_commands_submit(slot->draws, error);
    if (result == RESULT_OK)
        result = draw_on_host(steps, slot, samplings, error);
    slot->awaits_masks = result != RESULT_OK;
    return result;
}

enum result vulkan_steps_wait(struct vulkan_steps *steps, struct sampled_token *results,
                              struct error_text *error)
{
    must(steps->launched > steps->waited);
    struct slot *slot = slot_of(steps, steps->waited);
    must(!slot->awaits_masks);
    enum result result = slot->is_over ? RESULT_OK : wait_for(steps, slot, error);
    if (result != RESULT_OK)
        return result;
    steps->waited++;
    if (steps->profile) {
        vulkan_profile_add(steps->profile, slot->current);
        if (vulkan_profile_steps(steps->profile) == PROFILE_STEPS)
            vulkan_profile_print(steps->profile, "step", PROFILE_STEPS);
    }
    if (!steps->sampler)
        return RESULT_OK;
    if (steps->program->plan->pools)
        memset(results, 0, slot->logit_rows * sizeof *results);
    else if (slot->logit_rows > 0)
        result =
            vulkan_sampler_read(steps->sampler, (uint32_t)(slot - steps->slots), results, error);
    if (result == RESULT_OK && slot->host_rows > 0)
        vulkan_host_draws_read(slot->host_draws, results);
    return result;
}

bool vulkan_steps_draw_ahead(const struct vulkan_steps *steps, const struct row_sampling *sampling)
{
    return vulkan_sampler_draws_ahead(steps->sampler, sampling);
}

const float *vulkan_steps_last_logits(const struct vulkan_steps *steps)
{
    must(steps->launched > 0 && steps->launched == steps->waited && steps->options.keeps_logits);
    return steps->logits.mapped;
}

const float *vulkan_steps_last_hidden(const struct vulkan_steps *steps)
{
    must(steps->launched > 0 && steps->launched == steps->waited);
    must(steps->program->plan->keeps_hidden);
    return steps->slots[(steps->waited - 1) % STEP_DEPTH_MAX].hidden_out.mapped;
}

const float *vulkan_steps_last_passed(const struct vulkan_steps *steps, uint32_t index)
{
    must(steps->waited > 0 && index < steps->program->plan->passed_count);
    return steps->slots[(steps->waited - 1) % STEP_DEPTH_MAX].passed[index].mapped;
}

struct warm_progress {
    backend_progress_fn *tell;
    void *context;
    uint64_t weight_bytes;
};

/* Kernels have no byte count, so progress is reported as all weights again, to show that loading
 * continues. */
static void tell_warm(void *context, uint32_t made, uint32_t count)
{
    const struct warm_progress *progress = context;
    (void)made;
    (void)count;
    if (progress->tell)
        progress->tell(progress->context, progress->weight_bytes, progress->weight_bytes);
}

enum result vulkan_steps_warm(struct vulkan_steps *steps,
                              const struct vulkan_image_encoder *const encoders[2],
                              uint32_t threads, backend_progress_fn *progress, void *context,
                              struct error_text *error)
{
    const struct vulkan_program *program = steps->program;
    struct warm_progress warm = {progress, context, program->weights.matrix_bytes};
    struct thread_pool *pool;
    enum result result = thread_pool_create(threads, &pool, error);
    if (result != RESULT_OK)
        return result;
    vulkan_kernels_note(program->kernels);
    result = vulkan_warm_ask(program, error);
    for (uint32_t i = 0; i < 2 && result == RESULT_OK; i++)
        result = encoders[i] ? vulkan_image_encoder_warm(encoders[i], error) : RESULT_OK;
    if (result == RESULT_OK)
        result = vulkan_kernels_make_noted(program->kernels, pool, tell_warm, &warm, error);
    thread_pool_destroy(pool);
    return result;
}
