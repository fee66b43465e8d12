/*
 * Tiles for products of many rows.
 *
 * Few rows (one tile of rows) take as long as reading the weights, so every compute unit needs
 * enough workgroups with enough loads in flight; if there are too few outputs for that, the columns
 * are split. Many rows take as long as the matrix units need, so tiles are as large as registers
 * allow. The numbers were measured on one H200 (../README.md); on other devices results are
 * correct, speed is untested.
 */
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

#include <string.h>

#include "proto/must.h"

#define WIDE_ROWS       128u /* from more rows on, tiles are chosen for arithmetic */
#define COLUMN_UNIT     32u  /* of k, for matrix units */
#define GROUPS_PER_UNIT 2u   /* workgroups per compute unit for few rows */
#define UNITS_UNKNOWN   64u  /* assumed compute units if the device does not report them */
#define PLAIN_SUBGROUPS 4u   /* on a CPU's driver: of a workgroup, */
#define PLAIN_ROWS      8u   /* rows and */
#define PLAIN_PART      2u   /* outputs of a lane */
#define NARROW_OUTPUTS  8192u
#define SPLITS_MAX      16u
#define SPLIT_STEPS_MIN 4u
/* Where rows must not depend on each other: tile and splits of any number of rows are those of so
 * many; each split of a prompt's tiles takes scratch memory. */
#define INVARIANT_ROWS   64u
#define INVARIANT_SPLITS 4u
/* The kernels in PTX: */
#define PTX_ROWS_MIN    33u  /* fewer are faster in shaders, */
#define PTX_FEW_MIN     25u  /* of packed weights from here on */
#define PTX_COLUMNS     128u /* of k, that a lane group takes at once */
#define PTX_OUTPUTS     256u /* rows of W of a workgroup */
#define PTX_INVOCATIONS 512u
#define PTX_FOLD_ROWS   128u /* rows of a tile that may compute all splits */

static bool is_gated(const struct vulkan_matrix_request *request)
{
    return request->epilogue == VULKAN_LINEAR_GATE_SILU ||
           request->epilogue == VULKAN_LINEAR_GATE_GELU;
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static const struct vulkan_matrix_shape *unit_shape(const struct vulkan_facts *facts)
{
    const struct vulkan_matrix_shape *best = NULL;
    for (uint32_t i = 0; i < facts->matrix_shape_count; i++) {
        const struct vulkan_matrix_shape *shape = &facts->matrix_shapes[i];
        bool fits = shape->type == VULKAN_MATRIX_F16_F32 && 16 % shape->m == 0 &&
                    16 % shape->n == 0 && 32 % shape->k == 0 && shape->k >= 8 && shape->n >= 8;
        if (fits && (!best || shape->m * shape->n * shape->k > best->m * best->n * best->k))
            best = shape;
    }
    return best;
}

bool vulkan_matrix_has_units(const struct vulkan_facts *facts)
{
    return facts->tier >= VULKAN_KHR_MATRIX && unit_shape(facts) != NULL;
}

/* Outputs of a tile: columns of out. */
static uint32_t tile_outputs(const struct vulkan_matrix_request *request,
                             const struct vulkan_matrix_tiling *tiling)
{
    return is_gated(request) ? tiling->columns / 2 : tiling->columns;
}

static uint32_t tile_count(const struct vulkan_matrix_request *request,
                           const struct vulkan_matrix_tiling *tiling)
{
    uint32_t outputs = is_gated(request) ? request->n / 2 : request->n;
    return divide_up(request->rows, tiling->rows) *
           divide_up(outputs, tile_outputs(request, tiling));
}

static uint32_t split_count(const struct vulkan_facts *facts,
                            const struct vulkan_matrix_request *request,
                            const struct vulkan_matrix_tiling *tiling)
{
    uint32_t units = facts->compute_units > 0 ? facts->compute_units : UNITS_UNKNOWN;
    uint32_t splits = units * GROUPS_PER_UNIT / tile_count(request, tiling);
    uint32_t max = divide_up(request->k, tiling->k) / SPLIT_STEPS_MIN;
    splits = splits < max ? splits : max;
    splits = splits < SPLITS_MAX ? splits : SPLITS_MAX;
    return splits > 0 ? splits : 1;
}

/* Shared memory and invocations bound the tiles of small devices. */
static bool khr_fits(const struct vulkan_facts *facts, const struct vulkan_matrix_tiling *t)
{
    uint32_t subgroups = t->rows / t->part_rows * (t->columns / t->part_columns);
    uint32_t bytes = t->stages * (t->rows + t->columns) * (t->k + 8) * 2;
    uint32_t min = t->rows / t->part_rows * 16 * t->columns * 4;
    return (bytes > min ? bytes : min) + 64 <= facts->shared_bytes &&
           subgroups * facts->subgroup_size <= facts->max_invocations;
}

static struct vulkan_matrix_tiling khr_tiling(const struct vulkan_facts *facts,
                                              const struct vulkan_matrix_request *request)
{
    /* Rows at most, then tiles from the largest; the first that fits, or the last. */
    static const struct {
        uint32_t rows_max, rows, k, part_rows;
    } sizes[] = {
        {16, 16, 128, 16}, {16, 16, 64, 16}, {32, 32, 128, 32},         {32, 32, 64, 32},
        {64, 64, 128, 32}, {64, 64, 64, 32}, {UINT32_MAX, 128, 64, 32}, {UINT32_MAX, 64, 32, 32},
    };
    /* Units this small are those of a driver for the CPU, which takes minutes to compile large
     * parts. */
    if (unit_shape(facts)->k < 16)
        return (struct vulkan_matrix_tiling){.path = VULKAN_MATRIX_KHR,
                                             .rows = request->rows > 16 ? 32 : 16,
                                             .columns = 32,
                                             .k = 32,
                                             .part_rows = 8,
                                             .part_columns = 16,
                                             .stages = 1,
                                             .splits = request->rows > 16 ? 1 : 2};
    struct vulkan_matrix_tiling tiling;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tiling = (struct vulkan_matrix_tiling){.path = VULKAN_MATRIX_KHR,
                                               .rows = sizes[i].rows,
                                               .columns = 64,
                                               .k = sizes[i].k,
                                               .part_rows = sizes[i].part_rows,
                                               .part_columns = 32,
                                               .stages = 1,
                                               .splits = 1};
        if (request->rows <= sizes[i].rows_max && khr_fits(facts, &tiling))
            break;
    }
    if (request->rows <= WIDE_ROWS)
        tiling.splits = split_count(facts, request, &tiling);
    return tiling;
}

