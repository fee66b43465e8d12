/*
 * The names of a sequence's blocks are computed once, as far as they are needed, and kept: a
 * preempted sequence that resumes uses the same names.
 *
 * A walk from the root ends at the first place whose block is missing in a full group. For sliding
 * groups the walk counts how many consecutive places up to the current one have a block, which must
 * cover what the next row sees. In models with only sliding groups the walk goes through the whole
 * prompt. If a group or the state does not reach a position, the sequence resumes earlier.
 */
#include "worker/schedule/sequence_prefix.h"

#include <stdlib.h>

#include "proto/must.h"
#include "worker/cache/prefix_cache.h"
#include "worker/plan/state_layout.h"
#include "worker/schedule/sequence_score.h"

#define SHARED_LOOKUPS_MAX 4096u /* blocks, about 0.2 ms */

static bool has_prefix_cache(const struct sequence *sequence, const struct kv_pools *pools)
{
    return pools->prefixes && (sequence->request.run.flags & SUBMIT_FLAG_NO_PREFIX_CACHE) == 0;
}

static bool keeps_checkpoints(const struct sequence *sequence, const struct kv_pools *pools)
{
    return has_prefix_cache(sequence, pools) && pools->checkpoints;
}

enum result sequence_prefix_reserve(struct sequence *sequence, const struct kv_pools *pools,
                                    uint32_t tokens)
{
    uint32_t capacity = tokens / KV_BLOCK_TOKENS;
    if (!has_prefix_cache(sequence, pools) || capacity <= sequence->name_capacity)
        return RESULT_OK;
    struct prefix_name *names = realloc(sequence->names, capacity * sizeof *names);
    if (!names)
        return RESULT_OUT_OF_MEMORY;
    sequence->names = names;
    sequence->name_capacity = capacity;
    return RESULT_OK;
}

/* The identity of block `at`; its tokens and the names before it are known. */
static struct prefix_block block_at(const struct sequence *sequence, const struct kv_pools *pools,
                                    uint32_t at)
{
    struct prefix_block block = {
        .parent = at > 0 ? sequence->names[at - 1]
                         : prefix_cache_root(pools->prefixes, sequence->request.run.cache_salt)};
    const uint32_t *tokens = sequence->request.tokens + (size_t)at * KV_BLOCK_TOKENS;
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++)
        block.tokens[i] = tokens[i];
    sequence_images_mark(&sequence->request.images, at * KV_BLOCK_TOKENS,
                         (at + 1) * KV_BLOCK_TOKENS, block.content);
    return block;
}

/* Names block `at` and finds its place; its predecessors have names. */
static uint32_t find_place(struct sequence *sequence, const struct kv_pools *pools, uint32_t at)
{
    struct prefix_block block = block_at(sequence, pools, at);
    must(at < sequence->name_capacity && at <= sequence->name_count);
    if (at == sequence->name_count) {
        sequence->names[at] = prefix_cache_name(pools->prefixes, &block);
        sequence->name_count++;
    }
    return prefix_cache_find(pools->prefixes, sequence->names[at], &block);
}

/* Maximum number of shared blocks: at least one token is left to compute. */
static uint32_t max_shared_blocks(const struct sequence *sequence)
{
    return (sequence->known_tokens - 1) / KV_BLOCK_TOKENS;
}

/* Maximum number of blocks to start after: rows whose scores are missing are computed. */
static uint32_t max_resumed_blocks(const struct sequence *sequence)
{
    uint32_t most = max_shared_blocks(sequence);
    uint32_t scored = (sequence->next_score - 1) / KV_BLOCK_TOKENS;
    return sequence_score_is_open(sequence) && scored < most ? scored : most;
}

/* Whether every full group has the place's block. */
static bool has_full(const struct kv_pools *pools, uint32_t place)
{
    struct kv_block_ref ref;
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        if (pools->layout->groups[group].kind == KV_FULL &&
            (place == PREFIX_PLACE_NONE || !prefix_cache_has(pools->prefixes, place, group, &ref)))
            return false;
    }
    return true;
}

