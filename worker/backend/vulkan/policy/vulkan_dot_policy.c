/*
 * With one row the kernel waits for memory, so it keeps as many loads as possible in flight: a team
 * of subgroups takes two rows of W, a lane up to four blocks of each, and there are as many
 * workgroups as there is work for; fewer only if each computes a norm first. With more rows
 * arithmetic is the bound, and reads of activations from shared memory count: more rows of W share
 * them.
 */
#include "worker/backend/vulkan/policy/vulkan_dot_policy.h"

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

#define INVOCATIONS        256u
#define NORM_INVOCATIONS   512u  /* the norm is shared by more */
#define SHARED_BLOCK_BYTES 40u   /* codes and terms of 32 columns */
#define SHARED_SPARE_BYTES 4096u /* sums, the gate's tile */
#define GATE_COLUMNS       32u   /* results of a workgroup's tile when gated */
#define GRID_MAX           65535u
#define NORM_ROWS_MAX      2u
#define NORM_GRID_UNIT     4u /* workgroups of a compute unit that norm for themselves, at most */
#define UNKNOWN_UNITS      16u
#define LEAST_TEAMS_UNIT   7u    /* teams that a compute unit should have at least */
#define SPLIT_OUTPUTS_MAX  4096u /* up to here four subgroups share a row of W, else two */
#define LANE_BLOCKS_MAX    4u
#define CPU_ROWS           2u   /* on a driver for the CPU: beyond them linear_plain is faster */
#define UNIT_OUTPUTS       256u /* a smaller matrix has too few tiles for matrix units */

#define REGISTER_ROWS_MIN       3u /* with fewer, packed dots are faster */
#define REGISTER_LANES          32u
#define REGISTER_TILE           16u   /* outputs of a matrix unit */
#define REGISTER_NARROW_OUTPUTS 8192u /* up to here one tile a team, if rows are at most eight */
#define REGISTER_DEEP_COLUMNS   4096u /* below, gated teams of one tile end too soon */
#define REGISTER_SUBGROUPS_MIN  4u
#define REGISTER_SUBGROUPS_MAX  16u

struct tuning {
    uint32_t subgroups, outputs, split, depth, shared_blocks, ahead;
};

static bool is_gated(const struct vulkan_dot_request *request)
{
    return request->epilogue == VULKAN_LINEAR_GATE_SILU ||
           request->epilogue == VULKAN_LINEAR_GATE_GELU;
}

static bool is_quantized(const struct vulkan_dot_request *request)
{
    return vulkan_weight_format_facts(request->kind).quantized;
}

static bool fits_shared(const struct vulkan_facts *facts, const struct vulkan_dot_request *request)
{
    uint64_t bytes =
        (uint64_t)request->rows * (request->k / VULKAN_WEIGHT_BLOCK_COLUMNS) * SHARED_BLOCK_BYTES +
        SHARED_SPARE_BYTES;
    return bytes <= facts->shared_bytes;
}

static bool suits_register(const struct vulkan_facts *facts,
                           const struct vulkan_dot_request *request)
{
    return facts->matrix_registers && is_quantized(request) && request->rows >= REGISTER_ROWS_MIN &&
           request->rows <= VULKAN_REGISTER_ROWS &&
           !(request->staged &&
             vulkan_matrix_suits_ptx(facts, request->kind, request->rows, request->k)) &&
           facts->max_invocations >= REGISTER_SUBGROUPS_MAX * REGISTER_LANES;
}

/* linear_dot unpacks floats of 8 and 16 bits once for each row, packed codes once for all rows: from three
 * rows on matrix units are faster, several times at eight. */
static bool suits_units(const struct vulkan_facts *facts, const struct vulkan_dot_request *request)
{
    bool narrow = !is_quantized(request) && request->kind != VULKAN_WEIGHT_F32;
    return narrow && request->n >= UNIT_OUTPUTS && request->k % VULKAN_WEIGHT_BLOCK_COLUMNS == 0 &&
           facts->type != VK_PHYSICAL_DEVICE_TYPE_CPU && vulkan_matrix_has_units(facts);
}

