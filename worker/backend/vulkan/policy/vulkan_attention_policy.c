/*
 * Sizes of attention's workgroups.
 *
 * The decode kernel is bound by reading keys and values, so it needs enough loads in flight: each
 * lane of a position loads 16 bytes, and registers limit how many queries share a read and how many
 * positions a lane loads at once. A context is split over workgroups as long as the device has room
 * for all of them at once (a few more cost as much as twice as many), but not below SPLIT_TOKENS
 * positions, where writing and adding up parts costs more than it gains.
 *
 * The kernel for matrix units takes tiles when the device has a unit whose sides divide the head,
 * and its shared memory holds keys and values of MATRIX_SPAN positions, quantized or not.
 *
 * Decodes over codes have a kernel for units whose registers are known and for heads that it can
 * divide. It too has as many workgroups as fit at once. Decodes over halves have one, for which a
 * dispatch before it writes the rows' keys: that pays where many sequences are read.
 *
 * On the tier PTX tiles of f16 heads of 64, 80 and 128 have a kernel there, with the same tiles.
 *
 * Every shape within proto/limits.h has a choice.
 */
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/plan/kv_layout.h"

#define PIECE_DIMS       8u   /* of one 16-byte load */
#define ENOUGH           128u /* invocations of a workgroup */
#define QUERIES_MAX      4u   /* of a row: more leave registers for fewer loads */
#define REGISTER_QUERIES 8u   /* queries times pieces that a lane holds */
#define COLUMNS_MIN                                                                                \
    16u /* with fewer workgroups before splitting, heads get workgroups of                         \
         * their own */
#define SPLIT_TOKENS        32u
#define SPLITS_MAX          64u
#define AHEAD_BLOCKS        64u /* read ahead, at most */
#define KV_AHEAD_LINE_BYTES 32u
#define AHEAD_ROWS          1u /* with more rows it costs at least what it saves */
/* On a driver for the CPU, which takes a second to compile even a small kernel: minimal unrolling,
 * and one number of splits for all steps. */
#define CPU_QUERIES   2u /* queries times pieces that a lane holds */
#define CPU_SUBGROUPS 2u
#define CPU_SPLITS    4u
/* Of the kernel for matrix units. */
#define MATRIX_SPAN         32u /* positions at a time, and columns of a slice of the output */
#define MATRIX_SUBGROUPS    8u
#define MATRIX_HEAD_TILE    16u
#define MATRIX_HEAD_DIM     256u /* beyond it the sums would not fit in registers */
#define MATRIX_CPU_HEAD_DIM 48u  /* beyond it a driver for the CPU compiles for a minute */
#define MATRIX_SPLIT_ROOT   4u   /* 64 positions of 256, 256 of 4,096: README.md has the figures */
#define MATRIX_LEVELS       64u  /* of codes of 1 to 4 bits */
#define MATRIX_PER_UNIT     2u
#define MATRIX_SINGLE       4u /* subgroups where tiles have one row: enough loads in flight */
/* Of the kernel for codes. Registers allow one workgroup of eight subgroups on a unit, or one of
 * twelve with fewer registers each: more loads and lookups in flight but more partial sums, which
 * pays for long contexts of short codes. */
#define CODES_LANES     32u /* of the subgroups whose registers are known */
#define CODES_SUBGROUPS 8u
#define CODES_MANY      12u
#define CODES_MANY_BITS 4u /* of a code, at most */
#define CODES_PER_UNIT  1u
#define CODES_QUERIES   8u   /* columns of a unit */
#define CODES_WIDE_DIM  128u /* beyond it two blocks at once would not fit in registers */
#define CODES_GROUP     64u  /* `uniform`: dimensions that share a scale are a multiple */
#define CODES_STEP                                                                                 \
    16u /* `turboquant`: of a product; dimensions that share bits are a                            \
         * multiple */
#define CODES_SPLIT_TOKENS 128u
/* Of the kernel for halves, likewise. */
#define HALVES_SUBGROUPS    4u
#define HALVES_MANY         3u   /* workgroups on a unit, from which on they are half as large */
#define HALVES_DIM          64u  /* a head is a multiple of it, */
#define HALVES_DIM_MAX      128u /* beyond it a block would not fit in registers */
#define HALVES_PER_UNIT     3u
#define HALVES_SPLIT_TOKENS 64u
#define HALVES_READS                                                                               \
    72u /* sequences times KV heads, at least; fewer write their keys as they attend */
/* Of the kernel in PTX. */
#define WGMMA_INVOCATIONS 256u
#define WGMMA_QUERIES     128u /* of a tile */
#define WGMMA_SPAN        48u  /* positions at a time; two slots of keys, two of values */
#define WGMMA_PER_UNIT    1u
#define WGMMA_SPLIT_ROOT  8u
#define WGMMA_LANE_TERMS  4u  /* of a part: maxima and totals of a lane's two rows */
#define GROUPS_PER_UNIT   3u  /* workgroups that a compute unit has room for */
#define USUAL_UNITS       32u /* if the device does not report them */
#define SHARED_FLOATS     4096u
#define FORM_COLUMNS      32u /* columns of a block of q8 */
#define QUAD              4u  /* columns that an invocation stores */

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* The largest power of two <= x. */
static uint32_t power_below(uint32_t x)
{
    uint32_t power = 1;
    while (power <= x / 2)
        power *= 2;
    return power;
}

