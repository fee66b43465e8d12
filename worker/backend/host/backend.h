/*
 * What a device must be able to do: take a plan's weights, hold paged KV memory, and run one step —
 * the plan over a batch of rows, then one draw per row whose next token is wanted.
 *
 * Steps overlap the host's work. step_launch() begins a step and may return before it is done;
 * step_wait() waits for the oldest step that was launched and gives what it drew. Between the two
 * the caller may launch the next step, whose rows may have for their token "what draw j of the step
 * launched just before gives": so a stream goes on before anybody has read its token, and the
 * device does not idle while tokens are told and the step after next is planned. Two laws make that
 * simple.
 *
 * Order. Steps take effect as if each was done before the next one was begun: a row sees all keys
 * and values that earlier steps wrote and none that later ones write; a slot of recurrent state is
 * moved on by the rows of each step, in their order. So the caller may give a block or a slot back,
 * and to another sequence, while steps that read or write it for its former owner are under way:
 * whoever has it next is launched later, and a slot's next owner begins at position 0, where what
 * it holds does not count, or with a copy of another slot. Copies that a step begins with are made
 * before all of its rows, those that it ends with behind all of them.
 *
 * Copies. All pointers in a step stay the caller's and are only read during step_launch(): block
 * tables, tokens, samplings and counts may change or go as soon as it returns.
 *
 * A backend is driven by one thread. After an error of a step only destroy() may follow.
 *
 * Weights outlive the worker. Preparing weights can take long; what was prepared is kept in a
 * vault, which the frontend holds while workers come and go. The frontend
 * opens the vault empty, keeps it, hands it to every worker of the device and never looks inside.
 * To a backend it is a place to put prepared weights and to find those of an earlier worker,
 * together with a manifest that says whose they are; load() does either, and weights_origin() says
 * which. A backend checks what it finds as it checks any input, and must leave the vault such that
 * a death at any moment makes it either empty or complete. For a CPU the vault is the memory itself
 * (worker/backend/cpu/README.md); for a device whose driver exports allocations, it is a pair of
 * sockets in which a message with their descriptors and the manifest waits
 * (worker/backend/vulkan/weights/vulkan_vault.h).
 *
 * Law of the CPU backend (and the aim of others): every number computed for a row is a function of
 * that row's sequence alone. It does not depend on how many or which rows share the step, on chunk
 * boundaries, block ids or thread count.
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
    /* [blocks up to the last row's position, as far as the group covers it], one per group; those
     * that no row sees may be KV_BLOCK_NONE */
    const uint32_t *block_tables[KV_GROUPS_MAX];
    /* Where its recurrent state is, < state_slots; STATE_SLOT_NONE in models without. The slot is
     * as the sequence's last row left it, or anything when first_position is 0. */
    uint32_t state_slot;
    /* NONE, or another slot that state_slot becomes a copy of before the rows; first_position is
     * not 0 then. */
    uint32_t state_source;
    /* NONE, or another slot that becomes a copy of state_slot behind the rows. */
    uint32_t state_copy;
};

/* Steps launched and not yet waited for, at most. */
#define STEP_DEPTH_MAX 2u
/* A token id not yet known to the host: STEP_TOKEN_SAMPLED | j is the token of draw j (index into
 * logit_rows and results) of the step launched just before, waited for or not. */
#define STEP_TOKEN_SAMPLED 0x80000000u
/* How long step_wait() waits: a device that takes longer is lost, and the wait ends with an error.
 * Steps are meant to take half a second at most (worker/schedule/step_pace.h). */
#define STEP_WAIT_LIMIT_MS 60000u
#define STEP_WAIT_BEAT_MS  100u

/* Where a token of a model with grid_positions (worker/plan/model_vision.h) stands. */
struct rope_position {
    uint32_t time;
    uint32_t height;
    uint32_t width;
};

/* A row whose token is embedded as ever. */
#define ROW_FEATURE_NONE UINT32_MAX

struct step_batch {
    uint32_t row_count;        /* 1..max_step_rows */
    const uint32_t *token_ids; /* [row_count], each < vocab_tokens or STEP_TOKEN_SAMPLED | j */
    uint32_t sequence_count;
    const struct step_sequence *sequences; /* in row order, covering all rows */
    uint32_t logit_row_count;
    const uint32_t *logit_rows;           /* [logit_row_count] ascending row numbers */
    const struct row_sampling *samplings; /* [logit_row_count] */

