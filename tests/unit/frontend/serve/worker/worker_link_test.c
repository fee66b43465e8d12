/*
 * The link against a peer that this test plays itself, honest and lying: what is submitted arrives
 * whole, what is not a possible event ends the link, payloads go back exactly once.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/base/shared_bytes.h"
#include "frontend/serve/worker/worker_link.h"
#include "proto/submit_payload.h"
#include "shm/payload_slab.h"
#include "shm/segment.h"
#include "tests/support/tiny_tokenizer.h"

static struct event_base *base;
static struct worker_link *link_under_test;
static struct segment peer;
static struct spsc_ring peer_submits;
static struct spsc_ring peer_events;
static struct doorbell peer_bell;

static uint32_t events_seen;
static uint32_t batches_seen;
static uint32_t bells_heard;
static uint32_t corruptions_seen;
static struct token_event last_event;
static enum result verdict;

#define WORKER_INDEX 3
#define VOCAB        1000

static enum result on_event(void *context, uint32_t worker, const struct token_event *event)
{
    (void)context;
    assert_int_equal(worker, WORKER_INDEX);
    events_seen++;
    last_event = *event;
    return verdict;
}

static void on_bell(void *context)
{
    (void)context;
    bells_heard++;
}

static void on_batch_end(void *context)
{
    (void)context;
    batches_seen++;
}

static void on_corrupt(void *context, const char *why)
{
    (void)context;
    assert_true(strlen(why) > 0);
    corruptions_seen++;
}

static int setup(void **state)
{
    (void)state;
    struct error_text error;
    base = event_base_new();
    struct worker_link_config config = {
        .base = base,
        .generation = 1,
        .live_requests = 4,
        .slab_bytes = 1u << 20,
        .worker = WORKER_INDEX,
        .owner = {.listener = {.event = on_event, .batch_end = on_batch_end},
                  .bell = on_bell,
                  .corrupt = on_corrupt}};
    assert_int_equal(worker_link_create(&config, &link_under_test, &error), RESULT_OK);
    worker_link_set_vocab(link_under_test, VOCAB);
    struct worker_link_fds fds = worker_link_fds(link_under_test);
    assert_int_equal(segment_attach(dup(fds.segment), &peer, &error), RESULT_OK);
    spsc_ring_attach_consumer(&peer_submits, peer.submit_shared, peer.submit_records,
                              sizeof(struct submit_record), peer.submit_capacity);
    spsc_ring_attach_producer(&peer_events, peer.event_shared, peer.event_records,
                              sizeof(struct token_event), peer.event_capacity);
    peer_bell = (struct doorbell){.shared = peer.event_bell, .event_fd = fds.event_bell};
    events_seen = batches_seen = bells_heard = corruptions_seen = 0;
    verdict = RESULT_OK;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    segment_detach(&peer);
    worker_link_destroy(link_under_test);
    event_base_free(base);
    return 0;
}

static void turn(void)
{
    for (int i = 0; i < 5; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

static void peer_says(const struct token_event *event)
{
    void *place;
    assert_int_equal(spsc_ring_claim(&peer_events, &place), RESULT_OK);
    memcpy(place, event, sizeof *event);
}

static void peer_commits(void)
{
    spsc_ring_commit(&peer_events);
    doorbell_ring(&peer_bell);
    turn();
}

static struct submit_record peer_hears(void)
{
    const void *record;
    struct submit_record copy;
    assert_int_equal(spsc_ring_peek(&peer_submits, &record), RESULT_OK);
    memcpy(&copy, record, sizeof copy);
    spsc_ring_release(&peer_submits);
    return copy;
}

static uint32_t prompt_ids[3] = {7, 8, 9};
static struct logit_bias_entry biases[1] = {{.token = 5, .bias = -1.5f}};
static const struct model_assets assets = {.stop_ids = {2, 3}, .stop_id_count = 2};

static const struct token_list nothing_yet;

static enum result submit_after(uint32_t slot, const struct token_list *generated)
{
    struct prepared_generation prepared = {.request = {.sampling = sampling_params_default(),
                                                       .logit_bias = biases,
                                                       .logit_bias_count = 1},
                                           .prompt = {.ids = prompt_ids, .count = 3},
                                           .max_new_tokens = 11};
    return worker_link_submit(link_under_test, (struct request_id){slot, 1}, &prepared, generated,
                              0, &assets);
}

static enum result submit(uint32_t slot)
{
    return submit_after(slot, &nothing_yet);
}

static void a_submit_arrives_with_its_payload(void **state)
{
    (void)state;
    assert_int_equal(submit(2), RESULT_OK);
    struct submit_record record = peer_hears();
    struct error_text error;
    assert_int_equal(submit_record_check(&record, peer.slab_bytes, &error), RESULT_OK);
    assert_int_equal(record.kind, SUBMIT_RUN);
    assert_int_equal(record.request.slot, 2);
    assert_int_equal(record.run.max_new_tokens, 11);
    const void *payload;
    assert_int_equal(payload_view(peer.slab, peer.slab_bytes, record.payload_offset,
                                  record.payload_bytes, record.payload_generation, &payload),
                     RESULT_OK);
    const uint32_t expected[5] = {7, 8, 9, 2, 3};
    assert_memory_equal(payload, expected, sizeof expected);
    assert_memory_equal((const uint8_t *)payload + sizeof expected, biases, sizeof biases);
}

static void a_replay_goes_on_behind_what_was_generated(void **state)
{
    (void)state;
    uint32_t ids[2] = {21, 22};
    struct token_list generated = {.ids = ids, .count = 2};
    assert_int_equal(submit_after(1, &generated), RESULT_OK);
    struct submit_record record = peer_hears();
    struct error_text error;
    assert_int_equal(submit_record_check(&record, peer.slab_bytes, &error), RESULT_OK);
    assert_int_equal(record.run.prompt_tokens, 5);
    assert_int_equal(record.run.generated_tokens, 2);
    assert_int_equal(record.run.max_new_tokens, 9); /* of 11 */
    const void *payload;
    assert_int_equal(payload_view(peer.slab, peer.slab_bytes, record.payload_offset,
                                  record.payload_bytes, record.payload_generation, &payload),
                     RESULT_OK);
    const uint32_t expected[7] = {7, 8, 9, 21, 22, 2, 3};
    assert_memory_equal(payload, expected, sizeof expected);
    assert_memory_equal((const uint8_t *)payload + sizeof expected, biases, sizeof biases);
}