static uint32_t unit_count(const struct vulkan_facts *facts)
{
    return facts->compute_units > 0 ? facts->compute_units : USUAL_UNITS;
}

/* Lanes of a position: one for each piece, but fewer if more than a quarter of the loads would be
 * unused. */
static uint32_t choose_lanes(const struct vulkan_facts *facts, uint32_t pieces)
{
    uint32_t lanes = power_below(facts->subgroup_size);
    while (lanes > 1 &&
           (lanes > pieces || (divide_up(pieces, lanes) * lanes - pieces) * 4 > pieces))
        lanes /= 2;
    return lanes;
}

/* Layout of one workgroup. */
struct rows_plan {
    uint32_t invocations;
    uint32_t lanes;
    uint32_t head_tile;
    uint32_t head_tiles;
    uint32_t tile_rows;
    uint32_t unroll;
};

static struct rows_plan plan_rows(const struct vulkan_facts *facts,
                                  const struct vulkan_attention_shape *shape, bool tiles,
                                  uint32_t items)
{
    struct rows_plan plan;
    uint32_t pieces = divide_up(shape->head_dim, PIECE_DIMS);
    uint32_t group = shape->heads / shape->kv_heads;
    bool is_cpu = facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    plan.lanes = choose_lanes(facts, pieces);
    uint32_t held = divide_up(pieces, plan.lanes);
    uint32_t room = is_cpu ? CPU_QUERIES : REGISTER_QUERIES;
    uint32_t max = power_below(room > held ? room / held : 1);
    max = tiles || max < QUERIES_MAX ? max : QUERIES_MAX;
    max = max < plan.lanes ? max : plan.lanes;
    plan.head_tiles = divide_up(group, max);
    while (!is_cpu && !tiles && plan.head_tiles < group &&
           plan.head_tiles * shape->kv_heads * items < COLUMNS_MIN)
        plan.head_tiles = 2 * plan.head_tiles < group ? 2 * plan.head_tiles : group;
    plan.head_tile = divide_up(group, plan.head_tiles);
    plan.head_tiles = divide_up(group, plan.head_tile);
    plan.tile_rows = tiles ? max / plan.head_tile : 1;
    uint32_t queries = plan.head_tile * plan.tile_rows;
    /* Fewer loads ahead need fewer registers: worth it if there are more workgroups than fit. */
    bool crowded =
        !tiles && plan.head_tiles * shape->kv_heads * items > unit_count(facts) * GROUPS_PER_UNIT;
    plan.unroll = queries * held <= REGISTER_QUERIES / 2 && !crowded ? 4 : 2;
    plan.unroll = is_cpu ? 1 : plan.unroll;
    uint32_t size = facts->subgroup_size;
    uint32_t min = is_cpu ? CPU_SUBGROUPS * size : ENOUGH / 4;
    plan.invocations = size > min ? size : min;
    while (!is_cpu && plan.invocations < ENOUGH &&
           2 * plan.invocations / size * queries * pieces * PIECE_DIMS <= SHARED_FLOATS)
        plan.invocations *= 2;
    return plan;
}

/* The largest of 1, 2, 3, 4, 6, 8, 12 ... <= x: few numbers, since each has a kernel of its own. */
static uint32_t step_below(uint32_t x)
{
    uint32_t power = power_below(x);
    return power > 1 && power + power / 2 <= x ? power + power / 2 : power;
}

enum vulkan_reach vulkan_attention_policy_reach(uint32_t longest)
{
    if (longest > VULKAN_FAR_CONTEXT)
        return VULKAN_REACH_FAR;
    return longest > VULKAN_SHORT_CONTEXT ? VULKAN_REACH_COMMON : VULKAN_REACH_SHORT;
}

/* The number of splits there is room for, bounded by what contexts need. */
static uint32_t needed_splits(enum vulkan_reach reach, uint32_t fit, uint32_t split_tokens)
{
    uint32_t useful = VULKAN_SHORT_CONTEXT / split_tokens;
    fit = reach == VULKAN_REACH_SHORT && fit > useful ? useful : fit;
    return fit > 0 ? step_below(fit) : 1;
}

static uint32_t choose_splits(const struct vulkan_facts *facts,
                              const struct vulkan_attention_task *task, uint32_t wanted)
{
    if (facts->batch_invariant) /* the rows of a tile end at different positions */
        return 1;
    if (facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU)
        return task->spans ? 1 : CPU_SPLITS;
    return wanted < SPLITS_MAX ? wanted : SPLITS_MAX;
}

static uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static struct vulkan_attention_choice choose_rows(const struct vulkan_facts *facts,
                                                  const struct vulkan_attention_task *task)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    struct rows_plan plan = plan_rows(facts, shape, task->tiles, task->items);
    uint32_t columns = shape->kv_heads * plan.head_tiles;
    uint32_t fit = unit_count(facts) * GROUPS_PER_UNIT / (columns * task->items);
    uint32_t splits = choose_splits(facts, task, needed_splits(task->reach, fit, SPLIT_TOKENS));
    uint32_t queries = plan.head_tile * plan.tile_rows;
    uint64_t quads =
        (uint64_t)queries * 2 * divide_up(shape->head_dim, PIECE_DIMS) + divide_up(queries, 2);
    uint64_t workgroups = (uint64_t)columns * task->items;
    uint32_t cap = float_bits(shape->soft_cap);
    return (struct vulkan_attention_choice){
        .shader = "attention_rows",
        .specialization =
            {.count = VULKAN_ATTENTION_ROWS_CONSTANTS,
             .values = {[VULKAN_ATTENTION_ROWS_INVOCATIONS] = plan.invocations,
                        [VULKAN_ATTENTION_ROWS_FORMS] = task->forms,
                        [VULKAN_ATTENTION_ROWS_HEAD_DIM] = shape->head_dim,
                        [VULKAN_ATTENTION_ROWS_GROUP_HEADS] = shape->heads / shape->kv_heads,
                        [VULKAN_ATTENTION_ROWS_HEAD_TILE] = plan.head_tile,
                        [VULKAN_ATTENTION_ROWS_TILE_ROWS] = plan.tile_rows,
                        [VULKAN_ATTENTION_ROWS_LANES] = plan.lanes,
                        [VULKAN_ATTENTION_ROWS_UNROLL] = plan.unroll,
                        [VULKAN_ATTENTION_ROWS_SUBGROUPS] =
                            divide_up(plan.invocations, facts->subgroup_size),
                        [VULKAN_ATTENTION_ROWS_SPLITS] = splits,
                        [VULKAN_ATTENTION_ROWS_SPLIT_TOKENS] = SPLIT_TOKENS,
                        [VULKAN_ATTENTION_ROWS_WINDOW] = shape->window,
                        [VULKAN_ATTENTION_ROWS_KV_GROUP] = shape->kv_group,
                        [VULKAN_ATTENTION_ROWS_FUSE] = task->fuse,
                        [VULKAN_ATTENTION_ROWS_PAIRING] = shape->pairing,
                        [VULKAN_ATTENTION_ROWS_ROPE_DIMS] = shape->rope_dims,
                        [VULKAN_ATTENTION_ROWS_TILES] = task->tiles,
                        [VULKAN_ATTENTION_ROWS_STRIDE] = shape->stride,
                        [VULKAN_ATTENTION_ROWS_QUERY_OFFSET] = shape->query_offset,
                        [VULKAN_ATTENTION_ROWS_KEY_OFFSET] = shape->key_offset,
                        [VULKAN_ATTENTION_ROWS_VALUE_OFFSET] = shape->value_offset,
                        [VULKAN_ATTENTION_ROWS_SCALE] = float_bits(shape->scale),
                        [VULKAN_ATTENTION_ROWS_MAGNITUDE] = float_bits(shape->magnitude),
                        [VULKAN_ATTENTION_ROWS_SOFT_CAP] = cap,
                        [VULKAN_ATTENTION_ROWS_SINKS] = shape->sinks,
                        [VULKAN_ATTENTION_ROWS_KV_SCHEME] = shape->codes.scheme,
                        [VULKAN_ATTENTION_ROWS_KEY_HALF_BITS] = shape->codes.key_half_bits,
                        [VULKAN_ATTENTION_ROWS_VALUE_HALF_BITS] = shape->codes.value_half_bits,
                        [VULKAN_ATTENTION_ROWS_GROUP_DIMS] = shape->codes.group_dims,
                        [VULKAN_ATTENTION_ROWS_SPANS] = task->spans}},
        .grid = {columns, splits, task->items},
        .partial_bytes = splits > 1 ? workgroups * splits * quads * 16 : 0,
        .counter_bytes = splits > 1 ? workgroups * 4 : 0,
    };
}

/* --- matrix units, codes --- */

struct codes_plan {
    uint32_t subgroups; /* 0: not for this device or these codes */
    uint32_t head_tile;
    uint32_t head_tiles;
};

/* Pairs of levels of every number of bits that a side's codes have: the sum of different powers. */
static uint32_t level_pairs(uint32_t half_bits)
{
    return 1u << half_bits / 2 * 2 | 1u << (half_bits + 1) / 2 * 2;
}

static uint32_t codes_shared_bytes(const struct vulkan_attention_shape *shape,
                                   const struct codes_plan *plan)
{
    const struct vulkan_kv_codes *codes = &shape->codes;
    bool levels = codes->scheme == KV_QUANT_TURBOQUANT;
    bool multiplied = levels && power_below(shape->head_dim) != shape->head_dim;
    uint32_t copies = plan->subgroups == 1 && multiplied ? 2 : plan->subgroups;
    uint32_t heads =
        copies * plan->head_tile * (shape->head_dim + 2) * 4 + CODES_QUERIES * shape->head_dim * 2;
    uint32_t pairs = level_pairs(codes->key_half_bits) | level_pairs(codes->value_half_bits);
    return heads + (levels ? pairs : 1) * 4 + 288;
}

