/*
 * The store of responses: lookups, eviction, and that a conversation lives as long as a reference
 * to its end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/responses/response_store.h"

static const struct client_key nobody;

static void item_add(struct response_items *items, const char *json, const char *prefix)
{
    response_items_begin(items);
    text_buffer_append_text(&items->text, json);
    response_items_end(items, prefix);
}

static enum result create_sized(struct response_store *store, struct response_record *previous,
                                size_t bytes, struct response_record **record)
{
    struct response_draft draft = {.kept = true, .previous = previous};
    item_add(&draft.input, "{\"type\":\"message\"}", "msg_");
    while (draft.fields.length < bytes)
        text_buffer_append_text(&draft.fields, ",\"x\":1");
    return response_record_create(store, &draft, record);
}

/* Publishes a record and returns a reference. */
static struct response_record *make(struct response_store *store, struct response_record *previous,
                                    const char *id)
{
    struct response_record *record;
    assert_int_equal(create_sized(store, previous, 0, &record), RESULT_OK);
    response_record_publish(record, id, 7);
    return record;
}

static void finish(struct response_record *record, enum response_status status)
{
    struct response_outcome outcome = {.status = status};
    item_add(&outcome.output, "{\"id\":\"msg_1\",\"type\":\"message\"}", NULL);
    text_buffer_append_text(&outcome.fields, ",\"usage\":{}");
    response_record_finish(record, &outcome);
}

static bool finds(struct response_store *store, const char *id)
{
    struct response_record *record = response_store_find(store, &nobody, id);
    response_record_release(record);
    return record != NULL;
}

static void a_response_is_found_from_publish_to_delete(void **state)
{
    (void)state;
    struct response_store *store = response_store_create(1 << 20, 100);
    struct response_record *record;
    assert_int_equal(create_sized(store, NULL, 0, &record), RESULT_OK);
    assert_false(finds(store, "resp_1"));
    response_record_publish(record, "resp_1", 7);
    struct text_buffer text = {0};
    response_record_write(record, &text);
    assert_string_equal(text.bytes, "{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":7,"
                                    "\"status\":\"queued\",\"completed_at\":null,\"output\":[],"
                                    "\"error\":null,\"incomplete_details\":null,\"usage\":null}");
    response_record_set_status(record, RESPONSE_IN_PROGRESS);
    assert_int_equal(response_record_status(record), RESPONSE_IN_PROGRESS);
    finish(record, RESPONSE_INCOMPLETE);
    response_record_release(record);
    record = response_store_find(store, &nobody, "resp_1");
    assert_non_null(record);
    text_buffer_clear(&text);
    response_record_write(record, &text);
    assert_non_null(strstr(text.bytes, "\"status\":\"incomplete\",\"completed_at\":null,\"output\":"
                                       "[{\"id\":\"msg_1\",\"type\":\"message\"}],\"usage\":{}}"));
    response_record_withdraw(record);
    assert_false(finds(store, "resp_1"));
    assert_true(response_store_bytes(store) > 0);
    response_record_release(record);
    assert_int_equal(response_store_bytes(store), 0);
    text_buffer_fini(&text);
    response_store_destroy(store);
}

static void another_key_finds_nothing(void **state)
{
    (void)state;
    static const struct client_key ann = {{1}}, bob = {{2}};
    struct response_store *store = response_store_create(1 << 20, 100);
    struct response_draft draft = {.kept = true, .client_key = ann};
    struct response_record *record;
    assert_int_equal(response_record_create(store, &draft, &record), RESULT_OK);
    response_record_publish(record, "resp_1", 7);
    response_record_release(response_store_find(store, &ann, "resp_1"));
    assert_non_null(response_store_find(store, &ann, "resp_1"));
    response_record_release(record);
    assert_null(response_store_find(store, &bob, "resp_1"));
    assert_null(response_store_find(store, &nobody, "resp_1"));
    finish(record, RESPONSE_COMPLETED);
    response_record_release(record);
    response_store_destroy(store);
}

static void a_response_with_store_false_is_neither_found_nor_counted(void **state)
{
    (void)state;
    struct response_store *store = response_store_create(100, 100);
    struct response_draft draft = {.kept = false};
    struct response_record *record;
    assert_int_equal(response_record_create(store, &draft, &record), RESULT_OK);
    response_record_publish(record, "resp_1", 7);
    assert_false(finds(store, "resp_1"));
    finish(record, RESPONSE_COMPLETED);
    assert_int_equal(response_store_bytes(store), 0);
    response_record_release(record);
    response_store_destroy(store);
}

/* Bytes of one record as make() and finish() make it. */
static uint64_t usual_bytes(void)
{
    struct response_store *store = response_store_create(1 << 20, 100);
    struct response_record *record = make(store, NULL, "resp_1");
    finish(record, RESPONSE_COMPLETED);
    uint64_t bytes = response_store_bytes(store);
    response_record_release(record);
    response_store_destroy(store);
    return bytes;
}

