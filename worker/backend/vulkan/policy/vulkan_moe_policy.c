/*
 * The average number of pairs of an expert decides what bounds a step. A tile of groups should hold
 * all pairs of an expert, so that its matrices are read once, and not be much larger, since unused
 * rows of a tile are computed too. The numbers were measured (../README.md).
 *
 * With few rows hardly any expert is chosen twice, so pairs are not sorted and the product sums a
 * row's outputs itself: three dispatches less. With one or two rows it chooses the experts too:
 * four less.
 */
#include "worker/backend/vulkan/policy/vulkan_moe_policy.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_facts.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

#define DOT_INVOCATIONS   256u
#define DOT_LANES         8u  /* of a team; needed to write q8 */
#define DOT_LANES_OF_ROWS 32u /* of a team whose list is a whole row's */
#define DOT_TILE_ROWS_MAX 4u
#define DOT_PAIRS_MAX     4u /* an expert, where there are matrix units; else */
#define DOT_PLAIN_MAX     8u
#define DOT_DEPTH_MAX     4u /* of tiles of one row, else */
#define DOT_TILE_DEPTH    2u
#define CPU_DEPTH_MAX     1u /* on a driver for the CPU, compile time grows with the kernel */
#define CPU_TILE_ROWS_MAX 2u
#define DOT_GATE_COLUMNS  32u
#define UNSORTED_ROWS     8u
#define ALONE_ROWS        2u /* latency-bound up to here: wider teams, */
#define ALONE_INVOCATIONS 512u
#define ALONE_LANES       16u /* and the product chooses the experts */

#define REGISTER_LANES       32u
#define REGISTER_PAIRS_MAX   96u  /* an expert */
#define REGISTER_TILE        16u  /* outputs of a matrix unit */
#define REGISTER_TILES       2u   /* of a workgroup */
#define REGISTER_STEP        128u /* columns that a subgroup takes at a time */
#define REGISTER_SPLIT_STEPS 3u   /* that it should have at least */
#define REGISTER_SPLIT_MAX   4u

/* The kernels in PTX: */
#define PTX_COLUMNS     128u /* of k, that a lane group takes at once */
#define PTX_PAIRS_MIN   10u  /* an expert, on average; up to so many others are faster */
#define PTX_ALIGN       8u   /* rows, at multiples of which experts begin */
#define PTX_TILE_ROWS   128u
#define PTX_STAGES      5u
#define PTX_INVOCATIONS 512u
#define PTX_LANES       32u

#define PLAIN_SUBGROUPS 4u
#define PLAIN_TILE_ROWS 16u

static bool is_quantized(const struct vulkan_moe_request *request)
{
    return vulkan_weight_format_facts(request->kind).quantized;
}

static bool suits_matrix(const struct vulkan_facts *facts, const struct vulkan_moe_request *request)
{
    return request->k % VULKAN_WEIGHT_BLOCK_COLUMNS == 0 && vulkan_matrix_has_units(facts);
}

static bool suits_dot(const struct vulkan_facts *facts, const struct vulkan_moe_request *request)
{
    return facts->subgroup_size >= DOT_LANES &&
           (!is_quantized(request) || request->k % VULKAN_WEIGHT_BLOCK_COLUMNS == 0);
}

static bool suits_register(const struct vulkan_facts *facts,
                           const struct vulkan_moe_request *request)
{
    return facts->matrix_registers && is_quantized(request) &&
           request->k % VULKAN_WEIGHT_BLOCK_COLUMNS == 0 && facts->subgroup_size == REGISTER_LANES;
}

static bool suits_ptx(const struct vulkan_facts *facts, const struct vulkan_moe_request *request)
{
    uint64_t pairs = (uint64_t)request->rows * request->chosen;
    return facts->tier >= VULKAN_PTX && request->k % PTX_COLUMNS == 0 &&
           pairs > (uint64_t)request->experts * PTX_PAIRS_MIN &&
           vulkan_ptx_layout(request->kind) < VULKAN_PTX_F32;
}