/* For small matrices, with too few columns to split and so few tiles that even the smallest tiles
 * all run at once. */
static bool choose_small_tiling(const struct vulkan_facts *facts,
                                const struct vulkan_matrix_request *request,
                                struct vulkan_matrix_tiling *tiling)
{
    const struct vulkan_matrix_tiling small = {
        VULKAN_MATRIX_KHR, 16, 32, 128, 16, 16, 1, 1, 0, 0, false};
    uint32_t units = facts->compute_units > 0 ? facts->compute_units : UNITS_UNKNOWN;
    *tiling = small;
    return request->rows <= WIDE_ROWS && unit_shape(facts)->k >= 16 && khr_fits(facts, &small) &&
           divide_up(request->k, small.k) < 2 * SPLIT_STEPS_MIN &&
           tile_count(request, &small) <= units * GROUPS_PER_UNIT;
}

static bool suits_fragment(const struct vulkan_facts *facts,
                           const struct vulkan_matrix_request *request)
{
    bool few = request->rows <= WIDE_ROWS || facts->batch_invariant;
    return facts->matrix_registers && vulkan_weight_format_facts(request->kind).quantized && few &&
           facts->shared_bytes >= 32768;
}

/* Four subgroups side by side, each with all rows of the tile and 32 columns; eight with 16 each
 * where outputs are few, whose splits are added up sooner then. */
static struct vulkan_matrix_tiling fragment_tiling(const struct vulkan_facts *facts,
                                                   const struct vulkan_matrix_request *request)
{
    uint32_t rows = request->rows <= 16   ? 16
                    : request->rows <= 32 ? 32
                    : request->rows <= 48 ? 48
                                          : 64;
    struct vulkan_matrix_tiling tiling = {.path = VULKAN_MATRIX_FRAGMENT,
                                          .rows = rows,
                                          .columns = 128,
                                          .k = 128,
                                          .part_rows = rows,
                                          .part_columns = 32,
                                          .splits = 1};
    if (!is_gated(request) && request->n <= NARROW_OUTPUTS && rows == 64 && request->rows <= rows)
        tiling.part_columns = 16;
    tiling.splits = split_count(facts, request, &tiling);
    return tiling;
}

