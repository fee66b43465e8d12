/*
 * A row does what attention does in a real backend, but exactly: it reads every visible position
 * through the block tables of every group and checks that together they are the sequence. Each cell
 * holds its token, its position and the hash of the prefix that ends with it, so the cells of two
 * sequences differ from the first different token on.
 */
#include "tests/support/fake_backend.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/sample/token_counts.h"

struct cell {
    uint64_t prefix; /* hash of the values up to and with this one */
    uint64_t value;  /* of its row: the token, or what fake_vision_row() says */
    uint32_t position;
    bool written;
};

/* State of a slot, as the rows of its sequence left it. */
struct recurrent_state {
    uint64_t prefix;
    uint32_t positions;
};

/* A place of a deferred row. */
struct deferred_row {
    uint64_t value;
    uint32_t position;
    uint64_t step; /* that wrote or read it last */
};

/* A requested draw; its counts are copied. */
struct wanted_draw {
    uint32_t row;
    struct sampling_params params;
    struct row_sampling sampling; /* its `counts` only shows whether there are any */
    struct logit_bias_entry *logit_bias;
    uint32_t barred[ROW_BARRED_MAX];
    uint32_t *mask;             /* or NULL */
    struct token_count *counts; /* [count_size], with room for one more */
    uint32_t count_size;
};

/* A full copy of a launched step, so the scheduler cannot change it afterwards. */
struct launched_step {
    uint32_t row_count;
    uint32_t *tokens;   /* [row_count] */
    uint64_t *values;   /* [row_count] once it is computed */
    uint32_t *features; /* [row_count], as the next two; NULL as in the batch */
    struct rope_position *ropes;
    uint32_t *visible_ends;
    uint64_t number;
    uint32_t sequence_count;
    struct step_sequence *sequences; /* [sequence_count]; their block tables are copies */
    uint32_t draw_count;
    struct wanted_draw *draws;     /* [draw_count] */
    struct sampled_token *results; /* [draw_count] */
};

struct fake_backend {
    struct backend backend;
    struct fake_backend_options options;
    struct cell *cells[KV_GROUPS_MAX]; /* [blocks, KV_BLOCK_TOKENS] */
    struct recurrent_state *states;    /* [state_slots] */
    struct deferred_row *deferred;     /* [deferred_places] */
    uint64_t computed;                 /* steps, so far */
    struct fake_vision *vision;        /* or NULL */
    struct launched_step
        steps[STEP_DEPTH_MAX + 1]; /* a ring; keeps the step before the oldest one */
    uint32_t newest;               /* index into steps */
    uint32_t under_way;
    struct fake_backend_totals totals;
    bool awaits_masks;                      /* of the newest step */
    const _Atomic uint64_t *masks_computed; /* or NULL */
    uint64_t masks_at_launch;
    enum result fail_launch;
    enum result fail_wait;
};
#define STEP_SLOTS (STEP_DEPTH_MAX + 1)

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

uint64_t fake_backend_hash(uint64_t prefix, uint64_t token)
{
    return mix(prefix * 31 + token + 1);
}

static uint64_t count_hash(struct token_count count)
{
    uint64_t hash = mix(((uint64_t)count.token << 40) + ((uint64_t)count.repetition << 20) +
                        count.presence + 1);
    return mix(hash + count.frequency);
}

static struct sampled_token draw(uint64_t prefix, uint32_t vocab_tokens,
                                 const struct row_sampling *sampling, uint64_t counts_hash)
{
    uint64_t hash = mix(prefix + sampling->params->seed);
    hash = mix(hash + sampling->position);
    hash = mix(hash + counts_hash);
    for (uint32_t i = 0; i < sampling->logit_bias_count; i++)
        hash = mix(hash + sampling->logit_bias[i].token);
    struct sampled_token sampled = {.token = (uint32_t)(hash % vocab_tokens)};
    for (uint32_t i = 0; i < sampling->barred_count; i++) {
        if (sampling->barred[i] != sampled.token)
            continue;
        sampled.token = (sampled.token + 1) % vocab_tokens;
        i = UINT32_MAX; /* continues with the first one */
    }
    while (sampling->mask && (sampling->mask[sampled.token / 32] >> sampled.token % 32 & 1) == 0)
        sampled.token = (sampled.token + 1) % vocab_tokens;
    if (sampling->is_forced)
        sampled.token = sampling->forced_token;
    if (sampling->wants_logprob) {
        sampled.logprob = -(float)(hash >> 40) * 0x1p-24f;
        sampled.rank = 1 + (uint32_t)(hash % vocab_tokens);
    }
    for (; sampled.alternative_count < sampling->top_logprobs; sampled.alternative_count++)
        sampled.alternatives[sampled.alternative_count] = (struct token_logprob){
            .token = (uint32_t)(mix(hash + sampled.alternative_count) % vocab_tokens),
            .logprob = -(float)sampled.alternative_count};
    return sampled;
}