bool vulkan_dot_suits(const struct vulkan_facts *facts, const struct vulkan_dot_request *request)
{
    if (facts->batch_invariant) /* one kernel for all numbers of rows: vulkan_matrix_policy.c */
        return false;
    bool plain = facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU && facts->tier < VULKAN_KHR_MATRIX &&
                 request->k % VULKAN_WEIGHT_BLOCK_COLUMNS == 0;
    uint32_t max = plain                         ? CPU_ROWS
                   : suits_units(facts, request) ? VULKAN_HALF_DOT_ROWS
                                                 : VULKAN_DOT_ROWS;
    return request->rows <= max || suits_register(facts, request);
}

enum vulkan_linear_input vulkan_dot_input(const struct vulkan_facts *facts,
                                          const struct vulkan_dot_request *request)
{
    if (suits_register(facts, request))
        return VULKAN_LINEAR_F16;
    return is_quantized(request) ? VULKAN_LINEAR_Q8 : VULKAN_LINEAR_F32;
}

bool vulkan_dot_norms(const struct vulkan_facts *facts, const struct vulkan_dot_request *request)
{
    return !facts->batch_invariant && request->rows <= NORM_ROWS_MAX &&
           !suits_register(facts, request) &&
           (!is_quantized(request) || fits_shared(facts, request));
}

static uint32_t floor_power(uint32_t value)
{
    uint32_t power = 1;
    while (2 * power <= value)
        power *= 2;
    return power;
}

static uint32_t compute_units(const struct vulkan_facts *facts)
{
    return facts->compute_units ? facts->compute_units : UNKNOWN_UNITS;
}

/* One or two rows of q8: activations come through the cache, and subgroups share rows of W so that
 * all of a lane's loads are on their way at once. */
static void split_row(const struct vulkan_dot_request *request, uint32_t lane_units,
                      struct tuning *t)
{
    t->split = request->rows == 1 && request->n <= SPLIT_OUTPUTS_MAX ? 4 : 2;
    while (t->split > t->subgroups || t->split > floor_power(lane_units))
        t->split /= 2;
    t->depth = t->split == 4 ? 1 : 2;
    if (t->split * t->depth > floor_power(lane_units))
        t->depth = 1;
    t->shared_blocks = 0;
}

/* Few rows of floats (scores of experts): all subgroups share a row of W, or a few compute units
 * would do all the work. */
static void split_floats(uint32_t lane_units, struct tuning *t)
{
    t->outputs = 1;
    while (2 * t->split <= t->subgroups && 2 * t->split <= floor_power(lane_units))
        t->split *= 2;
    t->depth = floor_power(lane_units) / t->split;
    t->depth = t->depth < LANE_BLOCKS_MAX ? t->depth : LANE_BLOCKS_MAX;
}

static struct tuning choose_tuning(const struct vulkan_facts *facts,
                                   const struct vulkan_dot_request *request)
{
    struct tuning t = {.split = 1, .ahead = 1};
    uint32_t unit_columns = is_quantized(request) ? VULKAN_WEIGHT_BLOCK_COLUMNS : 8;
    uint32_t units = (request->k + unit_columns - 1) / unit_columns;
    uint32_t lane_units = (units + facts->subgroup_size - 1) / facts->subgroup_size;
    bool norms = request->input == VULKAN_LINEAR_NORM;
    uint32_t invocations =
        norms && (request->rows == 1 || !is_gated(request)) ? NORM_INVOCATIONS : INVOCATIONS;
    if (facts->max_invocations < invocations)
        invocations = facts->max_invocations;
    t.subgroups = floor_power(invocations / facts->subgroup_size);
    t.outputs = request->rows >= 4 && fits_shared(facts, request) ? 4 : 2;
    while (t.outputs > 1 && request->n < t.outputs * compute_units(facts) * LEAST_TEAMS_UNIT)
        t.outputs /= 2;
    t.depth = request->rows == 1 ? LANE_BLOCKS_MAX : t.outputs == 4 ? 1 : 2;
    if (norms && request->rows == 1) { /* weights loaded early would only occupy registers until the
                                        * norm is known */
        t.ahead = 0;
        t.depth = is_gated(request) ? 1 : 2;
    }
    if (t.depth > lane_units)
        t.depth = floor_power(lane_units);
    if (is_gated(request))
        while (t.subgroups * t.outputs > 2 * GATE_COLUMNS)
            t.subgroups /= 2;
    if (is_quantized(request) &&
        (request->input != VULKAN_LINEAR_Q8 || fits_shared(facts, request)))
        t.shared_blocks = request->k / VULKAN_WEIGHT_BLOCK_COLUMNS;
    if (request->rows <= 2 && request->input == VULKAN_LINEAR_Q8 && !is_gated(request))
        split_row(request, lane_units, &t);
    if (!is_quantized(request) && !norms && !is_gated(request) &&
        request->n < compute_units(facts) * LEAST_TEAMS_UNIT)
        split_floats(lane_units, &t);
    return t;
}