/* Of the products of linear_matrix2_f16, which read whole tiles. */
static uint64_t unpacked_bytes(const struct vulkan_matrix_request *request,
                               const struct vulkan_matrix_tiling *tiling)
{
    uint32_t unit = tile_outputs(request, tiling);
    uint32_t outputs = is_gated(request) ? request->n / 2 : request->n;
    uint64_t rows = request->n - outputs + (uint64_t)divide_up(outputs, unit) * unit;
    return rows * request->k * sizeof(uint16_t);
}

/* F16 matrices that end with a tile are read as they are. */
static bool lies_unpacked(const struct vulkan_matrix_request *request,
                          const struct vulkan_matrix_tiling *tiling)
{
    uint64_t bytes = (uint64_t)request->n * request->k * sizeof(uint16_t);
    return request->kind == VULKAN_WEIGHT_F16 && unpacked_bytes(request, tiling) == bytes;
}

/* Of a tiling of workgroups' matrices; whether there is one. */
static bool choose_nv2_path(const struct vulkan_matrix_request *request,
                            struct vulkan_matrix_tiling *tiling)
{
    bool unpacks = unpacked_bytes(request, tiling) <= request->scratch_bytes;
    tiling->path = unpacks || lies_unpacked(request, tiling) ? VULKAN_MATRIX_NV2_UNPACKED
                                                             : VULKAN_MATRIX_NV2_PACKED;
    return tiling->path == VULKAN_MATRIX_NV2_UNPACKED ||
           vulkan_weight_format_facts(request->kind).quantized;
}

/* The tile with the least time: as many rounds as the compute units need for all tiles, each as
 * long as a tile has sums, divided by what the size reaches of the largest one's speed. */
static bool choose_nv2_tiling(const struct vulkan_facts *facts,
                              const struct vulkan_matrix_request *request,
                              struct vulkan_matrix_tiling *best)
{
    static const struct {
        uint32_t rows, columns, invocations, percent;
    } sizes[] = {{128, 256, 256, 100}, {128, 128, 256, 98}, {64, 128, 128, 68}, {64, 64, 128, 68}};
    uint32_t units = facts->compute_units > 0 ? facts->compute_units : UNITS_UNKNOWN;
    uint64_t best_time = UINT64_MAX;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct vulkan_matrix_tiling tiling = {.rows = sizes[i].rows,
                                              .columns = sizes[i].columns,
                                              .k = 64,
                                              .splits = 1,
                                              .invocations = sizes[i].invocations};
        /* Decoding is slow in the largest tile. */
        if (!choose_nv2_path(request, &tiling) ||
            (tiling.path == VULKAN_MATRIX_NV2_PACKED && i == 0))
            continue;
        uint64_t time = (uint64_t)divide_up(tile_count(request, &tiling), units) * tiling.rows *
                        tiling.columns * 100 / sizes[i].percent;
        if (time < best_time) {
            best_time = time;
            *best = tiling;
        }
    }
    return best_time < UINT64_MAX;
}

static struct vulkan_matrix_tiling plain_tiling(const struct vulkan_facts *facts,
                                                const struct vulkan_matrix_request *request)
{
    /* What every device of Vulkan has: 16 KiB of shared memory and 128 invocations. */
    bool small = facts->shared_bytes < 32768 || facts->max_invocations < 256;
    struct vulkan_matrix_tiling tiling = {.path = VULKAN_MATRIX_TILE,
                                          .rows = 64,
                                          .columns = 64,
                                          .k = 32,
                                          .part_rows = 4,
                                          .part_columns = 4,
                                          .splits = 1};
    if (request->rows <= 16) {
        tiling.rows = 16;
        tiling.part_rows = 2;
    } else if (request->rows <= 32 || small) {
        tiling.rows = 32;
    }
    return tiling;
}

/* On a CPU's driver, whose lanes are those of vector registers: about as many sums as those hold,
 * and one kernel for any number of rows, since each takes a second to compile. */
static struct vulkan_matrix_tiling lane_tiling(const struct vulkan_facts *facts)
{
    return (struct vulkan_matrix_tiling){.path = VULKAN_MATRIX_PLAIN,
                                         .rows = PLAIN_ROWS,
                                         .columns =
                                             PLAIN_SUBGROUPS * PLAIN_PART * facts->subgroup_size,
                                         .k = COLUMN_UNIT,
                                         .part_rows = PLAIN_ROWS,
                                         .part_columns = PLAIN_PART,
                                         .splits = 1};
}