/* Whether the parts that the kernel divides heads into are whole for each lane. */
static bool takes_codes(const struct vulkan_attention_shape *shape)
{
    const struct vulkan_kv_codes *codes = &shape->codes;
    bool halved = (codes->key_half_bits | codes->value_half_bits) % 2 != 0;
    if (codes->scheme == KV_QUANT_TURBOQUANT)
        return shape->head_dim >= CODES_GROUP &&
               shape->head_dim % (halved ? 2 * CODES_STEP : CODES_STEP) == 0;
    return codes->scheme == KV_QUANT_UNIFORM && codes->group_dims % CODES_GROUP == 0;
}

/* Whether a workgroup of many subgroups pays and fits in registers. */
static bool takes_many(const struct vulkan_facts *facts, const struct vulkan_attention_task *task)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    const struct vulkan_kv_codes *codes = &shape->codes;
    bool sees_far = shape->window == 0 || shape->window > VULKAN_FAR_CONTEXT;
    return task->reach == VULKAN_REACH_FAR && sees_far &&
           codes->key_half_bits <= 2 * CODES_MANY_BITS &&
           codes->value_half_bits <= 2 * CODES_MANY_BITS && shape->head_dim <= CODES_WIDE_DIM &&
           facts->max_invocations >= CODES_MANY * CODES_LANES;
}

static struct codes_plan plan_codes(const struct vulkan_facts *facts,
                                    const struct vulkan_attention_task *task)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    struct codes_plan plan = {.subgroups = 0};
    uint32_t group = shape->heads / shape->kv_heads;
    if (!facts->matrix_registers || facts->tier < VULKAN_KHR_MATRIX ||
        facts->subgroup_size != CODES_LANES || !takes_codes(shape))
        return plan;
    plan.head_tiles = divide_up(group, CODES_QUERIES);
    plan.head_tile = divide_up(group, plan.head_tiles);
    plan.subgroups = CODES_MANY;
    if (takes_many(facts, task) && codes_shared_bytes(shape, &plan) <= facts->shared_bytes)
        return plan;
    plan.subgroups = CODES_SUBGROUPS;
    while (plan.subgroups > 0 && codes_shared_bytes(shape, &plan) > facts->shared_bytes)
        plan.subgroups /= 2;
    return plan;
}

static struct vulkan_attention_choice choose_codes(const struct vulkan_facts *facts,
                                                   const struct vulkan_attention_task *task,
                                                   const struct codes_plan *plan)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    uint32_t columns = shape->kv_heads * plan->head_tiles;
    uint32_t smaller = plan->subgroups < CODES_SUBGROUPS ? CODES_SUBGROUPS / plan->subgroups : 1;
    uint32_t room = unit_count(facts) * CODES_PER_UNIT * smaller;
    uint32_t fit = room / (columns * task->items);
    uint32_t splits =
        choose_splits(facts, task, needed_splits(task->reach, fit, CODES_SPLIT_TOKENS));
    uint64_t quads =
        (uint64_t)plan->head_tile * (shape->head_dim / 4) + divide_up(plan->head_tile, 2);
    uint64_t workgroups = (uint64_t)columns * task->items;
    return (struct vulkan_attention_choice){
        .shader = "attention_codes_units",
        .specialization =
            {.count = VULKAN_ATTENTION_CODES_CONSTANTS,
             .values = {[VULKAN_ATTENTION_CODES_INVOCATIONS] = plan->subgroups * CODES_LANES,
                        [VULKAN_ATTENTION_CODES_FORMS] = task->forms,
                        [VULKAN_ATTENTION_CODES_HEAD_DIM] = shape->head_dim,
                        [VULKAN_ATTENTION_CODES_GROUP_HEADS] = shape->heads / shape->kv_heads,
                        [VULKAN_ATTENTION_CODES_HEAD_TILE] = plan->head_tile,
                        [VULKAN_ATTENTION_CODES_TILE_BLOCKS] =
                            shape->head_dim <= CODES_WIDE_DIM ? 2 : 1,
                        [VULKAN_ATTENTION_CODES_SUBGROUPS] = plan->subgroups,
                        [VULKAN_ATTENTION_CODES_SPLITS] = splits,
                        [VULKAN_ATTENTION_CODES_SPLIT_TOKENS] = CODES_SPLIT_TOKENS,
                        [VULKAN_ATTENTION_CODES_WINDOW] = shape->window,
                        [VULKAN_ATTENTION_CODES_KV_GROUP] = shape->kv_group,
                        [VULKAN_ATTENTION_CODES_STRIDE] = shape->stride,
                        [VULKAN_ATTENTION_CODES_QUERY_OFFSET] = shape->query_offset,
                        [VULKAN_ATTENTION_CODES_SCALE] = float_bits(shape->scale),
                        [VULKAN_ATTENTION_CODES_SOFT_CAP] = float_bits(shape->soft_cap),
                        [VULKAN_ATTENTION_CODES_SINKS] = shape->sinks,
                        [VULKAN_ATTENTION_CODES_KV_SCHEME] = shape->codes.scheme,
                        [VULKAN_ATTENTION_CODES_KEY_HALF_BITS] = shape->codes.key_half_bits,
                        [VULKAN_ATTENTION_CODES_VALUE_HALF_BITS] = shape->codes.value_half_bits,
                        [VULKAN_ATTENTION_CODES_GROUP_DIMS] = shape->codes.group_dims}},
        .grid = {columns, splits, task->items},
        .partial_bytes = splits > 1 ? workgroups * splits * quads * 16 : 0,
        .counter_bytes = splits > 1 ? workgroups * 4 : 0,
    };
}

