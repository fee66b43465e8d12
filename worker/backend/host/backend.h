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
 * tables, tokens, samplings and counts may change as soon as it returns.
 *
 * One thread drives a backend. After a step has returned an error only destroy() may follow.
 *
 * Weights outlive the worker. Preparing weights can take long; the result is kept in a vault, which
 * the frontend holds while workers come and go. The frontend opens an empty vault, hands it to
 * every worker of the device and never reads it. A backend uses it to keep prepared weights and to
 * find those of an earlier worker, with a manifest that identifies them; load() does either, and
 * weights_origin() says which. A backend checks the contents like any input, and a death at any
 * moment must leave the vault either empty or complete. On a CPU the vault is the memory itself
 * (worker/backend/cpu/README.md); on a device whose driver exports allocations it is a pair of
 * sockets that hold a message with their descriptors and the manifest
 * (worker/backend/vulkan/weights/vulkan_vault.h).
 *
 * Row rule of the CPU backend (and the goal of others): every number computed for a row is a
 * function of that row's sequence alone. It does not depend on how many or which rows share the
 * step, on chunk boundaries, block ids or thread count.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_BACKEND_H
#define SHOAL_WORKER_BACKEND_HOST_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/kv_cache_type.h"
#include "proto/result.h"
#include "proto/worker_weights.h"
#include "worker/backend/host/vulkan_tier.h"
#include "worker/model/model.h"
#include "worker/plan/kv_layout.h"
#include "worker/plan/plan.h"
#include "worker/sample/row_sampler.h"

/* One sequence's part of a step: `row_count` consecutive rows at consecutive positions beginning at
 * `first_position`. */
struct step_sequence {
    uint32_t first_row;
    uint32_t row_count;
    uint32_t first_position;
    /* [blocks up to the last row's position, as far as the group covers it], one per group;
     * KV_BLOCK_NONE is allowed for blocks that no row sees */
    const uint32_t *block_tables[KV_GROUPS_MAX];
    /* Its recurrent state, < state_slots; STATE_SLOT_NONE in models without. The slot is as the
     * sequence's last row left it; if first_position is 0 its contents do not matter. */
    uint32_t state_slot;
    /* NONE, or another slot that state_slot becomes a copy of before the rows; first_position is
     * not 0 then. */
    uint32_t state_source;
    /* NONE, or another slot that becomes a copy of state_slot after the rows. */
    uint32_t state_copy;
};

/* Maximum number of steps launched and not yet waited for. */
#define STEP_DEPTH_MAX 2u
/* A token id not yet known to the host: STEP_TOKEN_SAMPLED | j is the token of draw j (index into
 * logit_rows and results) of the step launched just before, waited for or not. */
#define STEP_TOKEN_SAMPLED 0x80000000u
/* Time limit of step_wait(): a device that takes longer counts as lost, and the wait fails. Steps
 * are planned to take half a second at most (worker/schedule/step_pace.h). */
#define STEP_WAIT_LIMIT_MS 60000u
#define STEP_WAIT_BEAT_MS  100u

/* Position of a token in a model with grid_positions (worker/plan/model_vision.h). */
struct rope_position {
    uint32_t time;
    uint32_t height;
    uint32_t width;
};

/* A row that embeds its token. */
#define ROW_FEATURE_NONE UINT32_MAX

struct step_batch {
    uint32_t row_count;        /* 1..max_step_rows */
    const uint32_t *token_ids; /* [row_count], each < vocab_tokens or STEP_TOKEN_SAMPLED | j */
    uint32_t sequence_count;
    const struct step_sequence *sequences; /* in row order, covering all rows */
    uint32_t logit_row_count;
    const uint32_t *logit_rows;           /* [logit_row_count] ascending row numbers */
    const struct row_sampling *samplings; /* [logit_row_count] */

    /* For images; NULL if no row of the step needs it. */

    /* [row_count] rows of the feature pool that replace the tokens' embeddings, or
     * ROW_FEATURE_NONE. token_ids of such a row must be a valid token; only the token history uses
     * it. */
    const uint32_t *feature_rows;
    /* [row_count] rotary positions; NULL: each row's position in its sequence, three times. The KV
     * cache always uses the position in the sequence. */
    const struct rope_position *rope_positions;
    /* [row_count] a row sees the positions of its sequence below this value: at least its own
     * position + 1 (the meaning of NULL), at most the end of its sequence's rows in this step. In
     * models with spans_whole it is the end of the span for rows of a span. It never decreases from
     * a row of a sequence to the next. */
    const uint32_t *visible_ends;
};