static bool suits_lanes(const struct vulkan_facts *facts,
                        const struct vulkan_matrix_request *request)
{
    return facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU && request->k % COLUMN_UNIT == 0 &&
           facts->subgroup_size >= 4 && facts->subgroup_size <= 16 &&
           facts->max_invocations >= PLAIN_SUBGROUPS * facts->subgroup_size;
}

enum vulkan_ptx_layout vulkan_ptx_layout(enum vulkan_weight_kind kind)
{
    switch (kind) {
    case VULKAN_WEIGHT_Q4_0: return VULKAN_PTX_Q4_0;
    case VULKAN_WEIGHT_Q4_1:
    case VULKAN_WEIGHT_Q4_K: return VULKAN_PTX_Q4_1;
    case VULKAN_WEIGHT_Q5_0: return VULKAN_PTX_Q5_0;
    case VULKAN_WEIGHT_Q5_1:
    case VULKAN_WEIGHT_Q5_K: return VULKAN_PTX_Q5_1;
    case VULKAN_WEIGHT_Q6_K: return VULKAN_PTX_Q6_K;
    case VULKAN_WEIGHT_Q8_0: return VULKAN_PTX_Q8_0;
    case VULKAN_WEIGHT_A8: return VULKAN_PTX_A8;
    case VULKAN_WEIGHT_IQ4_NL: return VULKAN_PTX_IQ4_NL;
    case VULKAN_WEIGHT_MXFP4: return VULKAN_PTX_E2M1;
    case VULKAN_WEIGHT_A4_64: return VULKAN_PTX_A4_64;
    case VULKAN_WEIGHT_A4_128: return VULKAN_PTX_A4_128;
    case VULKAN_WEIGHT_A6_64: return VULKAN_PTX_A6_64;
    case VULKAN_WEIGHT_A8_64: return VULKAN_PTX_A8_64;
    case VULKAN_WEIGHT_Z4_64: return VULKAN_PTX_Z4_64;
    case VULKAN_WEIGHT_Z4_128: return VULKAN_PTX_Z4_128;
    case VULKAN_WEIGHT_F8_128: return VULKAN_PTX_F8_128;
    case VULKAN_WEIGHT_F8_32: return VULKAN_PTX_F8_32;
    case VULKAN_WEIGHT_F32: return VULKAN_PTX_F32;
    case VULKAN_WEIGHT_F16: return VULKAN_PTX_F16;
    case VULKAN_WEIGHT_BF16: return VULKAN_PTX_BF16;
    default: return VULKAN_PTX_NONE;
    }
}

/* Packed weights have tiles of 16 and 32 rows, too, and their tiles of 128 may be folded. */
static bool has_few(enum vulkan_weight_kind kind)
{
    return vulkan_ptx_layout(kind) < VULKAN_PTX_F32;
}

bool vulkan_matrix_suits_ptx(const struct vulkan_facts *facts, enum vulkan_weight_kind kind,
                             uint32_t rows, uint32_t k)
{
    uint32_t min = facts->batch_invariant ? 1 : has_few(kind) ? PTX_FEW_MIN : PTX_ROWS_MIN;
    return facts->tier >= VULKAN_PTX && vulkan_ptx_layout(kind) != VULKAN_PTX_NONE &&
           k % PTX_COLUMNS == 0 && rows >= min;
}

/* 0 to 3: tiles of 16, 32, 64 or 128 rows. */
static uint32_t ptx_size(uint32_t tile_rows)
{
    return tile_rows == 16 ? 0 : tile_rows == 32 ? 1 : tile_rows == 64 ? 2 : 3;
}

static struct vulkan_matrix_tiling ptx_tile(const struct vulkan_matrix_request *request)
{
    bool few = has_few(request->kind) && request->rows <= 32;
    return (struct vulkan_matrix_tiling){.path = VULKAN_MATRIX_PTX,
                                         .rows = few && request->rows <= 16 ? 16
                                                 : few                      ? 32
                                                 : request->rows <= 64      ? 64
                                                                            : PTX_FOLD_ROWS,
                                         .columns = PTX_OUTPUTS,
                                         .k = PTX_COLUMNS,
                                         .splits = 1,
                                         .invocations = PTX_INVOCATIONS};
}

