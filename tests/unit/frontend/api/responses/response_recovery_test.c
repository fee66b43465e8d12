/*
 * Files of an earlier process become records again. Damaged files, those whose conversation is not
 * complete and those beyond the limit are removed; no damage of one file costs another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/api/responses/response_recovery.h"

#define MANY_BYTES ((uint64_t)1 << 30)

static char folder[64];
static struct response_journal *journal;
static struct response_store *store;
static const struct client_key owner = {{1, 2, 3}};

static int set_up(void **state)
{
    (void)state;
    struct error_text error;
    strcpy(folder, "/tmp/shoal-recovery-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    store = response_store_create(MANY_BYTES, 1000);
    return response_journal_open(folder, &journal, &error) == RESULT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    response_store_set_journal(store, NULL);
    response_store_destroy(store);
    response_journal_close(journal);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* --- files ----------------------------------------------------------------------------------- */

static void item_add(struct response_items *items, const char *json, const char *prefix)
{
    response_items_begin(items);
    text_buffer_append_text(&items->text, json);
    response_items_end(items, prefix);
}

static struct response_file finished(const char *id, const char *previous_id)
{
    struct response_file file = {
        .status = RESPONSE_COMPLETED, .client_key = owner, .created_unix_s = 7, .ended_unix_s = 9};
    strcpy(file.id, id);
    strcpy(file.previous_id, previous_id);
    item_add(&file.input, "{\"type\":\"message\"}", "msg_");
    item_add(&file.output, "{\"id\":\"msg_0ao0000\"}", NULL);
    text_buffer_append_text(&file.fields, ",\"model\":\"m\"");
    text_buffer_append_text(&file.outcome, ",\"error\":null");
    response_script_append(&file.script, &(struct response_step){.kind = STEP_STARTED});
    return file;
}

static struct response_file unfinished(const char *id, const char *previous_id)
{
    struct response_file file = {.status = RESPONSE_IN_PROGRESS,
                                 .client_key = owner,
                                 .created_unix_s = 7,
                                 .random_seed = 11,
                                 .asked_unix_s = 8};
    strcpy(file.id, id);
    strcpy(file.previous_id, previous_id);
    text_buffer_append_text(&file.body, "{\"input\":\"hi\"}");
    text_buffer_append_text(&file.model_id, "m");
    return file;
}

/* `name` is the file's; changed_s orders files by age. */
static void bytes_put(const char *name, const struct text_buffer *bytes, time_t changed_s)
{
    int directory = response_journal_directory(journal);
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const struct timespec times[2] = {{.tv_sec = changed_s}, {.tv_sec = changed_s}};
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes->bytes, bytes->length), bytes->length);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

/* Takes the file over. Returns its size. */
static uint64_t file_put(const char *name, struct response_file file, time_t changed_s)
{
    struct text_buffer bytes = {0};
    response_file_encode(&file, &bytes);
    bytes_put(name, &bytes, changed_s);
    uint64_t count = bytes.length;
    text_buffer_fini(&bytes);
    response_file_fini(&file);
    return count;
}

