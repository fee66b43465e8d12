/*
 * Which kernels compute a linear op for a number of rows, and their dispatches: between the few-row
 * kernels (vulkan_dot_policy.h) and those for matrices (vulkan_matrix_policy.h).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_LINEAR_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_LINEAR_H

#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/record/vulkan_program.h"

#define VULKAN_LINEAR_COUNTERS 65536u /* u32, at the scratch memory's start; zero between uses */
/* Bytes of one matrix as f16; larger ones stay packed. */
#define VULKAN_LINEAR_UNPACKED_MAX (512ull << 20)

struct vulkan_recorder;

/* How one op is computed for some number of rows. */
struct vulkan_linear_way {
    enum vulkan_form
        input; /* the form it reads, with `norm` of the norm's input; tiled: f16 will do */
    bool norm; /* norms its input itself */
    bool gate; /* gates its output itself */
};

/* For the linear or linear_add op `index` with `rows` rows. */
struct vulkan_linear_way vulkan_linear_way(const struct vulkan_program *program, uint32_t index,
                                           uint32_t rows);
/* Whether what it gates may be tiled. */
bool vulkan_linear_gates_tiled(const struct vulkan_program *program, uint32_t index, uint32_t rows);

/* Dispatches of the op, its norm and gate included where `way` says so. `forms`: of the gate's
 * output. */
void vulkan_linear_record(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms);

/* The next number of rows to ask about, so that every kernel chosen for up to `most` rows is met:
 * `most` itself is always visited, and what follows it is larger. */
uint32_t vulkan_linear_next_rows(uint32_t rows, uint32_t most);

/* Largest scratch that any op needs with any number of rows. */
uint64_t vulkan_linear_scratch_bytes(const struct vulkan_program *program);

#endif