/* However often it is asked for, one reset is in the ring until the worker says that it is done. */
static void resets_are_one_until_they_are_done(void **state)
{
    (void)state;
    assert_false(worker_link_reset_is_pending(link_under_test));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(worker_link_reset_cache(link_under_test), RESULT_OK);
    assert_int_equal(peer_hears().kind, SUBMIT_RESET);
    assert_true(worker_link_reset_is_pending(link_under_test));
    atomic_store(&peer.gauges->prefix_resets_total, 1);
    assert_false(worker_link_reset_is_pending(link_under_test));
    assert_int_equal(worker_link_reset_cache(link_under_test), RESULT_OK);
    assert_int_equal(worker_link_reset_cache(link_under_test), RESULT_OK);
    assert_int_equal(worker_link_drain(link_under_test), RESULT_OK);
    assert_int_equal(peer_hears().kind, SUBMIT_RESET);
    assert_int_equal(peer_hears().kind, SUBMIT_DRAIN);
}

/* The record before the first one with a grammar: the bytes of all tokens that text can have. */
static void check_vocabulary(const struct tokenizer *tokenizer)
{
    struct submit_record record = peer_hears();
    assert_int_equal(record.kind, SUBMIT_VOCABULARY);
    assert_int_equal(submit_record_check(&record, peer.slab_bytes, NULL), RESULT_OK);
    const void *payload;
    assert_int_equal(payload_view(peer.slab, peer.slab_bytes, record.payload_offset,
                                  record.payload_bytes, record.payload_generation, &payload),
                     RESULT_OK);
    void *copy = malloc(record.payload_bytes);
    memcpy(copy, payload, record.payload_bytes);
    struct token_table table = token_table_place(&record.vocabulary, copy);
    assert_int_equal(token_table_check(&record.vocabulary, &table, NULL), RESULT_OK);
    assert_int_equal(record.vocabulary.token_count, VOCAB);
    assert_int_equal(record.vocabulary.end_count, 2);
    assert_int_equal(table.end_tokens[1], 3);
    for (uint32_t id = 0; id < VOCAB; id++) {
        const char *bytes;
        size_t length;
        tokenizer_token_bytes(tokenizer, id, &bytes, &length);
        if (tokenizer_is_special(tokenizer, id))
            length = 0;
        assert_int_equal(table.offsets[id + 1] - table.offsets[id], length);
        assert_memory_equal(table.text + table.offsets[id], bytes, length);
    }
    free(copy);
}