struct sampled_token fake_backend_draw(uint64_t prefix, uint32_t vocab_tokens,
                                       const struct row_sampling *sampling)
{
    /* Order of entries does not matter, so it may differ between a first run and a replay. */
    uint64_t sum = 0;
    uint32_t size = sampling->counts ? token_counts_size(sampling->counts) : 0;
    for (uint32_t i = 0; i < size; i++)
        sum += count_hash(token_counts_at(sampling->counts, i));
    return draw(prefix, vocab_tokens, sampling, sum);
}

static struct cell *cell_at(struct fake_backend *fake, const struct step_sequence *sequence,
                            uint32_t group, uint32_t position)
{
    uint32_t block = sequence->block_tables[group][position / KV_BLOCK_TOKENS];
    must(block < fake->options.kv_blocks[group]);
    return &fake->cells[group][(size_t)block * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS];
}

/* True if the group holds the position. A group that holds an opening has no positions after it, and
 * rows after the opening do not read the group. */
static bool is_covered(const struct fake_backend *fake, uint32_t group, uint32_t position)
{
    return kv_layout_covered_tokens(fake->options.layout, group, position + 1) == position + 1;
}

static void write_row(struct fake_backend *fake, const struct step_sequence *sequence,
                      uint32_t position, uint64_t value)
{
    for (uint32_t group = 0; group < fake->options.layout->group_count; group++) {
        uint64_t before = 0;
        if (!is_covered(fake, group, position))
            continue;
        if (position > 0)
            before = cell_at(fake, sequence, group, position - 1)->prefix;
        *cell_at(fake, sequence, group, position) =
            (struct cell){.prefix = fake_backend_hash(before, value),
                          .value = value,
                          .position = position,
                          .written = true};
    }
}

static void copy_state(struct fake_backend *fake, uint32_t from, uint32_t to)
{
    uint32_t slots = fake->options.state_slots;
    must(from < slots && to < slots && from != to);
    fake->states[to] = fake->states[from];
}

/* A state can only be advanced by the row of the next position; a row at position 0 starts anew. */
static void move_state(struct fake_backend *fake, const struct step_sequence *sequence,
                       uint32_t position, uint64_t value)
{
    must(sequence->state_slot < fake->options.state_slots);
    struct recurrent_state *state = &fake->states[sequence->state_slot];
    if (position == 0)
        *state = (struct recurrent_state){0};
    must(state->positions == position);
    state->prefix = fake_backend_hash(state->prefix, value);
    state->positions++;
    uint32_t end = sequence->first_position + sequence->row_count - sequence->deferred_rows;
    if (sequence->state_copy != STATE_SLOT_NONE && position + 1 + sequence->rows_after_copy == end)
        copy_state(fake, sequence->state_slot, sequence->state_copy);
}

/* Late rows, then those of the step; `values`: of the latter. */
static void move_states(struct fake_backend *fake, const struct step_sequence *sequence,
                        uint64_t step, const uint64_t *values)
{
    uint32_t certain = sequence->row_count - sequence->deferred_rows;
    if (fake->options.state_slots == 0) {
        must(sequence->state_slot == STATE_SLOT_NONE && sequence->deferred_rows == 0);
        must(sequence->late_rows == 0 && sequence->state_copy == STATE_SLOT_NONE);
        return;
    }
    must(sequence->late_rows <= sequence->first_position);
    for (uint32_t i = 0; i < sequence->late_rows; i++) {
        uint32_t position = sequence->first_position - sequence->late_rows + i;
        must(sequence->late_place + i < fake->options.deferred_places);
        struct deferred_row *row = &fake->deferred[sequence->late_place + i];
        must(row->position == position && row->step < step);
        move_state(fake, sequence, position, row->value);
        row->step = step; /* and is not written in this step */
    }
    for (uint32_t i = 0; i < certain; i++)
        move_state(fake, sequence, sequence->first_position + i, values[i]);
    for (uint32_t i = 0; i < sequence->deferred_rows; i++) {
        must(sequence->deferred_place + i < fake->options.deferred_places);
        struct deferred_row *row = &fake->deferred[sequence->deferred_place + i];
        must(row->step < step);
        *row = (struct deferred_row){values[certain + i], sequence->first_position + certain + i,
                                     step};
    }
}

