/*
 * What the kernel of experts in PTX reads: pairs sorted by expert into tiles, and the rows of x of all
 * pairs in the staged order, each expert's from a multiple of eight on. For experts without pairs, with a
 * few and with several tiles.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/test_random.h"
#include "tests/support/tiled_places.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/policy/vulkan_moe_policy.h"

#define TILE_ROWS  128u
#define COLUMNS    256u
#define PIECE_ROWS 128u /* of staged_places_find() */
#define HEAD_WORDS 4u   /* struct MoeGroups before its tiles */

struct scene {
    uint32_t rows, chosen, experts,
        used;      /* pairs go to the first `used` experts, most to the last */
    bool per_pair; /* x has a row a pair */
};
static const struct scene scenes[] = {
    {5, 2, 8, 8, false}, {90, 4, 16, 5, false}, {70, 3, 4, 2, true}};

struct tile {
    uint32_t expert, first, count, place;
};

static uint32_t draw_expert(struct test_random *random, const struct scene *s)
{
    uint32_t drawn = test_random_below(random, 2 * s->used);
    return drawn < s->used ? drawn : s->used - 1;
}

static uint16_t half_at(uint32_t row, uint32_t column)
{
    return (uint16_t)(row * 601u + column * 7u + 1u);
}

/* Pairs whose weight is not 0: the others are not computed. */
static uint32_t weighed_pairs(const struct scene *s, const float *route)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->rows * s->chosen; i++)
        count += route[i / s->chosen * 2 * s->chosen + s->chosen + i % s->chosen] != 0;
    return count;
}

/* Every weighed pair of its expert lies in one tile, and its row of x in its place. */
static void check(const struct scene *s, const float *route, const uint32_t *groups,
                  const uint32_t *pairs, const uint16_t *gathered, uint32_t x_rows)
{
    uint32_t pair_count = s->rows * s->chosen, found = 0, end = 0;
    const struct tile *tiles = (const struct tile *)(groups + HEAD_WORDS);
    uint8_t seen[1024] = {0};
    for (uint32_t i = 0; i < groups[0]; i++) {
        const struct tile *tile = &tiles[i];
        bool goes_on = i > 0 && tiles[i - 1].expert == tile->expert;
        assert_in_range(tile->count, 1, TILE_ROWS);
        assert_int_equal(tile->place % 8, 0);
        assert_true(tile->place >= end);
        if (goes_on)
            assert_int_equal(tile->place, end);
        end = tile->place + tile->count;
        assert_in_range(tile->place + TILE_ROWS, TILE_ROWS, x_rows);
        for (uint32_t r = 0; r < tile->count; r++, found++) {
            uint32_t pair = pairs[tile->first + r], place = tile->place + r;
            assert_in_range(pair, 0, pair_count - 1);
            assert_int_equal(seen[pair]++, 0);
            uint32_t row = pair / s->chosen;
            const float *chosen = route + row * 2 * s->chosen + pair % s->chosen;
            assert_int_equal((uint32_t)chosen[0], tile->expert);
            assert_true(chosen[s->chosen] != 0);
            for (uint32_t c = 0; c < COLUMNS; c++) {
                /* A piece has all places here, and 128 rows there. */
                size_t there = staged_places_find(place % PIECE_ROWS, c, COLUMNS);
                size_t piece = there / (PIECE_ROWS * 32), in_piece = there % (PIECE_ROWS * 32);
                size_t at =
                    piece * x_rows * 32 + (size_t)(place - place % PIECE_ROWS) * 32 + in_piece;
                assert_int_equal(gathered[at], half_at(s->per_pair ? pair : row, c));
            }
        }
    }
    assert_int_equal(found, weighed_pairs(s, route));
    assert_true(found < pair_count);
}

static void run(struct vulkan_trial *trial, struct test_random *random, const struct scene *s)
{
    uint32_t pair_count = s->rows * s->chosen, x_count = s->per_pair ? pair_count : s->rows;
    uint32_t x_rows = vulkan_moe_gathered_rows(pair_count, s->experts);
    uint32_t pairs_offset = 16 + 16 * pair_count;
    const struct vulkan_buffer *route =
        vulkan_trial_buffer(trial, NULL, (uint64_t)s->rows * 2 * s->chosen * sizeof(float));
    const struct vulkan_buffer *x = vulkan_trial_buffer(trial, NULL, 2ull * x_count * COLUMNS);
    const struct vulkan_buffer *groups =
        vulkan_trial_buffer(trial, NULL, pairs_offset + 4ull * pair_count);
    const struct vulkan_buffer *gathered =
        vulkan_trial_buffer(trial, NULL, 2ull * x_rows * COLUMNS);
    for (uint32_t i = 0; i < s->rows * 2 * s->chosen; i++)
        ((float *)route->mapped)[i] = (float)draw_expert(random, s);
    ((float *)route->mapped)[s->chosen] = 0; /* the weight of the first pair */
    for (uint32_t i = 0; i < x_count * COLUMNS; i++)
        ((uint16_t *)x->mapped)[i] = half_at(i / COLUMNS, i % COLUMNS);
    const struct vulkan_moe_group_push group = {.route = route->address,
                                                .groups = groups->address,
                                                .pairs = groups->address + pairs_offset,
                                                .pair_count = pair_count,
                                                .chosen = s->chosen,
                                                .experts = s->experts};
    const struct vulkan_moe_gather_push gather = {.x = x->address,
                                                  .gathered = gathered->address,
                                                  .groups = groups->address,
                                                  .k = COLUMNS,
                                                  .pairs_per_x = s->per_pair ? 1 : s->chosen,
                                                  .pairs_offset = pairs_offset,
                                                  .x_rows = x_rows};
    const struct vulkan_specialization sorting = {
        .count = VULKAN_MOE_GROUP_CONSTANTS,
        .values = {[VULKAN_MOE_GROUP_INVOCATIONS] = 64, [VULKAN_MOE_GROUP_TILE_ROWS] = TILE_ROWS}};
    const struct vulkan_specialization gathering = {.count = 1, .values = {64}};
    vulkan_trial_run(trial, "moe_group", &sorting, &group, sizeof group,
                     (struct vulkan_grid){1, 1, 1});
    vulkan_trial_run(trial, "moe_gather", &gathering, &gather, sizeof gather,
                     (struct vulkan_grid){COLUMNS / 128, s->experts + pair_count / TILE_ROWS, 1});
    check(s, route->mapped, groups->mapped,
          (const uint32_t *)((const uint8_t *)groups->mapped + pairs_offset), gathered->mapped,
          x_rows);
    vulkan_trial_clear(trial);
}

static void rows_lie_in_the_order_of_their_experts(void **state)
{
    struct vulkan_trial trial;
    struct test_random random = {11};
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        run(&trial, &random, &scenes[i]);
    vulkan_trial_fini(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_lie_in_the_order_of_their_experts)};
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