/* One image to encode. */
struct encode_picture {
    struct picture_shape shape; /* accepted by model_vision_check() */
    const uint8_t *pixels;      /* [tiles, height, width, 3] */
    float scale[3];             /* red, green, blue: a value is pixel * scale + bias */
    float bias[3];
    uint32_t first_feature; /* first row in the pool; takes model_vision_feature_rows() rows */
};

struct encode_batch {
    uint32_t picture_count; /* total patch rows: 1..max_patch_rows */
    const struct encode_picture *pictures;
};

/* Instruction set of the CPU backend; RESULT_UNSUPPORTED if the CPU lacks it. */
enum cpu_tier { CPU_TIER_BEST, CPU_TIER_PORTABLE, CPU_TIER_AVX2, CPU_TIER_AVX512 };

/* Options of the Vulkan backend. */
struct vulkan_settings {
    uint32_t device;             /* index, as `shoal devices` prints it */
    enum vulkan_tier tier_limit; /* highest tier to use; VULKAN_NV_MATRIX2 = no limit */
    bool validation;             /* run under the validation layer, for tests */
    bool kernels_when_needed;    /* create a kernel at its first use instead of at load, for tests
                                  */
    const char *pipeline_cache;  /* directory of compiled pipelines, or NULL */
};

struct backend_options {
    uint32_t threads; /* 0 = one per usable CPU */
    enum cpu_tier cpu_tier;
    /* CPU backend only: bits of activations that meet quantized weights. 16, or 8, with 8 more for
     * blocks that have outliers (worker/backend/cpu/README.md). */
    uint32_t activation_bits;
    struct vulkan_settings vulkan;
    uint32_t device_workers; /* workers that share the device, including this one; 0 = only this one
                              */
    bool profile;            /* log the time of each op, as far as the backend can measure it */
    bool keeps_logits;       /* allows last_logits(): for tests and tools */
    /* All weights lie in a read-only file mapping: pages of repacked weights are given back to the
     * kernel. */
    bool drop_source_pages;
    bool has_vault;
    int vault_fd;                        /* if has_vault; owned by the caller */
    int vault_send_fd;                   /* a vault of descriptors: the end that fills it */
    struct model_fingerprint checkpoint; /* of the plan's weights; distinguishes the vault's
                                          * contents from others */
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
    const struct plan *vision; /* model_vision_plan(), must outlive the backend; NULL: no images */
    uint32_t max_patch_rows;   /* of a batch of images, <= LIMIT_PATCH_ROWS */
    uint32_t feature_rows;     /* of the feature pool, reserved at load */
};

/* Called while weights are prepared; also keeps the heartbeat going. */
typedef void backend_progress_fn(void *context, uint64_t done_bytes, uint64_t total_bytes);

struct backend;

struct backend_interface {
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
    /* Ends the oldest step in progress. results: [its logit_row_count]. While it waits it beats the
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
    /* Logits of the step launched last, after it was waited for, before any sampling parameter is
     * applied, [logit_row_count, vocab_tokens]; for backends loaded with keeps_logits. */
    const float *(*last_logits)(const struct backend *backend);
    /* Text for the start-up line: "cpu avx2, 2 threads". */
    const char *(*description)(const struct backend *backend);
    uint64_t (*weights_bytes)(const struct backend *backend);
    /* After load(); *reason: why a given vault is not used, else "". */
    enum worker_weights (*weights_origin)(const struct backend *backend, const char **reason);
    void (*destroy)(struct backend *backend);
};

struct backend {
    const struct backend_interface *interface;
};

/* Launches one step and waits for it while no other is in progress: for tests and tools. */
enum result backend_step_run(struct backend *backend, const struct step_batch *batch,
                             struct sampled_token *results,
                             struct error_text *error) RESULT_CHECKED;

/* worker/backend/cpu/cpu_backend.c; nothing is loaded yet. */
struct backend *cpu_backend_create(void);
/* worker/backend/vulkan/step/vulkan_backend.c; no device is opened yet. */
struct backend *vulkan_backend_create(void);
/* Of a Vulkan backend after load(); benches fill its KV cache. */
struct vulkan_program;
const struct vulkan_program *vulkan_backend_program(const struct backend *backend);
/* Number of threads used for `threads` = 0. */
uint32_t cpu_backend_usable_cpus(void);

#endif
