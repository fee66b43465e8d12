/*
 * An invocation takes four columns at a time. Norms need the whole row in one workgroup. Few rows
 * leave most of the device idle, so a row gets many invocations, two quads of columns each; many
 * rows fill it anyway, and then fewer invocations wait less for each other. The other kernels cut a
 * row into tiles, which spreads even a single wide row over the device. README.md has the figures.
 *
 * A workgroup is whole subgroups: q8 blocks are quantized by neighbours of a subgroup.
 */
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_push.h"

#define COLUMNS_EACH 4u
#define TILE         256u /* invocations of a tile */
#define NORM_MOST    512u /* invocations of a norm */
#define MANY_ROWS    512u
#define Q8_LANES     8u
#define FORM_COLUMNS 32u /* columns of a block of f16 and q8 forms */

/* The least power of two that needs each invocation for no more than `each` columns. */
static uint32_t invocations(const struct vulkan_facts *facts, uint32_t columns, uint32_t each,
                            uint32_t most)
{
    uint32_t whole = facts->subgroup_size > Q8_LANES ? facts->subgroup_size : Q8_LANES;
    uint32_t count = whole;
    while (count < most && 2 * count <= facts->max_invocations && count * each < columns)
        count *= 2;
    return count;
}

struct vulkan_row_choice vulkan_row_policy_choose(const struct vulkan_facts *facts,
                                                  const struct vulkan_row_task *task)
{
    static const char *const shaders[] = {
        [VULKAN_ROW_EMBED] = "embed_rows",
        [VULKAN_ROW_GATHER] = "gather_rows",
        [VULKAN_ROW_GATE] = "gate",
        [VULKAN_ROW_NORM] = "rms_norm",
        [VULKAN_ROW_NORM_ADD] = "rms_norm_add",
        [VULKAN_ROW_BIAS_ADD] = "bias_add",
        [VULKAN_ROW_SHORT_CONV] = "short_conv",
        [VULKAN_ROW_HEAD_NORM_GATE] = "head_norm_gate",
        [VULKAN_ROW_TAKE_QUERIES] = "take_queries",
        [VULKAN_ROW_GATE_HEADS] = "gate_heads",
        [VULKAN_ROW_POSITION_SCALE] = "position_scale",
        [VULKAN_ROW_LAYER_NORM] = "layer_norm",
        [VULKAN_ROW_SOFT_CAP] = "soft_cap",
        [VULKAN_ROW_GATE_WITH] = "gate_with",
        [VULKAN_ROW_ADD] = "add_rows",
        [VULKAN_ROW_SCALE] = "scale_columns",
        [VULKAN_ROW_STREAM_TAKE] = "stream_take",
        [VULKAN_ROW_STREAM_MIX] = "stream_mix",
        [VULKAN_ROW_STREAM_CORRECT] = "stream_correct",
        [VULKAN_ROW_STREAM_ADD] = "stream_add",
        [VULKAN_ROW_STREAM_MATCH] = "stream_match",
        [VULKAN_ROW_STREAM_CUT] = "stream_cut",
        [VULKAN_ROW_MOE_SHARED] = "moe_shared",
        [VULKAN_ROW_FEATURE_ADD] = "feature_add",
        [VULKAN_ROW_PATCH_ROWS] = "patch_rows",
        [VULKAN_ROW_PATCH_POSITIONS] = "patch_positions",
        [VULKAN_ROW_ACTIVATE] = "activate",
        [VULKAN_ROW_CLIP] = "clip_columns",
        [VULKAN_ROW_POOL] = "pool_rows",
        [VULKAN_ROW_FEATURE_WRITE] = "feature_write",
    };
    must(task->rows > 0 && task->columns > 0);
    must((task->forms & ~(uint32_t)VULKAN_FORM_F32) == 0 || task->columns % FORM_COLUMNS == 0);
    bool whole_row = task->kernel == VULKAN_ROW_NORM || task->kernel == VULKAN_ROW_NORM_ADD ||
                     task->kernel == VULKAN_ROW_LAYER_NORM ||
                     task->kernel == VULKAN_ROW_STREAM_MATCH ||
                     task->kernel == VULKAN_ROW_STREAM_CUT;
    uint32_t each = whole_row ? COLUMNS_EACH * (task->rows < MANY_ROWS ? 2 : 4) : COLUMNS_EACH;
    uint32_t count = invocations(facts, task->columns, each, whole_row ? NORM_MOST : TILE);
    uint32_t tiles = (task->columns + COLUMNS_EACH * count - 1) / (COLUMNS_EACH * count);
    return (struct vulkan_row_choice){
        .shader = shaders[task->kernel],
        .specialization = {.count = VULKAN_ROW_CONSTANTS,
                           .values = {[VULKAN_ROW_INVOCATIONS] = count,
                                      [VULKAN_ROW_FORMS] = task->forms,
                                      [VULKAN_ROW_OWN] = task->own}},
        .grid = {task->rows, whole_row ? 1 : tiles, 1},
    };
}