static void the_least_recently_used_record_is_evicted(void **state)
{
    (void)state;
    for (int by_count = 0; by_count < 2; by_count++) {
        uint64_t bytes = usual_bytes();
        struct response_store *store =
            by_count ? response_store_create(1 << 20, 3) : response_store_create(3 * bytes, 100);
        for (int i = 0; i < 3; i++) {
            char id[32];
            snprintf(id, sizeof id, "resp_%d", i);
            struct response_record *record = make(store, NULL, id);
            finish(record, RESPONSE_COMPLETED);
            response_record_release(record);
        }
        assert_true(finds(store, "resp_0")); /* a look: now resp_1 is the oldest */
        struct response_record *record = make(store, NULL, "resp_3");
        finish(record, RESPONSE_COMPLETED);
        response_record_release(record);
        assert_int_equal(response_store_records(store), 3);
        assert_true(response_store_bytes(store) <= 3 * bytes);
        assert_true(finds(store, "resp_0"));
        assert_false(finds(store, "resp_1"));
        assert_true(finds(store, "resp_2"));
        assert_true(finds(store, "resp_3"));
        response_store_destroy(store);
    }
}

static void unfinished_records_are_not_evicted(void **state)
{
    (void)state;
    struct response_store *store = response_store_create(8192, 100);
    struct response_record *making[2], *other;
    assert_int_equal(create_sized(store, NULL, 9000, &other), RESULT_TOO_LARGE);
    assert_int_equal(create_sized(store, NULL, 1500, &making[0]), RESULT_OK);
    response_record_publish(making[0], "resp_0", 7);
    struct response_record *done = make(store, NULL, "resp_done");
    finish(done, RESPONSE_COMPLETED);
    response_record_release(done);
    assert_int_equal(create_sized(store, NULL, 1500, &making[1]), RESULT_OK);
    response_record_publish(making[1], "resp_1", 7);
    assert_int_equal(create_sized(store, NULL, 3000, &other), RESULT_FULL);
    assert_true(finds(store, "resp_0"));
    assert_true(finds(store, "resp_1"));
    finish(making[0], RESPONSE_COMPLETED);
    response_record_release(making[0]);
    assert_int_equal(create_sized(store, NULL, 3000, &other), RESULT_OK);
    assert_false(finds(store, "resp_0")); /* made room */
    assert_true(finds(store, "resp_1"));
    assert_true(response_store_bytes(store) <= 8192);
    response_record_release(other); /* refused before it was published */
    response_record_withdraw(making[1]);
    response_record_release(making[1]);
    assert_int_equal(response_store_bytes(store), 0);
    response_store_destroy(store);
}

static void a_continuation_keeps_the_record_it_continues(void **state)
{
    (void)state;
    struct response_store *store = response_store_create(1 << 20, 100);
    struct response_record *first = make(store, NULL, "resp_1");
    finish(first, RESPONSE_COMPLETED);
    struct response_record *second = make(store, first, "resp_2"); /* takes the reference */
    finish(second, RESPONSE_COMPLETED);
    response_record_withdraw(first);
    assert_false(finds(store, "resp_1"));
    assert_ptr_equal(response_record_previous(second), first);
    assert_int_equal(response_record_output(response_record_previous(second))->count, 1);
    response_record_withdraw(second);
    response_record_release(second); /* and with it the first */
    assert_int_equal(response_store_bytes(store), 0);
    response_store_destroy(store);
}

static void a_long_conversation_ends_without_recursion(void **state)
{
    (void)state;
    struct response_store *store = response_store_create(1ull << 32, 200000);
    struct response_record *last = NULL;
    for (int i = 0; i < 100000; i++) {
        struct response_draft draft = {.kept = true, .previous = last};
        assert_int_equal(response_record_create(store, &draft, &last), RESULT_OK);
    }
    response_record_release(last);
    assert_int_equal(response_store_bytes(store), 0);
    response_store_destroy(store);
}

static void a_record_deleted_while_unfinished_stays_deleted(void **state)
{
    (void)state;
    struct response_store *store = response_store_create(1 << 20, 100);
    struct response_record *record = make(store, NULL, "resp_1");
    response_record_withdraw(record);
    finish(record, RESPONSE_COMPLETED);
    assert_false(finds(store, "resp_1"));
    response_record_release(record);
    assert_int_equal(response_store_bytes(store), 0);
    response_store_destroy(store);
}

static void item_ids_name_their_response(void **state)
{
    (void)state;
    struct text_buffer id = {0};
    char response_id[RESPONSE_ID_BYTES];
    enum response_item_side side;
    size_t index;
    response_item_id_write("fc_", "resp_00ff", RESPONSE_OUTPUT, 12, &id);
    assert_string_equal(id.bytes, "fc_00ffo0012");
    assert_true(response_item_id_read(id.bytes, response_id, &side, &index));
    assert_string_equal(response_id, "resp_00ff");
    assert_int_equal(side, RESPONSE_OUTPUT);
    assert_int_equal(index, 12);
    static const char *const others[] = {
        "",          "msg",        "msg_",        "msg_00ff",
        "msg_00ffo", "msg_00ffx1", "msg_00ffo1x", "msg_00ffo1234567890",
        "msg_00FFo1"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(response_item_id_read(others[i], response_id, &side, &index));
    char longest[200];
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "msg_", 4);
    strcpy(longest + 190, "o1");
    assert_false(response_item_id_read(longest, response_id, &side, &index));
    text_buffer_fini(&id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_is_found_from_publish_to_delete),
        cmocka_unit_test(another_key_finds_nothing),
        cmocka_unit_test(a_response_with_store_false_is_neither_found_nor_counted),
        cmocka_unit_test(the_least_recently_used_record_is_evicted),
        cmocka_unit_test(unfinished_records_are_not_evicted),
        cmocka_unit_test(a_continuation_keeps_the_record_it_continues),
        cmocka_unit_test(a_long_conversation_ends_without_recursion),
        cmocka_unit_test(a_record_deleted_while_unfinished_stays_deleted),
        cmocka_unit_test(item_ids_name_their_response),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