/* Reads every position that a query at `position` sees; returns the prefix hash at `position`. */
static uint64_t read_row(struct fake_backend *fake, const struct step_sequence *sequence,
                         uint32_t position)
{
    uint64_t prefix = 0;
    for (uint32_t group = 0; group < fake->options.layout->group_count; group++) {
        if (!is_covered(fake, group, position))
            continue;
        uint32_t window = fake->options.layout->groups[group].window;
        uint32_t first = window > 0 && position + 1 > window ? position + 1 - window : 0;
        uint64_t before = 0;
        for (uint32_t at = first; at <= position; at++) {
            const struct cell *cell = cell_at(fake, sequence, group, at);
            must(cell->written && cell->position == at);
            must((at == first && at > 0) || cell->prefix == fake_backend_hash(before, cell->value));
            before = cell->prefix;
        }
        must(group == 0 || prefix == before);
        prefix = before;
    }
    return prefix;
}

/* --- steps -------------------------------------------------------------------------------------*/

static void copy_draw(struct wanted_draw *to, const struct step_batch *batch, uint32_t index,
                      uint32_t vocab_tokens)
{
    const struct row_sampling *from = &batch->samplings[index];
    *to = (struct wanted_draw){
        .row = batch->logit_rows[index], .params = *from->params, .sampling = *from};
    to->logit_bias = must_alloc(from->logit_bias_count + 1, sizeof *to->logit_bias);
    for (uint32_t i = 0; i < from->logit_bias_count; i++)
        to->logit_bias[i] = from->logit_bias[i];
    to->sampling.params = &to->params;
    to->sampling.logit_bias = to->logit_bias;
    for (uint32_t i = 0; i < from->barred_count; i++)
        to->barred[i] = from->barred[i];
    to->sampling.barred = to->barred;
    if (from->mask) {
        uint32_t words = (vocab_tokens + 31) / 32;
        to->mask = must_alloc(words, sizeof *to->mask);
        memcpy(to->mask, from->mask, words * sizeof *to->mask);
    }
    to->sampling.mask = to->mask;
    if (from->counts) {
        to->count_size = token_counts_size(from->counts);
        to->counts = must_alloc(to->count_size + 1, sizeof *to->counts);
        uint32_t seen = 0;
        uint32_t generated = 0;
        for (uint32_t i = 0; i < to->count_size; i++) {
            to->counts[i] = token_counts_at(from->counts, i);
            seen += to->counts[i].repetition;
            generated += to->counts[i].frequency;
        }
        bool counts_all =
            from->params->repetition_context == 0 && from->params->frequency_context == 0;
        must(!counts_all || seen - generated == from->first_generated);
    }
}

/* NULL stays NULL. */
static void *copy_rows(const void *from, uint32_t count, size_t bytes)
{
    if (!from)
        return NULL;
    void *to = must_alloc(count, bytes);
    memcpy(to, from, count * bytes);
    return to;
}

static void copy_step(struct launched_step *step, const struct fake_backend *fake,
                      const struct step_batch *batch)
{
    *step = (struct launched_step){.row_count = batch->row_count,
                                   .sequence_count = batch->sequence_count,
                                   .draw_count = batch->logit_row_count};
    step->tokens = must_alloc(batch->row_count, sizeof *step->tokens);
    memcpy(step->tokens, batch->token_ids, batch->row_count * sizeof *step->tokens);
    step->values = must_alloc(batch->row_count, sizeof *step->values);
    step->features = copy_rows(batch->feature_rows, batch->row_count, sizeof(uint32_t));
    step->ropes = copy_rows(batch->rope_positions, batch->row_count, sizeof(struct rope_position));
    step->visible_ends = copy_rows(batch->visible_ends, batch->row_count, sizeof(uint32_t));
    step->sequences = must_alloc(batch->sequence_count, sizeof *step->sequences);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        step->sequences[i] = batch->sequences[i];
        uint32_t positions = batch->sequences[i].first_position + batch->sequences[i].row_count;
        for (uint32_t group = 0; group < fake->options.layout->group_count; group++) {
            uint32_t covered = kv_layout_covered_tokens(fake->options.layout, group, positions);
            uint32_t blocks = (covered + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
            uint32_t *table = must_alloc(blocks, sizeof *table);
            memcpy(table, batch->sequences[i].block_tables[group], blocks * sizeof *table);
            step->sequences[i].block_tables[group] = table;
        }
    }
    step->draws = must_alloc(step->draw_count + 1, sizeof *step->draws);
    step->results = must_alloc(step->draw_count + 1, sizeof *step->results);
    for (uint32_t i = 0; i < step->draw_count; i++)
        copy_draw(&step->draws[i], batch, i, fake->options.vocab_tokens);
}

