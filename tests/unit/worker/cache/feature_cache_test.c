/*
 * Rows of the feature pool: never shared by two images, kept by last use, and found again by
 * content and shape. Random takes and give-backs are compared with a plain list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/cache/feature_cache.h"

static struct feature_key key_of(uint32_t name, uint32_t rows)
{
    struct feature_key key = {.shape = {1, 28, 28, 1, 0}, .rows = rows};
    memcpy(key.content_hash, &name, sizeof name);
    return key;
}

static uint32_t take(struct feature_cache *cache, uint32_t name, uint32_t rows)
{
    struct feature_key key = key_of(name, rows);
    uint32_t image;
    assert_int_equal(feature_cache_share(cache, &key), FEATURE_IMAGE_NONE);
    assert_int_equal(feature_cache_take(cache, &key, &image), RESULT_OK);
    feature_cache_set_ready(cache, image);
    return image;
}

static bool has(struct feature_cache *cache, uint32_t name, uint32_t rows)
{
    struct feature_key key = key_of(name, rows);
    uint32_t image = feature_cache_share(cache, &key);
    if (image == FEATURE_IMAGE_NONE)
        return false;
    feature_cache_give(cache, image);
    return true;
}

static void test_content_and_shape_are_the_key(void **state)
{
    (void)state;
    struct feature_cache *cache = feature_cache_create(100, 4);
    feature_cache_give(cache, take(cache, 1, 10));
    assert_true(has(cache, 1, 10));
    assert_false(has(cache, 2, 10));
    assert_false(has(cache, 1, 11));
    struct feature_key key = key_of(1, 10);
    key.shape.width = 56;
    assert_int_equal(feature_cache_share(cache, &key), FEATURE_IMAGE_NONE);
    key = key_of(1, 10);
    key.salt[3] = 1; /* another tenant's */
    assert_int_equal(feature_cache_share(cache, &key), FEATURE_IMAGE_NONE);
    feature_cache_destroy(cache);
}

/* As many images as there may be, all held; then given back from the last row to the first. */
static void test_the_most_images(void **state)
{
    (void)state;
    const uint32_t capacity = 4 + LIMIT_REQUEST_RECORDS;
    struct feature_cache *cache = feature_cache_create(2 * capacity, 4);
    uint32_t images[4 + LIMIT_REQUEST_RECORDS];
    for (uint32_t i = 0; i < capacity; i++) {
        images[i] = take(cache, 1 + i, 1);
        assert_int_equal(feature_cache_first_row(cache, images[i]), i);
    }
    struct feature_key more = key_of(1000, 1);
    uint32_t image;
    assert_int_equal(feature_cache_share(cache, &more), FEATURE_IMAGE_NONE);
    assert_int_equal(feature_cache_take(cache, &more, &image), RESULT_FULL);
    for (uint32_t i = capacity; i > 0; i--)
        feature_cache_give(cache, images[i - 1]);
    assert_int_equal(feature_cache_figures(cache).kept_images, 4);
    assert_int_equal(feature_cache_figures(cache).used_rows, 4);
    for (uint32_t i = 0; i < capacity; i++)
        assert_int_equal(has(cache, 1 + i, 1), i < 4);
    feature_cache_destroy(cache);
}

static void test_least_recently_used_goes_first(void **state)
{
    (void)state;
    struct feature_cache *cache = feature_cache_create(1000, 3);
    for (uint32_t name = 1; name <= 3; name++)
        feature_cache_give(cache, take(cache, name, 10));
    assert_true(has(cache, 1, 10)); /* used again: 2 is the oldest now */
    feature_cache_give(cache, take(cache, 4, 10));
    assert_false(has(cache, 2, 10));
    assert_true(has(cache, 3, 10) && has(cache, 1, 10) && has(cache, 4, 10));
    assert_int_equal(feature_cache_figures(cache).kept_images, 3);
    assert_int_equal(feature_cache_figures(cache).used_rows, 30);
    assert_int_equal(feature_cache_figures(cache).evictions, 1);
    feature_cache_destroy(cache);
}

static void test_a_reset_removes_unheld_images(void **state)
{
    (void)state;
    struct feature_cache *cache = feature_cache_create(100, 8);
    uint32_t held = take(cache, 1, 10);
    feature_cache_give(cache, take(cache, 2, 10));
    feature_cache_reset(cache);
    assert_false(has(cache, 2, 10));
    assert_true(has(cache, 1, 10));
    assert_int_equal(feature_cache_figures(cache).used_rows, 10);
    assert_int_equal(feature_cache_figures(cache).evictions, 0);
    feature_cache_give(cache, held);
    feature_cache_destroy(cache);
}