uint32_t sequence_prefix_shared(struct sequence *sequence, const struct kv_pools *pools)
{
    uint32_t most = max_resumed_blocks(sequence) < SHARED_LOOKUPS_MAX ? max_resumed_blocks(sequence)
                                                                      : SHARED_LOOKUPS_MAX;
    if (!has_prefix_cache(sequence, pools) || pools->layout->groups[0].kind != KV_FULL ||
        pools->state ||
        sequence_prefix_reserve(sequence, pools, sequence->known_tokens) != RESULT_OK)
        return 0;
    for (uint32_t at = 0; at < most; at++) {
        struct kv_block_ref ref;
        uint32_t place = find_place(sequence, pools, at);
        if (place == PREFIX_PLACE_NONE || !prefix_cache_has(pools->prefixes, place, 0, &ref) ||
            kv_block_pool_references(pools->group[0], ref.block) == 0)
            return at;
    }
    return most;
}

/* For each group, consecutive blocks up to the last place looked at. */
struct reach {
    uint32_t blocks[KV_GROUPS_MAX];
};

static void reach_add(struct reach *reach, const struct kv_pools *pools, uint32_t place)
{
    struct kv_block_ref ref;
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        bool has =
            place != PREFIX_PLACE_NONE && prefix_cache_has(pools->prefixes, place, group, &ref);
        reach->blocks[group] = has ? reach->blocks[group] + 1 : 0;
    }
}

/* How many of a sequence's first `blocks` blocks the group covers. */
static uint32_t covered_blocks(const struct kv_pools *pools, uint32_t group, uint32_t blocks)
{
    return block_table_blocks(
        kv_layout_covered_tokens(pools->layout, group, blocks * KV_BLOCK_TOKENS));
}

/* Whether a sequence can resume after `blocks` blocks, the last of which is at `place`. */
static bool may_resume(const struct reach *reach, const struct kv_pools *pools, uint32_t place,
                       uint32_t blocks)
{
    struct kv_block_ref ref;
    if (pools->state && (place == PREFIX_PLACE_NONE ||
                         !prefix_cache_has(pools->prefixes, place, PREFIX_CHECKPOINT, &ref)))
        return false;
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        uint32_t first = kv_layout_first_block(pools->layout, group, blocks * KV_BLOCK_TOKENS);
        if (first < covered_blocks(pools, group, blocks) && reach->blocks[group] < blocks - first)
            return false;
    }
    return true;
}

/* After how many blocks the sequence can resume. */
static uint32_t find_resume_point(struct sequence *sequence, const struct kv_pools *pools)
{
    struct reach reach = {{0}};
    uint32_t most = max_resumed_blocks(sequence);
    uint32_t best = 0;
    for (uint32_t at = 0; at < most; at++) {
        uint32_t place = find_place(sequence, pools, at);
        if (!has_full(pools, place))
            break;
        reach_add(&reach, pools, place);
        if (may_resume(&reach, pools, place, at + 1))
            best = at + 1;
    }
    return best;
}

static void share_blocks(struct sequence *sequence, struct kv_pools *pools, uint32_t group,
                         uint32_t blocks)
{
    struct block_table *table = &sequence->tables[group];
    uint32_t first = kv_layout_first_block(pools->layout, group, blocks * KV_BLOCK_TOKENS);
    uint32_t end = covered_blocks(pools, group, blocks);
    block_table_skip(table, first < end ? first : end);
    for (uint32_t at = table->covered; at < end; at++) {
        struct kv_block_ref ref;
        must(prefix_cache_has(pools->prefixes, find_place(sequence, pools, at), group, &ref));
        block_table_share(table, pools->group[group], ref);
    }
}

void sequence_prefix_resume(struct sequence *sequence, struct kv_pools *pools)
{
    must(sequence->computed_tokens == 0);
    sequence->published_blocks = 0;
    sequence->shared_blocks = 0;
    if (!has_prefix_cache(sequence, pools) || (pools->state && !pools->checkpoints))
        return;
    uint32_t blocks = find_resume_point(sequence, pools);
    sequence->published_blocks = blocks;
    sequence->shared_blocks = blocks;
    sequence->computed_tokens = blocks * KV_BLOCK_TOKENS;
    if (blocks == 0)
        return;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        share_blocks(sequence, pools, group, blocks);
    if (!pools->state)
        return;
    must(prefix_cache_has(pools->prefixes, find_place(sequence, pools, blocks - 1),
                          PREFIX_CHECKPOINT, &sequence->restored));
    kv_block_pool_share(pools->checkpoints, sequence->restored);
}

/* --- publishing ------------------------------------------------------------------------------- */

