/*
 * A vision tower on CPU threads: its program, the batch of images that it encodes, and the feature
 * pool that it writes. The CPU backend has one; a backend of a device without kernels for towers
 * may have one too.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_CPU_IMAGE_ENCODER_H
#define SHOAL_WORKER_BACKEND_CPU_CPU_IMAGE_ENCODER_H

#include "worker/backend/cpu/cpu_walk.h"

/* Ops that can run over some rows before the other rows. */
struct vision_unit {
    uint32_t first_op;
    uint32_t end_op;
    bool keys_only;     /* computes only keys and values of the patch_attention that begins the next
                           unit */
    uint64_t row_work;  /* approximate multiply-adds of a patch row */
    uint64_t pair_work; /* and for each row that it attends to: */
    bool windowed;      /* those of its window, otherwise of its tile */
    double pair_share;  /* of these pairs: tile_attention of windows and of features has fewer */
};

/* Minimum of patch rows per part, except for the last of a batch: each weight that is read serves
 * that many rows. Rounded up to whole squares. */
#define CPU_VISION_SLICE_ROWS 16u

struct cpu_image_encoder {
    struct cpu_program program;
    struct cpu_step step;
    struct image_patches patches;
    struct cpu_feature_pool features; /* zeroed if step.features is another one's */
    struct lazy_memory pixels;        /* of the batch's tiles, one after the other */
    struct vision_unit *units;        /* [unit_count]; the first one converts pixels */
    uint32_t unit_count;
    /* The current batch. */
    uint32_t unit;    /* == unit_count: there is none */
    uint32_t row;     /* number of finished patch rows of the unit */
    double work;      /* approximate multiply-adds of the batch */
    double work_left; /* not done yet */
};

/* Fills *vision, which is zeroed, for options->vision. The caller calls
 * cpu_image_encoder_fini() also after a failure. `pool` outlives it and is not used by others
 * during a call. */
enum result cpu_image_encoder_init(struct cpu_image_encoder *vision,
                                   const struct backend_options *options,
                                   const struct cpu_kernels *kernels, struct thread_pool *pool,
                                   backend_progress_fn *progress, void *context,
                                   struct error_text *error) RESULT_CHECKED;
/* The same for the tower of sounds options->vision->sound, into the feature pool of `images`, which outlives
 * it. */
enum result cpu_image_encoder_init_sound(struct cpu_image_encoder *vision,
                                         struct cpu_image_encoder *images,
                                         const struct backend_options *options,
                                         const struct cpu_kernels *kernels,
                                         struct thread_pool *pool, backend_progress_fn *progress,
                                         void *context, struct error_text *error) RESULT_CHECKED;
void cpu_image_encoder_fini(struct cpu_image_encoder *vision);

/* encode_begin() and encode_part() of struct backend_interface; returns the work that is left. */
void cpu_image_encoder_begin(struct cpu_image_encoder *vision, const struct encode_batch *batch);
uint64_t cpu_image_encoder_run(struct cpu_image_encoder *vision, uint64_t work);

#endif