/* The marks of thinking and the prefix travel behind all else; a replay counts what was generated
 * against the whole answer. */
static void what_is_forced_and_told_arrives(void **state)
{
    (void)state;
    uint32_t forced_ids[6] = {31, 32, 41, 51, 52, 53};
    uint32_t generated_ids[1] = {21};
    struct token_list generated = {.ids = generated_ids, .count = 1};
    struct shared_bytes *grammar = shared_bytes_create("blob.", 5);
    struct prepared_generation prepared = {.request = {.sampling = sampling_params_default(),
                                                       .min_tokens = 6,
                                                       .ignore_end = true,
                                                       .logprobs = true,
                                                       .top_logprobs = 4,
                                                       .no_prefix_cache = true,
                                                       .no_speculation = true,
                                                       .grammar = grammar,
                                                       .grammar_start = GRAMMAR_AFTER_REASONING,
                                                       .cache_salt = {{61, 62, 63, 64}}},
                                           .prompt = {.ids = prompt_ids, .count = 3},
                                           .forced = {.ids = forced_ids,
                                                      .prefix_count = 2,
                                                      .think_start_count = 1,
                                                      .think_end_count = 3,
                                                      .thinking_open = true,
                                                      .has_thinking_budget = true,
                                                      .thinking_budget = 77},
                                           .max_new_tokens = 11};
    struct model_assets own = assets;
    own.tokenizer = tiny_tokenizer_open();
    assert_int_equal(worker_link_submit(link_under_test, (struct request_id){1, 1}, &prepared,
                                        &generated, 0, &own),
                     RESULT_OK);
    check_vocabulary(own.tokenizer);
    struct submit_record record = peer_hears();
    struct error_text error;
    assert_int_equal(submit_record_check(&record, peer.slab_bytes, &error), RESULT_OK);
    assert_int_equal(record.run.flags, SUBMIT_FLAG_ALL);
    assert_int_equal(record.run.cache_salt[0], 61);
    assert_int_equal(record.run.cache_salt[3], 64);
    assert_int_equal(record.run.min_tokens, 6);
    assert_int_equal(record.run.top_logprobs, 4);
    assert_int_equal(record.run.score_from, 0);
    assert_int_equal(record.run.score_top, 0);
    assert_int_equal(record.run.thinking_budget, 77);
    assert_int_equal(record.run.prefix_count, 2);
    assert_int_equal(record.run.think_start_count, 1);
    assert_int_equal(record.run.think_end_count, 3);
    const void *payload;
    assert_int_equal(payload_view(peer.slab, peer.slab_bytes, record.payload_offset,
                                  record.payload_bytes, record.payload_generation, &payload),
                     RESULT_OK);
    const uint32_t expected[12] = {7, 8, 9, 21, 2, 3, 31, 32, 41, 51, 52, 53};
    assert_int_equal(record.run.grammar_bytes, 5);
    assert_int_equal(record.payload_bytes, sizeof expected + 5);
    assert_memory_equal(payload, expected, sizeof expected);
    assert_memory_equal((const char *)payload + sizeof expected, "blob.", 5);
    assert_int_equal(worker_link_submit(link_under_test, (struct request_id){2, 1}, &prepared,
                                        &generated, 0, &own),
                     RESULT_OK);
    assert_int_equal(peer_hears().kind, SUBMIT_RUN); /* the vocabulary came once */
    tokenizer_close(own.tokenizer);
    shared_bytes_release(grammar);
}