/* --- matrix units, halves --- */

static bool takes_halves(const struct vulkan_facts *facts,
                         const struct vulkan_attention_shape *shape)
{
    return facts->matrix_registers && facts->tier >= VULKAN_KHR_MATRIX &&
           facts->subgroup_size == CODES_LANES && shape->codes.scheme == KV_QUANT_NONE &&
           shape->head_dim % HALVES_DIM == 0 && shape->head_dim <= HALVES_DIM_MAX &&
           facts->max_invocations >= HALVES_SUBGROUPS * CODES_LANES;
}

bool vulkan_attention_policy_fuses(const struct vulkan_facts *facts,
                                   const struct vulkan_attention_shape *shape, uint32_t sequences)
{
    return !takes_halves(facts, shape) || sequences * shape->kv_heads < HALVES_READS;
}

static struct vulkan_attention_choice choose_halves(const struct vulkan_facts *facts,
                                                    const struct vulkan_attention_task *task)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    uint32_t group = shape->heads / shape->kv_heads;
    uint32_t head_tiles = divide_up(group, CODES_QUERIES), head_tile = divide_up(group, head_tiles);
    uint32_t columns = shape->kv_heads * head_tiles;
    bool many = columns * task->items >= unit_count(facts) * HALVES_MANY;
    uint32_t subgroups = many ? HALVES_SUBGROUPS / 2 : HALVES_SUBGROUPS;
    uint32_t fit = unit_count(facts) * HALVES_PER_UNIT / (columns * task->items);
    uint32_t splits =
        choose_splits(facts, task, needed_splits(task->reach, fit, HALVES_SPLIT_TOKENS));
    uint64_t quads = (uint64_t)head_tile * (shape->head_dim / 4) + divide_up(head_tile, 2);
    uint64_t workgroups = (uint64_t)columns * task->items;
    return (struct vulkan_attention_choice){
        .shader = "attention_halves_units",
        .specialization = {.count = VULKAN_ATTENTION_HALVES_CONSTANTS,
                           .values = {[VULKAN_ATTENTION_CODES_INVOCATIONS] =
                                          subgroups * CODES_LANES,
                                      [VULKAN_ATTENTION_CODES_FORMS] = task->forms,
                                      [VULKAN_ATTENTION_CODES_HEAD_DIM] = shape->head_dim,
                                      [VULKAN_ATTENTION_CODES_GROUP_HEADS] = group,
                                      [VULKAN_ATTENTION_CODES_HEAD_TILE] = head_tile,
                                      [VULKAN_ATTENTION_CODES_TILE_BLOCKS] = 1,
                                      [VULKAN_ATTENTION_CODES_SUBGROUPS] = subgroups,
                                      [VULKAN_ATTENTION_CODES_SPLIT_TOKENS] = HALVES_SPLIT_TOKENS,
                                      [VULKAN_ATTENTION_CODES_WINDOW] = shape->window,
                                      [VULKAN_ATTENTION_CODES_KV_GROUP] = shape->kv_group,
                                      [VULKAN_ATTENTION_CODES_STRIDE] = shape->stride,
                                      [VULKAN_ATTENTION_CODES_QUERY_OFFSET] = shape->query_offset,
                                      [VULKAN_ATTENTION_CODES_SCALE] = float_bits(shape->scale),
                                      [VULKAN_ATTENTION_CODES_SOFT_CAP] =
                                          float_bits(shape->soft_cap),
                                      [VULKAN_ATTENTION_CODES_SINKS] = shape->sinks}},
        .grid = {columns, splits, task->items},
        .partial_bytes = splits > 1 ? workgroups * splits * quads * 16 : 0,
        .counter_bytes = splits > 1 ? workgroups * 4 : 0,
    };
}

/* --- matrix units --- */

struct matrix_plan {
    const struct vulkan_matrix_shape *unit; /* NULL: not for this device or head */
    uint32_t subgroups;
    uint32_t head_tile;
    uint32_t head_tiles;
    uint32_t tile_rows;
};

/* A unit that the kernel's layouts fit: lanes share rows of it evenly. */
static const struct vulkan_matrix_shape *find_unit(const struct vulkan_facts *facts,
                                                   uint32_t head_dim)
{
    for (uint32_t i = 0; i < facts->matrix_shape_count; i++) {
        const struct vulkan_matrix_shape *u = &facts->matrix_shapes[i];
        bool fits = u->type == VULKAN_MATRIX_F16_F32 && u->m >= 8 && u->n >= 8 && u->k >= 8 &&
                    u->n % 8 == 0 && u->k % 8 == 0 && MATRIX_SPAN % u->n == 0 &&
                    MATRIX_SPAN % u->k == 0 && head_dim % u->n == 0 && head_dim % u->k == 0;
        if (fits && facts->subgroup_size % u->m == 0 &&
            facts->subgroup_size / u->m <= MATRIX_SPAN / 4)
            return u;
    }
    return NULL;
}

