/*
 * The slab's allocator: thousands of random takes and gives against a byte-by-byte model, merging
 * of neighbours, limits, and give-backs that are stale or forged.
 */
// tags: threads arm
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "shm/payload_slab.h"
#include "tests/support/test_random.h"

#define SLAB_BYTES 65536u
#define LIVE_MAX   256u

struct fixture {
    uint8_t *base;
    struct payload_slab *slab;
};

static int open_fixture(void **state)
{
    static struct fixture fixture;
    fixture.base = aligned_alloc(64, SLAB_BYTES);
    assert_non_null(fixture.base);
    memset(fixture.base, 0, SLAB_BYTES);
    fixture.slab = payload_slab_create(fixture.base, SLAB_BYTES);
    *state = &fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    payload_slab_destroy(fixture->slab);
    free(fixture->base);
    return 0;
}

static struct payload_ref take(struct fixture *fixture, uint64_t bytes)
{
    struct payload_ref ref = {0};
    void *payload = NULL;
    assert_int_equal(payload_slab_take(fixture->slab, bytes, &ref, &payload), RESULT_OK);
    assert_ptr_equal(payload, fixture->base + ref.offset);
    return ref;
}

static enum result try_take(struct fixture *fixture, uint64_t bytes)
{
    struct payload_ref ref;
    void *payload;
    return payload_slab_take(fixture->slab, bytes, &ref, &payload);
}

static enum result give(struct fixture *fixture, struct payload_ref ref)
{
    return payload_slab_give(fixture->slab, ref.offset, ref.generation);
}

struct model {
    uint8_t owner[SLAB_BYTES / 64]; /* 0 = free, else 1 + index into live, modulo 255 */
    struct payload_ref live[LIVE_MAX];
    uint8_t fill[LIVE_MAX];
    uint32_t live_count;
    uint64_t used_bytes;
};

static uint64_t chunk_bytes(uint64_t bytes)
{
    return 64 + (bytes + 63) / 64 * 64;
}

static uint64_t model_longest_gap(const struct model *model)
{
    uint64_t longest = 0;
    uint64_t run = 0;
    for (size_t i = 0; i < sizeof model->owner; i++) {
        run = model->owner[i] ? 0 : run + 64;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void model_mark(struct model *model, struct payload_ref ref, uint8_t expected, uint8_t mark)
{
    uint64_t first = (ref.offset - 64) / 64;
    for (uint64_t i = first; i < first + chunk_bytes(ref.bytes) / 64; i++) {
        assert_int_equal(model->owner[i], expected);
        model->owner[i] = mark;
    }
}

static void model_take(struct fixture *fixture, struct model *model, struct test_random *random)
{
    uint32_t largest = test_random_below(random, 4) ? 600 : 9000;
    uint64_t bytes = 1 + test_random_below(random, largest);
    struct payload_ref ref = {0};
    void *payload = NULL;
    enum result result = payload_slab_take(fixture->slab, bytes, &ref, &payload);
    bool fits = model_longest_gap(model) >= chunk_bytes(bytes);
    assert_int_equal(result, fits ? RESULT_OK : RESULT_FULL);
    if (!fits)
        return;
    assert_int_equal(ref.bytes, bytes);
    assert_int_equal(ref.offset % 64, 0);
    assert_true(ref.offset >= 64 && ref.offset + bytes <= SLAB_BYTES);
    model_mark(model, ref, 0, 1);
    uint8_t fill = (uint8_t)test_random_next(random);
    memset(payload, fill, bytes);
    model->fill[model->live_count] = fill;
    model->live[model->live_count++] = ref;
    model->used_bytes += chunk_bytes(bytes);
}

static void model_give(struct fixture *fixture, struct model *model, struct test_random *random)
{
    uint32_t at = test_random_below(random, model->live_count);
    struct payload_ref ref = model->live[at];
    const void *payload = NULL;
    assert_int_equal(
        payload_view(fixture->base, SLAB_BYTES, ref.offset, ref.bytes, ref.generation, &payload),
        RESULT_OK);
    for (uint64_t i = 0; i < ref.bytes; i++)
        assert_int_equal(((const uint8_t *)payload)[i], model->fill[at]);
    assert_int_equal(give(fixture, ref), RESULT_OK);
    assert_int_equal(give(fixture, ref), RESULT_STALE);
    model_mark(model, ref, 1, 0);
    model->used_bytes -= chunk_bytes(ref.bytes);
    model->live_count--;
    model->live[at] = model->live[model->live_count];
    model->fill[at] = model->fill[model->live_count];
}

static void agrees_with_a_model(void **state)
{
    struct fixture *fixture = *state;
    struct test_random random = {31};
    static struct model model;
    memset(&model, 0, sizeof model);
    for (int round = 0; round < 8000; round++) {
        bool grow = test_random_below(&random, 100) < (round / 500 % 2 ? 35u : 65u);
        if (model.live_count == 0 || (grow && model.live_count < LIVE_MAX))
            model_take(fixture, &model, &random);
        else
            model_give(fixture, &model, &random);
        assert_int_equal(payload_slab_used_bytes(fixture->slab), model.used_bytes);
    }
    while (model.live_count > 0)
        model_give(fixture, &model, &random);
    assert_int_equal(payload_slab_used_bytes(fixture->slab), 0);
    take(fixture, SLAB_BYTES - 64); /* everything has merged again */
}

static void neighbours_merge_in_any_order(void **state)
{
    struct fixture *fixture = *state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < 6; i++) {
        struct payload_ref refs[3];
        for (size_t k = 0; k < 3; k++)
            refs[k] = take(fixture, SLAB_BYTES / 3 - 100);
        assert_int_equal(try_take(fixture, SLAB_BYTES / 3 - 100), RESULT_FULL);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(give(fixture, refs[orders[i][k]]), RESULT_OK);
        assert_int_equal(give(fixture, take(fixture, SLAB_BYTES - 64)), RESULT_OK);
    }
}

static void sizes_at_the_limit(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(try_take(fixture, 0), RESULT_INVALID);
    assert_int_equal(try_take(fixture, SLAB_BYTES - 63), RESULT_TOO_LARGE);
    assert_int_equal(try_take(fixture, UINT64_MAX), RESULT_TOO_LARGE);
    struct payload_ref all = take(fixture, SLAB_BYTES - 64);
    assert_int_equal(payload_slab_used_bytes(fixture->slab), SLAB_BYTES);
    assert_int_equal(try_take(fixture, 1), RESULT_FULL);
    assert_int_equal(give(fixture, all), RESULT_OK);
}

static void forged_give_backs_free_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct payload_ref first = take(fixture, 100);
    struct payload_ref second = take(fixture, 100);
    uint64_t used = payload_slab_used_bytes(fixture->slab);
    struct test_random random = {32};
    for (int round = 0; round < 80000; round++) {
        struct payload_ref forged = {.offset = test_random_edgy(&random),
                                     .generation = (uint32_t)test_random_edgy(&random)};
        if (test_random_below(&random, 2))
            forged.offset = 64 * (uint64_t)test_random_below(&random, SLAB_BYTES / 64 + 1);
        if ((forged.offset == first.offset && forged.generation == first.generation) ||
            (forged.offset == second.offset && forged.generation == second.generation))
            continue;
        assert_int_equal(give(fixture, forged), RESULT_STALE);
    }
    struct payload_ref crossed = {.offset = first.offset, .generation = second.generation};
    assert_int_equal(give(fixture, crossed), RESULT_STALE);
    assert_int_equal(payload_slab_used_bytes(fixture->slab), used);
    assert_int_equal(give(fixture, first), RESULT_OK);
    assert_int_equal(give(fixture, second), RESULT_OK);
}

