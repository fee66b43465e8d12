#version 450
/*
 * embed_over: rows of tokens that the table has, and that are no features, become the table's.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "step.glsl"

layout(push_constant) uniform Push
{
    uint64_t rows;    /* StepRow [rows] */
    uint64_t drawn;   /* u32: tokens drawn by the previous step */
    uint64_t sights;  /* StepSight [rows], or 0: no row has a feature */
    uint64_t table;   /* f32 [table_rows, columns] */
    uint64_t out_f32; /* f32 [rows, columns] */
    uint columns;
    uint table_rows;
    uint first;
    uint unused;
} push;

void main()
{
    uint at = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    StepRow row = StepRows(push.rows).at[at];
    bool is_drawn = (row.drawn & STEP_DRAWN) != 0;
    uint drawn = StepWords(push.drawn).at[is_drawn ? row.drawn & STEP_DRAW : 0];
    uint token = is_drawn ? drawn : row.token;
    bool sees = push.sights != 0; /* the address is valid in any case, as in embed_rows.comp */
    uint feature = StepSights(sees ? push.sights : push.rows).at[sees ? at : 0].feature;
    if (token < push.first || token - push.first >= push.table_rows || (sees && feature != SIGHT_BLIND))
        return;
    vec4 v = row_load(push.table, token - push.first, column, push.columns);
    row_store_f32(push.out_f32, at, column, push.columns, v);
}