static uint32_t matrix_shared_bytes(uint32_t head_dim, uint32_t queries)
{
    uint32_t stage = 2 * MATRIX_SPAN * (head_dim / 8 + 1);
    return 16 * (stage + queries * (MATRIX_SPAN / 4 + 1) + queries * (MATRIX_SPAN / 8 + 1)) +
           MATRIX_LEVELS * 4 + 16;
}

static struct matrix_plan plan_matrix(const struct vulkan_facts *facts,
                                      const struct vulkan_attention_shape *shape)
{
    struct matrix_plan plan = {.unit = NULL};
    uint32_t group = shape->heads / shape->kv_heads;
    uint32_t largest =
        facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU ? MATRIX_CPU_HEAD_DIM : MATRIX_HEAD_DIM;
    if (!facts->matrix_khr || facts->tier < VULKAN_KHR_MATRIX || shape->head_dim > largest)
        return plan;
    plan.unit = find_unit(facts, shape->head_dim);
    plan.subgroups = MATRIX_SUBGROUPS;
    while (plan.unit && plan.subgroups > 0 &&
           matrix_shared_bytes(shape->head_dim, plan.subgroups * plan.unit->m) >
               facts->shared_bytes)
        plan.subgroups /= 2;
    if (!plan.unit || plan.subgroups == 0)
        return (struct matrix_plan){.unit = NULL};
    uint32_t queries = plan.subgroups * plan.unit->m;
    uint32_t max = queries < MATRIX_HEAD_TILE ? queries : MATRIX_HEAD_TILE;
    plan.head_tiles = divide_up(group, max);
    plan.head_tile = divide_up(group, plan.head_tiles);
    plan.tile_rows = queries / plan.head_tile;
    return plan;
}

static struct vulkan_attention_choice choose_matrix(const struct vulkan_facts *facts,
                                                    const struct vulkan_attention_task *task,
                                                    const struct matrix_plan *plan)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    uint32_t columns = shape->kv_heads * plan->head_tiles;
    uint32_t wanted = divide_up(unit_count(facts) * MATRIX_PER_UNIT, columns * task->items);
    uint32_t splits = choose_splits(facts, task, power_below(wanted));
    uint32_t queries = plan->subgroups * plan->unit->m;
    uint64_t quads = (uint64_t)queries * (shape->head_dim / 4) + queries / 2;
    uint64_t workgroups = (uint64_t)columns * task->items;
    uint32_t cap = float_bits(shape->soft_cap);
    return (struct vulkan_attention_choice){
        .shader = "attention_matrix",
        .specialization =
            {.count = VULKAN_ATTENTION_MATRIX_CONSTANTS,
             .values = {[VULKAN_ATTENTION_MATRIX_INVOCATIONS] =
                            plan->subgroups * facts->subgroup_size,
                        [VULKAN_ATTENTION_MATRIX_FORMS] = task->forms,
                        [VULKAN_ATTENTION_MATRIX_HEAD_DIM] = shape->head_dim,
                        [VULKAN_ATTENTION_MATRIX_GROUP_HEADS] = shape->heads / shape->kv_heads,
                        [VULKAN_ATTENTION_MATRIX_HEAD_TILE] = plan->head_tile,
                        [VULKAN_ATTENTION_MATRIX_TILE_ROWS] = plan->tile_rows,
                        [VULKAN_ATTENTION_MATRIX_SPAN] = MATRIX_SPAN,
                        [VULKAN_ATTENTION_MATRIX_FRAGMENTS] = 1,
                        [VULKAN_ATTENTION_MATRIX_SUBGROUPS] = plan->subgroups,
                        [VULKAN_ATTENTION_MATRIX_SPLITS] = splits,
                        [VULKAN_ATTENTION_MATRIX_SPLIT_ROOT] = MATRIX_SPLIT_ROOT,
                        [VULKAN_ATTENTION_MATRIX_WINDOW] = shape->window,
                        [VULKAN_ATTENTION_MATRIX_KV_GROUP] = shape->kv_group,
                        [VULKAN_ATTENTION_MATRIX_UNIT_ROWS] = plan->unit->m,
                        [VULKAN_ATTENTION_MATRIX_UNIT_COLUMNS] = plan->unit->n,
                        [VULKAN_ATTENTION_MATRIX_UNIT_K] = plan->unit->k,
                        [VULKAN_ATTENTION_MATRIX_QUERIES_F16] = 0,
                        [VULKAN_ATTENTION_MATRIX_STRIDE] = shape->stride,
                        [VULKAN_ATTENTION_MATRIX_QUERY_OFFSET] = shape->query_offset,
                        [VULKAN_ATTENTION_MATRIX_SUBGROUP_SIZE] = facts->subgroup_size,
                        [VULKAN_ATTENTION_MATRIX_SCALE] = float_bits(shape->scale),
                        [VULKAN_ATTENTION_MATRIX_SOFT_CAP] = cap,
                        [VULKAN_ATTENTION_MATRIX_SINKS] = shape->sinks,
                        [VULKAN_ATTENTION_MATRIX_SPANS] = task->spans,
                        [VULKAN_ATTENTION_MATRIX_KV_SCHEME] = shape->codes.scheme,
                        [VULKAN_ATTENTION_MATRIX_KEY_HALF_BITS] = shape->codes.key_half_bits,
                        [VULKAN_ATTENTION_MATRIX_VALUE_HALF_BITS] = shape->codes.value_half_bits,
                        [VULKAN_ATTENTION_MATRIX_GROUP_DIMS] = shape->codes.group_dims}},
        .grid = {columns, splits, task->items},
        .partial_bytes = splits > 1 ? workgroups * splits * quads * 16 : 0,
        .counter_bytes = splits > 1 ? workgroups * 4 : 0,
    };
}

