/*
 * The data of a step that kernels read (shaders/step.glsl): rows, sequences, block tables and logit
 * rows, written by the host into one mapped buffer. Everything that differs between steps of one
 * shape is in here, so that recorded commands can be submitted again.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_BATCH_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_BATCH_H

#include "worker/backend/host/adapter_rows.h"
#include "worker/backend/vulkan/device/vulkan_memory.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"

#define VULKAN_STEP_DRAWN        0x80000000u
#define VULKAN_ADAPTER_TILE_ROWS 8u /* shaders/adapter.glsl */

/* One row: 16 bytes. */
struct vulkan_step_row {
    uint32_t token;
    uint32_t position;
    uint32_t sequence;
    uint32_t drawn; /* 0, or VULKAN_STEP_DRAWN | draw of the step before, whose token it is */
};

/* One row of a model that takes images, or one patch of an image: 32 bytes. */
struct vulkan_step_sight {
    struct rope_position position;
    union {
        uint32_t feature; /* of a row: ROW_FEATURE_NONE, or a row of the feature pool */
        uint32_t tile;    /* of a patch */
    };
    uint32_t begin; /* it sees positions [begin, end) */
    uint32_t end;
    union {
        struct {
            uint32_t
                crossed_first; /* of a row: its first range begins at this entry of the tables */
            uint32_t crossed_count; /* ranges; with VULKAN_SIGHT_BLIND it counts as seeing none */
        };
        struct {
            uint32_t square; /* of a patch: struct patch_place */
            uint32_t place;
        };
    };
};
#define VULKAN_SIGHT_BLIND 0x80000000u

/* One sequence: 32 bytes. */
struct vulkan_step_sequence {
    uint32_t first_row;
    uint32_t row_count;
    uint32_t first_position;
    uint32_t state_slot;
    uint32_t table[KV_GROUPS_MAX]; /* first entry of its block table among all tables' entries */
};

/* How a sequence advances recurrent state: 32 bytes. The rows of struct step_sequence. */
struct vulkan_step_move {
    uint32_t deferred_rows;
    uint32_t deferred_place;
    uint32_t late_rows;
    uint32_t late_place;
    uint32_t copied_after; /* so many late and other rows the slot is copied, > 0 */
    uint32_t state_copy;   /* to this one, or STATE_SLOT_NONE */
    uint32_t unused[2];
};
_Static_assert(sizeof(struct vulkan_step_row) == 16, "byte map");
_Static_assert(sizeof(struct vulkan_step_move) == 32, "byte map");
_Static_assert(sizeof(struct vulkan_step_sequence) == 32, "byte map");
_Static_assert(sizeof(struct vulkan_step_sight) == 32, "byte map");

struct vulkan_batch_limits {
    uint32_t rows;                  /* and as many sequences, tiles and logit rows */
    const struct kv_layout *layout; /* outlives the batch */
    uint32_t tile_rows;             /* vulkan_attention_policy.h */
    bool sights;                    /* the model sees */
    uint32_t near;                  /* of its attention ops that see near positions; 0: none */
    bool adapters;                  /* sequences may have adapters */
    bool tiles_only;                /* sequences with one row are tiles too, not decodes */
};

struct vulkan_batch {
    const struct vulkan_device *device;
    struct vulkan_batch_limits limits;
    /* rows, sequences, moves, logit rows, tiles, sights, openings, rows with adapters */
    struct vulkan_buffer buffer;
    struct vulkan_buffer
        tables; /* block tables, then ranges; replaced by a larger one when a step needs it */
    uint64_t rows_address;
    uint64_t moves_address; /* struct vulkan_step_move of each sequence */
    uint64_t sequences_address;
    uint64_t logit_rows_address;
    uint64_t tiles_address;
    uint64_t sights_address; /* of a model that sees */
    uint64_t near_address;   /* likewise, of attention ops that see near positions only */
    /* With openings, two more lists of all sequences. The first has the single-row sequences still
     * inside the full-precision prefix, the second those beyond it; the other entries are empty. */
    uint64_t opening_address;
    uint64_t beyond_address;
    uint32_t decode_count;   /* of the step written last: sequences with one row, */
    uint32_t tile_count;     /* and tiles of the others */
    uint32_t opening_tiles;  /* the first of them: those that see only the opening */
    bool has_openings;       /* some row lies in the opening */
    bool draws_whole;        /* every row is drawn from, in order */
    enum vulkan_reach reach; /* of sequences with one row, by the longest */
    bool has_features;       /* some row is a feature */
    bool has_spans;          /* some row sees beyond itself */
    /* With adapters: the rows that have one, and the logit rows. */
    struct adapter_rows adapter_rows[2];
    uint64_t adapter_orders_address[2];
    uint64_t adapter_tiles_address[2];
    bool has_adapters; /* some row has one */
};

enum result vulkan_batch_init(struct vulkan_batch *batch, const struct vulkan_device *device,
                              const struct vulkan_batch_limits *limits, uint32_t table_entries,
                              struct error_text *error) RESULT_CHECKED;
void vulkan_batch_fini(struct vulkan_batch *batch);

/* Writes `step`; the device must not be using the buffers. *moved: addresses have changed. */
enum result vulkan_batch_fill(struct vulkan_batch *batch, const struct step_batch *step,
                              bool *moved, struct error_text *error) RESULT_CHECKED;

/* Selects rows of the step written last by what they see. */
struct vulkan_batch_sight {
    uint32_t window; /* 0: all positions */
    bool decodes;    /* sequences with one row, or the others */
    uint32_t beyond; /* those that see more positions than this, */
    uint32_t up_to;  /* of rows that see no more than this */
};
/* Number of positions seen; each position of a sequence counts once. */
uint64_t vulkan_batch_positions(const struct vulkan_batch *batch, uint32_t sequences,
                                const struct vulkan_batch_sight *sight);

#endif
