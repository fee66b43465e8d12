/*
 * Order of the waiting queue: new and requeued requests.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/engine/waiting_queue.h"

#define COUNT 6

static struct live_request requests[COUNT];

static void set_up(struct waiting_queue *queue)
{
    *queue = (struct waiting_queue){0};
    for (uint32_t i = 0; i < COUNT; i++)
        requests[i] = (struct live_request){.arrival = i};
}

static void assert_order(const struct waiting_queue *queue, const uint64_t *order, uint32_t count)
{
    const struct live_request *at = queue->first;
    const struct live_request *before = NULL;
    assert_int_equal(queue->count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(at);
        assert_int_equal(at->arrival, order[i]);
        assert_ptr_equal(at->previous_waiting, before);
        before = at;
        at = at->next_waiting;
    }
    assert_null(at);
    assert_ptr_equal(queue->last, before);
}

static void new_requests_go_to_the_end(void **state)
{
    (void)state;
    struct waiting_queue queue;
    set_up(&queue);
    for (uint32_t i = 0; i < 3; i++)
        waiting_queue_insert(&queue, &requests[i]);
    assert_order(&queue, (const uint64_t[]){0, 1, 2}, 3);
}

static void requeued_requests_get_their_places_back(void **state)
{
    (void)state;
    struct waiting_queue queue;
    set_up(&queue);
    const uint32_t order[COUNT] = {4, 5, 2, 0, 3, 1};
    for (uint32_t i = 0; i < COUNT; i++)
        waiting_queue_insert(&queue, &requests[order[i]]);
    assert_order(&queue, (const uint64_t[]){0, 1, 2, 3, 4, 5}, COUNT);
}

static void any_request_can_be_removed(void **state)
{
    (void)state;
    struct waiting_queue queue;
    set_up(&queue);
    for (uint32_t i = 0; i < 4; i++)
        waiting_queue_insert(&queue, &requests[i]);
    waiting_queue_remove(&queue, &requests[1]);
    assert_order(&queue, (const uint64_t[]){0, 2, 3}, 3);
    waiting_queue_remove(&queue, &requests[3]);
    waiting_queue_remove(&queue, &requests[0]);
    assert_order(&queue, (const uint64_t[]){2}, 1);
    waiting_queue_remove(&queue, &requests[2]);
    assert_order(&queue, NULL, 0);
    waiting_queue_insert(&queue, &requests[5]);
    assert_order(&queue, (const uint64_t[]){5}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_requests_go_to_the_end),
        cmocka_unit_test(requeued_requests_get_their_places_back),
        cmocka_unit_test(any_request_can_be_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