    /* Of pictures; NULL where no row of the step needs it. */

    /* [row_count] rows of the feature pool that stand in place of the tokens' embeddings, or
     * ROW_FEATURE_NONE. What token_ids says of such a row must be a token, and counts for nothing
     * but the history of tokens. */
    const uint32_t *feature_rows;
    /* [row_count] by which rows rotate; NULL: each row's position in its sequence, three times. The
     * KV cache goes by the position in the sequence all the same. */
    const struct rope_position *rope_positions;
    /* [row_count] a row sees the positions of its sequence below this, at most the end of its rows
     * in this step, at least the row's own position + 1, which NULL means for all. Of a model with
     * spans_whole: the end of the span, for rows of one. It never falls from a sequence's row to
     * its next. */
    const uint32_t *visible_ends;
};

/* One picture to be encoded. */
struct encode_picture {
    struct picture_shape shape; /* that model_vision_check() takes */
    const uint8_t *pixels;      /* [tiles, height, width, 3] */
    float scale[3];             /* red, green, blue: a value is pixel * scale + bias */
    float bias[3];
    uint32_t first_feature; /* row of the pool; model_vision_feature_rows() from there on */
};

struct encode_batch {
    uint32_t picture_count; /* their patch rows together: 1..max_patch_rows */
    const struct encode_picture *pictures;
};

/* Which of the CPU backend's instruction sets runs; asking for one the CPU lacks is
 * RESULT_UNSUPPORTED. */
enum cpu_tier { CPU_TIER_BEST, CPU_TIER_PORTABLE, CPU_TIER_AVX2, CPU_TIER_AVX512 };

/* The Vulkan backend's own. */
struct vulkan_settings {
    uint32_t device;             /* index, as `shoal devices` prints it */
    enum vulkan_tier tier_limit; /* nothing above it is used; VULKAN_NV_MATRIX2 = no limit */
    bool validation;             /* run under the validation layer, for tests */
    bool kernels_when_needed;    /* make a kernel at its first use, not while loading, for tests */
    const char *pipeline_cache;  /* folder where compiled pipelines are kept, or NULL */
};

struct backend_options {
    uint32_t threads; /* 0 = as many as the machine offers */
    enum cpu_tier cpu_tier;
    /* The CPU backend only: in how many bits activations meet quantized weights. 16, or else 8, to
     * which blocks that stand out have 8 more (worker/backend/cpu/README.md). */
    uint32_t activation_bits;
    struct vulkan_settings vulkan;
    uint32_t device_workers; /* that share the device, this one with them; 0 = only this one */
    bool profile;            /* time each op and tell in the log, as far as the backend can */
    bool keeps_logits;       /* last_logits() may be asked: for tests and tools */
    /* All weights lie in a read-only file mapping: pages of repacked weights are given back to the
     * kernel. */
    bool drop_source_pages;
    bool has_vault;
    int vault_fd;      /* when has_vault; stays the caller's */
    int vault_send_fd; /* and for a vault of descriptors the end that it is filled through */
    struct model_fingerprint checkpoint; /* of the plan's weights; tells the vault's from others */
    bool verify_weights; /* hold what is found in the vault against its checksums, reading it all */
    /* NULL, or a count that grows while a step is computed or waited for, so that a long step can
     * be told from a hang. */
    _Atomic uint64_t *heartbeat;
    uint32_t step_depth;     /* most that step_depth() may say; 0 = what suits the device */
    uint32_t max_step_rows;  /* <= LIMIT_STEP_ROWS */
    uint32_t max_logit_rows; /* <= LIMIT_SEQUENCES */
    enum kv_cache_type kv_type;
    uint32_t kv_share_percent; /* of the device's memory for the KV caches of all its workers; 0 =
                                  what suits it. For choose_kv_bytes() */
    uint32_t kv_blocks[KV_GROUPS_MAX]; /* physical blocks per group; memory is reserved here, before
                                          any request */
    uint32_t state_slots; /* of recurrent state, where the plan has any; likewise, those that only
                             keep states among them */
    const struct plan
        *vision;             /* model_vision_plan(), must outlive the backend; NULL: no pictures */
    uint32_t max_patch_rows; /* of a batch of pictures, <= LIMIT_PATCH_ROWS */
    uint32_t feature_rows;   /* of the feature pool, reserved at load */
};

