/*
 * Records of images in memory that outlives the worker. A random run of take, ready, share, give,
 * reset, launch and finish is cut at random places; the next worker must find exactly the images
 * whose encoding is done, at their rows, and none whose rows were given away. Damaged and
 * contradictory records are dropped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "tests/support/test_random.h"
#include "worker/cache/feature_cache.h"

#define KEPT    4u
#define RECORDS (KEPT + LIMIT_REQUEST_RECORDS)
#define ROWS    40u
#define NAMES   12u
#define HELD    3u
#define DEPTH   2u

static struct test_random random_numbers;

static uint32_t below(uint32_t bound)
{
    return test_random_below(&random_numbers, bound);
}

/* What outlives the worker, and what the device has done. */
struct scene {
    struct feature_record records[RECORDS];
    uint32_t contents[ROWS]; /* name of the image whose encoding wrote the row, 0: unknown */
    struct feature_cache *cache;
    struct feature_ledger *ledger;
    bool at_once;
    uint32_t held[HELD];
    uint32_t held_count;
    uint32_t steps; /* under way */
    struct feature_restored restored;
};

static struct feature_key key_of(uint32_t name)
{
    struct feature_key key = {.shape = {1, 28, 28, 1, 0}, .rows = 1 + name % 9};
    memcpy(key.content_hash, &name, sizeof name);
    return key;
}

static uint32_t name_of(const struct feature_key *key)
{
    uint32_t name;
    memcpy(&name, key->content_hash, sizeof name);
    return name;
}

static void begin(struct scene *scene)
{
    const struct feature_ledger_memory memory = {.records = scene->records,
                                                 .count = RECORDS,
                                                 .key = {{3, 4}},
                                                 .encodes_at_once = scene->at_once};
    scene->ledger = feature_ledger_create(&memory);
    scene->cache = feature_cache_create(ROWS, KEPT);
    scene->restored = feature_cache_keep(scene->cache, scene->ledger);
    scene->held_count = scene->steps = 0;
}

/* The cache of a dead worker is freed without a word to the ledger. */
static void die(struct scene *scene)
{
    struct feature_record records[RECORDS];
    memcpy(records, scene->records, sizeof records);
    while (scene->held_count > 0)
        feature_cache_give(scene->cache, scene->held[--scene->held_count]);
    feature_cache_destroy(scene->cache);
    feature_ledger_destroy(scene->ledger);
    memcpy(scene->records, records, sizeof records);
}

static uint32_t committed(const struct scene *scene)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct feature_entry entry;
        enum result result = feature_ledger_read(scene->ledger, i, &entry);
        assert_int_not_equal(result, RESULT_CORRUPT);
        if (result != RESULT_OK)
            continue;
        count++;
        for (uint32_t row = 0; row < entry.key.rows; row++)
            assert_int_equal(scene->contents[entry.first_row + row], name_of(&entry.key));
    }
    return count;
}

/* Takes rows for an image. Its encoding writes them half now, half before it counts as done. */
static void encode(struct scene *scene, uint32_t name, bool finishes)
{
    struct feature_key key = key_of(name);
    uint32_t image;
    if (scene->held_count == HELD)
        return;
    image = feature_cache_share(scene->cache, &key);
    if (image == FEATURE_IMAGE_NONE) {
        if (feature_cache_take(scene->cache, &key, &image) != RESULT_OK)
            return;
        uint32_t first = feature_cache_first_row(scene->cache, image);
        memset(&scene->contents[first], 0, key.rows * sizeof *scene->contents);
        (void)committed(scene); /* none names these rows */
        if (!finishes) {
            feature_cache_give(scene->cache, image);
            return;
        }
        for (uint32_t row = 0; row < key.rows; row++)
            scene->contents[first + row] = name;
        feature_cache_set_ready(scene->cache, image);
    }
    scene->held[scene->held_count++] = image;
}