static void slab_contents_do_not_affect_the_allocator(void **state)
{
    struct fixture *fixture = *state;
    struct test_random random = {33};
    for (int round = 0; round < 500; round++) {
        struct payload_ref refs[8];
        for (size_t i = 0; i < 8; i++)
            refs[i] = take(fixture, 1 + test_random_below(&random, 4000));
        test_random_fill(&random, fixture->base, SLAB_BYTES);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(give(fixture, refs[i]), RESULT_OK);
        assert_int_equal(payload_slab_used_bytes(fixture->slab), 0);
    }
}

/* More chunks than the book has lines for: the taker is told to come back, and nothing is lost. */
static void too_many_chunks_are_full(void **state)
{
    (void)state;
    const uint64_t slab_bytes = 128ull * 8 * LIMIT_LIVE_REQUESTS;
    uint8_t *base = aligned_alloc(64, slab_bytes);
    assert_non_null(base);
    struct fixture large = {base, payload_slab_create(base, slab_bytes)};
    uint32_t taken = 0;
    while (try_take(&large, 1) == RESULT_OK)
        taken++;
    assert_int_equal(taken, 4 * LIMIT_LIVE_REQUESTS);
    for (uint32_t i = 0; i < taken; i++)
        assert_int_equal(payload_slab_give(large.slab, 64 + 128ull * i, i + 1), RESULT_OK);
    for (uint32_t i = 0; i < taken; i++)
        assert_int_equal(try_take(&large, 1), RESULT_OK);
    for (uint32_t i = taken; i > 0; i--)
        assert_int_equal(payload_slab_give(large.slab, 64 + 128ull * (i - 1), taken + i),
                         RESULT_OK);
    take(&large, slab_bytes - 64);
    payload_slab_destroy(large.slab);
    free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(agrees_with_a_model, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(neighbours_merge_in_any_order, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(sizes_at_the_limit, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(forged_give_backs_free_nothing, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(slab_contents_do_not_affect_the_allocator, open_fixture,
                                        close_fixture),
        cmocka_unit_test(too_many_chunks_are_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
