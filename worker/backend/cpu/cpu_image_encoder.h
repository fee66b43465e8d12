/*
 * A vision tower on CPU threads: its program, the pictures it is at, and the feature pool that it
 * fills. The CPU backend has one; so may a backend of a device that has no kernels for towers.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_CPU_IMAGE_ENCODER_H
#define SHOAL_WORKER_BACKEND_CPU_CPU_IMAGE_ENCODER_H

#include "worker/backend/cpu/cpu_walk.h"

/* Ops that may be run over some rows while other rows wait. */
struct vision_unit {
    uint32_t first_op;
    uint32_t end_op;
    bool keys_only;     /* of the patch_attention that the next unit begins with */
    uint64_t row_work;  /* multiply-adds of a patch row, about */
    uint64_t pair_work; /* and as many for every row that it looks at: */
    bool windowed;      /* those of its window, or of its tile */
};

/* The fewest patch rows that are run at once, but for a batch's last: weights that pass by are used
 * that often. Rounded up to whole squares. */
#define CPU_VISION_SLICE_ROWS 16u

struct cpu_image_encoder {
    struct cpu_program program;
    struct cpu_step step;
    struct cpu_patches patches;
    struct cpu_feature_pool features;
    struct cpu_memory pixels;  /* of the batch's tiles, behind one another */
    struct vision_unit *units; /* [unit_count]; the first one makes numbers of pixels */
    uint32_t unit_count;
    /* The batch under way. */
    uint32_t unit;    /* == unit_count: there is none */
    uint32_t row;     /* patch rows of the unit that are done */
    double work;      /* multiply-adds; about */
    double work_left; /* of them */
};

/* Fills *vision, which is zeroed, for options->vision; on failure cpu_image_encoder_fini() is still
 * the caller's to call. `pool` outlives it and is not used by others during a call. */
enum result cpu_image_encoder_init(struct cpu_image_encoder *vision,
                                   const struct backend_options *options,
                                   const struct cpu_kernels *kernels, struct cpu_thread_pool *pool,
                                   backend_progress_fn *progress, void *context,
                                   struct error_text *error) RESULT_CHECKED;
void cpu_image_encoder_fini(struct cpu_image_encoder *vision);

/* encode_begin() and encode_part() of struct backend_interface; returns what is left. */
void cpu_image_encoder_begin(struct cpu_image_encoder *vision, const struct encode_batch *batch);
uint64_t cpu_image_encoder_run(struct cpu_image_encoder *vision, uint64_t work);

#endif
