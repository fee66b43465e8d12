/*
 * Arithmetic on single candidates; comparing candidates is up to the policies.
 */
#include "worker/schedule/step_candidate.h"

uint32_t step_candidate_max_rows(const struct step_candidate *candidate)
{
    uint32_t left = candidate->known_tokens - candidate->computed_tokens;
    return left < candidate->max_rows ? left : candidate->max_rows;
}

uint32_t step_candidate_min_rows(const struct step_candidate *candidate)
{
    const struct image_tile *tiles = candidate->whole_tiles;
    uint32_t at = image_tiles_after(tiles, candidate->whole_tile_count, candidate->computed_tokens);
    if (at == candidate->whole_tile_count || tiles[at].first_token > candidate->computed_tokens ||
        tiles[at].sound)
        return 1;
    return tiles[at].first_token + tiles[at].token_count - candidate->computed_tokens;
}

uint32_t step_candidate_uncut_rows(const struct step_candidate *candidate, uint32_t rows)
{
    const struct image_tile *tiles = candidate->whole_tiles;
    uint32_t end = candidate->computed_tokens + rows;
    uint32_t at = image_tiles_after(tiles, candidate->whole_tile_count, end);
    if (at == candidate->whole_tile_count || tiles[at].first_token >= end || tiles[at].sound)
        return rows;
    uint32_t first = tiles[at].first_token;
    return first > candidate->computed_tokens ? first - candidate->computed_tokens : 0;
}

/* Blocks that the first `tokens` positions fill. */
static uint32_t blocks_of(uint32_t tokens, uint32_t opening)
{
    uint32_t covered = opening > 0 && tokens > opening ? opening : tokens;
    return (covered + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

uint32_t step_candidate_blocks(const struct step_candidate *candidate, uint32_t opening,
                               uint32_t rows)
{
    return blocks_of(candidate->computed_tokens + rows, opening) -
           blocks_of(candidate->computed_tokens, opening);
}

uint32_t step_candidate_rows(const struct step_candidate *candidate, uint32_t opening,
                             uint32_t blocks)
{
    uint64_t end =
        ((uint64_t)blocks_of(candidate->computed_tokens, opening) + blocks) * KV_BLOCK_TOKENS;
    if (end > UINT32_MAX || (opening > 0 && end >= opening))
        return UINT32_MAX - candidate->computed_tokens;
    return (uint32_t)end - candidate->computed_tokens;
}