/* Called while weights are prepared; also keeps the heartbeat going. */
typedef void backend_progress_fn(void *context, uint64_t done_bytes, uint64_t total_bytes);

struct backend;

struct backend_interface {
    /* How much memory the KV cache takes where nobody says how many bytes: from what the device
     * has, what `plan`'s weights need and how many workers share it. RESULT_TOO_LARGE, with the
     * numbers, when a share was asked for that weights do not leave. Asked once, before load(),
     * with options whose kv_blocks are not known yet; opens the device, so it fails as load()
     * would. Says the numbers in the log. */
    enum result (*choose_kv_bytes)(struct backend *backend, const struct plan *plan,
                                   const struct backend_options *options, uint64_t *kv_bytes,
                                   struct error_text *error);
    /* Prepares weights (repacking them) and KV memory for `plan`, which must outlive the backend.
     * Opens the device when choose_kv_bytes() did not. */
    enum result (*load)(struct backend *backend, const struct plan *plan,
                        const struct backend_options *options, backend_progress_fn *progress,
                        void *context, struct error_text *error);
    /* After load(), constant: how many steps may be launched and not yet waited for,
     * 1..STEP_DEPTH_MAX. With 1 each step is waited for before the next one is launched, and
     * nothing overlaps: for a device that is the host itself. */
    uint32_t (*step_depth)(const struct backend *backend);
    /* May a row with this sampling draw while the token before it is still unread, a
     * STEP_TOKEN_SAMPLED? Its `counts` lack that token then: a backend that says yes to counts adds
     * it as generated once more. Where it says no, the scheduler reads the token first, for which
     * all rows of the next step wait. Only asked for depths above 1. */
    bool (*draws_ahead)(const struct backend *backend, const struct row_sampling *sampling);
    /* Begins one step behind those under way. */
    enum result (*step_launch)(struct backend *backend, const struct step_batch *batch,
                               struct error_text *error);
    /* Ends the oldest step under way. results: [its logit_row_count]. While it waits it beats the
     * heartbeat at least every STEP_WAIT_BEAT_MS, and gives up with an error in words
     * STEP_WAIT_LIMIT_MS after the step could begin: a lost device ends the worker, it does not
     * hang it. */
    enum result (*step_wait)(struct backend *backend, struct sampled_token *results,
                             struct error_text *error);
    /*
     * Encodes pictures into the feature pool, in parts so that running streams keep their pace:
     * encode_begin() takes the pictures, whose pixels it reads before it returns; then
     * encode_part() does more and more of the tower until nothing is left. Work is counted in patch
     * rows times the model's `stages` (worker/plan/model_vision.h), in the mean of the batch: a
     * part is `work` of it, or less as the device cuts it, but something in any case. A new batch
     * may begin at any time; what was not finished of the one before is forgotten. Only called when
     * `vision` was given to load().
     *
     * Order as with steps: features are there for every step that is launched after the call that
     * left nothing, and a step launched before it does not see them. Law as with rows: a
     * feature is a function of its tile alone, not of others in the batch or of how it was cut.
     */
    enum result (*encode_begin)(struct backend *backend, const struct encode_batch *batch,
                                struct error_text *error);
    enum result (*encode_part)(struct backend *backend, uint64_t work, uint64_t *left,
                               struct error_text *error);
    /* Logits of the step launched last, once waited for, before any sampling parameter was applied,
     * [logit_row_count, vocab_tokens]; for backends that were loaded with keeps_logits. */
    const float *(*last_logits)(const struct backend *backend);
    /* Words for the start-up line: "cpu avx2, 2 threads". */
    const char *(*description)(const struct backend *backend);
    uint64_t (*weights_bytes)(const struct backend *backend);
    /* After load(); *reason: in words, why a vault that was given is not used, else "". */
    enum worker_weights (*weights_origin)(const struct backend *backend, const char **reason);
    void (*destroy)(struct backend *backend);
};

struct backend {
    const struct backend_interface *interface;
};

/* Launches one step and waits for it, with none other under way: for tests and tools. */
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
/* Threads that `threads` = 0 means. */
uint32_t cpu_backend_usable_cpus(void);

#endif