/* A workgroup occupies a compute unit: the time of rounds of workgroups, each with some time to begin
 * and to end, and of the addition of the splits' sums; in hundredths of microseconds on an H200. */
static uint64_t ptx_time(const struct vulkan_facts *facts,
                         const struct vulkan_matrix_request *request,
                         const struct vulkan_matrix_tiling *t)
{
    static const uint32_t step_times[] = {85, 108, 130, 190};
    uint32_t units = facts->compute_units > 0 ? facts->compute_units : UNITS_UNKNOWN;
    uint32_t tiles = tile_count(request, t), steps = request->k / PTX_COLUMNS;
    uint32_t step_time = step_times[ptx_size(t->rows)];
    if (t->folded)
        return (uint64_t)divide_up(tiles, units) * (steps * step_time + 600 + 250 * t->splits);
    uint64_t time = (uint64_t)divide_up(tiles * t->splits, units) *
                    (divide_up(steps, t->splits) * step_time + 600);
    return t->splits == 1 ? time : time + 400 + (uint64_t)tiles * t->splits * t->rows * 7 / 100;
}

static struct vulkan_matrix_tiling ptx_tiling(const struct vulkan_facts *facts,
                                              const struct vulkan_matrix_request *request)
{
    struct vulkan_matrix_tiling tiling = ptx_tile(request), best = tiling;
    uint32_t steps = request->k / PTX_COLUMNS;
    for (; tiling.splits <= SPLITS_MAX && tiling.splits <= steps; tiling.splits++)
        if (ptx_time(facts, request, &tiling) < ptx_time(facts, request, &best))
            best = tiling;
    return best;
}

/* The splits are those that suit one row; tiles of many rows compute them all where that is faster. */
static struct vulkan_matrix_tiling invariant_ptx_tiling(const struct vulkan_facts *facts,
                                                        const struct vulkan_matrix_request *request)
{
    struct vulkan_matrix_request one = *request;
    one.rows = 1;
    struct vulkan_matrix_tiling tiling = ptx_tile(request);
    tiling.splits = ptx_tiling(facts, &one).splits;
    if (!has_few(request->kind) && tiling.splits > INVARIANT_SPLITS)
        tiling.splits = INVARIANT_SPLITS;
    struct vulkan_matrix_tiling folded = tiling;
    folded.folded = tiling.rows == PTX_FOLD_ROWS && tiling.splits > 1 && has_few(request->kind);
    return ptx_time(facts, request, &folded) < ptx_time(facts, request, &tiling) ? folded : tiling;
}

/*
 * A row's sums are added in the same order for any number of rows: one kernel for each shape of
 * weights, whose splits do not depend on rows. Tiles of linear_fragment and of kernels in PTX have fewer
 * rows where a step has fewer; the products of a row are the same in all of them.
 */
static struct vulkan_matrix_tiling invariant_tiling(const struct vulkan_facts *facts,
                                                    const struct vulkan_matrix_request *request)
{
    struct vulkan_matrix_request usual = *request;
    usual.rows = INVARIANT_ROWS;
    struct vulkan_matrix_tiling tiling;
    if (request->staged && vulkan_matrix_suits_ptx(facts, request->kind, request->rows, request->k))
        return invariant_ptx_tiling(facts, request);
    if (request->k % COLUMN_UNIT != 0 || !vulkan_matrix_has_units(facts))
        return suits_lanes(facts, request) ? lane_tiling(facts) : plain_tiling(facts, &usual);
    if (suits_fragment(facts, request)) {
        tiling = fragment_tiling(facts, &usual);
        tiling.rows = tiling.part_rows = fragment_tiling(facts, request).rows;
        tiling.part_columns = 32;
    } else {
        tiling = khr_tiling(facts, &usual);
    }
    if (tiling.splits > INVARIANT_SPLITS)
        tiling.splits = INVARIANT_SPLITS;
    return tiling;
}