static void act(struct scene *scene)
{
    switch (below(6)) {
    case 0:
    case 1: encode(scene, 1 + below(NAMES), below(4) > 0); break;
    case 2:
        if (scene->held_count > 0)
            feature_cache_give(scene->cache, scene->held[--scene->held_count]);
        break;
    case 3:
        if (scene->steps < DEPTH) {
            scene->steps++;
            feature_ledger_launched(scene->ledger);
        }
        break;
    case 4:
        if (scene->steps > 0) {
            scene->steps--;
            feature_ledger_finished(scene->ledger);
        }
        break;
    default:
        if (below(20) == 0)
            feature_cache_reset(scene->cache);
    }
}

static void test_random_lives(void **state)
{
    (void)state;
    uint32_t inherited = 0;
    for (uint32_t run = 0; run < 20; run++) {
        struct scene scene = {.at_once = run % 2 == 0};
        for (uint32_t life = 0; life < 30; life++) {
            begin(&scene);
            assert_int_equal(scene.restored.damaged, 0);
            assert_int_equal(scene.restored.images, committed(&scene));
            inherited += scene.restored.images;
            uint32_t actions = 1 + below(40);
            for (uint32_t i = 0; i < actions; i++)
                act(&scene);
            (void)committed(&scene);
            die(&scene);
        }
    }
    assert_true(inherited > 200);
}

static bool has(struct scene *scene, uint32_t name)
{
    struct feature_key key = key_of(name);
    uint32_t image = feature_cache_share(scene->cache, &key);
    if (image == FEATURE_IMAGE_NONE)
        return false;
    assert_true(feature_cache_is_ready(scene->cache, image));
    feature_cache_give(scene->cache, image);
    return true;
}

/* An encoding is done when a step that was launched after it is done. */
static void test_a_step_launched_before_commits_nothing(void **state)
{
    (void)state;
    struct scene scene = {.at_once = false};
    begin(&scene);
    feature_ledger_launched(scene.ledger);
    encode(&scene, 1, true);
    assert_int_equal(committed(&scene), 0);
    feature_ledger_launched(scene.ledger);
    feature_ledger_finished(scene.ledger);
    assert_int_equal(committed(&scene), 0);
    feature_ledger_finished(scene.ledger);
    assert_int_equal(committed(&scene), 1);
    die(&scene);
    begin(&scene);
    assert_true(has(&scene, 1));
    die(&scene);
}

/* Held images and the latest used ones are evicted last, also by the next worker. */
static void test_the_order_of_eviction_stays(void **state)
{
    (void)state;
    struct scene scene = {.at_once = true};
    begin(&scene);
    for (uint32_t name = 1; name <= 3; name++) {
        encode(&scene, name, true);
        if (name > 1)
            feature_cache_give(scene.cache, scene.held[--scene.held_count]);
    }
    assert_true(has(&scene, 2)); /* used after 3; 1 is held */
    die(&scene);
    begin(&scene);
    const uint32_t order[] = {3, 2, 1};
    uint32_t image;
    for (uint32_t i = 0; i < 3; i++) {
        struct feature_key large = key_of(0);
        large.rows = i == 0 ? 33 : i == 1 ? 36 : 39;
        large.salt[0] = i;
        assert_int_equal(feature_cache_take(scene.cache, &large, &image), RESULT_OK);
        feature_cache_give(scene.cache, image);
        for (uint32_t at = 0; at < 3; at++)
            assert_int_equal(has(&scene, order[at]), at > i);
    }
    die(&scene);
}

static void forge(struct scene *scene, uint32_t number, uint32_t name, uint32_t first_row,
                  uint32_t rows)
{
    struct feature_key key = key_of(name);
    key.rows = rows;
    feature_ledger_forget(scene->ledger, number);
    feature_ledger_note(scene->ledger, number, &key, first_row);
}