/* --- PTX --- */

/* The module for a head's size, or NULL. */
static const char *wgmma_name(uint32_t head_dim)
{
    switch (head_dim) {
    case 64: return "attention_wgmma_64";
    case 80: return "attention_wgmma_80";
    case 128: return "attention_wgmma_128";
    default: return NULL;
    }
}

/* Whether the kernel in PTX takes tiles that were cut for matrix units. Few rows of a step are wanted in
 * forms that it does not write. */
static bool takes_wgmma(const struct vulkan_facts *facts, const struct vulkan_attention_task *task,
                        const struct matrix_plan *plan)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    const uint32_t forms = VULKAN_FORM_F32 | VULKAN_FORM_F16 | VULKAN_FORM_STAGED;
    return facts->tier >= VULKAN_PTX && !facts->batch_invariant && !task->single &&
           wgmma_name(shape->head_dim) && shape->codes.scheme == KV_QUANT_NONE &&
           plan->subgroups * plan->unit->m == WGMMA_QUERIES && (task->forms & ~forms) == 0 &&
           (task->forms & VULKAN_HALF_FORMS) != (VULKAN_FORM_F16 | VULKAN_FORM_STAGED);
}

static struct vulkan_attention_choice choose_wgmma(const struct vulkan_facts *facts,
                                                   const struct vulkan_attention_task *task,
                                                   const struct matrix_plan *plan)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    uint32_t columns = shape->kv_heads * plan->head_tiles;
    uint32_t fit = unit_count(facts) * WGMMA_PER_UNIT / (columns * task->items);
    uint32_t splits = fit > 1 ? step_below(fit) : 1;
    uint32_t halves = divide_up(shape->head_dim, 64);
    uint64_t workgroups = (uint64_t)columns * task->items;
    uint64_t part = WGMMA_INVOCATIONS * 4ull * (WGMMA_LANE_TERMS + shape->head_dim / 2);
    return (struct vulkan_attention_choice){
        .shader = wgmma_name(shape->head_dim),
        .specialization =
            {.count = VULKAN_ATTENTION_WGMMA_CONSTANTS,
             .values = {[VULKAN_ATTENTION_WGMMA_INVOCATIONS] = WGMMA_INVOCATIONS,
                        [VULKAN_ATTENTION_WGMMA_SHARED_BYTES] = 4 * WGMMA_SPAN * 128 * halves,
                        [VULKAN_ATTENTION_WGMMA_FORMS] = task->forms,
                        [VULKAN_ATTENTION_WGMMA_GROUP_HEADS] = shape->heads / shape->kv_heads,
                        [VULKAN_ATTENTION_WGMMA_HEAD_TILE] = plan->head_tile,
                        [VULKAN_ATTENTION_WGMMA_SPLIT_ROOT] = WGMMA_SPLIT_ROOT,
                        [VULKAN_ATTENTION_WGMMA_WINDOW] = shape->window,
                        [VULKAN_ATTENTION_WGMMA_KV_GROUP] = shape->kv_group,
                        [VULKAN_ATTENTION_WGMMA_STRIDE] = shape->stride,
                        [VULKAN_ATTENTION_WGMMA_QUERY_OFFSET] = shape->query_offset,
                        [VULKAN_ATTENTION_WGMMA_SCALE] = float_bits(shape->scale),
                        [VULKAN_ATTENTION_WGMMA_SOFT_CAP] = float_bits(shape->soft_cap),
                        [VULKAN_ATTENTION_WGMMA_SINKS] = shape->sinks,
                        [VULKAN_ATTENTION_WGMMA_SPANS] = task->spans}},
        .grid = {columns, splits, task->items},
        .partial_bytes = splits > 1 ? workgroups * splits * part : 0,
        .counter_bytes = splits > 1 ? workgroups * 4 : 0,
    };
}

