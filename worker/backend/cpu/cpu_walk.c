/*
 * The walk over the plan.
 *
 * A phase is the ops between two barriers of op_order.c; all threads work on one phase, then on the
 * next. Pieces of claimed ops come from one counter per op, so a delayed thread computes fewer of
 * them. Rows of ROWS ops belong to a lane; another thread runs the lane of a late thread
 * (thread_pool.h).
 *
 * Which thread computes a piece varies from run to run; results do not, since no piece adds to a
 * number of another piece.
 */
#include "worker/backend/cpu/cpu_walk.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/cpu/ops/cpu_adapter_part.h"
#include "worker/backend/cpu/ops/cpu_moe.h"
#include "worker/backend/cpu/ops/cpu_ops.h"
#include "worker/backend/cpu/program/cpu_state.h"

static void (*const op_functions[OP_STEM_COUNT])(const struct cpu_step *, uint32_t, uint32_t) = {
#define OP_FUNCTION(stem, ...) [OP_##stem] = cpu_##stem,
    EVERY_OP_LIST(OP_FUNCTION)
#undef OP_FUNCTION
};

static uint32_t largest_head_dim(const struct plan *plan)
{
    uint32_t largest = 1;
    for (uint32_t g = 0; g < plan->kv.group_count; g++)
        if (plan->kv.groups[g].head_dim > largest)
            largest = plan->kv.groups[g].head_dim;
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].stem == OP_patch_attention &&
            plan->ops[i].params.patch_attention.queries.head_dim > largest)
            largest = plan->ops[i].params.patch_attention.queries.head_dim;
    return largest;
}

/* Floats of the scratch of tile_attention. */
static size_t largest_tile(const struct plan *plan)
{
    size_t largest = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].stem != OP_tile_attention)
            continue;
        size_t floats = cpu_tile_attention_floats(plan, &plan->ops[i]);
        largest = floats > largest ? floats : largest;
    }
    return largest;
}

static bool has_latent(const struct plan *plan)
{
    for (uint32_t g = 0; g < plan->kv.group_count; g++)
        if (plan->kv.groups[g].latent)
            return true;
    return false;
}

/* Floats of the largest matrix of a delta net or state space mixer. */
static size_t largest_matrix(const struct plan *plan)
{
    size_t largest = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct gated_delta_params *p = &plan->ops[i].params.gated_delta;
        if (plan->ops[i].stem == OP_gated_delta && (size_t)p->key_dim * p->value_dim > largest)
            largest = (size_t)p->key_dim * p->value_dim;
        const struct ssm_scan_params *s = &plan->ops[i].params.ssm_scan;
        if (plan->ops[i].stem == OP_ssm_scan && (size_t)s->head_dim * s->state > largest)
            largest = (size_t)s->head_dim * s->state;
    }
    return largest;
}

/* Bytes of a thread's linear_scratch: for the largest block of rows of any product with quantized weights. */
static size_t largest_arranged(const struct cpu_program *program)
{
    const uint32_t step_rows = program->max_step_rows, patch_rows = program->max_patch_rows;
    const uint32_t most_rows = step_rows > patch_rows ? step_rows : patch_rows;
    size_t largest = 0;
    for (uint32_t i = 0; i < program->plan->op_count; i++) {
        const struct plan_op *op = &program->plan->ops[i];
        if (op_facts(op->stem)->weights != OP_WEIGHTS_PRODUCT)
            continue;
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && op->weights[w] != PLAN_NONE; w++) {
            /* Those of a lender are not in program->packed yet. */
            const struct plan_weight *source = &program->plan->weights[op->weights[w]];
            const struct packed_weight weight =
                packed_weight_describe(source->type, 1, source->rows, source->columns);
            uint32_t rows = op->stem == OP_moe_linear
                                ? MOE_TILE_ROWS
                                : linear_block_rows(program->kernels, weight.columns);
            rows = op->stem != OP_moe_linear && rows > most_rows ? most_rows : rows;
            size_t bytes = linear_scratch_bytes(program->kernels, rows, weight.columns);
            largest = weight.quantized && bytes > largest ? bytes : largest;
        }
    }
    return largest;
}