uint32_t sequence_prefix_rows(const struct sequence *sequence, const struct kv_pools *pools)
{
    if (!keeps_checkpoints(sequence, pools) || sequence->state != SEQUENCE_PREFILL)
        return UINT32_MAX;
    uint32_t computed = sequence->computed_tokens;
    uint32_t last = max_shared_blocks(sequence) * KV_BLOCK_TOKENS;
    if (computed >= last)
        return UINT32_MAX;
    uint32_t next = computed - computed % SEQUENCE_PREFIX_STRIDE + SEQUENCE_PREFIX_STRIDE;
    return (next < last ? next : last) - computed;
}

/* Positions that the slot of recurrent state contains. */
static uint32_t state_tokens(const struct sequence *sequence)
{
    return sequence->computed_tokens - sequence->draft.late_rows;
}

/* After how many blocks a checkpoint is due among the next `rows` rows and the late ones before
 * them; 0: none. */
static uint32_t due_blocks(const struct sequence *sequence, const struct kv_pools *pools,
                           uint32_t rows)
{
    uint32_t end = sequence->computed_tokens + rows;
    bool due = end / KV_BLOCK_TOKENS > state_tokens(sequence) / KV_BLOCK_TOKENS;
    if (sequence->state == SEQUENCE_PREFILL)
        due = rows == sequence_prefix_rows(sequence, pools);
    return due ? end / KV_BLOCK_TOKENS : 0;
}

void sequence_prefix_take_checkpoint(struct sequence *sequence, struct kv_pools *pools,
                                     uint32_t rows)
{
    uint32_t blocks = keeps_checkpoints(sequence, pools) ? due_blocks(sequence, pools, rows) : 0;
    if (blocks == 0 || sequence->saved.block != KV_BLOCK_NONE)
        return;
    if (kv_block_pool_free(pools->checkpoints) == 0)
        (void)prefix_cache_evict(pools->prefixes, PREFIX_CHECKPOINT);
    if (kv_block_pool_take(pools->checkpoints, &sequence->saved) != RESULT_OK) {
        sequence->saved.block = KV_BLOCK_NONE;
        return;
    }
    sequence->saved_blocks = blocks;
}

/* Uses the place's block in each group that has one; else the place keeps the sequence's block. */
static void publish_block(struct sequence *sequence, struct kv_pools *pools, uint32_t at)
{
    struct prefix_block block = block_at(sequence, pools, at);
    bool any = false;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        any |= block_table_holds(&sequence->tables[group], at);
    uint32_t place =
        any ? prefix_cache_add(pools->prefixes, sequence->names[at], &block) : PREFIX_PLACE_NONE;
    for (uint32_t group = 0; group < pools->layout->group_count && place != PREFIX_PLACE_NONE;
         group++) {
        struct block_table *table = &sequence->tables[group];
        struct kv_block_ref ref;
        if (!block_table_holds(table, at))
            continue;
        if (!prefix_cache_has(pools->prefixes, place, group, &ref))
            prefix_cache_keep(pools->prefixes, place, group, block_table_ref(table, at));
        else if (ref.block != table->blocks[at])
            block_table_replace(table, pools->group[group], at, ref);
    }
}

static void drop_checkpoint(struct sequence *sequence, struct kv_pools *pools, uint32_t blocks)
{
    uint32_t place = find_place(sequence, pools, blocks - 1);
    struct kv_block_ref ref;
    if (place != PREFIX_PLACE_NONE &&
        prefix_cache_has(pools->prefixes, place, PREFIX_CHECKPOINT, &ref))
        prefix_cache_drop(pools->prefixes, place, PREFIX_CHECKPOINT);
}

/* Drops the answer's checkpoint before the last one. Until the step that makes the last one is done,
 * the worker may die in it and the next worker resumes at the one before. */
static void drop_older_checkpoint(struct sequence *sequence, struct kv_pools *pools, bool waits)
{
    uint32_t older = sequence->older_checkpoint_blocks;
    uint32_t last = sequence->answer_checkpoint_blocks;
    if (older == 0)
        return;
    uint32_t place = find_place(sequence, pools, last - 1);
    if (waits && place != PREFIX_PLACE_NONE &&
        !prefix_cache_is_recorded(pools->prefixes, place, PREFIX_CHECKPOINT))
        return;
    drop_checkpoint(sequence, pools, older);
    sequence->older_checkpoint_blocks = 0;
}

