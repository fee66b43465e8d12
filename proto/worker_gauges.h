/*
 * Figures that a worker publishes for anyone to read at any time: one writer (the worker), relaxed
 * atomics, each figure valid on its own. The frontend answers /health, /ready and /metrics from
 * them and never waits for a worker.
 */
#ifndef SHOAL_PROTO_WORKER_GAUGES_H
#define SHOAL_PROTO_WORKER_GAUGES_H

#include <stdatomic.h>
#include <stdint.h>

#include "proto/result.h"
#include "proto/worker_weights.h"

/* Steps are counted by how many tokens they had: at most 1, 8, 16, 32 … 16384 (vLLM's bounds for
 * the same figure), and more than that. */
#define WORKER_STEP_TOKENS_BOUNDS                                                                  \
    {                                                                                              \
        1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384                             \
    }
#define WORKER_STEP_TOKENS_CLASSES 14u

enum worker_state {
    WORKER_STARTING = 0, /* attached, nothing read yet */
    WORKER_LOADING = 1,  /* load_done_bytes / load_total_bytes tell how far */
    WORKER_READY = 2,
    WORKER_DRAINING = 3,
    WORKER_FAILED = 4 /* `failure` words say why; the process exits next */
};

struct worker_gauges {
    _Atomic uint32_t state;          /* enum worker_state */
    _Atomic uint32_t vocab_tokens;   /* 0 until READY */
    _Atomic uint32_t context_tokens; /* longest sequence this worker takes; 0 until READY */
    _Atomic uint32_t max_sequences;
    /* Grows with every piece of work, far more often than every 100 ms: a turn, a part of an op of
     * a step, weights prepared. Stands still while the worker has nothing to do. */
    _Atomic uint64_t heartbeat;
    _Atomic uint64_t steps; /* steps finished */
    _Atomic uint64_t load_done_bytes;
    _Atomic uint64_t load_total_bytes;
    _Atomic uint32_t running_sequences;
    _Atomic uint32_t waiting_sequences;
    _Atomic uint64_t kv_blocks_total; /* over all cache groups */
    _Atomic uint64_t kv_blocks_used;
    _Atomic uint64_t prompt_tokens_total;
    _Atomic uint64_t generated_tokens_total;
    _Atomic uint64_t preemptions_total;
    _Atomic uint64_t rejected_records_total; /* submit records that failed their check */
    _Atomic uint64_t step_time_total_us;
    _Atomic uint64_t weights_bytes;
    _Atomic uint32_t weights; /* enum worker_weights; written before READY */
    uint32_t unused;
    /* Written before state becomes FAILED (release), read after (acquire); the reader ends it. */
    char failure[256];
    char backend[64]; /* e.g. "cpu avx2 2 threads"; written before READY */
    _Atomic uint64_t step_tokens_classes[WORKER_STEP_TOKENS_CLASSES]; /* steps of each class */
    _Atomic uint64_t kv_block_tokens; /* positions of one KV block; 0 until READY */
    _Atomic uint64_t state_bytes;     /* recurrent state of max_sequences sequences; 0: none */
    /* The prefix cache. */
    _Atomic uint64_t kv_blocks_cached;     /* that no sequence holds: not among kv_blocks_used */
    _Atomic uint64_t prefix_places;        /* blocks of prefixes that can be found */
    _Atomic uint64_t prefix_queries_total; /* sequences that began, those set back again too */
    _Atomic uint64_t prefix_query_tokens_total;
    _Atomic uint64_t prefix_hit_tokens_total; /* of these, that were there */
    _Atomic uint64_t prefix_evictions_total;  /* blocks and checkpoints given up for others */
    _Atomic uint64_t prefix_resets_total;     /* done because the frontend said so */
    _Atomic uint32_t prefix_cache;            /* 1: on; written before READY */
    uint32_t more_unused;
    /* Pictures. */
    _Atomic uint64_t image_hits_total;   /* needed by a request, and their features were there */
    _Atomic uint64_t image_misses_total; /* that had to be encoded */
    _Atomic uint64_t image_evictions_total;
    _Atomic uint64_t images_cached;      /* whose features are there, needed now or kept */
    _Atomic uint64_t feature_bytes_used; /* by these */
    _Atomic uint64_t feature_bytes_total;
    _Atomic uint64_t patch_rows_total; /* encoded */
    uint64_t image_unused;
    uint8_t reserved[64];
};
_Static_assert(sizeof(struct worker_gauges) == 768, "byte map of the segment");

#endif