static void free_step(struct launched_step *step, uint32_t group_count)
{
    for (uint32_t i = 0; i < step->sequence_count; i++)
        for (uint32_t group = 0; group < group_count; group++)
            free((void *)(uintptr_t)step->sequences[i].block_tables[group]);
    for (uint32_t i = 0; i < step->draw_count; i++) {
        free(step->draws[i].logit_bias);
        free(step->draws[i].counts);
        free(step->draws[i].mask);
    }
    free(step->tokens);
    free(step->values);
    free(step->features);
    free(step->ropes);
    free(step->visible_ends);
    free(step->sequences);
    free(step->draws);
    free(step->results);
    *step = (struct launched_step){0};
}

/* Counts `token` as generated once more. */
static void count_token(struct wanted_draw *wanted, uint32_t token)
{
    uint32_t at = 0;
    while (at < wanted->count_size && wanted->counts[at].token != token)
        at++;
    if (at == wanted->count_size)
        wanted->counts[wanted->count_size++] = (struct token_count){.token = token};
    wanted->counts[at].repetition++;
    wanted->counts[at].presence++;
    wanted->counts[at].frequency++;
}

/* Fills in tokens that the previous step drew, and adds them to counts that lack them. */
static void resolve_tokens(const struct fake_backend *fake, struct launched_step *step,
                           const struct launched_step *before)
{
    for (uint32_t i = 0; i < step->row_count; i++) {
        if (!(step->tokens[i] & STEP_TOKEN_SAMPLED))
            continue;
        uint32_t index = step->tokens[i] & ~STEP_TOKEN_SAMPLED;
        must(index < before->draw_count);
        step->tokens[i] = before->results[index].token;
        for (uint32_t j = 0; j < step->draw_count; j++) {
            if (step->draws[j].row != i || !step->draws[j].counts)
                continue;
            must(fake->options.counts_ahead);
            count_token(&step->draws[j], step->tokens[i]);
        }
    }
}

/* Copies the states that sequences begin with, before any of them advances. */
static void copy_sources(struct fake_backend *fake, const struct launched_step *step)
{
    for (uint32_t i = 0; i < step->sequence_count; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        if (sequence->state_source == STATE_SLOT_NONE)
            continue;
        must(sequence->first_position > 0);
        copy_state(fake, sequence->state_source, sequence->state_slot);
    }
}

/* Computes the value of each row. */
static void find_values(const struct fake_backend *fake, struct launched_step *step)
{
    for (uint32_t i = 0; i < step->sequence_count; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        for (uint32_t j = 0; j < sequence->row_count; j++) {
            uint32_t row = sequence->first_row + j;
            uint32_t at = sequence->first_position + j;
            struct fake_row made = {step->tokens[row], at, {at, at, at}, at + 1};
            if (step->features && step->features[row] != ROW_FEATURE_NONE)
                made.value = fake_vision_read(fake->vision, step->features[row]);
            if (step->ropes)
                made.rope = step->ropes[row];
            if (step->visible_ends)
                made.visible_end = step->visible_ends[row];
            must(made.visible_end > at);
            must(made.visible_end <= sequence->first_position + sequence->row_count);
            step->values[row] = fake_vision_row(&made);
        }
    }
}