/* Records with valid commit words, as a faulty worker could write them. */
static void test_contradictions_are_dropped(void **state)
{
    (void)state;
    struct scene scene = {.at_once = true};
    begin(&scene);
    forge(&scene, 0, 1, 0, 10);
    forge(&scene, 1, 2, 9, 5);                             /* overlaps */
    forge(&scene, 2, 3, ROWS - 4, 5);                      /* leaves the pool */
    forge(&scene, 3, 4, UINT32_MAX, 5);                    /* likewise */
    forge(&scene, 4, 5, 20, UINT32_MAX);                   /* likewise */
    forge(&scene, 5, 6, 12, 0);                            /* has no rows */
    forge(&scene, 6, 1, 30, 10);                           /* the same image again */
    forge(&scene, 7, 7, ROWS - 3, 3);                      /* fits, if not for 6 */
    feature_ledger_set_stamp(scene.ledger, 0, UINT64_MAX); /* any value is valid */
    scene.records[8] = scene.records[7];                   /* another record's place */
    die(&scene);
    begin(&scene);
    assert_int_equal(scene.restored.images, 2);
    assert_int_equal(scene.restored.damaged, 7);
    struct feature_cache_figures figures = feature_cache_figures(scene.cache);
    assert_int_equal(figures.kept_images, 2);
    assert_int_equal(figures.used_rows, 13);
    die(&scene);
}

/* Names 1 to 4 have 2 to 5 rows, the oldest beside the free ones: after all others, or before. */
static void expect_evictions(const uint32_t first_rows[4], const uint32_t oldest[4],
                             const uint32_t larger_rows[4])
{
    struct scene scene = {.at_once = true};
    begin(&scene);
    for (uint32_t i = 0; i < 4; i++) {
        forge(&scene, i, 1 + i, first_rows[i], 2 + i);
        for (uint32_t age = 0; age < 4; age++)
            if (oldest[age] == 1 + i)
                feature_ledger_set_stamp(scene.ledger, i, 10 + age);
    }
    die(&scene);
    begin(&scene);
    assert_int_equal(scene.restored.images, 4);
    for (uint32_t taken = 0; taken < 4; taken++) {
        struct feature_key large = key_of(0);
        uint32_t image;
        large.rows = larger_rows[taken]; /* those of one image more */
        large.salt[0] = taken;
        assert_int_equal(feature_cache_take(scene.cache, &large, &image), RESULT_OK);
        feature_cache_give(scene.cache, image);
        for (uint32_t age = 0; age < 4; age++)
            assert_int_equal(has(&scene, oldest[age]), age > taken);
    }
    die(&scene);
}

static void test_stamps_order_evictions(void **state)
{
    (void)state;
    expect_evictions((const uint32_t[]){0, 2, 5, 9}, (const uint32_t[]){4, 3, 2, 1},
                     (const uint32_t[]){ROWS - 9, ROWS - 5, ROWS - 2, ROWS});
    expect_evictions((const uint32_t[]){ROWS - 14, ROWS - 12, ROWS - 9, ROWS - 5},
                     (const uint32_t[]){1, 2, 3, 4},
                     (const uint32_t[]){ROWS - 12, ROWS - 9, ROWS - 5, ROWS});
}

/* Every image is compared with the one before it, not with the first. */
static void test_images_may_touch_but_not_overlap(void **state)
{
    (void)state;
    struct scene scene = {.at_once = true};
    begin(&scene);
    forge(&scene, 5, 1, 0, 10);
    forge(&scene, 0, 2, 10, 5);
    forge(&scene, 3, 3, 14, 2); /* overlaps the second */
    forge(&scene, 4, 4, 15, 2);
    forge(&scene, 1, 5, 16, 1); /* overlaps the fourth */
    forge(&scene, 2, 6, ROWS - 1, 1);
    die(&scene);
    begin(&scene);
    assert_int_equal(scene.restored.images, 4);
    assert_int_equal(scene.restored.damaged, 2);
    assert_int_equal(feature_cache_figures(scene.cache).used_rows, 18);
    die(&scene);
}