static void missing_scores_are_asked_for(void **state)
{
    (void)state;
    struct token_list generated = {0};
    struct prepared_generation prepared = {.request = {.sampling = sampling_params_default(),
                                                       .scores_prompt = true,
                                                       .top_prompt_logprobs = 5},
                                           .prompt = {.ids = prompt_ids, .count = 3},
                                           .max_new_tokens = 11};
    for (uint32_t scored = 0; scored < 3; scored++) {
        assert_int_equal(worker_link_submit(link_under_test, (struct request_id){1, 1}, &prepared,
                                            &generated, scored, &assets),
                         RESULT_OK);
        struct submit_record record = peer_hears();
        assert_int_equal(submit_record_check(&record, peer.slab_bytes, NULL), RESULT_OK);
        assert_int_equal(record.run.score_from, scored < 2 ? scored + 1 : 0);
        assert_int_equal(record.run.score_top, scored < 2 ? 5 : 0);
    }
}

/* Twice, as to a second worker after the first one's death. */
static void images_follow_the_other_sections(void **state)
{
    (void)state;
    uint32_t own_ids[6] = {7, 8, 8, 8, 8, 9};
    struct image_budget budget = {.most_bytes = 4096};
    struct image_record wanted = {.content_hash = {1},
                                  .width = 8,
                                  .height = 8,
                                  .tiles = 1,
                                  .first_token = 1,
                                  .span_tokens = 4,
                                  .token_count = 4,
                                  .scale = {1, 1, 1}};
    struct prepared_generation prepared = {.request = {.sampling = sampling_params_default()},
                                           .prompt = {.ids = own_ids, .count = 6},
                                           .max_new_tokens = 5};
    assert_int_equal(image_set_create(&wanted, 1, &budget, &prepared.images), RESULT_OK);
    memset(image_set_pixels(prepared.images, 0), 77, 8 * 8 * 3);
    for (uint32_t generated_tokens = 0; generated_tokens < 2; generated_tokens++) {
        uint32_t generated_ids[1] = {21};
        struct token_list generated = {.ids = generated_ids, .count = generated_tokens};
        struct error_text error;
        const void *payload;
        assert_int_equal(worker_link_submit(link_under_test, (struct request_id){1, 1}, &prepared,
                                            &generated, 0, &assets),
                         RESULT_OK);
        struct submit_record record = peer_hears();
        assert_int_equal(submit_record_check(&record, peer.slab_bytes, &error), RESULT_OK);
        assert_int_equal(record.run.image_count, 1);
        assert_int_equal(payload_view(peer.slab, peer.slab_bytes, record.payload_offset,
                                      record.payload_bytes, record.payload_generation, &payload),
                         RESULT_OK);
        const uint8_t *part = (const uint8_t *)payload +
                              submit_payload_span(&record.run, SUBMIT_IMAGES, SUBMIT_IMAGES).offset;
        struct image_record heard;
        memcpy(&heard, part, sizeof heard);
        assert_int_equal(image_record_check(&heard, 1, 6, record.run.image_bytes, &error),
                         RESULT_OK);
        assert_int_equal(heard.first_token, 1);
        for (uint64_t i = 0; i < heard.pixels_bytes; i++)
            assert_int_equal(part[heard.pixels_offset + i], 77);
    }
    image_set_release(prepared.images);
    assert_int_equal(budget.used_bytes, 0);
}