static void compute(struct fake_backend *fake, struct launched_step *step,
                    const struct launched_step *before)
{
    fake->computed++;
    resolve_tokens(fake, step, before);
    copy_sources(fake, step);
    if (fake->vision)
        fake_vision_settle(fake->vision, step->number);
    find_values(fake, step);
    uint32_t row = 0;
    uint32_t drawn = 0;
    /* All sequences write before any reads, so a block that two of them share wrongly is overwritten
     * before it is read. */
    for (uint32_t i = 0; i < step->sequence_count; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        must(sequence->first_row == row && sequence->row_count > 0);
        move_states(fake, sequence, fake->computed, step->values + row);
        for (uint32_t j = 0; j < sequence->row_count; j++, row++)
            write_row(fake, sequence, sequence->first_position + j, step->values[row]);
    }
    must(row == step->row_count);
    row = 0;
    for (uint32_t i = 0; i < step->sequence_count; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        for (uint32_t j = 0; j < sequence->row_count; j++, row++) {
            uint64_t prefix = read_row(fake, sequence, sequence->first_position + j);
            if (fake->options.state_slots > 0 &&
                j + 1 + sequence->deferred_rows == sequence->row_count)
                must(fake->states[sequence->state_slot].prefix == prefix);
            if (drawn == step->draw_count || step->draws[drawn].row != row)
                continue;
            const struct wanted_draw *wanted = &step->draws[drawn];
            uint64_t sum = 0;
            for (uint32_t at = 0; at < wanted->count_size; at++)
                sum += count_hash(wanted->counts[at]);
            step->results[drawn++] =
                draw(prefix, fake->options.vocab_tokens, &wanted->sampling, sum);
        }
    }
    must(drawn == step->draw_count);
}

static struct fake_backend *own(struct backend *backend)
{
    return (struct fake_backend *)backend;
}

static uint32_t fake_step_depth(const struct backend *backend)
{
    return ((const struct fake_backend *)backend)->options.step_depth;
}

static bool fake_draws_ahead(const struct backend *backend, const struct row_sampling *sampling)
{
    const struct sampling_params *params = sampling->params;
    bool has_contexts = params->repetition_context > 0 || params->presence_context > 0 ||
                        params->frequency_context > 0;
    bool counts_ahead = ((const struct fake_backend *)backend)->options.counts_ahead;
    return !sampling->counts || (counts_ahead && !has_contexts);
}

static enum result fake_step_launch(struct backend *backend, const struct step_batch *batch,
                                    struct error_text *error)
{
    struct fake_backend *fake = own(backend);
    if (fake->fail_launch != RESULT_OK)
        return error_set(error, fake->fail_launch, "the fake backend was told to fail");
    must(fake->under_way < fake->options.step_depth && !fake->awaits_masks);
    must(!batch->awaits_masks || fake->options.masks_follow);
    fake->awaits_masks = batch->awaits_masks;
    fake->totals.steps_awaiting += batch->awaits_masks;
    if (fake->masks_computed)
        fake->masks_at_launch = atomic_load(fake->masks_computed);
    fake->totals.steps++;
    fake->totals.rows += batch->row_count;
    if (batch->row_count > fake->totals.most_rows)
        fake->totals.most_rows = batch->row_count;
    for (uint32_t i = 0; i < batch->row_count; i++)
        fake->totals.rows_ahead += (batch->token_ids[i] & STEP_TOKEN_SAMPLED) != 0;
    const struct launched_step *before = &fake->steps[fake->newest];
    fake->newest = (fake->newest + 1) % STEP_SLOTS;
    struct launched_step *step = &fake->steps[fake->newest];
    free_step(step, fake->options.layout->group_count);
    copy_step(step, fake, batch);
    step->number = fake->vision ? fake_vision_launch(fake->vision) : 0;
    if (!fake->options.late && !fake->awaits_masks)
        compute(fake, step, before);
    fake->under_way++;
    fake->totals.steps_ahead += fake->under_way > 1;
    return RESULT_OK;
}

/* Takes the masks that came since the launch; everything else must be as it was. */
static void take_mask(struct fake_backend *fake, struct wanted_draw *wanted,
                      const struct row_sampling *sampling)
{
    uint32_t words = (fake->options.vocab_tokens + 31) / 32;
    must(sampling->position == wanted->sampling.position);
    must(sampling->params->seed == wanted->params.seed);
    if (wanted->mask || !sampling->mask) {
        must(!wanted->mask || (sampling->mask && memcmp(wanted->mask, sampling->mask,
                                                        words * sizeof *wanted->mask) == 0));
        fake->totals.free_beside_late += !sampling->mask;
        return;
    }
    must(!wanted->sampling.is_forced);
    wanted->mask = must_alloc(words, sizeof *wanted->mask);
    memcpy(wanted->mask, sampling->mask, words * sizeof *wanted->mask);
    wanted->sampling.mask = wanted->mask;
    wanted->sampling.is_forced = sampling->is_forced;
    wanted->sampling.forced_token = sampling->forced_token;
    fake->totals.late_masks++;
}

