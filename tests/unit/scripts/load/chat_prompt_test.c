/*
 * Requests are whole and valid, data sets are read in every known form, bad requests are bad.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scripts/load/chat_prompt.h"

static const struct chat_target target = {
    .host = "h:1", .prefix = "/p", .model = "m\"", .api_key = "key", .extra_body = "\"seed\":5"};

/* The body of a request, after a look at its length. */
static const char *body_of(const struct text_buffer *request)
{
    const char *body = strstr(request->bytes, "\r\n\r\n") + 4;
    const char *length = strstr(request->bytes, "Content-Length: ");
    assert_non_null(length);
    assert_int_equal(strtoul(length + 16, NULL, 10), strlen(body));
    return body;
}

static void a_request_is_whole(void **state)
{
    (void)state;
    struct load_random random;
    struct text_buffer messages = {0};
    struct text_buffer request = {0};
    load_random_init(&random, 3);
    chat_prompt_write_words(&random, 20, &messages);
    chat_prompt_write_request(&target, messages.bytes, 7, &request);
    static const char start[] = "POST /p/v1/chat/completions HTTP/1.1\r\nHost: h:1\r\n";
    assert_memory_equal(request.bytes, start, strlen(start));
    assert_non_null(strstr(request.bytes, "\r\nAuthorization: Bearer key\r\n"));
    cJSON *body = cJSON_Parse(body_of(&request));
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(body, "model")), "m\"");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(body, "stream")));
    assert_true(cJSON_IsTrue(
        cJSON_GetObjectItem(cJSON_GetObjectItem(body, "stream_options"), "include_usage")));
    assert_int_equal(cJSON_GetObjectItem(body, "max_tokens")->valueint, 7);
    assert_int_equal(cJSON_GetObjectItem(body, "seed")->valueint, 5);
    const char *words = cJSON_GetStringValue(cJSON_GetObjectItem(
        cJSON_GetArrayItem(cJSON_GetObjectItem(body, "messages"), 0), "content"));
    size_t spaces = 0;
    for (const char *at = words; *at; at++)
        spaces += *at == ' ';
    assert_int_equal(spaces, 19);
    cJSON_Delete(body);
    text_buffer_fini(&messages);
    text_buffer_fini(&request);
}

static void bad_requests_are_complete_http_or_obviously_not(void **state)
{
    (void)state;
    struct load_random random;
    load_random_init(&random, 5);
    int paths = 0;
    int lengths = 0;
    int bodies = 0;
    for (int i = 0; i < 300; i++) {
        struct text_buffer request = {0};
        chat_prompt_write_bad(&target, &random, &request);
        if (strstr(request.bytes, "/v1/nothing"))
            paths++;
        else if (strstr(request.bytes, "Content-Length: ten"))
            lengths++;
        else
            bodies += strlen(body_of(&request)) < 200;
        text_buffer_fini(&request);
    }
    assert_true(paths > 0 && lengths > 0 && bodies > 100);
    assert_int_equal(paths + lengths + bodies, 300);
}

static enum result read_dataset(const char *text, struct chat_dataset *dataset,
                                struct error_text *error)
{
    char path[] = "build/chat_prompt_test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    enum result result = chat_dataset_read(path, dataset, error);
    unlink(path);
    return result;
}

static void data_sets_have_several_forms(void **state)
{
    (void)state;
    struct chat_dataset dataset;
    struct error_text error;
    assert_int_equal(read_dataset("[{\"role\": \"user\"}]\n\n  \n{\"messages\": [1]}\n"
                                  "{\"conversation\": [2]}\r\n{\"prompt\": \"a \\\"b\\\"\"}",
                                  &dataset, &error),
                     RESULT_OK);
    assert_int_equal(dataset.count, 4);
    assert_string_equal(dataset.messages[0], "[{\"role\":\"user\"}]");
    assert_string_equal(dataset.messages[1], "[1]");
    assert_string_equal(dataset.messages[2], "[2]");
    assert_string_equal(dataset.messages[3], "[{\"role\":\"user\",\"content\":\"a \\\"b\\\"\"}]");
    chat_dataset_fini(&dataset);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",      "\n\n", "{}", "[]", "5", "{\"messages\": []}",
                                        "[1]\n["};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct chat_dataset dataset;
        struct error_text error;
        assert_int_equal(read_dataset(texts[i], &dataset, &error), RESULT_INVALID);
        assert_int_equal(dataset.count, 0);
    }
    struct chat_dataset dataset;
    struct error_text error;
    assert_int_equal(chat_dataset_read("build/no/such/file", &dataset, &error), RESULT_IO);
}

static void extra_fields_are_an_object(void **state)
{
    (void)state;
    char *inside;
    assert_int_equal(chat_prompt_check_extra("{\"a\": [1, 2], \"b\": {}}", &inside), RESULT_OK);
    assert_string_equal(inside, "\"a\":[1,2],\"b\":{}");
    free(inside);
    assert_int_equal(chat_prompt_check_extra("{ }", &inside), RESULT_OK);
    assert_null(inside);
    static const char *const texts[] = {"", "[]", "5", "{\"a\"}", "{\"a\":1", "null"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(chat_prompt_check_extra(texts[i], &inside), RESULT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_whole),
        cmocka_unit_test(bad_requests_are_complete_http_or_obviously_not),
        cmocka_unit_test(data_sets_have_several_forms),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(extra_fields_are_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
