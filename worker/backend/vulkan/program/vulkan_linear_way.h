/*
 * Which kernels compute a linear op for a number of rows: between the few-row kernels
 * (vulkan_dot_policy.h) and those for matrices (vulkan_matrix_policy.h).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_LINEAR_WAY_H
#define SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_LINEAR_WAY_H

#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/policy/vulkan_dot_policy.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"
#include "worker/backend/vulkan/program/vulkan_program.h"

#define VULKAN_LINEAR_COUNTERS 65536u /* u32, at the scratch memory's start; zero between uses */
/* Bytes of one matrix as f16; larger ones stay packed. */
#define VULKAN_LINEAR_UNPACKED_MAX (512ull << 20)

/* How one op is computed for some number of rows. */
struct vulkan_linear_way {
    enum vulkan_form input; /* the form it reads (with `norm`, of the norm's input); tiled: f16 is
                             * accepted too */
    bool norm;              /* norms its input itself */
    bool gate;              /* gates its output itself */
};

/* One op at some number of rows, seen together with its fused neighbours. */
struct vulkan_linear_task {
    uint32_t index;
    uint32_t rows;
    const struct plan_op *op;
    const struct plan_op *norm; /* NULL: not fused */
    const struct plan_op *gate; /* likewise */
    bool bias;                  /* the output holds the biases already */
    uint64_t biases;            /* f32 [n of all matrices] that the product reads; 0: none */
    uint32_t forms;             /* of a gated output */
    enum vulkan_form input;
    bool staged; /* the input can be staged: no other reader wants it in another form of halves */
};

const struct vulkan_matrix *vulkan_linear_matrix(const struct vulkan_program *program,
                                                 uint32_t index, uint32_t which);
struct vulkan_linear_task vulkan_linear_task_make(const struct vulkan_program *program,
                                                  uint32_t index, uint32_t rows,
                                                  struct vulkan_linear_way way, uint32_t forms);
enum vulkan_linear_epilogue vulkan_linear_epilogue(const struct vulkan_linear_task *task);
/* Whether products add the biases of the op's bias_add, so that no other dispatch does. */
bool vulkan_linear_reads_biases(const struct vulkan_program *program,
                                const struct vulkan_linear_task *task);
/* The request that chooses a matrix kernel. */
struct vulkan_matrix_request vulkan_linear_matrix_request(const struct vulkan_linear_task *task,
                                                          const struct vulkan_matrix *matrix);

/* For the linear or linear_add op `index` with `rows` rows. */
struct vulkan_linear_way vulkan_linear_way(const struct vulkan_program *program, uint32_t index,
                                           uint32_t rows);

/* The next number of rows to consider, so that a loop visits every kernel chosen for up to `max`
 * rows. `max` itself is always visited; the number after it is larger. */
uint32_t vulkan_linear_next_rows(uint32_t rows, uint32_t max);

/* Maximum scratch bytes over all ops and numbers of rows. */
uint64_t vulkan_linear_scratch_bytes(const struct vulkan_program *program);

#endif
