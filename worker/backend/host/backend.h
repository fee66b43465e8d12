/*
 * The interface of a device: it takes a plan's weights, holds paged KV memory, and runs steps. A
 * step computes the plan over a batch of rows and then draws one token for each row whose next
 * token is needed.
 *
 * Steps overlap the host's work. step_launch() begins a step and may return before it is done;
 * step_wait() waits for the oldest step in progress and returns the tokens it drew. In between the
 * caller may launch the next step, whose rows may name a token as "draw j of the step launched just
 * before". So a sequence continues before the host has read its token, and the device does not idle
 * while tokens are published and the next step is planned. Two rules make this simple.
 *
 * Order. Steps take effect as if each was done before the next one began: a row sees all keys and
 * values that earlier steps wrote and none that later ones write; the rows of each step advance a
 * slot of recurrent state in their order. So the caller may give a block or a slot to another
 * sequence while steps that use it are in progress: the next owner's steps are launched later, and
 * it begins at position 0, where the old contents do not count, or with a copy of another slot. A
 * step's initial copies precede all of its rows, its final copies follow all of them.
 *
 * Copies. All pointers in a step belong to the caller and are only read during step_launch(): block
 * tables, tokens, samplings and counts may change as soon as it returns. If the step awaits masks,
 * samplings and what they point to are read during step_draw().
 *
 * One thread drives a backend. After a step has returned an error only destroy() may follow.
 *
 * Weights outlive the worker. Preparing weights can take long; the result is kept in a vault, which
 * the frontend holds while workers come and go. The frontend opens an empty vault, hands it to
 * every worker of the device and never reads it. A backend uses it to keep prepared weights and to
 * find those of an earlier worker, with a manifest that identifies them; load() does either, and
 * weights_origin() says which. A backend checks the contents like any input, and a death at any
 * moment must leave the vault either empty or complete. On a CPU the vault is the memory itself
 * (worker/backend/cpu/weights/README.md); on a device whose driver exports allocations it is a pair
 * of sockets that hold a message with their descriptors and the manifest
 * (worker/backend/vulkan/weights/vulkan_vault.h).
 *
 * KV blocks and recurrent state outlive it likewise, if load() is given `kept`
 * (worker/backend/host/kept_pools.h): a block whose step was waited for has the same contents for the
 * next worker that adopts the pool.
 *
 * Row rule of the CPU backend, and of the Vulkan backend with vulkan.batch_invariant: every number computed for a row is a
 * function of that row's sequence alone. It does not depend on how many or which rows share the
 * step, on chunk boundaries, block ids or thread count.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_BACKEND_H
#define SHOAL_WORKER_BACKEND_HOST_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "proto/worker_weights.h"
#include "worker/backend/host/backend_options.h"
#include "worker/backend/host/encode_batch.h"
#include "worker/backend/host/step_batch.h"
#include "worker/plan/lora_adapter.h"
#include "worker/plan/plan.h"
#include "worker/sample/row_sampler.h"

struct backend;

/* Memory of a device, for its share of a split model. */
struct backend_memory {
    uint64_t bytes;      /* all that a program may use */
    uint64_t free_bytes; /* at the moment */
    char name[64];       /* of the device */
};

/* What a device of a split model has. */
struct backend_share {
    uint32_t first_layer;
    uint32_t layers;
    uint64_t weights_bytes;
    uint64_t kv_bytes; /* KV cache and recurrent state */
    uint64_t memory_bytes;
};

