/*
 * A repeated stream has the events of the first one, with calls and reasoning, from any of them on;
 * damaged scripts end it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/api/responses/responses_replay.h"
#include "frontend/api/responses/responses_writer.h"

#define ENOUGH 1000000u

static struct response_store *store;
static struct response_record *record;

static int open_record(void **state)
{
    (void)state;
    struct response_draft draft = {.kept = true};
    store = response_store_create(1 << 20, 100);
    assert_int_equal(response_record_create(store, &draft, &record), RESULT_OK);
    response_record_publish(record, "resp_0a", 7);
    return 0;
}

static int close_record(void **state)
{
    (void)state;
    response_record_withdraw(record);
    response_record_release(record);
    assert_int_equal(response_store_bytes(store), 0);
    response_store_destroy(store);
    return 0;
}

static void step(enum response_step_kind kind, const char *text, const char *more)
{
    response_record_add_step(record,
                             &(struct response_step){.kind = kind,
                                                     .text = text,
                                                     .text_bytes = text ? strlen(text) : 0,
                                                     .more = more,
                                                     .more_bytes = more ? strlen(more) : 0});
}

static void finish(enum response_status status, struct response_items *output)
{
    struct response_outcome outcome = {.status = status};
    if (output) {
        outcome.output = *output;
        *output = (struct response_items){0};
    }
    text_buffer_append_text(&outcome.fields, ",\"error\":null");
    response_record_finish(record, &outcome);
}

static void say(struct responses_writer *writer, enum reply_event_kind kind, const char *text)
{
    struct reply_event event = {.kind = kind, .bytes = text, .length = strlen(text)};
    responses_writer_take(writer, &event);
}

/* Writes an answer with reasoning, text and two calls as the format does; the caller frees. */
static void first_stream(bool summarizes, struct text_buffer *out)
{
    struct responses_writer writer;
    responses_writer_init(&writer, response_record_id(record), true, NULL);
    writer.record = record;
    writer.summarizes = summarizes;
    writer.out = out;
    response_record_set_status(record, RESPONSE_IN_PROGRESS);
    step(STEP_STARTED, NULL, NULL);
    responses_writer_tell(&writer, "created", record, RESPONSE_IN_PROGRESS);
    responses_writer_tell(&writer, "in_progress", record, RESPONSE_IN_PROGRESS);
    say(&writer, REPLY_REASONING, "Let me ");
    say(&writer, REPLY_REASONING, "see \"it\".\n");
    say(&writer, REPLY_CONTENT, "I call.");
    for (int i = 0; i < 2; i++) {
        say(&writer, REPLY_CALL_BEGIN, i ? "second" : "first");
        say(&writer, REPLY_CALL_ARGUMENTS, "{\"a\":");
        say(&writer, REPLY_CALL_ARGUMENTS, "1}");
        say(&writer, REPLY_CALL_END, "");
    }
    step(STEP_COMPLETED, NULL, NULL);
    responses_writer_end_empty(&writer);
    responses_writer_close(&writer, "completed");
    finish(RESPONSE_COMPLETED, &writer.items);
    responses_writer_tell(&writer, "completed", record, RESPONSE_COMPLETED);
    responses_writer_fini(&writer);
}

/* Without the `id:` lines, which only repeated streams have. */
static void ids_remove(struct text_buffer *out)
{
    char *line;
    while (out->bytes && (line = strstr(out->bytes, "id: "))) {
        size_t bytes = strcspn(line, "\n") + 1;
        memmove(line, line + bytes, out->length - (size_t)(line - out->bytes) - bytes + 1);
        out->length -= bytes;
    }
}

static void replay_all(uint64_t first_sequence, size_t piece_bytes, struct text_buffer *out)
{
    struct responses_replay *replay = responses_replay_create(record, first_sequence);
    enum responses_replay_state state;
    do {
        state = responses_replay_advance(replay, out->length + piece_bytes, out);
        assert_int_not_equal(state, RESPONSES_REPLAY_WAITS);
    } while (state == RESPONSES_REPLAY_MORE);
    responses_replay_destroy(replay);
    ids_remove(out);
}

static const char *event_at(const char *stream, unsigned number)
{
    for (; number > 0; number--)
        stream = strstr(stream, "\n\n") + 2;
    return stream;
}

