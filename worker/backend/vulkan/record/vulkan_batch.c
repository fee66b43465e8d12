/*
 * Writes a step for the device. Sequences may share blocks, so the tables of all sequences together
 * are not bounded by the pool's blocks, and their buffer grows on demand.
 */
#include "worker/backend/vulkan/record/vulkan_batch.h"

#include <string.h>

#include "proto/must.h"

#define RANGE_ENTRIES 2u /* of the tables, for a range */
_Static_assert(sizeof(struct feature_range) == RANGE_ENTRIES * sizeof(uint32_t), "two words");

static uint64_t align_section(uint64_t bytes)
{
    return (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
}

static uint64_t sequences_offset(const struct vulkan_batch *batch)
{
    return align_section(batch->limits.rows * sizeof(struct vulkan_step_row));
}

static uint64_t moves_offset(const struct vulkan_batch *batch)
{
    return sequences_offset(batch) +
           align_section(batch->limits.rows * sizeof(struct vulkan_step_sequence));
}

static uint64_t logit_rows_offset(const struct vulkan_batch *batch)
{
    return moves_offset(batch) +
           align_section(batch->limits.rows * sizeof(struct vulkan_step_move));
}

static uint64_t tiles_offset(const struct vulkan_batch *batch)
{
    return logit_rows_offset(batch) + align_section(batch->limits.rows * sizeof(uint32_t));
}

static uint64_t sights_offset(const struct vulkan_batch *batch)
{
    return tiles_offset(batch) +
           align_section(batch->limits.rows * sizeof(struct vulkan_step_tile));
}

static uint64_t sights_bytes(const struct vulkan_batch *batch)
{
    return align_section(batch->limits.rows * sizeof(struct vulkan_step_sight));
}

static uint64_t near_offset(const struct vulkan_batch *batch)
{
    return sights_offset(batch) + (batch->limits.sights ? sights_bytes(batch) : 0);
}

static uint64_t openings_offset(const struct vulkan_batch *batch)
{
    return near_offset(batch) + (batch->limits.near > 0 ? sights_bytes(batch) : 0);
}

static uint64_t beyond_offset(const struct vulkan_batch *batch)
{
    return openings_offset(batch) +
           align_section(batch->limits.rows * sizeof(struct vulkan_step_sequence));
}

static uint64_t adapters_offset(const struct vulkan_batch *batch)
{
    bool opens = batch->limits.layout->quantization.start_tokens > 0;
    return opens ? beyond_offset(batch) +
                       align_section(batch->limits.rows * sizeof(struct vulkan_step_sequence))
                 : openings_offset(batch);
}

/* Of rows, or of logit rows: their order, then their tiles. */
static uint64_t order_offset(const struct vulkan_batch *batch, uint32_t logits)
{
    return adapters_offset(batch) +
           logits * (align_section(batch->limits.rows * sizeof(uint32_t)) +
                     align_section(batch->limits.rows * sizeof(struct adapter_tile)));
}

static uint64_t adapter_tiles_offset(const struct vulkan_batch *batch, uint32_t logits)
{
    return order_offset(batch, logits) + align_section(batch->limits.rows * sizeof(uint32_t));
}

static void init_adapters(struct vulkan_batch *batch)
{
    for (uint32_t logits = 0; logits < 2 && batch->limits.adapters; logits++) {
        adapter_rows_init(&batch->adapter_rows[logits], batch->limits.rows,
                          VULKAN_ADAPTER_TILE_ROWS);
        batch->adapter_orders_address[logits] = batch->buffer.address + order_offset(batch, logits);
        batch->adapter_tiles_address[logits] =
            batch->buffer.address + adapter_tiles_offset(batch, logits);
    }
}

static enum result make_tables(struct vulkan_batch *batch, uint64_t entries,
                               struct error_text *error)
{
    vulkan_buffer_destroy(batch->device, &batch->tables);
    return vulkan_buffer_create(batch->device, VULKAN_UPLOAD, entries * sizeof(uint32_t),
                                "block tables", &batch->tables, error);
}

enum result vulkan_batch_init(struct vulkan_batch *batch, const struct vulkan_device *device,
                              const struct vulkan_batch_limits *limits, uint32_t table_entries,
                              struct error_text *error)
{
    *batch = (struct vulkan_batch){.device = device, .limits = *limits};
    uint64_t bytes = limits->adapters ? order_offset(batch, 2) : adapters_offset(batch);
    enum result result =
        vulkan_buffer_create(device, VULKAN_UPLOAD, bytes, "step data", &batch->buffer, error);
    if (result == RESULT_OK)
        result = make_tables(batch, table_entries, error);
    batch->rows_address = batch->buffer.address;
    batch->sequences_address = batch->buffer.address + sequences_offset(batch);
    batch->moves_address = batch->buffer.address + moves_offset(batch);
    batch->logit_rows_address = batch->buffer.address + logit_rows_offset(batch);
    batch->tiles_address = batch->buffer.address + tiles_offset(batch);
    batch->sights_address = batch->buffer.address + sights_offset(batch);
    batch->near_address = batch->buffer.address + near_offset(batch);
    batch->opening_address = batch->buffer.address + openings_offset(batch);
    batch->beyond_address = batch->buffer.address + beyond_offset(batch);
    init_adapters(batch);
    return result;
}

void vulkan_batch_fini(struct vulkan_batch *batch)
{
    if (!batch->device)
        return;
    adapter_rows_fini(&batch->adapter_rows[0]);
    adapter_rows_fini(&batch->adapter_rows[1]);
    vulkan_buffer_destroy(batch->device, &batch->buffer);
    vulkan_buffer_destroy(batch->device, &batch->tables);
}

/* Entries that the sequence has in the group. */
static uint32_t table_entries(const struct vulkan_batch *batch, uint32_t group,
                              const struct step_sequence *sequence)
{
    uint32_t covered = kv_layout_covered_tokens(batch->limits.layout, group,
                                                sequence->first_position + sequence->row_count);
    return (covered - 1) / KV_BLOCK_TOKENS + 1;
}

static uint64_t count_entries(const struct vulkan_batch *batch, const struct step_batch *step)
{
    uint64_t entries = 0;
    for (uint32_t s = 0; s < step->sequence_count; s++)
        for (uint32_t group = 0; group < batch->limits.layout->group_count; group++)
            entries += table_entries(batch, group, &step->sequences[s]);
    return entries;
}

static struct vulkan_step_row make_row(uint32_t token, uint32_t position, uint32_t sequence)
{
    struct vulkan_step_row row = {.token = token, .position = position, .sequence = sequence};
    if (token & STEP_TOKEN_SAMPLED) {
        row.token = 0;
        row.drawn = VULKAN_STEP_DRAWN | (token & ~STEP_TOKEN_SAMPLED);
    }
    return row;
}

/* Number of the sequence's rows in the step that see only the opening. The range of a row never
 * ends before that of the row before it. */
static uint32_t opening_rows(const struct vulkan_batch *batch, const struct step_batch *step,
                             const struct step_sequence *sequence)
{
    uint32_t opening = batch->limits.layout->quantization.start_tokens, count = 0;
    for (; count < sequence->row_count; count++) {
        uint32_t end = sequence->first_position + count + 1;
        if (step->visible_ends)
            end = step->visible_ends[sequence->first_row + count];
        if (end > opening)
            break;
    }
    return count;
}

/* For attention only: by what the single row of the sequence sees. */
static void fill_opening(struct vulkan_batch *batch, const struct step_batch *step, uint32_t index,
                         struct vulkan_step_sequence to)
{
    const struct step_sequence *from = &step->sequences[index];
    uint8_t *opening = (uint8_t *)batch->buffer.mapped + openings_offset(batch);
    uint8_t *beyond = (uint8_t *)batch->buffer.mapped + beyond_offset(batch);
    uint32_t early = opening_rows(batch, step, from);
    to.row_count = from->row_count == 1 ? early : 0;
    memcpy(opening + index * sizeof to, &to, sizeof to);
    to.row_count = from->row_count == 1 ? 1 - early : 0;
    memcpy(beyond + index * sizeof to, &to, sizeof to);
    batch->has_openings |= from->first_position < batch->limits.layout->quantization.start_tokens;
}

static void fill_move(struct vulkan_batch *batch, const struct step_sequence *from, uint32_t index)
{
    uint32_t advancing = from->late_rows + from->row_count - from->deferred_rows;
    must(from->deferred_rows < from->row_count && from->rows_after_copy < advancing);
    const struct vulkan_step_move move = {.deferred_rows = from->deferred_rows,
                                          .deferred_place = from->deferred_place,
                                          .late_rows = from->late_rows,
                                          .late_place = from->late_place,
                                          .copied_after = advancing - from->rows_after_copy,
                                          .state_copy = from->state_copy};
    memcpy((uint8_t *)batch->buffer.mapped + moves_offset(batch) + index * sizeof move, &move,
           sizeof move);
}

static void fill_sequence(struct vulkan_batch *batch, const struct step_batch *step, uint32_t index,
                          uint32_t *next_entry)
{
    uint8_t *bytes = batch->buffer.mapped;
    const struct step_sequence *from = &step->sequences[index];
    struct vulkan_step_sequence to = {.first_row = from->first_row,
                                      .row_count = from->row_count,
                                      .first_position = from->first_position,
                                      .state_slot = from->state_slot};
    for (uint32_t group = 0; group < batch->limits.layout->group_count; group++) {
        uint32_t entries = table_entries(batch, group, from);
        to.table[group] = *next_entry;
        memcpy((uint32_t *)batch->tables.mapped + *next_entry, from->block_tables[group],
               entries * sizeof(uint32_t));
        *next_entry += entries;
    }
    memcpy(bytes + sequences_offset(batch) + index * sizeof to, &to, sizeof to);
    fill_move(batch, from, index);
    if (batch->limits.layout->quantization.start_tokens > 0)
        fill_opening(batch, step, index, to);
    struct vulkan_step_row *rows = (struct vulkan_step_row *)(void *)bytes;
    for (uint32_t r = 0; r < from->row_count; r++)
        rows[from->first_row + r] =
            make_row(step->token_ids[from->first_row + r], from->first_position + r, index);
}

/* Cuts rows [done, end) of a sequence. */
static void cut_rows(struct vulkan_batch *batch, const struct step_sequence *sequence,
                     uint32_t index, uint32_t done, uint32_t end)
{
    struct vulkan_step_tile *tiles =
        (struct vulkan_step_tile *)(void *)((uint8_t *)batch->buffer.mapped + tiles_offset(batch));
    for (; done < end; done += batch->limits.tile_rows) {
        uint32_t left = end - done;
        must(batch->tile_count < batch->limits.rows);
        tiles[batch->tile_count++] = (struct vulkan_step_tile){
            .sequence = index,
            .first_row = sequence->first_row + done,
            .row_count = left < batch->limits.tile_rows ? left : batch->limits.tile_rows,
            .first_position = sequence->first_position + done};
    }
}

static bool is_decode(const struct vulkan_batch *batch, const struct step_sequence *sequence)
{
    return sequence->row_count == 1 && !batch->limits.tiles_only;
}

/* Cuts sequences other than decodes into tiles; tiles that see only the opening come first. */
static void fill_tiles(struct vulkan_batch *batch, const struct step_batch *step)
{
    batch->decode_count = 0;
    batch->tile_count = 0;
    for (uint32_t s = 0; s < step->sequence_count; s++) {
        const struct step_sequence *sequence = &step->sequences[s];
        if (is_decode(batch, sequence))
            batch->decode_count++;
        else
            cut_rows(batch, sequence, s, 0, opening_rows(batch, step, sequence));
    }
    batch->opening_tiles = batch->tile_count;
    for (uint32_t s = 0; s < step->sequence_count; s++) {
        const struct step_sequence *sequence = &step->sequences[s];
        if (!is_decode(batch, sequence))
            cut_rows(batch, sequence, s, opening_rows(batch, step, sequence), sequence->row_count);
    }
}

/* The row's sight: from the step, or its default. Ranges begin at entry `first_range` of the tables. */
static void fill_sights(struct vulkan_batch *batch, const struct step_batch *step,
                        const struct step_sequence *sequence, uint32_t first_range)
{
    struct vulkan_step_sight *sights =
        (struct vulkan_step_sight *)(void *)((uint8_t *)batch->buffer.mapped +
                                             sights_offset(batch));
    struct vulkan_step_sight *near =
        (struct vulkan_step_sight *)(void *)((uint8_t *)batch->buffer.mapped + near_offset(batch));
    uint32_t end = 0;
    for (uint32_t r = 0; r < sequence->row_count; r++) {
        uint32_t row = sequence->first_row + r, at = sequence->first_position + r;
        struct vulkan_step_sight sight = {
            .position = {at, at, at}, .feature = ROW_FEATURE_NONE, .end = at + 1};
        if (step->rope_positions)
            sight.position = step->rope_positions[row];
        if (step->feature_rows)
            sight.feature = step->feature_rows[row];
        if (step->visible_ends)
            sight.end = step->visible_ends[row];
        if (step->crossed && step->crossed[row].range_count > 0) {
            sight.crossed_first = first_range + step->crossed[row].first_range * RANGE_ENTRIES;
            sight.crossed_count = step->crossed[row].range_count |
                                  (step->crossed[row].blind ? VULKAN_SIGHT_BLIND : 0);
        }
        must(sight.end > at && sight.end >= end);
        must(sight.end <= sequence->first_position + sequence->row_count);
        end = sight.end;
        batch->has_features |= sight.feature != ROW_FEATURE_NONE;
        batch->has_spans |= sight.end > at + 1;
        sights[row] = sight;
        if (batch->limits.near == 0)
            continue;
        if (sight.end > at + batch->limits.near + 1)
            sight.end = at + batch->limits.near + 1;
        near[row] = sight;
    }
}

static bool draws_whole(const struct step_batch *step)
{
    uint32_t row = 0;
    while (row < step->logit_row_count && step->logit_rows[row] == row)
        row++;
    return row == step->row_count;
}

/* Tiles after the last one are empty, up to the most that so many rows can have. */
static void fill_adapters(struct vulkan_batch *batch, const struct step_batch *step)
{
    const uint32_t counts[2] = {step->row_count, step->logit_row_count};
    batch->has_adapters = false;
    for (uint32_t s = 0; s < step->sequence_count; s++)
        batch->has_adapters |= step->sequences[s].adapter != 0;
    must(!batch->has_adapters || batch->limits.adapters);
    for (uint32_t logits = 0; logits < 2 && batch->has_adapters; logits++) {
        struct adapter_rows *rows = &batch->adapter_rows[logits];
        uint8_t *order = (uint8_t *)batch->buffer.mapped + order_offset(batch, logits);
        uint8_t *tiles = (uint8_t *)batch->buffer.mapped + adapter_tiles_offset(batch, logits);
        uint32_t most = adapter_rows_tiles_most(counts[logits], rows->tile_rows);
        adapter_rows_sort(rows, step, logits == 1);
        must(rows->tile_count <= most);
        memcpy(order, rows->order, counts[logits] * sizeof *rows->order);
        memset(tiles, 0, most * sizeof *rows->tiles);
        memcpy(tiles, rows->tiles, rows->tile_count * sizeof *rows->tiles);
    }
}

enum result vulkan_batch_fill(struct vulkan_batch *batch, const struct step_batch *step,
                              bool *moved, struct error_text *error)
{
    must(step->row_count <= batch->limits.rows && step->logit_row_count <= batch->limits.rows);
    must(step->sequence_count <= batch->limits.rows);
    const uint64_t table_count = count_entries(batch, step);
    const uint64_t entries = table_count + (uint64_t)step->range_count * RANGE_ENTRIES;
    *moved = entries * sizeof(uint32_t) > batch->tables.bytes;
    if (*moved) {
        enum result result = make_tables(batch, 2 * entries, error);
        if (result != RESULT_OK)
            return result;
    }
    uint32_t next_entry = 0, longest = 0;
    batch->has_features = batch->has_spans = batch->has_openings = false;
    for (uint32_t s = 0; s < step->sequence_count; s++) {
        const struct step_sequence *sequence = &step->sequences[s];
        uint32_t context = sequence->first_position + sequence->row_count;
        longest = is_decode(batch, sequence) && context > longest ? context : longest;
        fill_sequence(batch, step, s, &next_entry);
        if (batch->limits.sights)
            fill_sights(batch, step, sequence, (uint32_t)table_count);
    }
    if (step->range_count > 0)
        memcpy((uint32_t *)batch->tables.mapped + table_count, step->ranges,
               step->range_count * sizeof *step->ranges);
    fill_tiles(batch, step);
    fill_adapters(batch, step);
    memcpy((uint8_t *)batch->buffer.mapped + logit_rows_offset(batch), step->logit_rows,
           step->logit_row_count * sizeof(uint32_t));
    batch->draws_whole = draws_whole(step);
    batch->reach = vulkan_attention_policy_reach(longest);
    return RESULT_OK;
}

uint64_t vulkan_batch_positions(const struct vulkan_batch *batch, uint32_t sequences,
                                const struct vulkan_batch_sight *sight)
{
    const struct vulkan_step_sequence *sequence =
        (const struct vulkan_step_sequence *)(const void *)((const uint8_t *)batch->buffer.mapped +
                                                            sequences_offset(batch));
    uint64_t positions = 0;
    for (uint32_t s = 0; s < sequences; s++, sequence++) {
        uint32_t first = sequence->first_position, end = first + sequence->row_count;
        uint32_t unseen =
            sight->window > 0 && first + 1 > sight->window ? first + 1 - sight->window : 0;
        if ((sequence->row_count == 1) != sight->decodes || end <= sight->beyond ||
            first >= sight->up_to)
            continue;
        positions += (end < sight->up_to ? end : sight->up_to) - unseen;
    }
    return positions;
}