struct backend_interface {
    /* Before load(): opens the device and tells its memory. */
    enum result (*memory)(struct backend *backend, const struct backend_options *options,
                          struct backend_memory *memory, struct error_text *error);
    /* Memory for the KV cache when the user gives no number of bytes: follows from the device's
     * memory, the size of `plan`'s weights and the number of workers that share it.
     * RESULT_TOO_LARGE, with the numbers, if the requested share does not fit beside the weights.
     * Called once, before load(), with options whose kv_blocks are not known yet; opens the device,
     * so it can fail as load() does. Logs the numbers. */
    enum result (*choose_kv_bytes)(struct backend *backend, const struct plan *plan,
                                   const struct backend_options *options, uint64_t *kv_bytes,
                                   struct error_text *error);
    /* Prepares (repacks) weights and reserves KV memory for `plan`, which must outlive the backend.
     * Opens the device if choose_kv_bytes() did not. */
    enum result (*load)(struct backend *backend, const struct plan *plan,
                        const struct backend_options *options, backend_progress_fn *progress,
                        void *context, struct error_text *error);
    /* Constant after load(): how many steps may be launched and not yet waited for,
     * 1..STEP_DEPTH_MAX. 1: each step is waited for before the next one is launched (the device is
     * the host itself). */
    uint32_t (*step_depth)(const struct backend *backend);
    /* Whether a row with this sampling may draw while the token before it is still unread
     * (STEP_TOKEN_SAMPLED). Its `counts` lack that token then; the backend adds it as generated
     * once more. If false, the scheduler reads the token first, which delays all rows of the next
     * step. Only called for depths above 1. */
    bool (*draws_ahead)(const struct backend *backend, const struct row_sampling *sampling);
    /* Begins one step after those in progress. */
    enum result (*step_launch)(struct backend *backend, const struct step_batch *batch,
                               struct error_text *error);
    /* Begins the draws of the step launched last, whose batch awaits masks, before any other call;
     * samplings: [its logit_row_count]. The device computes the step's rows meanwhile and never
     * waits for the host: without this call it has nothing left to do. NULL: the device is the host
     * itself, and masks are known at each launch. */
    enum result (*step_draw)(struct backend *backend, const struct row_sampling *samplings,
                             struct error_text *error);
    /* Ends the oldest step in progress. results: [its logit_row_count], zeros if the plan pools; unused if it has
     * no logits. While it waits it beats the
     * heartbeat at least every STEP_WAIT_BEAT_MS; STEP_WAIT_LIMIT_MS after the step could begin it
     * returns an error, so that a lost device ends the worker instead of hanging it. */
    enum result (*step_wait)(struct backend *backend, struct sampled_token *results,
                             struct error_text *error);
    /*
     * Encodes images into the feature pool, in parts so that running streams keep their pace:
     * encode_begin() takes the images and reads their pixels before it returns; each encode_part()
     * computes more of the tower until nothing is left. Work is counted in patch rows times the
     * model's `stages` (worker/plan/model_vision.h), averaged over the batch: a part is `work` of
     * it, or less as the device splits it, but never nothing. A new batch may begin at any time;
     * the unfinished part of the previous one is dropped. Only called if load() was given `vision`.
     *
     * Order: features exist for every step launched after the call that left nothing; steps
     * launched before it do not see them. Row rule: a feature is a function of its tile alone, not
     * of others in the batch or of how the work was split.
     */
    enum result (*encode_begin)(struct backend *backend, const struct encode_batch *batch,
                                struct error_text *error);
    enum result (*encode_part)(struct backend *backend, uint64_t work, uint64_t *left,
                               struct error_text *error);
    /* Between steps: the adapter takes an empty slot, < LIMIT_ADAPTERS; its matrices are copied.
     * RESULT_OUT_OF_MEMORY, RESULT_TOO_LARGE, RESULT_UNSUPPORTED. NULL: the device computes without
     * adapters. Only called if load() was given `adapters`, except on CPUs. */
    enum result (*adapter_load)(struct backend *backend, uint32_t slot,
                                const struct lora_adapter *adapter, struct error_text *error);
    /* Between steps; the slot may be empty. */
    void (*adapter_drop)(struct backend *backend, uint32_t slot);
    /* Logits of the step launched last, after it was waited for, before any sampling parameter is
     * applied, [logit_row_count, plan_logit_columns()]; for backends loaded with keeps_logits. */
    const float *(*last_logits)(const struct backend *backend);
    /* Hidden states of the rows of the step launched last, after it was waited for and until the next
     * launch, for plans that keep them: [its rows, or its logit rows, columns of plan->hidden_out].
     * NULL: the device cannot tell. */
    const float *(*last_hidden)(const struct backend *backend);
    /* For parts of a split plan: tensor plan->passed[index] of the step that was waited for last,
     * [its rows, columns]; valid until two more steps were launched. */
    const float *(*last_passed)(const struct backend *backend, uint32_t index);
    /* Text for the start-up line: "cpu avx2, 2 threads". */
    const char *(*description)(const struct backend *backend);
    uint64_t (*weights_bytes)(const struct backend *backend);
    /* After load(): what device `index` of options->stages has. NULL: there is one device. */
    struct backend_share (*share)(const struct backend *backend, uint32_t index);
    /* After load(): the device is a GPU. NULL: the host itself. */
    bool (*is_gpu)(const struct backend *backend);
    /* After load(); *reason: why a given vault is not used, else "". */
    enum worker_weights (*weights_origin)(const struct backend *backend, const char **reason);
    /* After load(): where the memory of KV blocks and recurrent state comes from; *reason: why given
     * pools are not used or have no contents, else "". */
    enum kept_pools_origin (*pools_origin)(const struct backend *backend, const char **reason);
    /* After load(), between steps, of kept pools on a device: what a block has, and copies of blocks. NULL: pools are in host
     * memory. */
    struct kept_pools_blocks (*kept_blocks)(const struct backend *backend);
    enum result (*kept_block_copy)(struct backend *backend, const struct kept_pools_copy *copy,
                                   struct error_text *error);
    void (*destroy)(struct backend *backend);
};

struct backend {
    const struct backend_interface *interface;
};

/* worker/backend/cpu/cpu_backend.c; nothing is loaded yet. */
struct backend *cpu_backend_create(void);
/* worker/backend/vulkan/step/vulkan_backend.c; no device is opened yet. */
struct backend *vulkan_backend_create(void);
/* worker/backend/split/split_backend.c: the layers run on options->stages, one after the other. */
struct backend *split_backend_create(void);
/* Of a Vulkan backend after load(); benches fill its KV cache. */
struct vulkan_program;
const struct vulkan_program *vulkan_backend_program(const struct backend *backend);
/* Number of threads used for `threads` = 0. */
uint32_t cpu_backend_usable_cpus(void);

#endif