static uint32_t count_tiles(const struct vulkan_dot_request *request, const struct tuning *t)
{
    uint32_t outputs = is_gated(request) ? request->n / 2 : request->n;
    uint32_t tile = is_gated(request) ? GATE_COLUMNS : t->subgroups / t->split * t->outputs;
    return (outputs + tile - 1) / tile;
}

static void check_request(const struct vulkan_facts *facts,
                          const struct vulkan_dot_request *request)
{
    must(request->rows >= 1 && request->n > 0 && request->k > 0);
    must(!is_gated(request) || request->n % 2 == 0);
    must((request->forms & VULKAN_FORM_Q8) == 0 ||
         (is_gated(request) && request->n % (2 * GATE_COLUMNS) == 0));
    must(!is_quantized(request) || request->k % VULKAN_WEIGHT_BLOCK_COLUMNS == 0);
    if (request->input == VULKAN_LINEAR_F16) {
        must(suits_register(facts, request) && (request->forms & VULKAN_FORM_Q8) == 0);
        return;
    }
    must(!request->tiled && (request->forms & VULKAN_FORM_TILED) == 0);
    must(request->rows <= VULKAN_DOT_ROWS);
    must(is_quantized(request) || request->input != VULKAN_LINEAR_Q8);
    must(!is_quantized(request) || request->input == VULKAN_LINEAR_Q8 ||
         fits_shared(facts, request));
}

/* Subgroups that a compute unit should have: fewer suffice if each has more rows and outputs. */
static uint32_t register_subgroups(uint32_t rows, uint32_t tiles)
{
    return rows <= 8 ? 20 : (rows <= 16 ? 22 : 10) / tiles;
}

/* Whether in the last round of workgroups a fifth of all the units' time would be idle. */
static bool is_uneven(uint32_t groups, uint32_t units)
{
    return (groups + units - 1) / units * units * 4 > groups * 5;
}

/* Tiles of a team's outputs: two share what they load of x, one leaves room for more teams. */
static uint32_t register_tiles(const struct vulkan_facts *facts,
                               const struct vulkan_dot_request *request)
{
    uint32_t pairs = (request->n + 2 * REGISTER_TILE - 1) / (2 * REGISTER_TILE);
    if (request->rows > 16)
        return 2;
    if (is_gated(request))
        return request->rows > 8 || request->k >= REGISTER_DEEP_COLUMNS ? 1 : 2;
    if (request->rows <= 8)
        return request->n <= REGISTER_NARROW_OUTPUTS ? 1 : 2;
    return is_uneven(pairs, compute_units(facts)) ? 1 : 2;
}

