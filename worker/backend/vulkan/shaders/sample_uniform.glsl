/*
 * The random number of a row's draw: Philox4x32-10 (worker/sample/uniform.c).
 *
 * The includer has `record`.
 */

/* u in units of 2^-24. */
uint draw_uniform()
{
    uvec4 x = uvec4(record.position, 0, 0, 0);
    uvec2 round_key = uvec2(record.seed_low, record.seed_high);
    for (uint round = 0; round < 10; round++) {
        uint high0, low0, high1, low1;
        umulExtended(0xD2511F53u, x.x, high0, low0);
        umulExtended(0xCD9E8D57u, x.z, high1, low1);
        x = uvec4(high1 ^ x.y ^ round_key.x, low1, high0 ^ x.w ^ round_key.y, low0);
        round_key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return x.x >> 8;
}
