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
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/http/api_keys.h"

static enum result create(const char *const given[], size_t count, const char *path,
                          struct api_keys **keys, struct error_text *error)
{
    return api_keys_create(
        &(struct api_keys_config){.given = given, .given_count = count, .path = path}, keys, error);
}

static bool admits_to(const struct api_keys *keys, const char *headers, struct client_key *client,
                      struct client_rights *rights)
{
    char request[2048];
    struct http_parser parser = {0};
    http_parser_begin(&parser, sizeof request, 0);
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", headers);
    assert_int_equal(http_parser_feed(&parser, request, strlen(request)), strlen(request));
    assert_int_equal(parser.state, HTTP_PARSER_DONE);
    bool admitted = api_keys_admit(keys, &parser, client, rights);
    http_parser_fini(&parser);
    return admitted;
}

static bool admits_as(const struct api_keys *keys, const char *headers, struct client_key *client)
{
    struct client_rights rights;
    return admits_to(keys, headers, client, &rights);
}

static bool admits_with(const struct api_keys *keys, const char *headers,
                        struct client_rights *rights)
{
    struct client_key client;
    return admits_to(keys, headers, &client, rights);
}

static bool admits(const struct api_keys *keys, const char *headers)
{
    struct client_key client;
    return admits_as(keys, headers, &client);
}

static void a_digest_stands_for_its_key(void **state)
{
    (void)state;
    /* printf sk-1 | sha256sum */
    static const char wanted[] =
        "sha256:0f2c10bf3d128c719c6bfa4ecbae94b7fceebaea6e4438fef38a90e5acc326f3";
    struct error_text error;
    struct api_keys *keys;
    char text[API_KEY_DIGEST_BYTES], again[API_KEY_DIGEST_BYTES], header[256];
    api_keys_hide("sk-1", text);
    assert_string_equal(text, wanted);
    api_keys_hide(text, again);
    assert_string_equal(again, wanted);
    const char *given[] = {text};
    assert_int_equal(create(given, 1, NULL, &keys, &error), RESULT_OK);
    assert_true(admits(keys, "x-api-key: sk-1\r\n"));
    snprintf(header, sizeof header, "x-api-key: %s\r\n", text);
    assert_false(admits(keys, header)); /* the digest itself is no key */
    api_keys_destroy(keys);
    text[strlen(text) - 1] = 'g'; /* no digest: a key as it stands */
    assert_int_equal(create(given, 1, NULL, &keys, &error), RESULT_OK);
    snprintf(header, sizeof header, "x-api-key: %s\r\n", text);
    assert_true(admits(keys, header));
    assert_false(admits(keys, "x-api-key: sk-1\r\n"));
    api_keys_destroy(keys);
}

