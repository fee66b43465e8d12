/*
 * payload_view(): rule S6 (generation), and references to arbitrary places.
 */
// tags: threads arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/payload_slab.h"
#include "tests/support/test_random.h"

#define SLAB_BYTES 4096u

static void stale_generations_are_noticed(void **state)
{
    (void)state;
    uint8_t *base = aligned_alloc(64, SLAB_BYTES);
    assert_non_null(base);
    struct payload_slab *slab = payload_slab_create(base, SLAB_BYTES);
    struct payload_ref ref;
    struct payload_ref next;
    void *payload = NULL;
    const void *view = NULL;
    assert_int_equal(payload_slab_take(slab, 100, &ref, &payload), RESULT_OK);
    assert_int_equal(payload_view(base, SLAB_BYTES, ref.offset, 100, ref.generation, &view),
                     RESULT_OK);
    assert_ptr_equal(view, payload);

    assert_int_equal(payload_slab_give(slab, ref.offset, ref.generation), RESULT_OK);
    assert_int_equal(payload_view(base, SLAB_BYTES, ref.offset, 100, ref.generation, &view),
                     RESULT_STALE);
    assert_int_equal(payload_view(base, SLAB_BYTES, ref.offset, 100, 0, &view), RESULT_STALE);

    assert_int_equal(payload_slab_take(slab, 100, &next, &payload), RESULT_OK);
    assert_int_equal(next.offset, ref.offset);
    assert_int_equal(payload_view(base, SLAB_BYTES, ref.offset, 100, ref.generation, &view),
                     RESULT_STALE);
    assert_int_equal(payload_view(base, SLAB_BYTES, ref.offset, 100, next.generation, &view),
                     RESULT_OK);
    payload_slab_destroy(slab);
    free(base);
}

/* The slab is a heap block of exactly its size and full of noise: the address sanitizer sees a read
 * outside of it. */
static void references_outside_are_rejected(void **state)
{
    (void)state;
    uint8_t *base = aligned_alloc(64, SLAB_BYTES);
    assert_non_null(base);
    struct test_random random = {41};
    test_random_fill(&random, base, SLAB_BYTES);
    uint32_t seen[RESULT_COUNT] = {0};
    for (int round = 0; round < 300000; round++) {
        uint64_t offset = test_random_below(&random, 2)
                              ? test_random_edgy(&random)
                              : 64 * (uint64_t)test_random_below(&random, SLAB_BYTES / 64 + 2);
        uint64_t bytes = test_random_below(&random, 2) ? test_random_edgy(&random)
                                                       : test_random_below(&random, SLAB_BYTES);
        uint32_t generation = (uint32_t)test_random_edgy(&random);
        if (offset >= 64 && offset <= SLAB_BYTES && test_random_below(&random, 2))
            memcpy(&generation, base + offset - 64, sizeof generation);
        const void *view = NULL;
        enum result result = payload_view(base, SLAB_BYTES, offset, bytes, generation, &view);
        seen[result]++;
        if (result == RESULT_OK) {
            assert_ptr_equal(view, base + offset);
            assert_true(bytes > 0 && offset + bytes <= SLAB_BYTES);
            assert_int_equal(offset % 64, 0);
        } else {
            assert_null(view);
        }
    }
    assert_true(seen[RESULT_OK] > 1000 && seen[RESULT_STALE] > 1000 && seen[RESULT_CORRUPT] > 1000);
    free(base);
}

static void ends_of_the_slab(void **state)
{
    (void)state;
    _Alignas(64) uint8_t base[256] = {1};
    base[128] = 1;
    const void *view = NULL;
    assert_int_equal(payload_view(base, 256, 64, 192, 1, &view), RESULT_OK);
    assert_int_equal(payload_view(base, 256, 64, 193, 1, &view), RESULT_CORRUPT);
    assert_int_equal(payload_view(base, 256, 192, 64, 1, &view), RESULT_OK);
    assert_int_equal(payload_view(base, 256, 192, 65, 1, &view), RESULT_CORRUPT);
    assert_int_equal(payload_view(base, 256, 256, 1, 1, &view), RESULT_CORRUPT);
    assert_int_equal(payload_view(base, 256, 64, 0, 1, &view), RESULT_CORRUPT);
    assert_int_equal(payload_view(base, 256, 0, 64, 1, &view), RESULT_CORRUPT);
    assert_int_equal(payload_view(base, 256, 65, 1, 1, &view), RESULT_CORRUPT);
    assert_int_equal(payload_view(base, 256, UINT64_MAX - 63, 64, 1, &view), RESULT_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stale_generations_are_noticed),
        cmocka_unit_test(references_outside_are_rejected),
        cmocka_unit_test(ends_of_the_slab),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