static bool draws_tokens(const struct plan *plan)
{
    return plan->logits != PLAN_NONE && !plan->pools;
}

enum result cpu_walk_init(struct cpu_step *step, const struct cpu_program *program,
                          struct thread_pool *pool, struct error_text *error)
{
    const struct plan *plan = program->plan;
    size_t scratch_bytes =
        attention_scratch_floats(largest_head_dim(plan), has_latent(plan)) * sizeof(float);
    size_t tile_bytes = largest_tile(plan) * sizeof(float);
    scratch_bytes = tile_bytes > scratch_bytes ? tile_bytes : scratch_bytes;
    size_t matrix_bytes = program->deferred_places > 0 ? largest_matrix(plan) * sizeof(float) : 0;
    scratch_bytes = matrix_bytes > scratch_bytes ? matrix_bytes : scratch_bytes;
    *step = (struct cpu_step){.program = program, .pool = pool};
    step->threads = thread_pool_threads(pool);
    step->token_ids = must_alloc(program->max_step_rows + 1, sizeof *step->token_ids);
    step->row_sequence = must_alloc(program->max_step_rows + 1, sizeof *step->row_sequence);
    step->claims = must_alloc(3 * plan->op_count + 1, sizeof *step->claims);
    step->phases = must_alloc(4 * plan->op_count + 1, sizeof *step->phases);
    step->scratch = must_alloc(step->threads, sizeof *step->scratch);
    step->linear_scratch = must_alloc(step->threads, sizeof *step->linear_scratch);
    step->moe_scratch = must_alloc(step->threads, sizeof *step->moe_scratch);
    step->samplers = must_alloc(step->threads, sizeof *step->samplers);
    const size_t arranged_bytes = largest_arranged(program);
    for (uint32_t t = 0; t < step->threads; t++) {
        step->scratch[t] = aligned_alloc(64, (scratch_bytes + 63) / 64 * 64);
        struct linear_scratch *arranged = &step->linear_scratch[t];
        arranged->bytes = arranged_bytes;
        arranged->memory = arranged_bytes > 0 ? aligned_alloc(64, arranged_bytes) : NULL;
        bool draws = draws_tokens(plan);
        if (draws)
            step->samplers[t] = row_sampler_create(plan_drawn_tokens(plan));
        bool enough;
        step->moe_scratch[t] = cpu_moe_scratch_create(program, &enough);
        enough = enough && (arranged->memory || arranged_bytes == 0);
        if (!step->scratch[t] || (draws && !step->samplers[t]) || !enough)
            return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for thread %u's scratch", t);
    }
    return RESULT_OK;
}

void cpu_walk_fini(struct cpu_step *step)
{
    for (uint32_t t = 0; t < step->threads; t++) {
        free(step->scratch[t]);
        free(step->linear_scratch[t].memory);
        cpu_moe_scratch_destroy(step->moe_scratch[t]);
        if (step->samplers[t])
            row_sampler_destroy(step->samplers[t]);
    }
    free(step->scratch);
    free(step->linear_scratch);
    free(step->moe_scratch);
    free(step->samplers);
    free(step->phases);
    free(step->claims);
    free(step->row_sequence);
    free(step->token_ids);
}

static void draw_rows(const struct cpu_step *step, uint32_t thread)
{
    uint32_t claim_index = step->program->plan->op_count;
    plan_tensor_id logits = step->program->plan->logits;
    for (;;) {
        uint32_t row = cpu_step_claim(step, claim_index, 1);
        if (row >= step->batch->logit_row_count)
            return;
        step->results[row] = row_sampler_draw(
            step->samplers[thread], cpu_step_row(step, logits, row), &step->batch->samplings[row]);
    }
}

static void quantize_input(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    plan_tensor_id input = step->program->plan->ops[index].inputs[0];
    const struct cpu_tensor *tensor = &step->program->tensors[input];
    struct row_share share = cpu_step_share(step, tensor->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++)
        cpu_step_quantize(step, input, row, 0, tensor->columns);
}