static void every_tail_is_repeated(bool summarizes)
{
    struct text_buffer first = {0}, again = {0};
    first_stream(summarizes, &first);
    assert_int_equal(strstr(first.bytes, "response.reasoning_summary_text.done") != NULL,
                     summarizes);
    assert_int_equal(strstr(first.bytes, "response.reasoning_text.done") == NULL, summarizes);
    unsigned number = 0;
    for (const char *tail = first.bytes;; tail = event_at(first.bytes, number)) {
        text_buffer_clear(&again);
        replay_all(number, number % 2 ? 1 : ENOUGH, &again);
        assert_string_equal(again.bytes ? again.bytes : "", tail);
        if (!*tail)
            break;
        number++;
    }
    assert_int_equal(number, 26);
    text_buffer_fini(&first);
    text_buffer_fini(&again);
}

static void every_tail_of_a_stream_is_repeated(void **state)
{
    (void)state;
    every_tail_is_repeated(false);
}

static void every_tail_of_a_summary_is_repeated(void **state)
{
    (void)state;
    every_tail_is_repeated(true);
}

static void a_failure_is_repeated_with_its_code(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    step(STEP_QUEUED, NULL, NULL);
    step(STEP_FAILED, "it died", "worker_crashed");
    finish(RESPONSE_FAILED, NULL);
    replay_all(2, ENOUGH, &out);
    assert_non_null(strstr(out.bytes,
                           "event: error\ndata: {\"type\":\"error\",\"sequence_number\":2,"
                           "\"code\":\"worker_crashed\",\"message\":\"it died\""));
    assert_non_null(strstr(out.bytes, "event: response.failed\n"));
    text_buffer_fini(&out);
}

static void an_unfinished_answer_is_waited_for(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    struct responses_replay *replay = responses_replay_create(record, 0);
    assert_int_equal(responses_replay_advance(replay, ENOUGH, &out), RESPONSES_REPLAY_WAITS);
    assert_int_equal(out.length, 0);
    step(STEP_QUEUED, NULL, NULL);
    assert_int_equal(responses_replay_advance(replay, ENOUGH, &out), RESPONSES_REPLAY_WAITS);
    assert_non_null(strstr(out.bytes, "event: response.queued\n"));
    text_buffer_clear(&out);
    assert_int_equal(responses_replay_advance(replay, ENOUGH, &out), RESPONSES_REPLAY_WAITS);
    assert_int_equal(out.length, 0);
    step(STEP_CANCELLED, NULL, NULL);
    finish(RESPONSE_CANCELLED, NULL);
    assert_int_equal(responses_replay_advance(replay, ENOUGH, &out), RESPONSES_REPLAY_ENDED);
    assert_non_null(strstr(out.bytes, "event: response.incomplete\n"));
    responses_replay_destroy(replay);
    text_buffer_fini(&out);
}

static void steps_in_an_impossible_order_end_the_stream(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    step(STEP_STARTED, NULL, NULL);
    step(STEP_ARGUMENTS, "{}", NULL);
    step(STEP_CONTENT, "never", NULL);
    finish(RESPONSE_COMPLETED, NULL);
    replay_all(0, ENOUGH, &out);
    assert_null(strstr(out.bytes, "never"));
    text_buffer_fini(&out);
}

static void a_cut_script_has_no_step_beyond_its_end(void **state)
{
    (void)state;
    struct text_buffer script = {0};
    struct response_step found;
    response_script_append(
        &script,
        &(struct response_step){
            .kind = STEP_CONTENT, .text = "hello", .text_bytes = 5, .more = "{}", .more_bytes = 2});
    for (size_t length = 0; length < script.length; length++) {
        size_t offset = 0;
        assert_false(response_script_read(script.bytes, length, &offset, &found));
        assert_int_equal(offset, 0);
    }
    size_t offset = 0;
    assert_true(response_script_read(script.bytes, script.length, &offset, &found));
    assert_memory_equal(found.more, "{}", 2);
    assert_int_equal(offset, script.length);
    memset(script.bytes + 1, 0xff, 8);
    offset = 0;
    assert_false(response_script_read(script.bytes, script.length, &offset, &found));
    offset = SIZE_MAX;
    assert_false(response_script_read(script.bytes, script.length, &offset, &found));
    text_buffer_fini(&script);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_record, close_record)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_tail_of_a_stream_is_repeated),
        TEST(every_tail_of_a_summary_is_repeated),
        TEST(a_failure_is_repeated_with_its_code),
        TEST(an_unfinished_answer_is_waited_for),
        TEST(steps_in_an_impossible_order_end_the_stream),
        cmocka_unit_test(a_cut_script_has_no_step_beyond_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
