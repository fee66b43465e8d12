/*
 * Kernel, tiles and splits of a linear op of many rows. Pure functions of the device's facts and
 * the op's shape.
 *
 *   path          shader                   when
 *   tile          linear_tile              no matrix units, or k not a multiple of 32; x is f32
 *   plain         linear_plain             the same on drivers that compute on a CPU, k % 32 == 0
 *   khr           linear_matrix            KHR matrix units
 *   fragment      linear_fragment          few rows, where fragments lie as it expects (facts)
 *   nv2 packed    linear_matrix2_packed    NV matrix 2, weights decoded as they are loaded
 *   nv2 unpacked  linear_matrix2_f16       the same after matrix_unpack into scratch memory (or F16
 *                                          matrices whose outputs fill their tiles)
 *
 *   ptx           linear_wgmma_…           tier PTX, kinds and widths that it has; x is staged
 *
 * The others but tile and plain take x in f16. A choice holds for exactly its shape and contains no
 * addresses.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_MATRIX_POLICY_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_MATRIX_POLICY_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

/* Rows of the largest tile. Memory of x in f16 is padded to a multiple of it. */
#define VULKAN_MATRIX_ROWS 128u

struct vulkan_matrix_request {
    enum vulkan_weight_kind kind;
    uint32_t rows;
    uint32_t n; /* rows of the matrix; gated: of the gate and the up */
    uint32_t k;
    enum vulkan_linear_epilogue epilogue;
    uint32_t forms;         /* of the output: f32, f16 or both */
    bool unaligned;         /* outputs begin, or their rows end, at no multiple of 32 columns */
    uint64_t scratch_bytes; /* memory there is for unpacked weights */
    bool staged;            /* x can be staged: without it there is no path ptx */
};

enum vulkan_matrix_path {
    VULKAN_MATRIX_TILE,
    VULKAN_MATRIX_KHR,
    VULKAN_MATRIX_NV2_PACKED,
    VULKAN_MATRIX_NV2_UNPACKED,
    VULKAN_MATRIX_FRAGMENT,
    VULKAN_MATRIX_PLAIN,
    VULKAN_MATRIX_PTX
};

/* Tile sizes of a path; fields that a path does not use are 0. */
struct vulkan_matrix_tiling {
    enum vulkan_matrix_path path;
    uint32_t rows, columns, k;
    uint32_t part_rows, part_columns; /* of a subgroup; tile, plain: of an invocation */
    uint32_t stages;
    uint32_t splits;      /* khr, fragment, ptx: 1 = the tiles' sums are not split */
    uint32_t invocations; /* nv2 */
    uint32_t depth;       /* fragment: slabs of weights in flight */
    bool folded;          /* ptx: a workgroup computes all splits of its tile and adds them up */
};

struct vulkan_matrix_dispatch {
    const char *shader;
    struct vulkan_specialization constants;
    struct vulkan_grid grid;
};

struct vulkan_matrix_choice {
    struct vulkan_matrix_tiling tiling;
    enum vulkan_form x_form; /* f16, staged or f32 */
    uint32_t x_rows;         /* that are read; the contents from request->rows on do not matter */
    /* First, with vulkan_matrix_unpack_push, when unpacked_bytes > 0; after it a barrier. Then the
     * product's weights.codes is the scratch memory, which has room for whole tiles of outputs. */
    struct vulkan_matrix_dispatch unpack;
    uint64_t unpacked_bytes;
    struct vulkan_matrix_dispatch product; /* with vulkan_linear_matrix_push */
    /* Path ptx, when partial_bytes > 0: after the product and a barrier, with the same push constants, which are
     * vulkan_linear_ptx_push on this path. */
    struct vulkan_matrix_dispatch sum;
    uint32_t splits, split_steps; /* for the push constants */
    uint64_t partial_bytes;       /* of push.partials; 0 when splits is 1 or they are folded */
    uint32_t counter_count;       /* of push.counters; 0 when splits is 1 */
};

/* What vulkan_matrix_choose() picks. must(): rows, n, k > 0; n even when gated; k % 32 == 0 of a
 * quantized kind. */
struct vulkan_matrix_tiling
vulkan_matrix_tiling_choose(const struct vulkan_facts *facts,
                            const struct vulkan_matrix_request *request);
/* The dispatches of a tiling, which must() suit the device and the shape. */
void vulkan_matrix_choice_make(const struct vulkan_facts *facts,
                               const struct vulkan_matrix_request *request,
                               const struct vulkan_matrix_tiling *tiling,
                               struct vulkan_matrix_choice *choice);
/* Both. */
void vulkan_matrix_choose(const struct vulkan_facts *facts,
                          const struct vulkan_matrix_request *request,
                          struct vulkan_matrix_choice *choice);

/* The layouts of weights that kernels in PTX know; sums of splits have a kernel without one. */
enum vulkan_ptx_layout {
    VULKAN_PTX_SUM,
    VULKAN_PTX_Q4_0,
    VULKAN_PTX_Q4_1,
    VULKAN_PTX_Q5_0,
    VULKAN_PTX_Q5_1,
    VULKAN_PTX_Q6_K,
    VULKAN_PTX_Q8_0,
    VULKAN_PTX_A8,
    VULKAN_PTX_IQ4_NL,
    VULKAN_PTX_E2M1,
    VULKAN_PTX_A4_64,
    VULKAN_PTX_A4_128,
    VULKAN_PTX_A6_64,
    VULKAN_PTX_A8_64,
    VULKAN_PTX_Z4_64,
    VULKAN_PTX_Z4_128,
    VULKAN_PTX_F8_128,
    VULKAN_PTX_F8_32,
    VULKAN_PTX_F32, /* from here on not of experts */
    VULKAN_PTX_F16,
    VULKAN_PTX_BF16,
    VULKAN_PTX_NONE
};
enum vulkan_ptx_layout vulkan_ptx_layout(enum vulkan_weight_kind kind);

/* Whether path ptx is taken, if x can be staged. */
bool vulkan_matrix_suits_ptx(const struct vulkan_facts *facts, enum vulkan_weight_kind kind,
                             uint32_t rows, uint32_t k);

/* Whether the device has matrix units of subgroup scope. */
bool vulkan_matrix_has_units(const struct vulkan_facts *facts);
/* The khr tiling, not split, for tiles of about request->rows rows that are gathered from anywhere
 * (moe_matrix); the product's constants and grid.y are set. must(): vulkan_matrix_has_units(),
 * k % 32 == 0. */
struct vulkan_matrix_tiling vulkan_matrix_gathered(const struct vulkan_facts *facts,
                                                   const struct vulkan_matrix_request *request,
                                                   struct vulkan_matrix_dispatch *product);

/* Everything but addresses; out_stride is the output's columns. */
void vulkan_matrix_push_fill(const struct vulkan_matrix_request *request,
                             const struct vulkan_matrix_choice *choice,
                             struct vulkan_linear_matrix_push *push);
/* The push constants of path ptx around those of the others. `biases`: address of f32 [n] to add to each row's
 * products, before they are gated; 0: none. */
struct vulkan_linear_ptx_push vulkan_matrix_ptx_push(const struct vulkan_matrix_request *request,
                                                     const struct vulkan_linear_matrix_push *push,
                                                     uint64_t biases);

#endif
