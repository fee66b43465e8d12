/*
 * There is one writer, so a total is a relaxed load and a relaxed store, and readers need no lock:
 * each figure is valid on its own. Only two orders matter: READY after the sizes, FAILED after the
 * text. Nothing is read back for a decision, because the segment is shared with a process that
 * could overwrite it.
 */
#include "worker/schedule/gauge_board.h"

#include <string.h>

#include "proto/must.h"

static void set_u32(_Atomic uint32_t *gauge, uint32_t value)
{
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}

static void set_u64(_Atomic uint64_t *gauge, uint64_t value)
{
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}

static void add_u64(_Atomic uint64_t *gauge, uint64_t more)
{
    set_u64(gauge, atomic_load_explicit(gauge, memory_order_relaxed) + more);
}

static void copy_words(char *to, size_t capacity, const char *words)
{
    size_t length = strnlen(words, capacity - 1);
    memcpy(to, words, length);
    memset(to + length, 0, capacity - length);
}

void gauge_board_set_state(struct worker_gauges *gauges, enum worker_state state)
{
    /* Pairs with the acquire load of the state in the frontend, which reads the figures afterwards.
     */
    atomic_store_explicit(&gauges->state, (uint32_t)state, memory_order_release);
}

void gauge_board_set_refusal(struct worker_gauges *gauges, const char *words)
{
    copy_words(gauges->failure, sizeof gauges->failure, words);
}

void gauge_board_fail(struct worker_gauges *gauges, const char *words)
{
    copy_words(gauges->failure, sizeof gauges->failure, words);
    gauge_board_set_state(gauges, WORKER_FAILED);
}

void gauge_board_beat(struct worker_gauges *gauges)
{
    /* Threads of the backend add to it too. */
    atomic_fetch_add_explicit(&gauges->heartbeat, 1, memory_order_relaxed);
}

void gauge_board_set_load(struct worker_gauges *gauges, uint64_t done_bytes, uint64_t total_bytes)
{
    set_u64(&gauges->load_total_bytes, total_bytes);
    set_u64(&gauges->load_done_bytes, done_bytes);
    gauge_board_beat(gauges);
}

void gauge_board_set_device(struct worker_gauges *gauges, uint32_t index,
                            const struct backend_share *share)
{
    struct worker_device_gauges *device = &gauges->devices[index];
    must(index < LIMIT_SPLIT_DEVICES);
    set_u32(&device->first_layer, share->first_layer);
    set_u32(&device->layers, share->layers);
    set_u64(&device->weights_bytes, share->weights_bytes);
    set_u64(&device->kv_bytes, share->kv_bytes);
    set_u64(&device->memory_bytes, share->memory_bytes);
}

void gauge_board_set_ready(struct worker_gauges *gauges, const struct gauge_ready *ready)
{
    set_u32(&gauges->vocab_tokens, ready->vocab_tokens);
    set_u32(&gauges->context_tokens, ready->context_tokens);
    set_u32(&gauges->max_sequences, ready->max_sequences);
    set_u64(&gauges->kv_blocks_total, ready->kv_blocks_total);
    set_u64(&gauges->kv_block_tokens, ready->kv_block_tokens);
    set_u64(&gauges->state_bytes, ready->state_bytes);
    set_u64(&gauges->weights_bytes, ready->weights_bytes);
    set_u32(&gauges->weights, ready->weights);
    set_u32(&gauges->prefix_cache, ready->prefix_cache);
    set_u32(&gauges->on_gpu, ready->on_gpu);
    copy_words(gauges->backend, sizeof gauges->backend, ready->backend);
    gauge_board_set_state(gauges, WORKER_READY);
}

void gauge_board_set_sequences(struct worker_gauges *gauges, const struct gauge_load *load)
{
    set_u32(&gauges->running_sequences, load->running_sequences);
    set_u32(&gauges->waiting_sequences, load->waiting_sequences);
    set_u64(&gauges->kv_blocks_used, load->kv_blocks_used);
    set_u64(&gauges->kv_blocks_cached, load->kv_blocks_cached);
    set_u64(&gauges->prefix_places, load->prefix_places);
    set_u64(&gauges->prefix_evictions_total, load->prefix_evictions);
}

static size_t step_class(uint64_t tokens)
{
    static const uint32_t bounds[] = WORKER_STEP_TOKENS_BOUNDS;
    _Static_assert(sizeof bounds / sizeof bounds[0] + 1 == WORKER_STEP_TOKENS_CLASSES, "classes");
    size_t at = 0;
    while (at < WORKER_STEP_TOKENS_CLASSES - 1 && tokens > bounds[at])
        at++;
    return at;
}

void gauge_board_add_step(struct worker_gauges *gauges, const struct gauge_step *step)
{
    add_u64(&gauges->steps, 1);
    add_u64(&gauges->prompt_tokens_total, step->prompt_rows);
    add_u64(&gauges->generated_tokens_total, step->generated_tokens);
    add_u64(&gauges->step_time_total_us, step->step_time_us);
    uint64_t tokens = (uint64_t)step->prompt_rows + step->generated_tokens;
    add_u64(&gauges->step_tokens_classes[step_class(tokens)], 1);
}

void gauge_board_add_preemption(struct worker_gauges *gauges)
{
    add_u64(&gauges->preemptions_total, 1);
}

void gauge_board_add_lookup(struct worker_gauges *gauges, uint32_t tokens, uint32_t hits)
{
    add_u64(&gauges->prefix_queries_total, 1);
    add_u64(&gauges->prefix_query_tokens_total, tokens);
    add_u64(&gauges->prefix_hit_tokens_total, hits);
}

void gauge_board_add_reset(struct worker_gauges *gauges)
{
    add_u64(&gauges->prefix_resets_total, 1);
}

void gauge_board_add_grammar(struct worker_gauges *gauges)
{
    add_u64(&gauges->grammars_total, 1);
}

void gauge_board_add_masks(struct worker_gauges *gauges, uint32_t masks, uint64_t time_us)
{
    add_u64(&gauges->grammar_masks_total, masks);
    add_u64(&gauges->grammar_mask_us_total, time_us);
}

void gauge_board_add_grammar_failure(struct worker_gauges *gauges)
{
    add_u64(&gauges->grammar_failures_total, 1);
}

void gauge_board_add_image(struct worker_gauges *gauges, bool is_hit)
{
    add_u64(is_hit ? &gauges->image_hits_total : &gauges->image_misses_total, 1);
}

void gauge_board_add_patches(struct worker_gauges *gauges, uint32_t patch_rows)
{
    add_u64(&gauges->patch_rows_total, patch_rows);
}

void gauge_board_set_features(struct worker_gauges *gauges,
                              const struct feature_cache_figures *figures, uint32_t row_bytes)
{
    set_u64(&gauges->feature_bytes_total, (uint64_t)figures->rows * row_bytes);
    set_u64(&gauges->feature_bytes_used, (uint64_t)figures->used_rows * row_bytes);
    set_u64(&gauges->images_cached, figures->held_images + figures->kept_images);
    set_u64(&gauges->image_evictions_total, figures->evictions);
}