static void test_a_full_ledger_comes_back(void **state)
{
    (void)state;
    static struct feature_record records[RECORDS];
    const struct feature_ledger_memory memory = {records, RECORDS, {{3, 4}}, true};
    struct feature_ledger *ledger = feature_ledger_create(&memory);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct feature_key key = key_of(1 + i);
        key.rows = 1;
        feature_ledger_note(ledger, i, &key, RECORDS - 1 - i);
    }
    struct feature_cache *cache = feature_cache_create(RECORDS, KEPT);
    struct feature_restored restored = feature_cache_keep(cache, ledger);
    assert_int_equal(restored.images, RECORDS);
    assert_int_equal(restored.damaged, 0);
    assert_int_equal(feature_cache_figures(cache).used_rows, RECORDS);
    feature_cache_destroy(cache);
    feature_ledger_destroy(ledger);
}

static void test_every_damaged_byte_is_found(void **state)
{
    (void)state;
    struct scene scene = {.at_once = true};
    begin(&scene);
    encode(&scene, 1, true);
    struct feature_record whole = scene.records[0];
    die(&scene);
    for (uint32_t at = 0; at < sizeof whole; at++) {
        if (at >= offsetof(struct feature_record, stamp) &&
            at < offsetof(struct feature_record, key))
            continue; /* the stamp is not covered */
        scene.records[0] = whole;
        ((uint8_t *)&scene.records[0])[at] ^= (uint8_t)(1 + below(255));
        begin(&scene);
        assert_int_equal(scene.restored.images, 0);
        assert_int_equal(scene.restored.damaged, 1);
        die(&scene);
        assert_int_equal(scene.records[0].commit, 0);
    }
}

/* What waits is committed although other records, waiting or not, are forgotten meanwhile. */
static void test_others_may_be_forgotten(void **state)
{
    (void)state;
    static struct feature_record records[4];
    const struct feature_ledger_memory memory = {records, 4, {{3, 4}}, false};
    struct feature_ledger *ledger = feature_ledger_create(&memory);
    struct feature_entry entry;
    for (uint32_t i = 0; i < 3; i++) {
        const struct feature_key key = key_of(i + 1);
        feature_ledger_note(ledger, i, &key, 10 * i);
        feature_ledger_forget(ledger, i == 1 ? 1 : 3);
    }
    feature_ledger_launched(ledger);
    feature_ledger_finished(ledger);
    assert_int_equal(feature_ledger_read(ledger, 0, &entry), RESULT_OK);
    assert_int_equal(feature_ledger_read(ledger, 1, &entry), RESULT_EMPTY);
    assert_int_equal(feature_ledger_read(ledger, 2, &entry), RESULT_OK);
    assert_int_equal(entry.first_row, 20);
    /* Nor does it count any more what was committed before. */
    const struct feature_key key = key_of(2);
    feature_ledger_note(ledger, 1, &key, 10);
    feature_ledger_forget(ledger, 0);
    feature_ledger_launched(ledger);
    feature_ledger_finished(ledger);
    assert_int_equal(feature_ledger_read(ledger, 1, &entry), RESULT_OK);
    records[1].first_row++;
    assert_int_equal(feature_ledger_read(ledger, 1, &entry), RESULT_CORRUPT);
    feature_ledger_destroy(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_a_step_launched_before_commits_nothing),
        cmocka_unit_test(test_the_order_of_eviction_stays),
        cmocka_unit_test(test_contradictions_are_dropped),
        cmocka_unit_test(test_stamps_order_evictions),
        cmocka_unit_test(test_images_may_touch_but_not_overlap),
        cmocka_unit_test(test_a_full_ledger_comes_back),
        cmocka_unit_test(test_every_damaged_byte_is_found),
        cmocka_unit_test(test_others_may_be_forgotten),
    };
    random_numbers.state = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)random_numbers.state);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