static bool exists(const char *name)
{
    struct stat facts;
    return fstatat(response_journal_directory(journal), name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- records --------------------------------------------------------------------------------- */

/* Loads and releases what is unfinished; returns its number. */
static size_t load(uint64_t max_bytes)
{
    size_t count;
    struct response_record **list = response_recovery_load(store, journal, max_bytes, &count);
    for (size_t i = 0; i < count; i++)
        response_record_release(list[i]);
    free(list);
    return count;
}

static bool finds(const char *id)
{
    struct response_record *record = response_store_find(store, &owner, id);
    response_record_release(record);
    return record != NULL;
}

static void conversations_are_restored(void **state)
{
    (void)state;
    /* The one that is continued is the newest file: order is by id, not by age. */
    file_put("resp_0a.response", finished("resp_0a", ""), 300);
    file_put("resp_0b.response", finished("resp_0b", "resp_0a"), 200);
    file_put("resp_0c.response", finished("resp_0c", "resp_0b"), 100);
    assert_int_equal(load(MANY_BYTES), 0);
    struct response_record *last = response_store_find(store, &owner, "resp_0c");
    assert_non_null(last);
    const struct response_record *middle = response_record_previous(last);
    assert_string_equal(response_record_id(middle), "resp_0b");
    assert_string_equal(response_record_id(response_record_previous(middle)), "resp_0a");
    assert_int_equal(response_record_status(last), RESPONSE_COMPLETED);
    response_record_release(last);
    const struct client_key other = {{9}};
    assert_null(response_store_find(store, &other, "resp_0c"));
}

static void hidden_responses_live_as_long_as_one_continues_them(void **state)
{
    (void)state;
    file_put("resp_0a.hidden", finished("resp_0a", ""), 100);
    file_put("resp_0b.response", finished("resp_0b", "resp_0a"), 200);
    file_put("resp_0c.hidden", finished("resp_0c", ""), 300);
    assert_int_equal(load(MANY_BYTES), 0);
    assert_false(finds("resp_0a"));
    struct response_record *record = response_store_find(store, &owner, "resp_0b");
    assert_string_equal(response_record_id(response_record_previous(record)), "resp_0a");
    response_record_release(record);
    assert_true(exists("resp_0a.hidden"));
    assert_false(exists("resp_0c.hidden"));
}

static void unfinished_ones_are_returned_oldest_first(void **state)
{
    (void)state;
    file_put("resp_0a.response", unfinished("resp_0a", ""), 300);
    file_put("resp_0b.response", unfinished("resp_0b", "resp_0d"), 100);
    file_put("resp_0c.response", unfinished("resp_0c", ""), 200);
    file_put("resp_0d.response", finished("resp_0d", ""), 400);
    size_t count;
    struct response_record **list = response_recovery_load(store, journal, MANY_BYTES, &count);
    static const char *const expected[] = {"resp_0b", "resp_0c", "resp_0a"};
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        struct response_file file;
        struct error_text error;
        assert_string_equal(response_record_id(list[i]), expected[i]);
        assert_int_equal(response_recovery_read(journal, expected[i], &file, &error), RESULT_OK);
        assert_int_equal(file.body.length, strlen("{\"input\":\"hi\"}"));
        assert_memory_equal(file.body.bytes, "{\"input\":\"hi\"}", file.body.length);
        assert_int_equal(file.random_seed, 11);
        response_file_fini(&file);
        response_record_release(list[i]);
    }
    free(list);
    struct response_file file;
    struct error_text error;
    assert_int_equal(response_recovery_read(journal, "resp_0d", &file, &error), RESULT_STALE);
    assert_int_equal(response_recovery_read(journal, "resp_0e", &file, &error), RESULT_IO);
}

/* --- damage ---------------------------------------------------------------------------------- */

static void assert_only_the_damaged_one_is_removed(const struct text_buffer *bytes, bool removed)
{
    bytes_put("resp_0b.response", bytes, 100);
    assert_int_equal(load(MANY_BYTES), 0);
    assert_false(finds("resp_0b"));
    assert_true(finds("resp_0a"));
    assert_int_equal(exists("resp_0b.response"), !removed);
    assert_true(exists("resp_0a.response"));
    response_store_set_journal(store, NULL);
    response_store_destroy(store);
    store = response_store_create(MANY_BYTES, 1000);
}

static void every_cut_and_changed_file_is_removed_alone(void **state)
{
    (void)state;
    struct response_file file = finished("resp_0b", "");
    struct text_buffer bytes = {0};
    response_file_encode(&file, &bytes);
    response_file_fini(&file);
    file_put("resp_0a.response", finished("resp_0a", ""), 200);
    size_t whole = bytes.length;
    for (size_t at = 0; at < whole; at += at < 40 ? 1 : 13) {
        bytes.length = at;
        assert_only_the_damaged_one_is_removed(&bytes, true);
        bytes.length = whole;
        bytes.bytes[at] ^= 0x40;
        /* Bytes 8 to 11 are the version: a file of a later server is left alone. */
        assert_only_the_damaged_one_is_removed(&bytes, at < 8 || at > 11);
        bytes.bytes[at] ^= 0x40;
    }
    text_buffer_append_text(&bytes, "more");
    assert_only_the_damaged_one_is_removed(&bytes, true);
    text_buffer_fini(&bytes);
}

static void a_file_under_another_name_is_removed(void **state)
{
    (void)state;
    file_put("resp_0a.response", finished("resp_0b", ""), 100);
    assert_int_equal(load(MANY_BYTES), 0);
    assert_false(finds("resp_0a"));
    assert_false(finds("resp_0b"));
    assert_false(exists("resp_0a.response"));
}

static void what_is_no_regular_file_is_left_alone(void **state)
{
    (void)state;
    int directory = response_journal_directory(journal);
    assert_int_equal(symlinkat("/etc/passwd", directory, "resp_0a.response"), 0);
    assert_int_equal(mkfifoat(directory, "resp_0b.response", 0600), 0);
    assert_int_equal(mkdirat(directory, "resp_0c.response", 0700), 0);
    assert_int_equal(load(MANY_BYTES), 0);
    assert_true(exists("resp_0a.response") && exists("resp_0b.response") &&
                exists("resp_0c.response"));
}

static void incomplete_conversations_are_removed(void **state)
{
    (void)state;
    struct response_file foreign = finished("resp_14", "resp_13");
    foreign.client_key.bytes[0] ^= 1;
    file_put("resp_01.response", finished("resp_01", "resp_00"), 100); /* 00 is missing */
    file_put("resp_02.response", finished("resp_02", "resp_01"), 101);
    file_put("resp_03.response", finished("resp_03", "resp_03"), 102); /* continues itself */
    file_put("resp_04.response", finished("resp_04", "resp_05"), 103); /* a circle */
    file_put("resp_05.response", finished("resp_05", "resp_04"), 104);
    file_put("resp_06.response", finished("resp_06", "resp_04"), 105);
    file_put("resp_11.response", unfinished("resp_11", ""), 106);
    file_put("resp_12.response", finished("resp_12", "resp_11"), 107); /* 11 has no answer */
    file_put("resp_13.response", finished("resp_13", ""), 108);
    file_put("resp_14.response", foreign, 109);
    file_put("resp_15.response", finished("resp_15", "resp_14"), 110);
    assert_int_equal(load(MANY_BYTES), 1);
    static const char *const gone[] = {"01", "02", "03", "04", "05", "06", "12", "14", "15"};
    char name[40];
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        snprintf(name, sizeof name, "resp_%s", gone[i]);
        assert_false(finds(name));
        strcat(name, ".response");
        assert_false(exists(name));
    }
    assert_true(finds("resp_13"));
}

