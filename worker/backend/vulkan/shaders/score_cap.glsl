/*
 * The soft cap of attention's scores: cap * tanh(score / cap), for kernels that keep scores in
 * powers of two (score * log2 e), so that one exp2() suffices.
 *
 * tanh(x) = 1 - 2 / (1 + exp(2 x)) is exact at both ends, where exp() is 0 or infinite. Near 0 the
 * cancellation loses a millionth of the cap.
 */
float cap_score(float score, float cap)
{
    const float log2_e = 1.4426950408889634;
    return cap * log2_e * (1.0 - 2.0 / (1.0 + exp2(score * (2.0 / cap))));
}