struct vulkan_matrix_tiling vulkan_matrix_tiling_choose(const struct vulkan_facts *facts,
                                                        const struct vulkan_matrix_request *request)
{
    must(request->rows > 0 && request->n > 0 && request->k > 0);
    if (facts->batch_invariant)
        return invariant_tiling(facts, request);
    bool matrix = request->k % COLUMN_UNIT == 0 && vulkan_matrix_has_units(facts);
    if (!matrix && suits_lanes(facts, request))
        return lane_tiling(facts);
    if (!matrix)
        return plain_tiling(facts, request);
    if (matrix && request->staged &&
        vulkan_matrix_suits_ptx(facts, request->kind, request->rows, request->k))
        return ptx_tiling(facts, request);
    struct vulkan_matrix_tiling tiling;
    if (request->rows > WIDE_ROWS && facts->tier >= VULKAN_NV_MATRIX2 &&
        choose_nv2_tiling(facts, request, &tiling))
        return tiling;
    if (suits_fragment(facts, request))
        return fragment_tiling(facts, request);
    return choose_small_tiling(facts, request, &tiling) ? tiling : khr_tiling(facts, request);
}

static void make_unpack(const struct vulkan_matrix_request *request,
                        struct vulkan_matrix_choice *choice)
{
    uint32_t groups = divide_up((uint32_t)((uint64_t)request->n * request->k / 8), 256);
    uint32_t across = groups < 32768 ? groups : 32768;
    choice->unpacked_bytes = unpacked_bytes(request, &choice->tiling);
    choice->unpack = (struct vulkan_matrix_dispatch){
        .shader = "matrix_unpack",
        .constants = {.count = 2, .values = {256, request->kind}},
        .grid = {across, divide_up(groups, across), 1},
    };
}

static const char *nv2_shader(const struct vulkan_matrix_request *request,
                              const struct vulkan_matrix_tiling *t)
{
    uint32_t outputs = is_gated(request) ? request->n / 2 : request->n;
    bool whole = request->rows % t->rows == 0 && request->k % t->k == 0 && request->k % 64 == 0 &&
                 outputs % tile_outputs(request, t) == 0 && !request->unaligned;
    if (t->path == VULKAN_MATRIX_NV2_UNPACKED)
        return whole ? "linear_matrix2_f16_whole" : "linear_matrix2_f16";
    return whole ? "linear_matrix2_packed_whole" : "linear_matrix2_packed";
}

static struct vulkan_matrix_dispatch ptx_dispatch(enum vulkan_ptx_layout layout,
                                                  const struct vulkan_matrix_tiling *t,
                                                  uint32_t shared_bytes, struct vulkan_grid grid)
{
    static const char *const kernels[][4] = {
    /* of 16, 32, 64 and 128 rows; floats have the last two */
#define FEW(name)  "linear_wgmma_" name "_16", "linear_wgmma_" name "_32"
#define MANY(name) "linear_wgmma_" name "_64", "linear_wgmma_" name "_128"
#define ALL(name)  {FEW(name), MANY(name)}
        [VULKAN_PTX_SUM] = ALL("sum"),
        [VULKAN_PTX_Q4_0] = ALL("q4_0"),
        [VULKAN_PTX_Q4_1] = ALL("q4_1"),
        [VULKAN_PTX_Q5_0] = ALL("q5_0"),
        [VULKAN_PTX_Q5_1] = ALL("q5_1"),
        [VULKAN_PTX_Q6_K] = ALL("q6_k"),
        [VULKAN_PTX_Q8_0] = ALL("q8_0"),
        [VULKAN_PTX_A8] = ALL("a8"),
        [VULKAN_PTX_IQ4_NL] = ALL("iq4_nl"),
        [VULKAN_PTX_E2M1] = ALL("e2m1"),
        [VULKAN_PTX_A4_64] = ALL("a4_64"),
        [VULKAN_PTX_A4_128] = ALL("a4_128"),
        [VULKAN_PTX_A6_64] = ALL("a6_64"),
        [VULKAN_PTX_A8_64] = ALL("a8_64"),
        [VULKAN_PTX_Z4_64] = ALL("z4_64"),
        [VULKAN_PTX_Z4_128] = ALL("z4_128"),
        [VULKAN_PTX_F8_128] = ALL("f8_128"),
        [VULKAN_PTX_F8_32] = ALL("f8_32"),
        [VULKAN_PTX_F32] = {NULL, NULL, MANY("f32")},
        [VULKAN_PTX_F16] = {NULL, NULL, MANY("f16")},
        [VULKAN_PTX_BF16] = {NULL, NULL, MANY("bf16")}};
#undef FEW
#undef MANY
#undef ALL
    const char *shader = kernels[layout][ptx_size(t->rows)];
    must(shader);
    return (struct vulkan_matrix_dispatch){
        .shader = shader,
        .constants = {.count = 2, .values = {t->invocations, shared_bytes}},
        .grid = grid};
}

