/*
 * Products of a subgroup in matrix units whose registers are filled by hand (register_tile.glsl has the
 * elements of each lane), shuffles and maxima. Without UNITS it is shared memory instead, on any device,
 * slowly, so that tests can check kernels' arithmetic on devices with other units; then all invocations
 * of the workgroup call each function equally often.
 *
 * Before including, the includer defines UNITS and has INVOCATIONS.
 */
#if UNITS
#define UNROLLED [[unroll]]
#define SUMS coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>
#define LANE gl_SubgroupInvocationID
#define SUBGROUP gl_SubgroupID

/* a: row g's two pairs, row g + 8's two pairs; b: column g's two pairs. */
void multiply(uvec4 a, uvec2 b, inout SUMS sums)
{
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> x;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> y;
    f16vec2 p = unpackFloat2x16(a.x), q = unpackFloat2x16(a.y);
    f16vec2 r = unpackFloat2x16(a.z), s = unpackFloat2x16(a.w);
    f16vec2 u = unpackFloat2x16(b.x), v = unpackFloat2x16(b.y);
    x[0] = p.x;
    x[1] = p.y;
    x[2] = q.x;
    x[3] = q.y;
    x[4] = r.x;
    x[5] = r.y;
    x[6] = s.x;
    x[7] = s.y;
    y[0] = u.x;
    y[1] = u.y;
    y[2] = v.x;
    y[3] = v.y;
    sums = coopMatMulAdd(x, y, sums);
}

uint take(uint x, uint source)
{
    return subgroupShuffle(x, source);
}

bool any_lane(bool x)
{
    return subgroupAny(x);
}
#else
#define UNROLLED [[dont_unroll]]
#define SUMS vec4
#define LANE (gl_LocalInvocationIndex % 32)
#define SUBGROUP (gl_LocalInvocationIndex / 32)
shared uvec4 shared_a[INVOCATIONS];
shared uvec2 shared_b[INVOCATIONS];
shared uint shared_taken[INVOCATIONS];
shared uint shared_any;

void multiply(uvec4 a, uvec2 b, inout SUMS sums)
{
    barrier();
    shared_a[gl_LocalInvocationIndex] = a;
    shared_b[gl_LocalInvocationIndex] = b;
    barrier();
    uint first = SUBGROUP * 32, g = LANE / 4, t = LANE % 4;
    for (uint k = 0; k < 8; k++) {
        uvec4 x = shared_a[first + 4 * g + k / 2];
        uint shift = 16 * (k % 2);
        for (uint e = 0; e < 2; e++) {
            uvec2 y = shared_b[first + 4 * (2 * t + e) + k / 2];
            vec2 column = vec2(unpackHalf2x16(y.x >> shift).x, unpackHalf2x16(y.y >> shift).x);
            sums[e] += unpackHalf2x16(x.x >> shift).x * column.x;
            sums[e] += unpackHalf2x16(x.y >> shift).x * column.y;
            sums[e + 2] += unpackHalf2x16(x.z >> shift).x * column.x;
            sums[e + 2] += unpackHalf2x16(x.w >> shift).x * column.y;
        }
    }
}

uint take(uint x, uint source)
{
    barrier();
    shared_taken[gl_LocalInvocationIndex] = x;
    barrier();
    return shared_taken[SUBGROUP * 32 + source];
}

/* Any lane of the workgroup; its invocations meet at later barriers. */
bool any_lane(bool x)
{
    barrier();
    shared_any = 0;
    barrier();
    if (x)
        shared_any = 1;
    barrier();
    return shared_any != 0;
}
#endif

float take(float x, uint source)
{
    return uintBitsToFloat(take(floatBitsToUint(x), source));
}

/* Maximum over the lanes of the same t, which have all positions. */
vec2 positions_max(vec2 x)
{
    UNROLLED for (uint step = 4; step < 32; step *= 2)
        x = max(x, vec2(take(x.x, LANE ^ step), take(x.y, LANE ^ step)));
    return x;
}

vec2 positions_sum(vec2 x)
{
    UNROLLED for (uint step = 4; step < 32; step *= 2)
        x += vec2(take(x.x, LANE ^ step), take(x.y, LANE ^ step));
    return x;
}