static void test_held_images_stay(void **state)
{
    (void)state;
    struct feature_cache *cache = feature_cache_create(100, 8);
    uint32_t held = take(cache, 1, 60);
    feature_cache_give(cache, take(cache, 2, 40));
    struct feature_key key = key_of(3, 41);
    uint32_t image;
    assert_int_equal(feature_cache_take(cache, &key, &image), RESULT_FULL);
    assert_false(has(cache, 2, 40)); /* it was asked to go first */
    assert_int_equal(feature_cache_first_row(cache, held), 0);
    feature_cache_give(cache, held);
    assert_int_equal(feature_cache_take(cache, &key, &image), RESULT_OK);
    assert_false(has(cache, 1, 60));
    assert_int_equal(feature_cache_first_row(cache, image), 0);
    feature_cache_give(cache, image);
    feature_cache_destroy(cache);
}

static void test_pending_is_shared_and_forgotten(void **state)
{
    (void)state;
    struct feature_cache *cache = feature_cache_create(100, 8);
    struct feature_key key = key_of(1, 10);
    uint32_t image;
    assert_int_equal(feature_cache_take(cache, &key, &image), RESULT_OK);
    assert_int_equal(feature_cache_share(cache, &key), image);
    assert_false(feature_cache_is_ready(cache, image));
    feature_cache_give(cache, image);
    assert_int_equal(feature_cache_references(cache, image), 1);
    feature_cache_give(cache, image);
    assert_false(has(cache, 1, 10));
    assert_int_equal(feature_cache_figures(cache).used_rows, 0);
    feature_cache_destroy(cache);
}

static void test_zero_kept_images_keeps_none(void **state)
{
    (void)state;
    struct feature_cache *cache = feature_cache_create(100, 0);
    feature_cache_give(cache, take(cache, 1, 100));
    assert_false(has(cache, 1, 100));
    feature_cache_give(cache, take(cache, 2, 100));
    feature_cache_destroy(cache);
}

#define NAMES 24u
#define ROWS  64u

/* The holders; each one knows the row where its image must stay. */
static void test_random_storm(void **state)
{
    (void)state;
    struct test_random random = {77};
    struct feature_cache *cache = feature_cache_create(ROWS, 5);
    uint32_t references[NAMES] = {0};
    uint32_t image_of[NAMES];
    uint32_t hits = 0;
    uint32_t full = 0;
    for (uint32_t round = 0; round < 40000; round++) {
        uint32_t name = test_random_below(&random, NAMES);
        struct feature_key key = key_of(name, 1 + name % 20);
        if (references[name] > 0 && test_random_below(&random, 3) > 0) {
            feature_cache_give(cache, image_of[name]);
            references[name]--;
        } else {
            uint32_t image = feature_cache_share(cache, &key);
            hits += image != FEATURE_IMAGE_NONE;
            assert_true(references[name] == 0 || image == image_of[name]);
            if (image == FEATURE_IMAGE_NONE) {
                enum result result = feature_cache_take(cache, &key, &image);
                full += result == RESULT_FULL;
                if (result != RESULT_OK)
                    continue;
                feature_cache_set_ready(cache, image);
            }
            image_of[name] = image;
            references[name]++;
        }
        uint8_t owner[ROWS] = {0};
        uint32_t held = 0;
        for (uint32_t i = 0; i < NAMES; i++) {
            held += references[i] > 0;
            for (uint32_t row = 0; references[i] > 0 && row < 1 + i % 20; row++)
                assert_int_equal(owner[feature_cache_first_row(cache, image_of[i]) + row]++, 0);
        }
        assert_int_equal(feature_cache_figures(cache).held_images, held);
        assert_in_range(feature_cache_figures(cache).kept_images, 0, 5);
        assert_in_range(feature_cache_figures(cache).used_rows, 0, ROWS);
    }
    assert_true(hits > 1000 && full > 100 && feature_cache_figures(cache).evictions > 1000);
    for (uint32_t i = 0; i < NAMES; i++)
        while (references[i]-- > 0)
            feature_cache_give(cache, image_of[i]);
    feature_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content_and_shape_are_the_key),
        cmocka_unit_test(test_the_most_images),
        cmocka_unit_test(test_least_recently_used_goes_first),
        cmocka_unit_test(test_a_reset_removes_unheld_images),
        cmocka_unit_test(test_held_images_stay),
        cmocka_unit_test(test_pending_is_shared_and_forgotten),
        cmocka_unit_test(test_zero_kept_images_keeps_none),
        cmocka_unit_test(test_random_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