/* A stage of x, of 32 or (few rows) 128 columns, has a barrier and a count. */
static void make_ptx(const struct vulkan_matrix_request *request,
                     const struct vulkan_matrix_tiling *t, struct vulkan_matrix_choice *choice)
{
    static const uint32_t shared_bytes[] = {10 * (4096 + 16), 5 * (8192 + 16), 10 * (4096 + 16),
                                            5 * (8192 + 16)};
    must(vulkan_ptx_layout(request->kind) != VULKAN_PTX_NONE && request->k % PTX_COLUMNS == 0);
    struct vulkan_grid grid = choice->product.grid;
    choice->product =
        ptx_dispatch(vulkan_ptx_layout(request->kind), t, shared_bytes[ptx_size(t->rows)], grid);
    choice->x_form = VULKAN_FORM_STAGED;
    if (choice->splits > 1 && !t->folded) {
        grid.z = t->rows / 16; /* two quads each */
        choice->sum = ptx_dispatch(VULKAN_PTX_SUM, t, 0, grid);
    }
}

static void make_product(const struct vulkan_facts *facts,
                         const struct vulkan_matrix_request *request,
                         const struct vulkan_matrix_tiling *t, struct vulkan_matrix_choice *choice)
{
    uint32_t *values = choice->product.constants.values;
    values[VULKAN_LINEAR_MATRIX_TILE_ROWS] = t->rows;
    values[VULKAN_LINEAR_MATRIX_TILE_COLUMNS] = t->columns;
    values[VULKAN_LINEAR_MATRIX_TILE_K] = t->k;
    values[VULKAN_LINEAR_MATRIX_PART_ROWS] = t->part_rows;
    values[VULKAN_LINEAR_MATRIX_PART_COLUMNS] = t->part_columns;
    uint32_t outputs = is_gated(request) ? request->n / 2 : request->n;
    if (t->path == VULKAN_MATRIX_TILE) {
        choice->product.shader = "linear_tile";
        choice->product.constants.count = VULKAN_LINEAR_MATRIX_PART_COLUMNS + 1;
        values[0] = t->rows / t->part_rows * (t->columns / t->part_columns);
    } else if (t->path == VULKAN_MATRIX_PLAIN) {
        choice->product.shader = "linear_plain";
        choice->product.constants.count = VULKAN_LINEAR_MATRIX_LANES + 1;
        values[0] = t->columns / t->part_columns;
        values[VULKAN_LINEAR_MATRIX_LANES] = facts->subgroup_size;
    } else if (t->path == VULKAN_MATRIX_FRAGMENT) {
        choice->product.shader = "linear_fragment";
        choice->product.constants.count = VULKAN_LINEAR_MATRIX_CONSTANTS;
        values[0] = t->rows / t->part_rows * (t->columns / t->part_columns) * facts->subgroup_size;
        values[VULKAN_LINEAR_MATRIX_DEPTH] = 1;
        values[VULKAN_LINEAR_MATRIX_STAGES] = 1;
        values[VULKAN_LINEAR_MATRIX_SPLIT] = t->splits > 1;
    } else if (t->path == VULKAN_MATRIX_KHR) {
        const struct vulkan_matrix_shape *unit = unit_shape(facts);
        must(unit);
        choice->product.shader = "linear_matrix";
        choice->product.constants.count = VULKAN_LINEAR_MATRIX_CONSTANTS;
        values[0] = t->rows / t->part_rows * (t->columns / t->part_columns) * facts->subgroup_size;
        values[VULKAN_LINEAR_MATRIX_UNIT_ROWS] = unit->m;
        values[VULKAN_LINEAR_MATRIX_UNIT_COLUMNS] = unit->n;
        values[VULKAN_LINEAR_MATRIX_UNIT_K] = unit->k;
        values[VULKAN_LINEAR_MATRIX_STAGES] = t->stages;
        values[VULKAN_LINEAR_MATRIX_SPLIT] = t->splits > 1;
    } else {
        choice->product.shader = nv2_shader(request, t);
        choice->product.constants.count = VULKAN_LINEAR_MATRIX_TILE_K + 1;
        values[0] = t->invocations;
    }
    choice->product.grid = (struct vulkan_grid){divide_up(request->rows, t->rows),
                                                divide_up(outputs, tile_outputs(request, t)),
                                                t->folded ? 1 : t->splits};
}

