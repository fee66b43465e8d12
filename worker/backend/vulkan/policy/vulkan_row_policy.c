/*
 * An invocation takes four columns at a time. Norms need the whole row in one workgroup. Few rows
 * leave most of the device idle, so a row gets many invocations, two quads of columns each; many
 * rows fill the device, and fewer invocations per row cost less synchronization. The other kernels
 * cut a row into tiles, which distributes even a single wide row. ../README.md has the figures.
 *
 * A workgroup is whole subgroups: q8 blocks are quantized by neighbours of a subgroup.
 */
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_push.h"

#define COLUMNS_EACH 4u
#define TILE         256u /* invocations of a tile */
#define NORM_MAX     512u /* invocations of a norm */
#define MANY_ROWS    512u
#define Q8_LANES     8u
#define FORM_COLUMNS 32u /* columns of a block of f16 and q8 forms */

/* The smallest power of two that gives an invocation at most `each` columns. */
static uint32_t invocations(const struct vulkan_facts *facts, uint32_t columns, uint32_t each,
                            uint32_t max)
{
    uint32_t whole = facts->subgroup_size > Q8_LANES ? facts->subgroup_size : Q8_LANES;
    uint32_t count = whole;
    while (count < max && 2 * count <= facts->max_invocations && count * each < columns)
        count *= 2;
    return count;
}

struct vulkan_row_choice vulkan_row_policy_choose(const struct vulkan_facts *facts,
                                                  const struct vulkan_row_task *task)
{
    must(task->rows > 0 && task->columns > 0);
    must((task->forms & ~(uint32_t)VULKAN_FORM_F32) == 0 || task->columns % FORM_COLUMNS == 0);
    bool whole_row = op_facts(task->stem)->span == OP_SPAN_ROW;
    bool few = task->rows < MANY_ROWS || facts->batch_invariant;
    uint32_t each = whole_row ? COLUMNS_EACH * (few ? 2 : 4) : COLUMNS_EACH;
    uint32_t count = invocations(facts, task->columns, each, whole_row ? NORM_MAX : TILE);
    uint32_t tiles = (task->columns + COLUMNS_EACH * count - 1) / (COLUMNS_EACH * count);
    return (struct vulkan_row_choice){
        .shader = op_stem_name(task->stem),
        .specialization = {.count = VULKAN_ROW_CONSTANTS,
                           .values = {[VULKAN_ROW_INVOCATIONS] = count,
                                      [VULKAN_ROW_FORMS] = task->forms,
                                      [VULKAN_ROW_OWN] = task->own}},
        .grid = {task->rows, whole_row ? 1 : tiles, 1},
    };
}