static void run_phase(void *context, uint32_t index, uint32_t lane)
{
    const struct cpu_step *step = context;
    const struct plan *plan = step->program->plan;
    if (index == step->phase_count) {
        draw_rows(step, lane);
        return;
    }
    const struct step_phase *phase = &step->phases[index];
    if (index == 0 && phase->first_op == 0)
        cpu_rope_fill_tables(step, lane);
    if (phase->expands)
        cpu_adapter_expand(step, phase->first_op - 1, lane);
    for (uint32_t i = phase->first_op; i < phase->end_op; i++)
        op_functions[plan->ops[i].stem](step, i, lane);
    if (phase->reduces)
        cpu_adapter_reduce(step, phase->end_op - 1, lane);
    if (phase->quantizes)
        quantize_input(step, phase->end_op, lane);
}

static struct step_phase *add_phase(struct cpu_step *step, uint32_t op)
{
    struct step_phase *phase = &step->phases[step->phase_count++];
    *phase = (struct step_phase){.first_op = op, .end_op = op};
    return phase;
}

/* The phases of ops [first_op, end_op). A product to which adapters add has a phase of its own and
 * another one for what is added. */
static void list_phases(struct cpu_step *step, uint32_t first_op, uint32_t end_op)
{
    const struct op_note *notes = step->program->notes;
    step->phase_count = 0;
    struct step_phase *phase = add_phase(step, first_op);
    for (uint32_t i = first_op; i < end_op; i++) {
        bool adapted = step->adapters && cpu_adapters_change(step->adapters, i);
        if ((notes[i].barrier_before || adapted || phase->expands) && i > first_op)
            phase = add_phase(step, i);
        if (notes[i].quantize_input) {
            phase->quantizes = true;
            phase = add_phase(step, i);
        }
        phase->end_op = i + 1;
        phase->reduces = adapted;
        if (adapted) {
            phase = add_phase(step, i + 1);
            phase->expands = true;
        }
    }
}

/* Shapes of the batch, which only a bug in the scheduler can violate. */
static void check_batch(const struct cpu_program *program, const struct step_batch *batch)
{
    uint32_t next = 0;
    must(batch->row_count >= 1 && batch->row_count <= program->max_step_rows);
    must(batch->logit_row_count <= program->max_logit_rows);
    for (uint32_t s = 0; s < batch->sequence_count; s++) {
        must(batch->sequences[s].first_row == next && batch->sequences[s].row_count > 0);
        must(batch->sequences[s].row_count <= batch->row_count - next);
        must(batch->sequences[s].deferred_rows < batch->sequences[s].row_count);
        next += batch->sequences[s].row_count;
    }
    must(next == batch->row_count);
    for (uint32_t i = 0; i < batch->logit_row_count; i++)
        must(batch->logit_rows[i] < batch->row_count);
}

/* Likewise its image rows. */
static void check_images(const struct cpu_step *step, const struct step_batch *batch)
{
    for (uint32_t row = 0; batch->feature_rows && row < batch->row_count; row++)
        must(batch->feature_rows[row] == ROW_FEATURE_NONE ||
             (step->features && batch->feature_rows[row] < step->features->rows));
    for (uint32_t i = 0; i < batch->range_count; i++) {
        const struct feature_range *range = &batch->ranges[i];
        must(range->row_count == 0 ||
             (step->features && range->first_row < step->features->rows &&
              range->row_count <= step->features->rows - range->first_row));
    }
    for (uint32_t row = 0; batch->crossed && row < batch->row_count; row++)
        must(batch->crossed[row].first_range <= batch->range_count &&
             batch->crossed[row].range_count <=
                 batch->range_count - batch->crossed[row].first_range);
    for (uint32_t s = 0; batch->visible_ends && s < batch->sequence_count; s++) {
        const struct step_sequence *sequence = &batch->sequences[s];
        for (uint32_t r = 0; r < sequence->row_count; r++) {
            uint32_t end = batch->visible_ends[sequence->first_row + r];
            must(end > sequence->first_position + r &&
                 end <= sequence->first_position + sequence->row_count);
        }
    }
}