static void a_bell_without_events_is_heard(void **state)
{
    (void)state;
    doorbell_ring(&peer_bell);
    turn();
    assert_int_equal(bells_heard, 1);
    assert_int_equal(batches_seen, 0);
    peer_says(&(struct token_event){.kind = TOKEN_EVENT_TOKEN, .token = 1});
    peer_commits(); /* and it works again */
    assert_int_equal(events_seen, 1);
}

static void the_roster_of_a_dead_worker_is_read(void **state)
{
    (void)state;
    struct step_roster_copy roster;
    worker_link_read_roster(link_under_test, &roster);
    assert_true(step_roster_copy_is_empty(&roster));
    step_roster_add(peer.roster, 3);
    step_roster_add(peer.roster, LIMIT_LIVE_REQUESTS - 1);
    worker_link_read_roster(link_under_test, &roster);
    assert_true(step_roster_copy_has(&roster, 3));
    assert_true(step_roster_copy_has(&roster, LIMIT_LIVE_REQUESTS - 1));
    assert_false(step_roster_copy_has(&roster, 4));
    step_roster_clear(peer.roster);
    worker_link_read_roster(link_under_test, &roster);
    assert_true(step_roster_copy_is_empty(&roster));
}

static void a_payload_goes_back_once(void **state)
{
    (void)state;
    assert_int_equal(submit(0), RESULT_OK);
    assert_true(worker_link_slab_used_bytes(link_under_test) > 0);
    struct submit_record record = peer_hears();
    struct token_event done = {.kind = TOKEN_EVENT_PAYLOAD_DONE,
                               .request = record.request,
                               .payload_offset = record.payload_offset,
                               .payload_generation = record.payload_generation};
    peer_says(&done);
    peer_commits();
    assert_int_equal(worker_link_slab_used_bytes(link_under_test), 0);
    assert_int_equal(events_seen, 0);
    assert_int_equal(batches_seen, 1);
    peer_says(&done);
    peer_commits();
    assert_int_equal(corruptions_seen, 1);
}

static void all_events_of_a_wake_up_are_one_batch(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        peer_says(&(struct token_event){
            .kind = TOKEN_EVENT_TOKEN, .token = i, .index = i, .logprob = -1});
    peer_commits();
    assert_int_equal(events_seen, 100);
    assert_int_equal(batches_seen, 1);
    assert_int_equal(last_event.token, 99);
    peer_says(&(struct token_event){.kind = TOKEN_EVENT_FINISHED, .finish = FINISH_LENGTH});
    peer_commits(); /* the bell works again */
    assert_int_equal(events_seen, 101);
}

static void an_impossible_event_ends_the_link(void **state)
{
    (void)state;
    peer_says(&(struct token_event){.kind = TOKEN_EVENT_TOKEN, .token = 1000});
    peer_says(&(struct token_event){.kind = TOKEN_EVENT_TOKEN, .token = 1});
    peer_commits();
    assert_int_equal(corruptions_seen, 1);
    assert_int_equal(events_seen, 0);
    assert_int_equal(submit(0), RESULT_CORRUPT);
    worker_link_take_rest(link_under_test);
    assert_int_equal(events_seen, 0);
}

static void an_event_that_its_request_denies_ends_the_link(void **state)
{
    (void)state;
    verdict = RESULT_CORRUPT;
    peer_says(&(struct token_event){.kind = TOKEN_EVENT_TOKEN, .token = 1});
    peer_commits();
    assert_int_equal(corruptions_seen, 1);
}

static enum result refuse_event(void *context, uint32_t worker, const struct token_event *event)
{
    (void)context;
    (void)worker;
    (void)event;
    return RESULT_CORRUPT;
}

