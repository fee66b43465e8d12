#version 450
/*
 * The `chosen` largest scores of each row: their experts' numbers, then their weights.
 *
 * Weighed forms (op_list.h) compare chances plus a bias instead, of the best groups of experts. Rows of another
 * kind than the experts' get weights of 0.
 *
 * Grid: (rows). A workgroup computes one row.
 */
#extension GL_GOOGLE_include_directive : require
#include "moe_groups.glsl"
#include "step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool SOFTMAX_ALL = false; /* the sum is over all scores */

layout(constant_id = 2) const uint FORM = 0; /* enum vulkan_moe_route_form */

const bool WEIGHED = FORM != 0, SIGMOID = FORM == 2;

layout(push_constant) uniform Push
{
    uint64_t x;      /* f32 [rows, experts] */
    uint64_t scales; /* f32 [experts], or 0; WEIGHED: the bias of the choice */
    uint64_t route;  /* f32 [rows, 2 * chosen] */
    uint experts;
    uint chosen;
    float scale;
    float epsilon; /* WEIGHED, as the next ones */
    uint groups;
    uint groups_chosen;
    uint group_best;
    uint normalized;
    uint64_t rows;       /* StepRow; this and the next ones for experts of some rows */
    uint64_t sights;     /* StepSight, or 0: no row has a feature */
    uint64_t drawn;      /* u32: tokens drawn by the previous step */
    uint64_t logit_rows; /* u32 [rows], or 0: rows are the step's */
    uint edge_first;
    uint edge_last;
    uint of_rows; /* enum expert_rows */
    uint unused;
} push;

const uint EXPERTS_OF_ALL = 0, EXPERTS_OF_IMAGES = 2;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Route { float at[]; };

const uint EXPERTS_MAX = 1024; /* proto/limits.h */
const uint WEIGHED_EXPERTS = WEIGHED ? EXPERTS_MAX : 1;
shared float values[WEIGHED_EXPERTS]; /* what is compared */
shared float group_scores[WEIGHED_EXPERTS];
const float LOWEST = -1.0 / 0.0;

#define CHOICE_EXPERTS 1024 /* proto/limits.h */
#define CHOICE_OF(scores, e) (WEIGHED ? values[e] : scores.at[e])
#include "moe_choice.glsl"

float score_max(MoeFloats scores)
{
    float top = scores.at[0];
    for (uint e = 1; e < push.experts; e++)
        top = scores.at[e] > top || isnan(top) ? scores.at[e] : top;
    return top;
}

float exp_sum(MoeFloats scores, float top)
{
    float sum = 0.0;
    for (uint e = 0; e < push.experts; e++)
        sum += exp(scores.at[e] - top);
    return sum;
}

float chance(float score, float top, float sum)
{
    return SIGMOID ? 1.0 / (1.0 + exp(-score)) : exp(score - top) / sum;
}

/* The sum of a group's largest values, one or two. */
float group_score(uint group, uint each)
{
    float first = LOWEST, second = LOWEST;
    for (uint e = group * each; e < (group + 1) * each; e++) {
        float value = values[e];
        second = value > first ? first : max(second, value);
        first = max(first, value);
    }
    return push.group_best > 1 ? first + second : first;
}

/* Leaves only the values of the groups of the largest scores; equal ones by number. */
void choose_groups()
{
    uint each = push.experts / push.groups;
    for (uint g = gl_LocalInvocationIndex; g < push.groups; g += gl_WorkGroupSize.x)
        group_scores[g] = group_score(g, each);
    barrier();
    for (uint e = gl_LocalInvocationIndex; e < push.experts; e += gl_WorkGroupSize.x) {
        uint own = e / each, before = 0;
        for (uint g = 0; g < push.groups; g++)
            before += group_scores[g] > group_scores[own] ||
                              (group_scores[g] == group_scores[own] && g < own)
                          ? 1
                          : 0;
        if (before >= push.groups_chosen)
            values[e] = LOWEST;
    }
    barrier();
}

void write_weighed(MoeFloats scores, Route route)
{
    float top = SIGMOID ? 0.0 : score_max(scores);
    float sum = SIGMOID ? 1.0 : exp_sum(scores, top), total = 0.0;
    for (uint e = gl_LocalInvocationIndex; e < push.experts; e += gl_WorkGroupSize.x) {
        values[e] = chance(scores.at[e], top, sum);
        if (push.scales != 0)
            values[e] += MoeFloats(push.scales).at[e];
    }
    barrier();
    if (push.groups > 0)
        choose_groups();
    choose_experts(scores, push.experts, push.chosen);
    for (uint j = 0; j < push.chosen; j++)
        total += chance(choice_scores[j], top, sum);
    float factor = push.normalized != 0 ? push.scale / (total + push.epsilon) : push.scale;
    for (uint j = gl_LocalInvocationIndex; j < push.chosen; j += gl_WorkGroupSize.x) {
        route.at[j] = float(choice_experts[j]);
        route.at[push.chosen + j] = chance(choice_scores[j], top, sum) * factor;
    }
}

/* Whether the experts are those of such rows as this one. */
bool is_routed(uint row)
{
    if (push.of_rows == EXPERTS_OF_ALL)
        return true;
    bool gathers = push.logit_rows != 0; /* addresses are always valid, as in embed_rows.comp: */
    uint gathered = StepWords(gathers ? push.logit_rows : push.rows).at[gathers ? row : 0];
    uint at = gathers ? gathered : row; /* compilers may load from both sides of a choice */
    StepRow step_row = StepRows(push.rows).at[at];
    bool is_drawn = (step_row.drawn & STEP_DRAWN) != 0;
    uint drawn = StepWords(push.drawn).at[is_drawn ? step_row.drawn & STEP_DRAW : 0];
    uint token = is_drawn ? drawn : step_row.token;
    bool sees = push.sights != 0;
    uint feature = StepSights(sees ? push.sights : push.rows).at[sees ? at : 0].feature;
    bool image = (sees && feature != SIGHT_BLIND) || token == push.edge_first ||
                 token == push.edge_last;
    return image == (push.of_rows == EXPERTS_OF_IMAGES);
}

void main()
{
    MoeFloats scores = MoeFloats(push.x + 4 * uint64_t(gl_WorkGroupID.x) * push.experts);
    Route route = Route(push.route + 8 * uint64_t(gl_WorkGroupID.x) * push.chosen);
    if (!is_routed(gl_WorkGroupID.x)) {
        for (uint j = gl_LocalInvocationIndex; j < push.chosen; j += gl_WorkGroupSize.x) {
            route.at[j] = float(j);
            route.at[push.chosen + j] = 0.0;
        }
        return;
    }
    if (WEIGHED) {
        write_weighed(scores, route);
        return;
    }
    choose_experts(scores, push.experts, push.chosen);
    for (uint j = gl_LocalInvocationIndex; j < push.chosen; j += gl_WorkGroupSize.x) {
        uint expert = choice_experts[j];
        float weight = choice_weight(scores, push.experts, push.chosen, j) * push.scale;
        if (push.scales != 0)
            weight *= MoeFloats(push.scales).at[expert];
        route.at[j] = float(expert);
        route.at[push.chosen + j] = weight;
    }
}
