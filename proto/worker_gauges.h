/*
 * Figures that a worker publishes: one writer, relaxed atomics, each figure valid on its own,
 * readable at any time. The frontend answers /health, /ready and /metrics from them and never waits
 * for a worker.
 *
 * Byte map of struct worker_gauges, 1024 bytes. Written by the worker.
 *
 *   offset  size  field                      rule
 *   0       4     state                      enum worker_state; stored with release, after the
 *                                            fields that it promises
 *   4       4     vocab_tokens               0 until READY
 *   8       4     context_tokens             tokens of the longest sequence; 0 until READY
 *   12      4     max_sequences              0 until READY
 *   16      8     heartbeat                  grows far more often than every 100 ms during work:
 *                                            each loop turn, part of an op, prepared weight
 *   24      8     steps                      finished steps
 *   32      8     load_done_bytes            progress of LOADING
 *   40      8     load_total_bytes           likewise
 *   48      4     running_sequences
 *   52      4     waiting_sequences
 *   56      8     kv_blocks_total            of all cache groups
 *   64      8     kv_blocks_used             held by sequences
 *   72      8     prompt_tokens_total
 *   80      8     generated_tokens_total
 *   88      8     preemptions_total
 *   96      8     rejected_records_total     submit records that failed their check
 *   104     8     step_time_total_us
 *   112     8     weights_bytes              written before READY
 *   120     4     weights                    enum worker_weights; written before READY
 *   124     4     on_gpu                     1: the device is a GPU, whose memory takes seconds to
 *                                            open; written before READY
 *   128     256   failure                    error text, before FAILED and before TOKEN_EVENT_ADAPTER with
 *                                            a failure; readers terminate a copy
 *   384     64    backend                    "cpu avx2 2 threads"; written before READY
 *   448     112   step_tokens_classes        steps by number of tokens, WORKER_STEP_TOKENS_BOUNDS
 *   560     8     kv_block_tokens            positions of one KV block; 0 until READY
 *   568     8     state_bytes                recurrent state of max_sequences sequences; 0: none
 *   576     8     kv_blocks_cached           held by no sequence; not part of kv_blocks_used
 *   584     8     prefix_places              prefix cache: blocks that a lookup can find
 *   592     8     prefix_queries_total       lookups: one per start of a sequence
 *   600     8     prefix_query_tokens_total
 *   608     8     prefix_hit_tokens_total    of these, tokens that were cached
 *   616     8     prefix_evictions_total     blocks and checkpoints evicted
 *   624     8     prefix_resets_total        resets requested by the frontend
 *   632     4     prefix_cache               1: enabled; written before READY
 *   636     4     more_unused                zero
 *   640     8     image_hits_total           images of requests whose features were cached
 *   648     8     image_misses_total         images of requests that had to be encoded
 *   656     8     image_evictions_total
 *   664     8     images_cached              images with cached features, in use or not
 *   672     8     feature_bytes_used         size of their features
 *   680     8     feature_bytes_total        capacity
 *   688     8     patch_rows_total           encoded patches
 *   696     8     image_unused               zero
 *   704     8     grammars_total             requests with a grammar
 *   712     8     grammar_masks_total        masks computed for them
 *   720     8     grammar_mask_us_total      time in which the steps waited for masks
 *   728     8     grammar_failures_total     requests that failed by their grammar
 *   736     32    reserved                   zero
 *   768     256   devices                    struct worker_device_gauges of each device, in their
 *                                            order; written before READY
 */
#ifndef SHOAL_PROTO_WORKER_GAUGES_H
#define SHOAL_PROTO_WORKER_GAUGES_H

#include <stdatomic.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"
#include "proto/worker_weights.h"

/* Classes of steps by number of tokens: at most 1, 8, 16 … 16384 (vLLM's bounds for the same
 * metric), and more than that. */
#define WORKER_STEP_TOKENS_BOUNDS                                                                  \
    {                                                                                              \
        1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384                             \
    }
#define WORKER_STEP_TOKENS_CLASSES 14u

enum worker_state {
    WORKER_STARTING = 0, /* attached, has read nothing yet */
    WORKER_LOADING = 1,  /* progress: load_done_bytes of load_total_bytes */
    WORKER_READY = 2,
    WORKER_DRAINING = 3,
    WORKER_FAILED = 4, /* `failure` holds the error text; the process exits next */
    WORKER_STANDBY = 5 /* loaded; LOADING ended, and READY follows when it takes over */
};

/*
 * Byte map of struct worker_device_gauges, 32 bytes. Written by the worker.
 *
 *   offset  size  field          rule
 *   0       4     first_layer
 *   4       4     layers         0: there is no such device
 *   8       8     weights_bytes
 *   16      8     kv_bytes       KV cache and recurrent state
 *   24      8     memory_bytes   of the device
 */
struct worker_device_gauges {
    _Atomic uint32_t first_layer;
    _Atomic uint32_t layers;
    _Atomic uint64_t weights_bytes;
    _Atomic uint64_t kv_bytes;
    _Atomic uint64_t memory_bytes;
};
_Static_assert(sizeof(struct worker_device_gauges) == 32, "byte map of the segment");

struct worker_gauges {
    _Atomic uint32_t state;
    _Atomic uint32_t vocab_tokens;
    _Atomic uint32_t context_tokens;
    _Atomic uint32_t max_sequences;
    _Atomic uint64_t heartbeat;
    _Atomic uint64_t steps;
    _Atomic uint64_t load_done_bytes;
    _Atomic uint64_t load_total_bytes;
    _Atomic uint32_t running_sequences;
    _Atomic uint32_t waiting_sequences;
    _Atomic uint64_t kv_blocks_total;
    _Atomic uint64_t kv_blocks_used;
    _Atomic uint64_t prompt_tokens_total;
    _Atomic uint64_t generated_tokens_total;
    _Atomic uint64_t preemptions_total;
    _Atomic uint64_t rejected_records_total;
    _Atomic uint64_t step_time_total_us;
    _Atomic uint64_t weights_bytes;
    _Atomic uint32_t weights;
    _Atomic uint32_t on_gpu;
    char failure[256];
    char backend[64];
    _Atomic uint64_t step_tokens_classes[WORKER_STEP_TOKENS_CLASSES];
    _Atomic uint64_t kv_block_tokens;
    _Atomic uint64_t state_bytes;
    _Atomic uint64_t kv_blocks_cached;
    _Atomic uint64_t prefix_places;
    _Atomic uint64_t prefix_queries_total;
    _Atomic uint64_t prefix_query_tokens_total;
    _Atomic uint64_t prefix_hit_tokens_total;
    _Atomic uint64_t prefix_evictions_total;
    _Atomic uint64_t prefix_resets_total;
    _Atomic uint32_t prefix_cache;
    uint32_t more_unused;
    _Atomic uint64_t image_hits_total;
    _Atomic uint64_t image_misses_total;
    _Atomic uint64_t image_evictions_total;
    _Atomic uint64_t images_cached;
    _Atomic uint64_t feature_bytes_used;
    _Atomic uint64_t feature_bytes_total;
    _Atomic uint64_t patch_rows_total;
    uint64_t image_unused;
    _Atomic uint64_t grammars_total;
    _Atomic uint64_t grammar_masks_total;
    _Atomic uint64_t grammar_mask_us_total;
    _Atomic uint64_t grammar_failures_total;
    uint8_t reserved[32];
    struct worker_device_gauges devices[LIMIT_SPLIT_DEVICES];
};
_Static_assert(sizeof(struct worker_gauges) == 1024, "byte map of the segment");

#endif