struct vulkan_attention_choice
vulkan_attention_policy_choose(const struct vulkan_facts *facts,
                               const struct vulkan_attention_task *task)
{
    const struct vulkan_attention_shape *shape = &task->shape;
    must(shape->kv_heads > 0 && shape->heads % shape->kv_heads == 0 && task->items > 0);
    must((task->forms & ~vulkan_attention_policy_forms(shape)) == 0);
    must(!task->tiles || task->fuse == 0);
    must(task->tiles || !task->spans);
    if (task->tiles) {
        struct matrix_plan plan = plan_matrix(facts, shape);
        if (plan.unit && takes_wgmma(facts, task, &plan))
            return choose_wgmma(facts, task, &plan);
        /* The queries of one row, at most MATRIX_HEAD_TILE, need few subgroups, each of which has
         * queries of its own. */
        if (plan.unit && task->single && plan.subgroups > MATRIX_SINGLE) {
            plan.subgroups = MATRIX_SINGLE;
            plan.tile_rows = plan.subgroups * plan.unit->m / plan.head_tile;
        }
        if (plan.unit)
            return choose_matrix(facts, task, &plan);
    } else {
        struct codes_plan plan = plan_codes(facts, task);
        if (plan.subgroups > 0)
            return choose_codes(facts, task, &plan);
        if (task->fuse == 0 && takes_halves(facts, shape))
            return choose_halves(facts, task);
    }
    return choose_rows(facts, task);
}

uint32_t vulkan_attention_policy_forms(const struct vulkan_attention_shape *shape)
{
    uint32_t forms = VULKAN_FORM_F32;
    if (shape->head_dim % QUAD == 0)
        forms |= VULKAN_HALF_FORMS;
    /* A block of q8 is written by neighbours of one subgroup. */
    if (shape->head_dim % FORM_COLUMNS == 0)
        forms |= VULKAN_FORM_Q8;
    return forms;
}

uint32_t vulkan_attention_policy_tile_rows(const struct vulkan_facts *facts,
                                           const struct vulkan_attention_shape *shape)
{
    struct matrix_plan matrix = plan_matrix(facts, shape);
    return matrix.unit ? matrix.tile_rows : plan_rows(facts, shape, true, 1).tile_rows;
}

struct vulkan_heads_choice vulkan_attention_policy_heads(const struct vulkan_facts *facts,
                                                         const struct vulkan_heads_task *task)
{
    uint32_t heads = task->heads + 2 * task->kv_heads;
    uint32_t invocations = facts->subgroup_size > ENOUGH ? facts->subgroup_size : ENOUGH;
    must(heads > 0 && task->rows > 0);
    return (struct vulkan_heads_choice){
        .shader = "rope_kv_write",
        .specialization =
            {.count = VULKAN_ROPE_KV_WRITE_CONSTANTS,
             .values = {[VULKAN_ROPE_KV_WRITE_INVOCATIONS] = invocations,
                        [VULKAN_ROPE_KV_WRITE_PARTS] = task->parts,
                        [VULKAN_ROPE_KV_WRITE_HEAD_DIM] = task->head_dim,
                        [VULKAN_ROPE_KV_WRITE_HEADS] = task->heads,
                        [VULKAN_ROPE_KV_WRITE_KV_HEADS] = task->kv_heads,
                        [VULKAN_ROPE_KV_WRITE_PAIRING] = task->pairing,
                        [VULKAN_ROPE_KV_WRITE_ROPE_DIMS] = task->rope_dims,
                        [VULKAN_ROPE_KV_WRITE_KV_GROUP] = task->kv_group,
                        [VULKAN_ROPE_KV_WRITE_KV_SCHEME] = task->codes.scheme,
                        [VULKAN_ROPE_KV_WRITE_KEY_HALF_BITS] = task->codes.key_half_bits,
                        [VULKAN_ROPE_KV_WRITE_VALUE_HALF_BITS] = task->codes.value_half_bits,
                        [VULKAN_ROPE_KV_WRITE_GROUP_DIMS] = task->codes.group_dims,
                        [VULKAN_ROPE_KV_WRITE_SUBGROUPS] = invocations / facts->subgroup_size}},
        .grid = {divide_up(heads, invocations / facts->subgroup_size), task->rows, 1},
    };
}

bool vulkan_attention_policy_ahead(const struct vulkan_facts *facts,
                                   const struct vulkan_attention_shape *shape, uint32_t rows,
                                   struct vulkan_heads_choice *choice)
{
    uint32_t block_bytes =
        shape->kv_heads * KV_BLOCK_TOKENS * shape->head_dim * (uint32_t)sizeof(uint16_t);
    *choice = (struct vulkan_heads_choice){
        .shader = "kv_ahead",
        .specialization = {.count = VULKAN_KV_AHEAD_CONSTANTS,
                           .values = {[VULKAN_KV_AHEAD_INVOCATIONS] = ENOUGH,
                                      [VULKAN_KV_AHEAD_BLOCK_BYTES] = block_bytes,
                                      [VULKAN_KV_AHEAD_WINDOW] = shape->window,
                                      [VULKAN_KV_AHEAD_KV_GROUP] = shape->kv_group}},
        .grid = {AHEAD_BLOCKS, rows, 1},
    };
    return facts->type != VK_PHYSICAL_DEVICE_TYPE_CPU && rows <= AHEAD_ROWS &&
           block_bytes % KV_AHEAD_LINE_BYTES == 0;
}
