/*
 * A row's computation here is what attention is in a real backend, made exact: read every visible
 * position through the block tables of every group and see that together they spell the sequence.
 * Each cell holds its token, its position and the hash of the prefix that ends with it, so the
 * cells of two sequences are told apart from the first differing token on.
 */
#include "tests/support/fake_backend.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/sample/token_counts.h"

struct cell {
    uint64_t prefix; /* hash of the tokens up to and with this one */
    uint32_t token;
    uint32_t position;
    bool written;
};

struct fake_backend {
    struct backend backend;
    struct kv_layout layout;
    uint32_t kv_blocks[KV_GROUPS_MAX];
    struct cell *cells[KV_GROUPS_MAX]; /* [blocks, KV_BLOCK_TOKENS] */
    uint32_t vocab_tokens;
    struct fake_backend_totals totals;
    enum result fail_next;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

uint64_t fake_backend_hash(uint64_t prefix, uint32_t token)
{
    return mix(prefix * 31 + token + 1);
}

/* Order of entries does not matter, so it may differ between a first run and a replay. */
static uint64_t counts_hash(const struct token_counts *counts)
{
    uint64_t sum = 0;
    uint32_t size = counts ? token_counts_size(counts) : 0;
    for (uint32_t i = 0; i < size; i++) {
        struct token_count count = token_counts_at(counts, i);
        sum += mix(((uint64_t)count.token << 40) + ((uint64_t)count.prompt << 20) +
                   count.generated + 1);
    }
    return sum;
}

struct sampled_token fake_backend_draw(uint64_t prefix, uint32_t vocab_tokens,
                                       const struct row_sampling *sampling)
{
    uint64_t hash = mix(prefix + sampling->params->seed);
    hash = mix(hash + sampling->position);
    hash = mix(hash + counts_hash(sampling->counts));
    for (uint32_t i = 0; i < sampling->logit_bias_count; i++)
        hash = mix(hash + sampling->logit_bias[i].token);
    struct sampled_token sampled = {.token = (uint32_t)(hash % vocab_tokens)};
    if (sampling->wants_logprob)
        sampled.logprob = -(float)(hash >> 40) * 0x1p-24f;
    return sampled;
}

static struct cell *cell_at(struct fake_backend *fake, const struct step_sequence *sequence,
                            uint32_t group, uint32_t position)
{
    uint32_t block = sequence->block_tables[group][position / KV_BLOCK_TOKENS];
    must(block < fake->kv_blocks[group]);
    return &fake->cells[group][(size_t)block * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS];
}

static void write_row(struct fake_backend *fake, const struct step_sequence *sequence,
                      uint32_t position, uint32_t token)
{
    for (uint32_t group = 0; group < fake->layout.group_count; group++) {
        uint64_t before = 0;
        if (position > 0)
            before = cell_at(fake, sequence, group, position - 1)->prefix;
        *cell_at(fake, sequence, group, position) =
            (struct cell){.prefix = fake_backend_hash(before, token),
                          .token = token,
                          .position = position,
                          .written = true};
    }
}

/* Every position that a query at `position` sees; returns the prefix hash at `position`. */
static uint64_t read_row(struct fake_backend *fake, const struct step_sequence *sequence,
                         uint32_t position)
{
    uint64_t prefix = 0;
    for (uint32_t group = 0; group < fake->layout.group_count; group++) {
        uint32_t window = fake->layout.groups[group].window;
        uint32_t first = window > 0 && position + 1 > window ? position + 1 - window : 0;
        uint64_t before = 0;
        for (uint32_t at = first; at <= position; at++) {
            const struct cell *cell = cell_at(fake, sequence, group, at);
            must(cell->written && cell->position == at);
            must((at == first && at > 0) || cell->prefix == fake_backend_hash(before, cell->token));
            before = cell->prefix;
        }
        must(group == 0 || prefix == before);
        prefix = before;
    }
    return prefix;
}

static enum result fake_step_run(struct backend *backend, const struct step_batch *batch,
                                 struct sampled_token *results, struct error_text *error)
{
    struct fake_backend *fake = (struct fake_backend *)backend;
    if (fake->fail_next != RESULT_OK)
        return error_set(error, fake->fail_next, "the fake backend was told to fail");
    fake->totals.steps++;
    fake->totals.rows += batch->row_count;
    if (batch->row_count > fake->totals.most_rows)
        fake->totals.most_rows = batch->row_count;
    uint32_t row = 0;
    uint32_t draw = 0;
    /* Writes of all sequences first: a block that two of them share is overwritten before it is
     * read. */
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct step_sequence *sequence = &batch->sequences[i];
        must(sequence->first_row == row && sequence->row_count > 0);
        for (uint32_t j = 0; j < sequence->row_count; j++, row++)
            write_row(fake, sequence, sequence->first_position + j, batch->token_ids[row]);
    }
    must(row == batch->row_count);
    row = 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct step_sequence *sequence = &batch->sequences[i];
        for (uint32_t j = 0; j < sequence->row_count; j++, row++) {
            uint64_t prefix = read_row(fake, sequence, sequence->first_position + j);
            if (draw < batch->logit_row_count && batch->logit_rows[draw] == row) {
                results[draw] =
                    fake_backend_draw(prefix, fake->vocab_tokens, &batch->samplings[draw]);
                draw++;
            }
        }
    }
    must(draw == batch->logit_row_count);
    return RESULT_OK;
}

static void fake_destroy(struct backend *backend)
{
    struct fake_backend *fake = (struct fake_backend *)backend;
    for (uint32_t group = 0; group < KV_GROUPS_MAX; group++)
        free(fake->cells[group]);
    free(fake);
}

static const struct backend_interface fake_interface = {
    .step_run = fake_step_run,
    .destroy = fake_destroy,
};

struct backend *fake_backend_create(const struct kv_layout *layout,
                                    const uint32_t kv_blocks[KV_GROUPS_MAX], uint32_t vocab_tokens)
{
    struct fake_backend *fake = must_alloc(1, sizeof *fake);
    fake->backend.interface = &fake_interface;
    fake->layout = *layout;
    fake->vocab_tokens = vocab_tokens;
    for (uint32_t group = 0; group < layout->group_count; group++) {
        fake->kv_blocks[group] = kv_blocks[group];
        fake->cells[group] =
            must_alloc((size_t)kv_blocks[group] * KV_BLOCK_TOKENS, sizeof(struct cell));
    }
    return &fake->backend;
}

struct fake_backend_totals fake_backend_totals(const struct backend *backend)
{
    return ((const struct fake_backend *)backend)->totals;
}

void fake_backend_fail_next(struct backend *backend, enum result result)
{
    ((struct fake_backend *)backend)->fail_next = result;
}
