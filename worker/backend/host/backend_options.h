/*
 * What a backend is loaded with: its device, sizes reserved at load, and settings for tests.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_BACKEND_OPTIONS_H
#define SHOAL_WORKER_BACKEND_HOST_BACKEND_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/device_name.h"
#include "proto/kv_cache_type.h"
#include "worker/backend/host/cpu_tier.h"
#include "worker/backend/host/kept_pools.h"
#include "worker/backend/host/vulkan_tier.h"
#include "worker/model/checkpoint/model_fingerprint.h"
#include "worker/plan/kv_layout.h"
#include "worker/plan/plan.h"

struct backend;

/* Options of the Vulkan backend. */
struct vulkan_settings {
    uint32_t device;             /* index, as `shoal devices` prints it */
    enum vulkan_tier tier_limit; /* highest tier to use; VULKAN_TIER_HIGHEST = no limit */
    struct device_work *work;    /* where the device marks its work (shm/device_work.h), or NULL */
    bool validation;             /* run under the validation layer, for tests */
    bool batch_invariant;        /* the row rule of backend.h, which a CPU always keeps */
    bool kernels_when_needed;    /* create a kernel at its first use instead of at load, for tests
                                  */
    const char *pipeline_cache;  /* directory of compiled pipelines, or NULL */
};

/* One of the devices that the layers of a model are split over, in their order. */
struct backend_stage {
    struct device_name device;
    uint32_t layers; /* 0, of all stages: chosen by the devices' memory */
};

struct backend_options {
    uint32_t threads;       /* 0 = one per usable CPU */
    enum cpu_tier cpu_tier; /* RESULT_UNSUPPORTED if the CPU lacks it */
    /* CPU backend only: bits of activations that meet quantized weights. 16, or 8, with 8 more for
     * blocks that have outliers (worker/backend/cpu/README.md). */
    uint32_t activation_bits;
    struct vulkan_settings vulkan;
    uint32_t stage_count; /* of the split backend, at least 2; of others 0 */
    struct backend_stage stages[LIMIT_SPLIT_DEVICES];
    uint32_t device_workers; /* workers that share the device, including this one; 0 = only this one
                              */
    bool profile;            /* log the time of each op, as far as the backend can measure it */
    bool keeps_logits;       /* allows last_logits(): for plans that pool, tests and tools */
    /* All weights lie in a read-only file mapping: pages of repacked weights are given back to the
     * kernel. */
    bool drop_source_pages;
    bool has_vault;
    int vault_fd;                        /* if has_vault; owned by the caller */
    int vault_send_fd;                   /* a vault of descriptors: the end that fills it */
    struct model_fingerprint checkpoint; /* of the plan's weights; distinguishes the vault's
                                          * contents from others */
    /* NULL, or a loaded backend of the same kind whose weights of the same tensors are used in place of
     * own ones, on Vulkan with its device and kernels, and whose feature pool rows read if `sights` is set; it
     * outlives this one. */
    const struct backend *lender;
    /* Blocks of keys and values are the lender's too, whose plan has the same KV layout and kv_blocks; steps of
     * both are never under way at once. */
    bool shares_kv;
    /* NULL, or plans whose weights take memory of the device too, in steps of beside_rows rows: of a drafter, and of its
     * second pass. For choose_kv_bytes() */
    const struct plan *beside;
    const struct plan *beside_context;
    uint32_t beside_rows;
    bool verify_weights; /* verify the vault's contents against its checksums; reads all of it */
    /* NULL, or a counter that grows while a step is computed or waited for, so that a long step is
     * not taken for a hang. */
    _Atomic uint64_t *heartbeat;
    uint32_t step_depth;     /* maximum of step_depth(); 0 = chosen for the device */
    uint32_t max_step_rows;  /* <= LIMIT_STEP_ROWS */
    uint32_t max_logit_rows; /* <= LIMIT_SEQUENCES */
    enum kv_cache_type kv_type;
    uint32_t kv_share_percent; /* device memory for the KV caches of all its workers; 0 = automatic.
                                * For choose_kv_bytes() */
    uint32_t kv_blocks[KV_GROUPS_MAX]; /* physical blocks per group; memory is reserved here, before
                                          any request */
    uint32_t state_slots; /* slots of recurrent state, if the plan has any; includes slots that only
                           * keep states */
    /* Places of deferred rows (struct step_sequence), if the plan has recurrent state; 0: none. */
    uint32_t deferred_places;
    bool adapters; /* adapter_load() may be called; CPUs need not be told */
    uint64_t
        adapter_bytes; /* of the adapters that are there before load(). For choose_kv_bytes() */
    struct kept_pools kept;    /* memory for these blocks and slots */
    const struct plan *vision; /* model_vision_plan(), must outlive the backend; NULL: no images */
    uint32_t max_patch_rows;   /* of a batch of images, <= LIMIT_PATCH_ROWS */
    uint32_t feature_rows;     /* of the feature pool, reserved at load */
    /* NULL, or how the model takes images, if another device, or the lender, has their features and this
     * one computes rows of them. */
    const struct model_vision *sights;
};

/* Of the feature pool; 0: the model takes no images. */
uint64_t backend_feature_bytes(const struct backend_options *options);

/* Called while weights are prepared; also keeps the heartbeat going. */
typedef void backend_progress_fn(void *context, uint64_t done_bytes, uint64_t total_bytes);

#endif