/* Replaces references to sampled tokens by token ids. */
static void resolve_tokens(struct cpu_step *step, const struct step_batch *batch,
                           const struct sampled_token *before, uint32_t before_count)
{
    for (uint32_t i = 0; i < batch->row_count; i++) {
        uint32_t token = batch->token_ids[i];
        if (token & STEP_TOKEN_SAMPLED) {
            must((token & ~STEP_TOKEN_SAMPLED) < before_count);
            token = before[token & ~STEP_TOKEN_SAMPLED].token;
        }
        must(token < step->program->plan->config.vocab_tokens);
        step->token_ids[i] = token;
    }
    step->known = *batch;
    step->known.token_ids = step->token_ids;
    step->batch = &step->known;
}

static void walk(struct cpu_step *step, uint32_t first_op, uint32_t end_op)
{
    bool adapts = step->adapters && step->adapters->step.tile_count > 0;
    list_phases(step, first_op, end_op);
    for (uint32_t i = first_op; i <= end_op; i++)
        atomic_store_explicit(&step->claims[i], 0, memory_order_relaxed);
    for (uint32_t i = 2 * first_op; adapts && i < 2 * end_op; i++)
        atomic_store_explicit(&step->claims[step->program->plan->op_count + 1 + i], 0,
                              memory_order_relaxed);
    bool draws = draws_tokens(step->program->plan);
    thread_pool_walk(step->pool, run_phase, step, step->phase_count + draws);
}

/* Copies states that sequences start from; a plan without state has none. */
static void copy_sources(const struct cpu_step *step)
{
    for (uint32_t s = 0; s < step->batch->sequence_count && step->program->state_slots > 0; s++) {
        const struct step_sequence *sequence = &step->batch->sequences[s];
        if (sequence->state_source != STATE_SLOT_NONE)
            cpu_state_copy(step->program, sequence->state_source, sequence->state_slot);
    }
}

static void copy_hidden(const struct cpu_step *step)
{
    const struct plan *plan = step->program->plan;
    must(plan->takes_hidden == (step->batch->hidden != NULL));
    if (!plan->takes_hidden)
        return;
    const struct cpu_tensor *tensor = &step->program->tensors[plan->hidden_in];
    memcpy(tensor->values, step->batch->hidden,
           (size_t)step->batch->row_count * tensor->columns * sizeof(float));
}

static void copy_taken(const struct cpu_step *step)
{
    const struct plan *plan = step->program->plan;
    must((plan->taken_count > 0) == (step->batch->taken != NULL));
    for (uint32_t i = 0; i < plan->taken_count; i++) {
        const struct cpu_tensor *tensor = &step->program->tensors[plan->taken[i]];
        memcpy(tensor->values, step->batch->taken[i],
               (size_t)step->batch->row_count * tensor->columns * sizeof(float));
    }
}

void cpu_walk_run(struct cpu_step *step, const struct step_batch *batch,
                  const struct sampled_token *before, uint32_t before_count,
                  struct sampled_token *results)
{
    check_batch(step->program, batch);
    check_images(step, batch);
    resolve_tokens(step, batch, before, before_count);
    step->results = results;
    for (uint32_t s = 0; s < batch->sequence_count; s++)
        for (uint32_t r = 0; r < batch->sequences[s].row_count; r++)
            step->row_sequence[batch->sequences[s].first_row + r] = s;
    if (step->adapters)
        cpu_adapters_begin(step->adapters, batch);
    copy_sources(step);
    copy_hidden(step);
    copy_taken(step);
    walk(step, 0, step->program->plan->op_count);
}

void cpu_walk_run_part(struct cpu_step *step, uint32_t first_op, uint32_t end_op,
                       const struct patch_part *part)
{
    must(step->patches && end_op <= step->program->plan->op_count);
    must(part->first < part->end && part->end <= step->patches->rows);
    step->part = *part;
    walk(step, first_op, end_op);
}
