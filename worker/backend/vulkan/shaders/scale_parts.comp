#version 450
/*
 * Multiplies runs of columns by constants, in place.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

const uint PARTS_MAX = 5;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows, columns] */
    uint columns;
    uint count;
    uint ends[PARTS_MAX]; /* the first column after each part */
    float scales[PARTS_MAX];
} push;

void main()
{
    uint first = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    Floats x = Floats(push.x + 4 * (uint64_t(gl_WorkGroupID.x) * push.columns));
    for (uint column = first; column < first + 4 && column < push.columns; column++) {
        uint part = 0;
        while (part + 1 < push.count && column >= push.ends[part])
            part++;
        x.at[column] *= push.scales[part];
    }
}