static enum vulkan_moe_kernel choose_kernel(const struct vulkan_facts *facts,
                                            const struct vulkan_moe_request *request)
{
    bool matrix = suits_matrix(facts, request);
    if (facts->batch_invariant)
        return matrix ? VULKAN_MOE_MATRIX : VULKAN_MOE_PLAIN;
    bool dot = suits_dot(facts, request), registers = suits_register(facts, request);
    uint64_t pairs = (uint64_t)request->rows * request->chosen;
    uint32_t dot_most = registers ? 0 : matrix ? DOT_PAIRS_MAX : DOT_PLAIN_MAX;
    if (dot && (request->rows <= UNSORTED_ROWS || pairs <= (uint64_t)request->experts * dot_most))
        return VULKAN_MOE_DOT;
    if (suits_ptx(facts, request) && request->rows > UNSORTED_ROWS)
        return VULKAN_MOE_PTX;
    if (registers && pairs <= (uint64_t)request->experts * REGISTER_PAIRS_MAX)
        return VULKAN_MOE_REGISTER;
    return matrix ? VULKAN_MOE_MATRIX : VULKAN_MOE_PLAIN;
}

bool vulkan_moe_combines(enum vulkan_moe_kernel kernel, uint32_t rows)
{
    return kernel == VULKAN_MOE_DOT && rows <= UNSORTED_ROWS;
}

