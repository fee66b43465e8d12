/*
 * Which requests have a valid key: both headers, every form, and near misses.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/http/api_keys.h"

static bool admits_as(const struct api_keys *keys, const char *headers, struct client_key *client)
{
    char request[2048];
    struct http_parser parser = {0};
    http_parser_begin(&parser, sizeof request, 0);
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", headers);
    assert_int_equal(http_parser_feed(&parser, request, strlen(request)), strlen(request));
    assert_int_equal(parser.state, HTTP_PARSER_DONE);
    bool admitted = api_keys_admit(keys, &parser, client);
    http_parser_fini(&parser);
    return admitted;
}

static bool admits(const struct api_keys *keys, const char *headers)
{
    struct client_key client;
    return admits_as(keys, headers, &client);
}

static void a_key_identifies_its_client(void **state)
{
    (void)state;
    static const char *const given[] = {"sk-one", "sk-two"};
    static const struct client_key nobody;
    struct api_keys *keys;
    struct error_text error;
    assert_int_equal(api_keys_create(given, 2, NULL, &keys, &error), RESULT_OK);
    struct client_key bearer = {{0}}, plain = {{0}}, other = {{0}}, refused = {{0}};
    assert_true(admits_as(keys, "Authorization: Bearer sk-one\r\n", &bearer));
    assert_true(admits_as(keys, "Authorization: Bearer no\r\nx-api-key: sk-one\r\n", &plain));
    assert_true(admits_as(keys, "x-api-key: sk-two\r\n", &other));
    assert_false(admits_as(keys, "x-api-key: sk-three\r\n", &refused));
    assert_memory_equal(&bearer, &plain, sizeof bearer);
    assert_memory_not_equal(&bearer, &other, sizeof bearer);
    assert_memory_not_equal(&bearer, &nobody, sizeof bearer);
    assert_memory_equal(&refused, &nobody, sizeof refused);
    api_keys_destroy(keys);
}

static void keys_are_accepted_in_both_headers(void **state)
{
    (void)state;
    static const char *const given[] = {"sk-one", "x", "sk-three"};
    struct api_keys *keys;
    struct error_text error;
    assert_int_equal(api_keys_create(given, 3, NULL, &keys, &error), RESULT_OK);
    assert_int_equal(api_keys_count(keys), 3);
    assert_true(admits(keys, "Authorization: Bearer sk-one\r\n"));
    assert_true(admits(keys, "AUTHORIZATION: BEARER   sk-three\r\n"));
    assert_true(admits(keys, "x-api-key: x\r\n"));
    assert_true(admits(keys, "X-Api-Key: sk-one\r\nAuthorization: Basic eA==\r\n"));
    assert_true(admits(keys, "x-api-key: no\r\nAuthorization: Bearer x\r\n"));
    static const char *const wrong[] = {
        "",
        "x-api-key:\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: x\r\n",
        "Authorization: Bearerx\r\n",
        "Authorization: Basic sk-one\r\n",
        "x-api-key: sk-on\r\n",
        "x-api-key: sk-one1\r\n",
        "x-api-key: Sk-one\r\n",
        "x-api-key: sk-one, x\r\n",
        "x-api-key: y\r\nx-api-key: x\r\n",
        "x-api-token: x\r\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (admits(keys, wrong[i]))
            fail_msg("admitted: %s", wrong[i]);
    }
    api_keys_destroy(keys);
}

static void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void the_file_has_one_key_per_line(void **state)
{
    (void)state;
    char path[] = "build/api_keys_test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct api_keys *keys = NULL;
    struct error_text error;
    file_write(path, "# a comment\n\n one\t\r\n  # another\ntwo"); /* no line end behind the last */
    assert_int_equal(api_keys_create(NULL, 0, path, &keys, &error), RESULT_OK);
    assert_int_equal(api_keys_count(keys), 2);
    assert_true(admits(keys, "x-api-key: one\r\n") && admits(keys, "x-api-key: two\r\n"));
    assert_false(admits(keys, "x-api-key: # a comment\r\n"));

    file_write(path, "three\n");
    assert_int_equal(api_keys_reload(keys, &error), RESULT_OK);
    assert_true(admits(keys, "x-api-key: three\r\n"));
    assert_false(admits(keys, "x-api-key: one\r\n"));

    static const struct {
        const char *text;
        enum result result;
        const char *words;
    } bad[] = {{"", RESULT_INVALID, "no API key"},
               {"ok\nnot ok\n", RESULT_INVALID, "line 2"},
               {"\n\ncaf\xc3\xa9\n", RESULT_INVALID, "line 3"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        file_write(path, bad[i].text);
        assert_int_equal(api_keys_reload(keys, &error), bad[i].result);
        assert_non_null(strstr(error.text, bad[i].words));
        assert_null(strstr(error.text, "not ok"));
        assert_true(admits(keys, "x-api-key: three\r\n"));
        assert_int_equal(api_keys_count(keys), 1);
    }
    unlink(path);
    assert_int_equal(api_keys_reload(keys, &error), RESULT_IO);
    assert_true(admits(keys, "x-api-key: three\r\n"));
    api_keys_destroy(keys);
}

static void an_empty_set_of_keys_is_refused(void **state)
{
    (void)state;
    struct api_keys *keys = NULL;
    struct error_text error;
    static const char *const blank[] = {""};
    static const char *const spaced[] = {"a b"};
    assert_int_equal(api_keys_create(NULL, 0, NULL, &keys, &error), RESULT_INVALID);
    assert_int_equal(api_keys_create(blank, 1, NULL, &keys, &error), RESULT_INVALID);
    assert_int_equal(api_keys_create(spaced, 1, NULL, &keys, &error), RESULT_INVALID);
    assert_null(strstr(error.text, "a b"));
    assert_null(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_accepted_in_both_headers),
        cmocka_unit_test(a_key_identifies_its_client),
        cmocka_unit_test(the_file_has_one_key_per_line),
        cmocka_unit_test(an_empty_set_of_keys_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