static void publish_checkpoint(struct sequence *sequence, struct kv_pools *pools)
{
    uint32_t last = sequence->saved_blocks - 1;
    struct prefix_block block = block_at(sequence, pools, last);
    uint32_t place = prefix_cache_add(pools->prefixes, sequence->names[last], &block);
    struct kv_block_ref ref;
    if (place != PREFIX_PLACE_NONE &&
        !prefix_cache_has(pools->prefixes, place, PREFIX_CHECKPOINT, &ref)) {
        prefix_cache_keep(pools->prefixes, place, PREFIX_CHECKPOINT, sequence->saved);
        if (sequence->saved_blocks * KV_BLOCK_TOKENS >= sequence->request.run.prompt_tokens) {
            drop_older_checkpoint(sequence, pools, false);
            sequence->older_checkpoint_blocks = sequence->answer_checkpoint_blocks;
            sequence->answer_checkpoint_blocks = sequence->saved_blocks;
        }
    }
    kv_block_pool_give(pools->checkpoints, sequence->saved, KV_EVICT_LAST);
    sequence->saved.block = KV_BLOCK_NONE;
}

void sequence_prefix_publish(struct sequence *sequence, struct kv_pools *pools)
{
    if (!has_prefix_cache(sequence, pools))
        return;
    uint32_t done = sequence->computed_tokens < sequence->known_tokens ? sequence->computed_tokens
                                                                       : sequence->known_tokens;
    for (uint32_t at = sequence->published_blocks; at < done / KV_BLOCK_TOKENS; at++) {
        (void)find_place(sequence, pools, at); /* computes the name */
        publish_block(sequence, pools, at);
        sequence->published_blocks = at + 1;
    }
    if (sequence->saved.block != KV_BLOCK_NONE &&
        sequence->saved_blocks <= sequence->published_blocks)
        publish_checkpoint(sequence, pools);
    drop_older_checkpoint(sequence, pools, true);
}

enum kv_evict_order sequence_prefix_evict_order(const struct sequence *sequence,
                                                const struct kv_pools *pools, uint32_t group,
                                                uint32_t block)
{
    /* Another answer to this prompt, or the next turn with a template that leaves reasoning out,
     * resumes at the prompt's end; others resume where a sequence has resumed before. */
    uint32_t last = (sequence->request.run.prompt_tokens - 1) / KV_BLOCK_TOKENS;
    uint32_t first = kv_layout_first_block(pools->layout, group, last * KV_BLOCK_TOKENS);
    bool useful = block < sequence->shared_blocks || (block >= first && block < last);
    return useful ? KV_EVICT_LAST : KV_EVICT_FIRST;
}

void sequence_prefix_release_restored(struct sequence *sequence, struct kv_pools *pools)
{
    if (sequence->restored.block == KV_BLOCK_NONE)
        return;
    kv_block_pool_give(pools->checkpoints, sequence->restored, KV_EVICT_LAST);
    sequence->restored.block = KV_BLOCK_NONE;
}

void sequence_prefix_release(struct sequence *sequence, struct kv_pools *pools)
{
    sequence_prefix_release_restored(sequence, pools);
    drop_older_checkpoint(sequence, pools, false);
    if (sequence->saved.block != KV_BLOCK_NONE)
        kv_block_pool_give(pools->checkpoints, sequence->saved, KV_EVICT_LAST);
    sequence->saved.block = KV_BLOCK_NONE;
}

static uint32_t slot_of(const struct kv_pools *pools, struct kv_block_ref checkpoint)
{
    if (checkpoint.block == KV_BLOCK_NONE)
        return STATE_SLOT_NONE;
    return kv_block_pool_total(pools->state) + checkpoint.block;
}

uint32_t sequence_prefix_source_slot(const struct sequence *sequence, const struct kv_pools *pools)
{
    return slot_of(pools, sequence->restored);
}

uint32_t sequence_prefix_copy_slot(const struct sequence *sequence, const struct kv_pools *pools,
                                   uint32_t rows, uint32_t *rows_after)
{
    uint32_t at = sequence->saved_blocks * KV_BLOCK_TOKENS;
    uint32_t end = sequence->computed_tokens + rows;
    *rows_after = 0;
    if (sequence->saved.block == KV_BLOCK_NONE || at <= state_tokens(sequence) || at > end)
        return STATE_SLOT_NONE;
    *rows_after = end - at;
    return slot_of(pools, sequence->saved);
}