/* Enough subgroups for every compute unit: as many taking turns on the columns as it then takes. */
static void choose_register(const struct vulkan_facts *facts,
                            const struct vulkan_dot_request *request,
                            struct vulkan_dot_choice *choice)
{
    uint32_t tiles = register_tiles(facts, request);
    uint32_t groups = (request->n + tiles * REGISTER_TILE - 1) / (tiles * REGISTER_TILE);
    uint32_t wanted = register_subgroups(request->rows, tiles) * compute_units(facts);
    uint32_t rows = (request->rows + 7) / 8 * 8; /* one kernel for all numbers of rows up to
                                                  * eight */
    uint32_t row_bytes = (tiles * REGISTER_TILE + 1) * (uint32_t)sizeof(float);
    uint32_t subgroups = REGISTER_SUBGROUPS_MIN;
    while (subgroups < REGISTER_SUBGROUPS_MAX && groups * subgroups < wanted)
        subgroups *= 2;
    while (subgroups > 1 && subgroups * rows * row_bytes > facts->shared_bytes)
        subgroups /= 2;
    uint32_t *values = choice->constants.values;
    choice->shader = "linear_register";
    choice->grid = (struct vulkan_grid){groups, 1, 1};
    choice->constants.count = VULKAN_LINEAR_REGISTER_CONSTANTS;
    values[VULKAN_LINEAR_REGISTER_INVOCATIONS] = subgroups * REGISTER_LANES;
    values[VULKAN_LINEAR_REGISTER_WEIGHT_KIND] = request->kind;
    values[VULKAN_LINEAR_REGISTER_ROWS] = rows;
    values[VULKAN_LINEAR_REGISTER_EPILOGUE] = request->epilogue;
    values[VULKAN_LINEAR_REGISTER_FORMS] = request->forms;
    values[VULKAN_LINEAR_REGISTER_OUTPUT_TILES] = tiles;
    values[VULKAN_LINEAR_REGISTER_SUBGROUPS] = subgroups;
    values[VULKAN_LINEAR_REGISTER_SPLIT] = subgroups;
    values[VULKAN_LINEAR_REGISTER_AHEAD] = request->rows > 16;
    values[VULKAN_LINEAR_REGISTER_TILED] = request->tiled;
}

void vulkan_dot_choose(const struct vulkan_facts *facts, const struct vulkan_dot_request *request,
                       struct vulkan_dot_choice *choice)
{
    check_request(facts, request);
    if (request->input == VULKAN_LINEAR_F16) {
        choose_register(facts, request, choice);
        return;
    }
    const struct tuning t = choose_tuning(facts, request);
    uint32_t tiles = count_tiles(request, &t);
    bool prepares = is_quantized(request) ? request->input != VULKAN_LINEAR_Q8
                                          : request->input == VULKAN_LINEAR_NORM;
    uint32_t max = prepares ? NORM_GRID_UNIT * compute_units(facts) : GRID_MAX;
    uint32_t *values = choice->constants.values;
    choice->shader = "linear_dot";
    choice->grid = (struct vulkan_grid){tiles < max ? tiles : max, 1, 1};
    choice->constants.count = VULKAN_LINEAR_DOT_CONSTANTS;
    values[VULKAN_LINEAR_DOT_INVOCATIONS] = t.subgroups * facts->subgroup_size;
    values[VULKAN_LINEAR_DOT_WEIGHT_KIND] = request->kind;
    values[VULKAN_LINEAR_DOT_ROWS] = request->rows;
    values[VULKAN_LINEAR_DOT_INPUT] = request->input;
    values[VULKAN_LINEAR_DOT_EPILOGUE] = request->epilogue;
    values[VULKAN_LINEAR_DOT_FORMS] = request->forms;
    values[VULKAN_LINEAR_DOT_OUTPUTS] = t.outputs;
    values[VULKAN_LINEAR_DOT_SPLIT] = t.split;
    values[VULKAN_LINEAR_DOT_DEPTH] = t.depth;
    values[VULKAN_LINEAR_DOT_SHARED_BLOCKS] = t.shared_blocks;
    values[VULKAN_LINEAR_DOT_SUBGROUPS] = t.subgroups;
    values[VULKAN_LINEAR_DOT_HAS_DOT] = facts->integer_dot;
    values[VULKAN_LINEAR_DOT_AHEAD] = t.ahead;
}
