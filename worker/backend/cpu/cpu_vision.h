/*
 * A vision tower on CPU threads: its program, the pictures it is at, and the feature pool that it
 * fills. The CPU backend has one; so may a backend of a device that has no kernels for towers.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_CPU_VISION_H
#define SHOAL_WORKER_BACKEND_CPU_CPU_VISION_H

#include "worker/backend/cpu/cpu_step.h"

struct cpu_vision {
    struct cpu_program program;
    struct cpu_step step;
    struct cpu_patches patches;
    struct cpu_features features;
    uint32_t stages_done; /* of the batch, the taking in with them; 0: there is none */
};

/* Fills *vision, which is zeroed, for options->vision; on failure cpu_vision_fini() is still the
 * caller's to call. `pool` outlives it and is not used by others during a call. */
enum result cpu_vision_init(struct cpu_vision *vision, const struct backend_options *options,
                            const struct cpu_kernels *kernels, struct cpu_thread_pool *pool,
                            backend_progress_fn *progress, void *context,
                            struct error_text *error) RESULT_CHECKED;
void cpu_vision_fini(struct cpu_vision *vision);

/* encode_begin() and encode_stages() of struct backend_interface. True when all stages are done. */
void cpu_vision_begin(struct cpu_vision *vision, const struct encode_batch *batch);
bool cpu_vision_run(struct cpu_vision *vision, uint32_t stages);

#endif
