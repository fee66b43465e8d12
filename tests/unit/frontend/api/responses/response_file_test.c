/*
 * Files of stored responses: what is written is read again; any changed or missing byte is seen;
 * contents that contradict themselves are refused although their checksum is right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/responses/response_file.h"
#include "frontend/api/responses/response_script.h"

static void item_add(struct response_items *items, const char *json, const char *prefix)
{
    response_items_begin(items);
    text_buffer_append_text(&items->text, json);
    response_items_end(items, prefix);
}

static struct response_file finished(void)
{
    struct response_file file = {.id = "resp_0a",
                                 .previous_id = "resp_0b",
                                 .client_key = {{1, 2, 3}},
                                 .status = RESPONSE_INCOMPLETE,
                                 .created_unix_s = 7,
                                 .ended_unix_s = 9};
    item_add(&file.input, "{\"type\":\"message\"}", "msg_");
    item_add(&file.input, "{\"id\":\"x\",\"type\":\"reasoning\"}", NULL);
    item_add(&file.output, "{\"id\":\"msg_0ao0000\"}", NULL);
    text_buffer_append_text(&file.fields, ",\"model\":\"m\"");
    text_buffer_append_text(&file.outcome, ",\"error\":null");
    response_script_append(&file.script, &(struct response_step){.kind = STEP_STARTED});
    response_script_append(
        &file.script,
        &(struct response_step){.kind = STEP_CONTENT, .text = "caf\xc3\xa9", .text_bytes = 5});
    return file;
}

static struct response_file unfinished(void)
{
    struct response_file file = {.id = "resp_0c",
                                 .status = RESPONSE_QUEUED,
                                 .created_unix_s = 7,
                                 .random_seed = 12345678901234567u,
                                 .asked_unix_s = 8,
                                 .cache_salt = {{1, 2, 3, 4}}};
    text_buffer_append_text(&file.body, "{\"input\":\"hi\"}");
    text_buffer_append_text(&file.model_id, "m");
    return file;
}

static void assert_text(const struct text_buffer *a, const struct text_buffer *b)
{
    assert_int_equal(a->length, b->length);
    if (a->length > 0)
        assert_memory_equal(a->bytes, b->bytes, a->length);
}

static void assert_items(const struct response_items *a, const struct response_items *b)
{
    assert_text(&a->text, &b->text);
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->spans[i].start, b->spans[i].start);
        assert_int_equal(a->spans[i].bytes, b->spans[i].bytes);
        assert_ptr_equal(a->spans[i].prefix,
                         b->spans[i].prefix ? response_item_prefix("message") : NULL);
    }
}

static void assert_read_again(struct response_file file)
{
    struct text_buffer bytes = {0};
    struct response_file read;
    struct error_text error;
    response_file_encode(&file, &bytes);
    assert_int_equal(bytes.length, response_file_bytes(&file));
    assert_int_equal(response_file_decode(bytes.bytes, bytes.length, &read, &error), RESULT_OK);
    assert_string_equal(read.id, file.id);
    assert_string_equal(read.previous_id, file.previous_id);
    assert_memory_equal(&read.client_key, &file.client_key, sizeof file.client_key);
    assert_memory_equal(&read.cache_salt, &file.cache_salt, sizeof file.cache_salt);
    assert_int_equal(read.status, file.status);
    assert_int_equal(read.created_unix_s, file.created_unix_s);
    assert_int_equal(read.ended_unix_s, file.ended_unix_s);
    assert_int_equal(read.asked_unix_s, file.asked_unix_s);
    assert_int_equal(read.random_seed, file.random_seed);
    assert_items(&read.input, &file.input);
    assert_items(&read.output, &file.output);
    assert_text(&read.fields, &file.fields);
    assert_text(&read.outcome, &file.outcome);
    assert_text(&read.script, &file.script);
    assert_text(&read.body, &file.body);
    assert_text(&read.model_id, &file.model_id);
    response_file_fini(&read);
    response_file_fini(&file);
    text_buffer_fini(&bytes);
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    assert_read_again(finished());
    assert_read_again(unfinished());
}

static void every_changed_byte_and_every_cut_is_seen(void **state)
{
    (void)state;
    struct response_file file = finished(), read;
    struct text_buffer bytes = {0};
    struct error_text error;
    response_file_encode(&file, &bytes);
    for (size_t i = 0; i < bytes.length; i++) {
        bytes.bytes[i] ^= 0x20;
        enum result result = response_file_decode(bytes.bytes, bytes.length, &read, &error);
        assert_int_equal(result, i >= 8 && i < 12 ? RESULT_UNSUPPORTED : RESULT_CORRUPT);
        bytes.bytes[i] ^= 0x20;
        assert_int_equal(response_file_decode(bytes.bytes, i, &read, &error), RESULT_CORRUPT);
    }
    text_buffer_append(&bytes, "", 1);
    assert_int_equal(response_file_decode(bytes.bytes, bytes.length, &read, &error),
                     RESULT_CORRUPT);
    response_file_fini(&file);
    text_buffer_fini(&bytes);
}

static void assert_refused(struct response_file file)
{
    struct response_file read;
    struct text_buffer bytes = {0};
    struct error_text error;
    response_file_encode(&file, &bytes);
    assert_int_equal(response_file_decode(bytes.bytes, bytes.length, &read, &error),
                     RESULT_CORRUPT);
    assert_string_equal(error.text, "it contradicts itself");
    assert_null(read.fields.bytes);
    response_file_fini(&file);
    text_buffer_fini(&bytes);
}

static void contents_that_contradict_themselves_are_refused(void **state)
{
    (void)state;
    struct response_file file;
    file = finished(), strcpy(file.id, "resp_X"), assert_refused(file);
    file = finished(), strcpy(file.id, "resp_"), assert_refused(file);
    file = finished(), strcpy(file.previous_id, "../../x"), assert_refused(file);
    file = finished(), file.status = (enum response_status)6, assert_refused(file);
    file = finished(), file.status = RESPONSE_QUEUED, assert_refused(file); /* without a body */
    file = finished(), file.input.spans[0].bytes--, assert_refused(file);
    file = finished(), file.input.spans[1].start++, assert_refused(file);
    file = finished(), file.input.spans[1].bytes = SIZE_MAX, assert_refused(file);
    file = finished(), file.input.spans[0].prefix = NULL, assert_refused(file);
    file = finished(), file.input.spans[0].prefix = "abc_", assert_refused(file);
    file = finished(), file.input.count = 1, assert_refused(file);
    file = finished(), file.fields.bytes[1] = '\xff', assert_refused(file);
    file = finished(), file.fields.bytes[1] = '\0', assert_refused(file);
    file = finished(), file.script.bytes[0] = 99, assert_refused(file);
    file = finished(), file.script.length--, assert_refused(file);
    file = finished(), text_buffer_append_text(&file.body, "{}"), assert_refused(file);
    file = unfinished(), text_buffer_append_text(&file.outcome, ",\"a\":1"), assert_refused(file);
    file = unfinished(), file.body.length = 0, assert_refused(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(every_changed_byte_and_every_cut_is_seen),
        cmocka_unit_test(contents_that_contradict_themselves_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
