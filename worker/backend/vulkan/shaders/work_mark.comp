#version 450
/*
 * Counts one more finished submission, in the device's own memory and, for other processes, in the host's
 * (device/vulkan_work_marks.h).
 *
 * Grid: one workgroup of one invocation, after everything else.
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Count { uint value; };
layout(push_constant) uniform Push
{
    uint64_t count;    /* uint */
    uint64_t finished; /* uint, of the host */
} push;

void main()
{
    uint next = Count(push.count).value + 1;
    Count(push.count).value = next;
    Count(push.finished).value = next;
}