/* As a standby's link, whose owner takes no events before it serves. */
static void events_go_to_the_owner_of_the_time(void **state)
{
    (void)state;
    const struct worker_link_owner refuses = {
        .listener = {.event = refuse_event, .batch_end = on_batch_end},
        .bell = on_bell,
        .corrupt = on_corrupt};
    peer_says(&(struct token_event){.kind = TOKEN_EVENT_TOKEN, .token = 1});
    peer_commits();
    assert_int_equal(events_seen, 1);
    worker_link_set_owner(link_under_test, &refuses);
    peer_says(&(struct token_event){.kind = TOKEN_EVENT_TOKEN, .token = 1});
    peer_commits();
    assert_int_equal(events_seen, 1);
    assert_int_equal(corruptions_seen, 1);
}

static void an_impossible_ring_count_ends_the_link(void **state)
{
    (void)state;
    atomic_store(&peer.event_shared->tail, 0x80000000u);
    doorbell_ring(&peer_bell);
    turn();
    assert_int_equal(corruptions_seen, 1);
}

static void what_a_dead_worker_published_is_still_taken(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        peer_says(&(struct token_event){.kind = TOKEN_EVENT_TOKEN, .token = i, .index = i});
    spsc_ring_commit(&peer_events);
    worker_link_take_rest(link_under_test);
    assert_int_equal(events_seen, 3);
    assert_int_equal(batches_seen, 1);
}

static void the_submit_ring_holds_all_that_may_be_outstanding(void **state)
{
    (void)state;
    for (uint32_t slot = 0; slot < 4; slot++) {
        struct request_id id = {slot, 1};
        assert_int_equal(worker_link_cancel(link_under_test, id), RESULT_OK);
        assert_int_equal(submit(slot), RESULT_OK);
        assert_int_equal(worker_link_cancel(link_under_test, id), RESULT_OK);
    }
    assert_int_equal(worker_link_drain(link_under_test), RESULT_OK);
}

static void a_full_slab_says_so_and_an_impossible_prompt_too(void **state)
{
    (void)state;
    static uint32_t many[100000];
    struct prepared_generation prepared = {.request = {.sampling = sampling_params_default()},
                                           .prompt = {.ids = many, .count = 100000},
                                           .max_new_tokens = 1};
    struct request_id id = {0, 1};
    assert_int_equal(worker_link_submit(link_under_test, id, &prepared, &nothing_yet, 0, &assets),
                     RESULT_OK);
    assert_int_equal(worker_link_submit(link_under_test, id, &prepared, &nothing_yet, 0, &assets),
                     RESULT_OK);
    assert_int_equal(worker_link_submit(link_under_test, id, &prepared, &nothing_yet, 0, &assets),
                     RESULT_FULL);
    prepared.prompt.count = 300000;
    assert_int_equal(worker_link_submit(link_under_test, id, &prepared, &nothing_yet, 0, &assets),
                     RESULT_TOO_LARGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_submit_arrives_with_its_payload),
        TEST(a_replay_goes_on_behind_what_was_generated),
        TEST(resets_are_one_until_they_are_done),
        TEST(what_is_forced_and_told_arrives),
        TEST(missing_scores_are_asked_for),
        TEST(a_bell_without_events_is_heard),
        TEST(the_roster_of_a_dead_worker_is_read),
        TEST(a_payload_goes_back_once),
        TEST(all_events_of_a_wake_up_are_one_batch),
        TEST(an_impossible_event_ends_the_link),
        TEST(an_event_that_its_request_denies_ends_the_link),
        TEST(events_go_to_the_owner_of_the_time),
        TEST(an_impossible_ring_count_ends_the_link),
        TEST(what_a_dead_worker_published_is_still_taken),
        TEST(the_submit_ring_holds_all_that_may_be_outstanding),
        TEST(images_follow_the_other_sections),
        TEST(a_full_slab_says_so_and_an_impossible_prompt_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
