/*
 * The `chosen` largest of a row's scores, by a whole workgroup.
 *
 * A score's place is the number of scores that precede it, so every invocation finds the places of its
 * own scores independently, after one barrier. Scores are compared as integers in the order of the
 * floats, NaNs last, equal ones by number: each place is taken once and by an existing expert, for any
 * scores.
 *
 * Before including, the includer defines the maximum number of experts, and SOFTMAX_ALL: a weight is
 * its share of all scores, not of the chosen ones:
 *     #define CHOICE_EXPERTS 1024
 * and, unless the scores themselves are compared, what is compared in their place:
 *     #define CHOICE_OF(scores, e) scores.at[e]
 */
#ifndef CHOICE_OF
#define CHOICE_OF(scores, e) scores.at[e]
#endif
const uint CHOSEN_MAX = 32;                    /* proto/limits.h */
shared uvec4 choice_keys[CHOICE_EXPERTS / 4];  /* 0 after the last: precedes no score */
shared float choice_scores[CHOSEN_MAX];        /* by place */
shared uint choice_experts[CHOSEN_MAX];

uint choice_key(float score)
{
    uint bits = floatBitsToUint(score);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return 0; /* not a number */
    if (bits == 0x80000000u)
        bits = 0; /* -0 is 0 */
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/* Sets choice_scores and choice_experts; ends with a barrier. */
void choose_experts(MoeFloats scores, uint experts, uint chosen)
{
    uint quads = (experts + 3) / 4;
    for (uint e = gl_LocalInvocationIndex; e < 4 * quads; e += gl_WorkGroupSize.x)
        choice_keys[e / 4][e % 4] = e < experts ? choice_key(CHOICE_OF(scores, e)) : 0;
    barrier();
    for (uint e = gl_LocalInvocationIndex; e < experts; e += gl_WorkGroupSize.x) {
        uvec4 key = uvec4(choice_keys[e / 4][e % 4]), before = uvec4(0);
        for (uint q = 0; q < quads; q++) {
            uvec4 other = uvec4(4 * q) + uvec4(0, 1, 2, 3);
            before += uvec4(greaterThan(choice_keys[q], key)) +
                      uvec4(equal(choice_keys[q], key)) * uvec4(lessThan(other, uvec4(e)));
        }
        uint place = before.x + before.y + before.z + before.w;
        if (place < chosen) {
            choice_scores[place] = scores.at[e];
            choice_experts[place] = e;
        }
    }
    barrier();
}

/* The weight of the expert in place j. */
float choice_weight(MoeFloats scores, uint experts, uint chosen, uint j)
{
    float sum = 0.0;
    for (uint i = 0; i < (SOFTMAX_ALL ? experts : chosen); i++)
        sum += exp((SOFTMAX_ALL ? scores.at[i] : choice_scores[i]) - choice_scores[0]);
    return exp(choice_scores[j] - choice_scores[0]) / sum;
}
