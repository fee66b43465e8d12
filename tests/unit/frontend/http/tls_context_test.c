/*
 * Which pairs of files are taken, what a failed reload leaves, and the protocol by ALPN.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/util.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/http/tls_context.h"
#include "proto/limits.h"
#include "tests/support/tls_peer.h"

static struct tls_files files;
static struct tls_context *context;
static struct error_text error;

static int setup(void **state)
{
    (void)state;
    tls_files_create(&files, NULL);
    context = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_context_destroy(context); /* may be NULL */
    tls_files_destroy(&files);
    return 0;
}

static void open_context(void)
{
    assert_int_equal(tls_context_create(files.cert, files.key, &context, &error), RESULT_OK);
}

static void assert_refused(const char *cert, const char *key, const char *why, const char *path)
{
    char start[160];
    snprintf(start, sizeof start, "%s %s: ", why, path);
    assert_int_equal(tls_context_create(cert, key, &context, &error), RESULT_INVALID);
    assert_null(context);
    assert_memory_equal(error.text, start, strlen(start));
    assert_true(strlen(error.text) > strlen(start));
}

/* Shakes hands with a client that offers `protocols` (NULL: none). The protocol chosen ("" for
 * none), or NULL if the handshake fails. */
static const char *protocol_chosen(const char *protocols)
{
    static char chosen[32];
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(evutil_make_socket_nonblocking(fds[i]), 0);
    SSL *server = tls_context_accept(context, fds[0]);
    SSL *client = tls_client_open(fds[1]);
    assert_non_null(server);
    if (protocols)
        assert_int_equal(SSL_set_alpn_protos(client, (const unsigned char *)protocols,
                                             (unsigned)strlen(protocols)),
                         0);
    int done = 0;
    for (int i = 0; i < 10 && done < 2; i++)
        done = (SSL_do_handshake(client) == 1) + (SSL_do_handshake(server) == 1);
    const unsigned char *name = NULL;
    unsigned bytes = 0;
    SSL_get0_alpn_selected(client, &name, &bytes);
    snprintf(chosen, sizeof chosen, "%.*s", (int)bytes, (const char *)name);
    SSL_free(client);
    SSL_free(server);
    close(fds[0]);
    close(fds[1]);
    return done == 2 ? chosen : NULL;
}

static void http_1_1_is_the_only_protocol(void **state)
{
    (void)state;
    open_context();
    assert_string_equal(protocol_chosen(NULL), "");
    assert_string_equal(protocol_chosen("\x08http/1.1"), "http/1.1");
    assert_string_equal(protocol_chosen("\x02h2\x08http/1.1"), "http/1.1");
    assert_null(protocol_chosen("\x02h2"));
    assert_null(protocol_chosen("\x08http/1.0"));
    assert_null(protocol_chosen("\x07http/1."));
}

static void files_that_cannot_be_used_are_named(void **state)
{
    (void)state;
    assert_refused("/nowhere/cert", files.key, "cannot use the certificate in", "/nowhere/cert");
    assert_refused(files.key, files.key, "cannot use the certificate in", files.key);
    assert_refused(files.cert, "/nowhere/key", "cannot use the key in", "/nowhere/key");
    assert_refused(files.cert, files.cert, "cannot use the key in", files.cert);
}

static void a_key_file_that_cannot_be_read_tells_why(void **state)
{
    (void)state;
    char words[160];
    assert_refused(files.cert, files.folder, "cannot use the key in", files.folder);
    snprintf(words, sizeof words, "cannot use the key in %s: it cannot be read", files.folder);
    assert_string_equal(error.text, words);
    assert_int_equal(truncate(files.key, LIMIT_TLS_KEY_FILE + 1), 0);
    assert_refused(files.cert, files.key, "cannot use the key in", files.key);
    snprintf(words, sizeof words, "cannot use the key in %s: the file is too large", files.key);
    assert_string_equal(error.text, words);
}

/* The key's file then is descriptor 0. */
static void standard_input_may_be_closed(void **state)
{
    (void)state;
    int saved = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    open_context();
    assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
    close(saved);
}

static void a_key_of_another_certificate_is_refused(void **state)
{
    (void)state;
    struct tls_files other;
    tls_files_create(&other, NULL);
    assert_refused(files.cert, other.key, "cannot use the key in", other.key);
    tls_files_destroy(&other);
}

/* Without waiting for input on a terminal. */
static void a_key_with_a_password_is_refused(void **state)
{
    (void)state;
    struct tls_files locked;
    tls_files_create(&locked, "password");
    assert_refused(locked.cert, locked.key, "cannot use the key in", locked.key);
    tls_files_destroy(&locked);
}

static void a_failed_reload_changes_nothing(void **state)
{
    (void)state;
    open_context();
    assert_int_equal(tls_context_reload(context, &error), RESULT_OK);
    assert_string_equal(protocol_chosen("\x08http/1.1"), "http/1.1");
    FILE *file = fopen(files.key, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(tls_context_reload(context, &error), RESULT_INVALID);
    assert_string_equal(protocol_chosen("\x08http/1.1"), "http/1.1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(http_1_1_is_the_only_protocol),
        TEST(files_that_cannot_be_used_are_named),
        TEST(a_key_file_that_cannot_be_read_tells_why),
        TEST(standard_input_may_be_closed),
        TEST(a_key_of_another_certificate_is_refused),
        TEST(a_key_with_a_password_is_refused),
        TEST(a_failed_reload_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
