/*
 * Parts of an attention whose context is split over workgroups. Each split writes, per query, its
 * maximum, its sum of weights and its weighted sums of values. The last workgroup of a work item to
 * arrive adds them up in the order of their positions, so the result does not depend on which one it is.
 *
 * Before including, the includer has SPLITS, `split`, `splits` (of this work item), `push` with
 * `partials` and `counters`, and
 *     #define PARTS_QUERIES   queries of a work item
 *     #define PARTS_QUADS     vec4 of a query's values
 *     #define PARTS_AHEAD     parts that are loaded before the first is used
 *     uint parts_item()       number of the work item among those of this workgroup's x
 *     float sink_weight(uint q, float top)   added to query q's sum of weights, whose maximum is top
 */
#extension GL_KHR_memory_scope_semantics : require

layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer PartQuads { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer PartPairs { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer PartCounters { uint at[]; };

const uint PARTS_VALUES = PARTS_QUERIES * PARTS_QUADS;
const uint PARTS_STRIDE = PARTS_VALUES + (PARTS_QUERIES + 1) / 2; /* vec4 of a part */
const float NOTHING = -1e30;                                      /* the maximum of no scores */
shared uint shared_arrivals;

uint64_t parts_index()
{
    return uint64_t(parts_item()) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

uint64_t part_address(uint s)
{
    return push.partials + 16 * ((parts_index() * SPLITS + s) * PARTS_STRIDE);
}

/* Writes a quad of this split's part. */
void part_write_quad(uint q, uint quad, vec4 x)
{
    PartQuads(part_address(split)).at[q * PARTS_QUADS + quad] = x;
}

/* {maximum, sum of weights} */
void part_write_softmax(uint q, vec2 softmax)
{
    PartPairs(part_address(split) + 16 * PARTS_VALUES).at[q] = softmax;
}

/* Whether all splits are written. Called by the whole workgroup; one invocation releases the writes of
 * all of them and acquires those of the other workgroups. */
bool parts_complete()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup,
                   gl_StorageSemanticsBuffer | gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    if (gl_LocalInvocationIndex == 0) {
        PartCounters counter = PartCounters(push.counters + 4 * parts_index());
        shared_arrivals = atomicAdd(counter.at[0], 1, gl_ScopeDevice, gl_StorageSemanticsBuffer,
                                    gl_SemanticsAcquireRelease);
        if (shared_arrivals == splits - 1)
            counter.at[0] = 0;
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup,
                   gl_StorageSemanticsBuffer | gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    return shared_arrivals == splits - 1;
}

/* A quad of query q's values over all splits, divided by the sum of weights. */
vec4 parts_add_quad(uint q, uint quad)
{
    float top = NOTHING, weights = 0.0;
    vec4 sum = vec4(0.0);
    for (uint first = 0; first < splits; first += PARTS_AHEAD) {
        vec2 softmax[PARTS_AHEAD];
        vec4 part[PARTS_AHEAD];
        [[unroll]] for (uint i = 0; i < PARTS_AHEAD; i++) {
            uint64_t at = part_address(min(first + i, splits - 1));
            softmax[i] = PartPairs(at + 16 * PARTS_VALUES).at[q];
            part[i] = PartQuads(at).at[q * PARTS_QUADS + quad];
        }
        float higher = top;
        [[unroll]] for (uint i = 0; i < PARTS_AHEAD; i++)
            higher = max(higher, softmax[i].x);
        float shrink = exp2(top - higher);
        weights *= shrink;
        sum *= shrink;
        top = higher;
        [[unroll]] for (uint i = 0; i < PARTS_AHEAD; i++) {
            float factor = first + i < splits ? exp2(softmax[i].x - top) : 0.0;
            weights += factor * softmax[i].y;
            sum += factor * part[i];
        }
    }
    return sum / (weights + sink_weight(q, top));
}