static void a_key_identifies_its_client(void **state)
{
    (void)state;
    static const char *const given[] = {"sk-one", "sk-two"};
    static const struct client_key nobody;
    struct api_keys *keys;
    struct error_text error;
    assert_int_equal(create(given, 2, NULL, &keys, &error), RESULT_OK);
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
    assert_int_equal(create(given, 3, NULL, &keys, &error), RESULT_OK);
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
        "Authorization: Bearer_sk-one\r\n",
        "Authorization: Bearer\tsk-one\r\n",
        "Authorization: Bearersk-one\r\n",
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
    assert_int_equal(create(NULL, 0, path, &keys, &error), RESULT_OK);
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

static void attributes_follow_the_key(void **state)
{
    (void)state;
    char path[] = "build/api_keys_test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    file_write(path, "plain\nroot \t admin tokens=5\n");
    char option[] = "option";
    const char *const given[] = {option};
    const struct api_keys_config config = {.given = given,
                                           .given_count = 1,
                                           .path = path,
                                           .defaults = {.limits = {.requests = 9, .tokens = 8}}};
    struct api_keys *keys = NULL;
    struct error_text error;
    assert_int_equal(api_keys_create(&config, &keys, &error), RESULT_OK);
    memset(option, 0, sizeof option); /* the command line is overwritten */
    assert_int_equal(api_keys_reload(keys, &error), RESULT_OK);
    static const struct {
        const char *key;
        bool admin;
        uint64_t tokens;
    } expected[] = {{"option", false, 8}, {"plain", false, 8}, {"root", true, 5}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char header[64];
        struct client_rights rights = {0};
        snprintf(header, sizeof header, "x-api-key: %s\r\n", expected[i].key);
        assert_true(admits_with(keys, header, &rights));
        assert_int_equal(rights.admin, expected[i].admin);
        assert_int_equal(rights.limits.tokens, expected[i].tokens);
        assert_int_equal(rights.limits.requests, 9);
    }
    file_write(path, "plain requests=x\n");
    assert_int_equal(api_keys_reload(keys, &error), RESULT_INVALID);
    assert_non_null(strstr(error.text, "line 1"));
    api_keys_destroy(keys);
    unlink(path);
}

static void a_file_that_others_can_read_is_refused(void **state)
{
    (void)state;
    static const mode_t open_modes[] = {0640, 0604, 0620, 0610, 0601};
    char path[] = "build/api_keys_test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    file_write(path, "one\n");
    struct api_keys *keys = NULL;
    struct error_text error;
    for (size_t i = 0; i < sizeof open_modes / sizeof open_modes[0]; i++) {
        assert_int_equal(chmod(path, open_modes[i]), 0);
        assert_int_equal(create(NULL, 0, path, &keys, &error), RESULT_INVALID);
        assert_non_null(strstr(error.text, "--allow-readable-key-file"));
        assert_null(keys);
    }
    assert_int_equal(api_keys_create(&(struct api_keys_config){.path = path, .readable_file = true},
                                     &keys, &error),
                     RESULT_OK);
    assert_true(admits(keys, "x-api-key: one\r\n"));
    api_keys_destroy(keys);
    unlink(path);
}

static void an_empty_set_of_keys_is_refused(void **state)
{
    (void)state;
    struct api_keys *keys = NULL;
    struct error_text error;
    static const char *const blank[] = {""};
    static const char *const spaced[] = {"a b"};
    assert_int_equal(create(NULL, 0, NULL, &keys, &error), RESULT_INVALID);
    assert_int_equal(create(blank, 1, NULL, &keys, &error), RESULT_INVALID);
    assert_int_equal(create(spaced, 1, NULL, &keys, &error), RESULT_INVALID);
    assert_null(strstr(error.text, "a b"));
    assert_null(keys);
}

/* A key is 1 to LIMIT_API_KEY_BYTES characters from '!' to '~'. */
static void keys_at_their_limits(void **state)
{
    (void)state;
    char text[LIMIT_API_KEY_BYTES + 2];
    char header[sizeof text + 32];
    const char *const given[] = {"!~", text};
    struct api_keys *keys = NULL;
    struct error_text error;
    memset(text, 'k', sizeof text);
    text[LIMIT_API_KEY_BYTES] = '\0';
    assert_int_equal(create(given, 2, NULL, &keys, &error), RESULT_OK);
    snprintf(header, sizeof header, "x-api-key: %s\r\n", text);
    assert_true(admits(keys, header));
    assert_true(admits(keys, "x-api-key: !~\r\n"));
    api_keys_destroy(keys);
    keys = NULL;
    text[LIMIT_API_KEY_BYTES] = 'k';
    text[LIMIT_API_KEY_BYTES + 1] = '\0';
    static const char *const bad[] = {"a b", "a\x7f", "a\x80", "\x1f"};
    for (size_t i = 0; i <= sizeof bad / sizeof bad[0]; i++) {
        const char *const pair[] = {"ok", i == 0 ? text : bad[i - 1]};
        assert_int_equal(create(pair, 2, NULL, &keys, &error), RESULT_INVALID);
        assert_non_null(strstr(error.text, "--api-key 2: an API key is 1 to "));
        assert_null(keys);
    }
}

static void keys_have_a_maximum(void **state)
{
    (void)state;
    static const char *given[LIMIT_API_KEYS + 1];
    struct api_keys *keys = NULL;
    struct error_text error;
    for (size_t i = 0; i <= LIMIT_API_KEYS; i++)
        given[i] = "same";
    assert_int_equal(create(given, LIMIT_API_KEYS + 1, NULL, &keys, &error), RESULT_TOO_LARGE);
    assert_null(keys);
    assert_int_equal(create(given, LIMIT_API_KEYS, NULL, &keys, &error), RESULT_OK);
    assert_int_equal(api_keys_count(keys), LIMIT_API_KEYS);
    api_keys_destroy(keys);
}

static void the_file_has_a_maximum(void **state)
{
    (void)state;
    static char text[LIMIT_API_KEY_FILE + 3];
    char path[] = "build/api_keys_test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t more = 0; more < 3; more++) {
        struct api_keys *keys = NULL;
        struct error_text error;
        memset(text, '\n', LIMIT_API_KEY_FILE + more);
        text[LIMIT_API_KEY_FILE + more - 1] = 'k';
        text[LIMIT_API_KEY_FILE + more] = '\0';
        file_write(path, text);
        assert_int_equal(create(NULL, 0, path, &keys, &error),
                         more == 0 ? RESULT_OK : RESULT_TOO_LARGE);
        if (more == 0)
            assert_true(admits(keys, "x-api-key: k\r\n"));
        api_keys_destroy(keys);
    }
    unlink(path);
}

/* The file then is descriptor 0. */
static void standard_input_may_be_closed(void **state)
{
    (void)state;
    char path[] = "build/api_keys_test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    file_write(path, "one\n");
    struct api_keys *keys = NULL;
    struct error_text error;
    int saved = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    enum result result = create(NULL, 0, path, &keys, &error);
    assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
    close(saved);
    assert_int_equal(result, RESULT_OK);
    assert_true(admits(keys, "x-api-key: one\r\n"));
    api_keys_destroy(keys);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_accepted_in_both_headers),
        cmocka_unit_test(a_digest_stands_for_its_key),
        cmocka_unit_test(a_key_identifies_its_client),
        cmocka_unit_test(the_file_has_one_key_per_line),
        cmocka_unit_test(attributes_follow_the_key),
        cmocka_unit_test(a_file_that_others_can_read_is_refused),
        cmocka_unit_test(an_empty_set_of_keys_is_refused),
        cmocka_unit_test(keys_at_their_limits),
        cmocka_unit_test(keys_have_a_maximum),
        cmocka_unit_test(the_file_has_a_maximum),
        cmocka_unit_test(standard_input_may_be_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