static enum result fake_step_draw(struct backend *backend, const struct row_sampling *samplings,
                                  struct error_text *error)
{
    struct fake_backend *fake = own(backend);
    struct launched_step *step = &fake->steps[fake->newest];
    (void)error;
    must(fake->awaits_masks && fake->under_way > 0);
    must(!fake->masks_computed || atomic_load(fake->masks_computed) > fake->masks_at_launch);
    for (uint32_t i = 0; i < step->draw_count; i++)
        take_mask(fake, &step->draws[i], &samplings[i]);
    if (!fake->options.late)
        compute(fake, step, &fake->steps[(fake->newest + STEP_SLOTS - 1) % STEP_SLOTS]);
    fake->awaits_masks = false;
    return RESULT_OK;
}

static enum result fake_step_wait(struct backend *backend, struct sampled_token *results,
                                  struct error_text *error)
{
    struct fake_backend *fake = own(backend);
    must(fake->under_way > 0 && !fake->awaits_masks);
    if (fake->fail_wait != RESULT_OK)
        return error_set(error, fake->fail_wait, "the fake backend was told to fail");
    uint32_t oldest = (fake->newest + STEP_SLOTS - --fake->under_way) % STEP_SLOTS;
    struct launched_step *step = &fake->steps[oldest];
    if (fake->options.late)
        compute(fake, step, &fake->steps[(oldest + STEP_SLOTS - 1) % STEP_SLOTS]);
    memcpy(results, step->results, step->draw_count * sizeof *results);
    return RESULT_OK;
}

static enum result fake_encode_begin(struct backend *backend, const struct encode_batch *batch,
                                     struct error_text *error)
{
    (void)error;
    fake_vision_begin(own(backend)->vision, batch);
    return RESULT_OK;
}

static enum result fake_encode_part(struct backend *backend, uint64_t work, uint64_t *left,
                                    struct error_text *error)
{
    (void)error;
    *left = fake_vision_part(own(backend)->vision, work);
    return RESULT_OK;
}

static void fake_destroy(struct backend *backend)
{
    struct fake_backend *fake = own(backend);
    for (uint32_t i = 0; i < STEP_SLOTS; i++)
        free_step(&fake->steps[i], fake->options.layout->group_count);
    for (uint32_t group = 0; group < KV_GROUPS_MAX; group++)
        free(fake->cells[group]);
    free(fake->states);
    free(fake->deferred);
    fake_vision_destroy(fake->vision);
    free(fake);
}

#define SHARED_FUNCTIONS                                                                           \
    .step_depth = fake_step_depth, .draws_ahead = fake_draws_ahead,                                \
    .step_launch = fake_step_launch, .step_wait = fake_step_wait,                                  \
    .encode_begin = fake_encode_begin, .encode_part = fake_encode_part, .destroy = fake_destroy

static const struct backend_interface fake_interface = {SHARED_FUNCTIONS};
static const struct backend_interface fake_interface_masks_follow = {.step_draw = fake_step_draw,
                                                                     SHARED_FUNCTIONS};

struct backend *fake_backend_create(const struct fake_backend_options *options)
{
    must(options->step_depth > 0 && options->step_depth <= STEP_DEPTH_MAX);
    struct fake_backend *fake = must_alloc(1, sizeof *fake);
    fake->backend.interface =
        options->masks_follow ? &fake_interface_masks_follow : &fake_interface;
    fake->options = *options;
    for (uint32_t group = 0; group < options->layout->group_count; group++)
        fake->cells[group] =
            must_alloc((size_t)options->kv_blocks[group] * KV_BLOCK_TOKENS, sizeof(struct cell));
    if (options->vision)
        fake->vision = fake_vision_create(&(struct fake_vision_options){
            options->vision, options->patch_rows, options->feature_rows, options->late});
    fake->states = must_alloc(options->state_slots + 1u, sizeof *fake->states);
    fake->deferred = must_alloc(options->deferred_places + 1u, sizeof *fake->deferred);
    return &fake->backend;
}

struct fake_backend_totals fake_backend_totals(const struct backend *backend)
{
    return ((const struct fake_backend *)backend)->totals;
}

struct fake_vision_totals fake_backend_vision_totals(const struct backend *backend)
{
    const struct fake_vision *vision = ((const struct fake_backend *)backend)->vision;
    return vision ? fake_vision_totals(vision) : (struct fake_vision_totals){0};
}

void fake_backend_watch_masks(struct backend *backend, const _Atomic uint64_t *masks_computed)
{
    own(backend)->masks_computed = masks_computed;
}

void fake_backend_fail_launch(struct backend *backend, enum result result)
{
    own(backend)->fail_launch = result;
}

void fake_backend_fail_wait(struct backend *backend, enum result result)
{
    own(backend)->fail_wait = result;
}