static void the_newest_files_within_the_limit_are_loaded(void **state)
{
    (void)state;
    uint64_t bytes = file_put("resp_0a.response", finished("resp_0a", ""), 100);
    assert_int_equal(file_put("resp_0b.response", finished("resp_0b", ""), 300), bytes);
    assert_int_equal(file_put("resp_0c.response", finished("resp_0c", ""), 200), bytes);
    assert_int_equal(load(2 * bytes), 0);
    assert_true(finds("resp_0b") && finds("resp_0c") && !finds("resp_0a"));
    assert_false(exists("resp_0a.response"));
    assert_int_equal(response_store_file_bytes(store), 2 * bytes);
}

static void a_long_conversation_is_restored(void **state)
{
    (void)state;
    char id[32], previous[32] = "", name[48];
    enum { LENGTH = 500 };
    for (int i = 0; i < LENGTH; i++) {
        snprintf(id, sizeof id, "resp_%04x", (unsigned)(i * 7919 % 65536));
        snprintf(name, sizeof name, "%s.response", id);
        file_put(name, finished(id, previous), 1000 - i);
        strcpy(previous, id);
    }
    assert_int_equal(load(MANY_BYTES), 0);
    struct response_record *last = response_store_find(store, &owner, id);
    int length = 0;
    for (const struct response_record *at = last; at; at = response_record_previous(at))
        length++;
    assert_int_equal(length, LENGTH);
    response_record_release(last);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(conversations_are_restored),
        TEST(hidden_responses_live_as_long_as_one_continues_them),
        TEST(unfinished_ones_are_returned_oldest_first),
        TEST(every_cut_and_changed_file_is_removed_alone),
        TEST(a_file_under_another_name_is_removed),
        TEST(what_is_no_regular_file_is_left_alone),
        TEST(incomplete_conversations_are_removed),
        TEST(the_newest_files_within_the_limit_are_loaded),
        TEST(a_long_conversation_is_restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
