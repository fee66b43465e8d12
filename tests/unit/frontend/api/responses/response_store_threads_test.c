/*
 * The store of responses between threads: while the loop publishes, finishes and withdraws a
 * response, readers find it, hold it and continue it.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "frontend/api/responses/response_store.h"

#define READERS  2
#define MEETINGS 100 /* of each reader with the response */

static const struct client_key nobody;
static atomic_int readers_done;

static enum result create(struct response_store *store, struct response_record *previous,
                          struct response_record **record)
{
    struct response_draft draft = {.kept = true, .previous = previous};
    response_items_begin(&draft.input);
    text_buffer_append_text(&draft.input.text, "{\"type\":\"message\"}");
    response_items_end(&draft.input, "msg_");
    return response_record_create(store, &draft, record);
}

static void *converse(void *context)
{
    struct response_store *store = context;
    struct text_buffer text = {0};
    for (int met = 0; met < MEETINGS;) {
        struct response_record *previous = response_store_find(store, &nobody, "resp_shared");
        struct response_record *record;
        if (previous && response_status_is_final(response_record_status(previous)))
            assert_int_equal(response_record_output(previous)->count, 1);
        if (previous) {
            response_record_write(previous, &text);
            met++;
        }
        text_buffer_clear(&text);
        if (create(store, previous, &record) == RESULT_OK)
            response_record_release(record);
    }
    text_buffer_fini(&text);
    atomic_fetch_add(&readers_done, 1);
    return NULL;
}

static void readers_keep_records_that_were_withdrawn(void **state)
{
    (void)state;
    struct response_store *store = response_store_create(1 << 20, 4);
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, converse, store), 0);
    while (atomic_load(&readers_done) < READERS) {
        struct response_record *record;
        struct response_outcome outcome = {.status = RESPONSE_COMPLETED};
        assert_int_equal(create(store, NULL, &record), RESULT_OK);
        response_record_publish(record, "resp_shared", 7);
        response_record_set_status(record, RESPONSE_IN_PROGRESS);
        response_items_begin(&outcome.output);
        text_buffer_append_text(&outcome.output.text, "{\"type\":\"message\"}");
        response_items_end(&outcome.output, "msg_");
        response_record_finish(record, &outcome);
        response_record_withdraw(record);
        response_record_release(record);
    }
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(response_store_bytes(store), 0);
    response_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_keep_records_that_were_withdrawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