/* Every workgroup repeats it, so it pays only for few rows. */
bool vulkan_moe_routes(enum vulkan_moe_kernel kernel, uint32_t rows, uint32_t experts)
{
    return kernel == VULKAN_MOE_DOT && rows <= ALONE_ROWS && experts <= DOT_INVOCATIONS;
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static uint32_t power_up(uint32_t value, uint32_t max)
{
    uint32_t power = 1;
    while (power < value && power < max)
        power *= 2;
    return power;
}

static uint32_t floor_power(uint32_t value)
{
    uint32_t power = 1;
    while (2 * power <= value)
        power *= 2;
    return power;
}

static uint32_t most_invocations(const struct vulkan_facts *facts, uint32_t wanted)
{
    return facts->max_invocations < wanted ? facts->max_invocations : wanted;
}

/* Pairs of an expert, on average, rounded up. */
static uint32_t mean_pairs(const struct vulkan_moe_request *request)
{
    return (uint32_t)(((uint64_t)request->rows * request->chosen + request->experts - 1) /
                      request->experts);
}

static void choose_dot(const struct vulkan_facts *facts, const struct vulkan_moe_request *request,
                       struct vulkan_moe_choice *choice)
{
    bool unsorted = request->rows <= UNSORTED_ROWS;
    bool cpu = facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    uint32_t deepest = cpu ? CPU_DEPTH_MAX : unsorted ? DOT_DEPTH_MAX : DOT_TILE_DEPTH;
    uint32_t highest = cpu ? CPU_TILE_ROWS_MAX : DOT_TILE_ROWS_MAX;
    uint32_t lanes = DOT_LANES, unit_columns = VULKAN_WEIGHT_BLOCK_COLUMNS;
    if (request->combined)
        lanes = floor_power(facts->subgroup_size < DOT_LANES_OF_ROWS ? facts->subgroup_size
                                                                     : DOT_LANES_OF_ROWS);
    bool alone = request->gated && request->rows <= ALONE_ROWS &&
                 facts->subgroup_size >= ALONE_LANES && facts->max_invocations >= ALONE_INVOCATIONS;
    if (alone)
        lanes = ALONE_LANES;
    if (!is_quantized(request))
        unit_columns = request->kind == VULKAN_WEIGHT_F32 ? 4 : 8;
    uint32_t items =
        divide_up(request->k, unit_columns) * (request->combined ? request->chosen : 1);
    uint32_t depth = divide_up(items, lanes);
    uint32_t subgroups =
        floor_power(most_invocations(facts, alone ? ALONE_INVOCATIONS : DOT_INVOCATIONS) /
                    facts->subgroup_size);
    uint32_t teams = subgroups * (facts->subgroup_size / lanes);
    /* Gated, a workgroup has 32 columns, so that it can write q8. */
    uint32_t columns = request->gated ? DOT_GATE_COLUMNS / teams : 1;
    must(!request->gated || (columns > 0 && columns * teams == DOT_GATE_COLUMNS));
    choice->input = is_quantized(request) ? VULKAN_FORM_Q8 : VULKAN_FORM_F32;
    choice->mode = request->combined ? VULKAN_MOE_ROWS
                   : unsorted        ? VULKAN_MOE_PAIRS
                                     : VULKAN_MOE_GROUPS;
    choice->tile_rows = unsorted ? 1 : power_up(request->rows, highest);
    choice->shader = "moe_dot";
    choice->across = divide_up(request->n, teams * columns);
    uint32_t *values = choice->constants.values;
    choice->constants.count = VULKAN_MOE_DOT_CONSTANTS;
    values[VULKAN_MOE_DOT_INVOCATIONS] = subgroups * facts->subgroup_size;
    values[VULKAN_MOE_DOT_WEIGHT_KIND] = request->kind;
    values[VULKAN_MOE_DOT_ACTIVATION] = request->gated ? request->activation : 0;
    values[VULKAN_MOE_DOT_MODE] = choice->mode;
    values[VULKAN_MOE_DOT_TILE_ROWS] = choice->tile_rows;
    values[VULKAN_MOE_DOT_COLUMNS] = columns;
    values[VULKAN_MOE_DOT_LANES] = lanes;
    values[VULKAN_MOE_DOT_DEPTH] = depth < deepest ? depth : deepest;
    values[VULKAN_MOE_DOT_GATED] = request->gated;
    values[VULKAN_MOE_DOT_FORM] = request->output;
    values[VULKAN_MOE_DOT_HAS_DOT] = facts->integer_dot;
    values[VULKAN_MOE_DOT_ADD] = request->add;
    values[VULKAN_MOE_DOT_EXPERTS] = request->routes ? request->experts : 0;
    values[VULKAN_MOE_DOT_SOFTMAX_ALL] = request->softmax_all;
    memcpy(&values[VULKAN_MOE_DOT_ROUTE_SCALE], &request->scale, sizeof(float));
}

enum vulkan_linear_epilogue vulkan_moe_epilogue(const struct vulkan_moe_request *request)
{
    if (!request->gated)
        return VULKAN_LINEAR_STORE;
    return request->activation == 0 ? VULKAN_LINEAR_GATE_SILU : VULKAN_LINEAR_GATE_GELU;
}

/* Several subgroups share a tile's outputs; columns are dealt to them in turn. */
static void choose_register(const struct vulkan_moe_request *request,
                            struct vulkan_moe_choice *choice)
{
    uint32_t results = REGISTER_TILES * REGISTER_TILE / (request->gated ? 2 : 1);
    uint32_t split = floor_power(divide_up(request->k, REGISTER_STEP) / REGISTER_SPLIT_STEPS);
    split = split < REGISTER_SPLIT_MAX ? split : REGISTER_SPLIT_MAX;
    choice->input = VULKAN_FORM_F16;
    choice->mode = VULKAN_MOE_GROUPS;
    /* Where the mean is some four, few experts have more than eight. */
    choice->tile_rows = mean_pairs(request) <= 5 ? 8 : mean_pairs(request) <= 12 ? 16 : 32;
    choice->shader = "moe_register";
    choice->across = divide_up(request->n, results);
    uint32_t *values = choice->constants.values;
    choice->constants.count = VULKAN_LINEAR_REGISTER_CONSTANTS;
    values[VULKAN_LINEAR_REGISTER_INVOCATIONS] = split * REGISTER_LANES;
    values[VULKAN_LINEAR_REGISTER_WEIGHT_KIND] = request->kind;
    values[VULKAN_LINEAR_REGISTER_ROWS] = choice->tile_rows;
    values[VULKAN_LINEAR_REGISTER_EPILOGUE] = vulkan_moe_epilogue(request);
    values[VULKAN_LINEAR_REGISTER_FORMS] = request->output;
    values[VULKAN_LINEAR_REGISTER_OUTPUT_TILES] = REGISTER_TILES;
    values[VULKAN_LINEAR_REGISTER_SUBGROUPS] = split;
    values[VULKAN_LINEAR_REGISTER_SPLIT] = split;
    values[VULKAN_LINEAR_REGISTER_AHEAD] = false;
}

static void choose_matrix(const struct vulkan_facts *facts,
                          const struct vulkan_moe_request *request,
                          struct vulkan_moe_choice *choice)
{
    struct vulkan_matrix_dispatch product;
    struct vulkan_matrix_request tile = {
        .kind = request->kind,
        .rows = mean_pairs(request),
        .n = request->gated ? 2 * request->n : request->n,
        .k = request->k,
        .epilogue = vulkan_moe_epilogue(request),
        .forms = request->output,
    };
    struct vulkan_matrix_tiling tiling = vulkan_matrix_gathered(facts, &tile, &product);
    choice->input = VULKAN_FORM_F16;
    choice->mode = VULKAN_MOE_GROUPS;
    choice->tile_rows = tiling.rows;
    choice->shader = "moe_matrix";
    choice->constants = product.constants;
    choice->across = product.grid.y;
}

/* Unpacked once for a tile's pairs, in f32. */
static void choose_plain(const struct vulkan_facts *facts, const struct vulkan_moe_request *request,
                         struct vulkan_moe_choice *choice)
{
    uint32_t outputs = request->rows == 1 && !facts->batch_invariant ? 4 : 2;
    uint32_t invocations = most_invocations(facts, PLAIN_SUBGROUPS * facts->subgroup_size);
    choice->input = VULKAN_FORM_F32;
    choice->mode = VULKAN_MOE_GROUPS;
    choice->tile_rows =
        power_up(facts->batch_invariant ? PLAIN_TILE_ROWS : request->rows, PLAIN_TILE_ROWS);
    choice->shader = "moe_linear";
    choice->across = divide_up(request->n, invocations / facts->subgroup_size * outputs);
    choice->constants =
        (struct vulkan_specialization){.count = VULKAN_MOE_LINEAR_CONSTANTS,
                                       .values = {[VULKAN_MOE_LINEAR_INVOCATIONS] = invocations,
                                                  [VULKAN_MOE_LINEAR_WEIGHT_KIND] = request->kind,
                                                  [VULKAN_MOE_LINEAR_TILE_ROWS] = choice->tile_rows,
                                                  [VULKAN_MOE_LINEAR_OUTPUTS] = outputs}};
}

uint32_t vulkan_moe_gathered_rows(uint32_t pairs, uint32_t experts)
{
    uint32_t used = pairs < experts ? pairs : experts;
    return (pairs + used * (PTX_ALIGN - 1)) / PTX_ALIGN * PTX_ALIGN + PTX_TILE_ROWS;
}

static void choose_ptx(const struct vulkan_moe_request *request, struct vulkan_moe_choice *choice)
{
    static const char *const kernels[] = {
        [VULKAN_PTX_Q4_0] = "moe_wgmma_q4_0",   [VULKAN_PTX_Q4_1] = "moe_wgmma_q4_1",
        [VULKAN_PTX_Q5_0] = "moe_wgmma_q5_0",   [VULKAN_PTX_Q5_1] = "moe_wgmma_q5_1",
        [VULKAN_PTX_Q6_K] = "moe_wgmma_q6_k",   [VULKAN_PTX_Q8_0] = "moe_wgmma_q8_0",
        [VULKAN_PTX_A8] = "moe_wgmma_a8",       [VULKAN_PTX_IQ4_NL] = "moe_wgmma_iq4_nl",
        [VULKAN_PTX_A4_64] = "moe_wgmma_a4_64", [VULKAN_PTX_A4_128] = "moe_wgmma_a4_128",
        [VULKAN_PTX_A6_64] = "moe_wgmma_a6_64", [VULKAN_PTX_A8_64] = "moe_wgmma_a8_64",
        [VULKAN_PTX_Z4_64] = "moe_wgmma_z4_64", [VULKAN_PTX_Z4_128] = "moe_wgmma_z4_128",
        [VULKAN_PTX_E2M1] = "moe_wgmma_e2m1",   [VULKAN_PTX_F8_128] = "moe_wgmma_f8_128",
        [VULKAN_PTX_F8_32] = "moe_wgmma_f8_32"};
    choice->input = VULKAN_FORM_F16;
    choice->mode = VULKAN_MOE_GROUPS;
    choice->tile_rows = PTX_TILE_ROWS;
    choice->shader = kernels[vulkan_ptx_layout(request->kind)];
    choice->across = divide_up(request->n, PTX_INVOCATIONS / PTX_LANES * (request->gated ? 8 : 16));
    /* A row of a stage has 64 bytes, a stage a barrier and a count. */
    choice->constants = (struct vulkan_specialization){
        .count = 2, .values = {PTX_INVOCATIONS, PTX_STAGES * (PTX_TILE_ROWS * 64 + 16)}};
}

void vulkan_moe_choose(const struct vulkan_facts *facts, const struct vulkan_moe_request *request,
                       struct vulkan_moe_choice *choice)
{
    *choice = (struct vulkan_moe_choice){.kernel = choose_kernel(facts, request)};
    must(!request->combined || vulkan_moe_combines(choice->kernel, request->rows));
    must(!request->gated || choice->kernel != VULKAN_MOE_PLAIN);
    must(!request->routes || vulkan_moe_routes(choice->kernel, request->rows, request->experts));
    if (choice->kernel == VULKAN_MOE_DOT)
        choose_dot(facts, request, choice);
    else if (choice->kernel == VULKAN_MOE_MATRIX)
        choose_matrix(facts, request, choice);
    else if (choice->kernel == VULKAN_MOE_PTX)
        choose_ptx(request, choice);
    else if (choice->kernel == VULKAN_MOE_REGISTER)
        choose_register(request, choice);
    else
        choose_plain(facts, request, choice);
}