void vulkan_matrix_choice_make(const struct vulkan_facts *facts,
                               const struct vulkan_matrix_request *request,
                               const struct vulkan_matrix_tiling *tiling,
                               struct vulkan_matrix_choice *choice)
{
    must(!is_gated(request) || request->n % 2 == 0);
    must(request->k % COLUMN_UNIT == 0 || tiling->path == VULKAN_MATRIX_TILE);
    memset(choice, 0, sizeof *choice);
    choice->tiling = *tiling;
    bool floats = tiling->path == VULKAN_MATRIX_TILE || tiling->path == VULKAN_MATRIX_PLAIN;
    choice->x_form = floats ? VULKAN_FORM_F32 : VULKAN_FORM_F16;
    uint32_t steps = divide_up(request->k, tiling->k);
    choice->split_steps = divide_up(steps, tiling->splits);
    /* Splits without steps would be workgroups without work. */
    choice->tiling.splits = choice->splits = divide_up(steps, choice->split_steps);
    uint32_t *values = choice->product.constants.values;
    values[VULKAN_LINEAR_MATRIX_WEIGHT_KIND] = request->kind;
    values[VULKAN_LINEAR_MATRIX_EPILOGUE] = request->epilogue;
    values[VULKAN_LINEAR_MATRIX_FORMS] = request->forms;
    make_product(facts, request, &choice->tiling, choice);
    if (tiling->path == VULKAN_MATRIX_PTX)
        make_ptx(request, &choice->tiling, choice);
    choice->x_rows = request->rows;
    if (tiling->path == VULKAN_MATRIX_NV2_UNPACKED)
        choice->x_rows = choice->product.grid.x * tiling->rows;
    if (tiling->path == VULKAN_MATRIX_NV2_UNPACKED && !lies_unpacked(request, tiling))
        make_unpack(request, choice);
    if (choice->splits > 1 && !tiling->folded) {
        uint32_t tiles = tile_count(request, tiling);
        choice->counter_count = tiling->path == VULKAN_MATRIX_PTX ? 0 : tiles;
        choice->partial_bytes =
            (uint64_t)tiles * choice->splits * tiling->rows * tiling->columns * 4;
    }
}

void vulkan_matrix_choose(const struct vulkan_facts *facts,
                          const struct vulkan_matrix_request *request,
                          struct vulkan_matrix_choice *choice)
{
    struct vulkan_matrix_tiling tiling = vulkan_matrix_tiling_choose(facts, request);
    vulkan_matrix_choice_make(facts, request, &tiling, choice);
}

struct vulkan_matrix_tiling vulkan_matrix_gathered(const struct vulkan_facts *facts,
                                                   const struct vulkan_matrix_request *request,
                                                   struct vulkan_matrix_dispatch *product)
{
    struct vulkan_matrix_choice choice;
    struct vulkan_matrix_request usual = *request;
    usual.rows = facts->batch_invariant ? INVARIANT_ROWS : request->rows;
    struct vulkan_matrix_tiling tiling = khr_tiling(facts, &usual);
    tiling.splits = 1;
    vulkan_matrix_choice_make(facts, request, &tiling, &choice);
    *product = choice.product;
    product->constants.count = VULKAN_LINEAR_MATRIX_STAGES + 1;
    return tiling;
}

void vulkan_matrix_push_fill(const struct vulkan_matrix_request *request,
                             const struct vulkan_matrix_choice *choice,
                             struct vulkan_linear_matrix_push *push)
{
    push->rows = request->rows;
    push->n = request->n;
    push->k = request->k;
    push->out_stride = is_gated(request) ? request->n / 2 : request->n;
    push->splits = choice->splits;
    push->split_steps = choice->split_steps;
}

struct vulkan_linear_ptx_push vulkan_matrix_ptx_push(const struct vulkan_matrix_request *request,
                                                     const struct vulkan_linear_matrix_push *push,
                                                     uint64_t biases)
{
    return (struct vulkan_linear_ptx_push){
        .matrix = *push, .epilogue = request->epilogue, .forms = request->forms, .biases = biases};
}
