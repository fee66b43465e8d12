/*
 * BPE merging in O(n log n).
 *
 * Words are short, so a row of a few symbols is merged by scanning for the lowest rank: quadratic
 * in a small n, in registers and one cache line. Longer rows (a megabyte of one letter; a whole
 * text, in vocabularies that do not split) use a linked list of symbols and a heap of candidate
 * merges ordered by (rank, position). A candidate is stale once one of its symbols was merged; it
 * is recognized because `ranks` has the current rank of the pair that starts at each position, and
 * a rank identifies one pair.
 */
#include "frontend/prompt/tokenizer/bpe_merger.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/cancel_flag.h"
#include "proto/must.h"

enum { SHORT_ROW = 32 };

void bpe_merger_fini(struct bpe_merger *merger)
{
    free(merger->next);
    free(merger->prev);
    free(merger->ranks);
    free(merger->heap);
    *merger = (struct bpe_merger){.cancelled = merger->cancelled};
}

static size_t merge_short(const struct bpe_merge_table *table, uint32_t ids[], size_t count)
{
    uint32_t ranks[SHORT_ROW];
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = bpe_merge_table_rank(table, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            if (ranks[i] < ranks[best])
                best = i;
        }
        if (ranks[best] == BPE_NO_RANK)
            break;
        ids[best] = table->merged[ranks[best]];
        count--;
        for (size_t i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            ranks[i - 1] = ranks[i];
        }
        if (best > 0)
            ranks[best - 1] = bpe_merge_table_rank(table, ids[best - 1], ids[best]);
        if (best + 1 < count)
            ranks[best] = bpe_merge_table_rank(table, ids[best], ids[best + 1]);
    }
    return count;
}

/* Room for `count` symbols, and for the candidates: one for each pair at first, then at most one
 * more for each merge. */
static enum result bpe_merger_reserve(struct bpe_merger *merger, size_t count)
{
    if (count <= merger->capacity)
        return RESULT_OK;
    bpe_merger_fini(merger);
    merger->next = malloc(count * sizeof *merger->next);
    merger->prev = malloc(count * sizeof *merger->prev);
    merger->ranks = malloc(count * sizeof *merger->ranks);
    merger->heap = malloc(2 * count * sizeof *merger->heap);
    if (!merger->next || !merger->prev || !merger->ranks || !merger->heap) {
        bpe_merger_fini(merger);
        return RESULT_OUT_OF_MEMORY;
    }
    merger->capacity = count;
    merger->heap_capacity = 2 * count;
    return RESULT_OK;
}

static void heap_sink(uint64_t heap[], size_t count, size_t at)
{
    uint64_t moving = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= moving)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static uint64_t heap_pop(struct bpe_merger *merger)
{
    uint64_t top = merger->heap[0];
    merger->heap[0] = merger->heap[--merger->heap_count];
    if (merger->heap_count > 1)
        heap_sink(merger->heap, merger->heap_count, 0);
    return top;
}

static void heap_push(struct bpe_merger *merger, uint64_t entry)
{
    must(merger->heap_count < merger->heap_capacity);
    size_t at = merger->heap_count++;
    while (at > 0 && merger->heap[(at - 1) / 2] > entry) {
        merger->heap[at] = merger->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    merger->heap[at] = entry;
}

/* Looks up the pair that starts at `at` again and adds it to the candidates. */
static void offer_pair(struct bpe_merger *merger, const struct bpe_merge_table *table,
                       const uint32_t ids[], uint32_t at)
{
    uint32_t rank = BPE_NO_RANK;
    if (merger->next[at] != 0)
        rank = bpe_merge_table_rank(table, ids[at], ids[merger->next[at]]);
    merger->ranks[at] = rank;
    if (rank != BPE_NO_RANK)
        heap_push(merger, (uint64_t)rank << 32 | at);
}

static void merge_at(struct bpe_merger *merger, const struct bpe_merge_table *table, uint32_t ids[],
                     uint32_t at)
{
    uint32_t right = merger->next[at];
    uint32_t after = merger->next[right];
    ids[at] = table->merged[merger->ranks[at]];
    merger->ranks[right] = BPE_NO_RANK;
    merger->next[at] = after;
    if (after != 0)
        merger->prev[after] = at;
    offer_pair(merger, table, ids, at);
    if (at != 0)
        offer_pair(merger, table, ids, merger->prev[at]);
}

static enum result merge_long(struct bpe_merger *merger, const struct bpe_merge_table *table,
                              uint32_t ids[], size_t count, size_t *merged_count)
{
    merger->heap_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        merger->next[i] = i + 1 < count ? i + 1 : 0;
        merger->prev[i] = i ? i - 1 : 0;
        uint32_t rank = BPE_NO_RANK;
        if (i + 1 < count)
            rank = bpe_merge_table_rank(table, ids[i], ids[i + 1]);
        merger->ranks[i] = rank;
        if (rank != BPE_NO_RANK)
            merger->heap[merger->heap_count++] = (uint64_t)rank << 32 | i;
    }
    for (size_t i = merger->heap_count / 2; i-- > 0;)
        heap_sink(merger->heap, merger->heap_count, i);
    for (size_t turn = 0; merger->heap_count > 0; turn++) {
        if (turn % CANCEL_LOOK_UNITS == 0 && cancel_flag_is_set(merger->cancelled))
            return RESULT_CANCELLED;
        uint64_t top = heap_pop(merger);
        uint32_t at = (uint32_t)top;
        if (merger->ranks[at] == top >> 32)
            merge_at(merger, table, ids, at);
    }
    size_t kept = 0;
    uint32_t at = 0;
    do {
        ids[kept++] = ids[at];
        at = merger->next[at];
    } while (at != 0);
    *merged_count = kept;
    return RESULT_OK;
}

enum result bpe_merger_run(struct bpe_merger *merger, const struct bpe_merge_table *table,
                           uint32_t ids[], size_t count, size_t *merged_count)
{
    if (count <= SHORT_ROW) {
        *merged_count = merge_short(table, ids, count);
        return RESULT_OK;
    }
    must(count < UINT32_MAX);
    enum result result = bpe_merger_reserve(merger, count);
    return result ? result : merge_long(merger, table, ids, count, merged_count);
}
