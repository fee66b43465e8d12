/*
 * Fetching from a server on loopback: what arrives, and what never leaves this process. A child is
 * the server; it answers by path and counts what it hears in a page that both share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/image/image_fetch.h"

#define MOST 1000u

static unsigned port;
static pid_t server;
static _Atomic unsigned *heard; /* connections so far */

/* --- the server ------------------------------------------------------------------------------ */

static void say(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void say_endless_body(int fd)
{
    char block[1024];
    memset(block, 'x', sizeof block);
    say(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    while (send(fd, block, sizeof block, MSG_NOSIGNAL) > 0)
        ;
}

static void say_endless_head(int fd)
{
    say(fd, "HTTP/1.1 200 OK\r\n");
    while (send(fd, "X-Line: abcdefghijklmnopqrstuvwxyz\r\n", 36, MSG_NOSIGNAL) > 0)
        ;
}

static void redirect(int fd, const char *to)
{
    char head[300];
    snprintf(head, sizeof head,
             "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
             to);
    say(fd, head);
}

static void answer(int fd, const char *path)
{
    char other[100];
    if (strncmp(path, "/x.png", 6) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\npicture");
    else if (strncmp(path, "/chunked ", 9) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                "chunked\r\n\r\n3\r\npic\r\n4\r\nture\r\n0\r\n\r\n");
    else if (strncmp(path, "/empty ", 7) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    else if (strncmp(path, "/cut ", 5) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\npicture");
    else if (strncmp(path, "/large ", 7) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n");
    else if (strncmp(path, "/endless-body ", 14) == 0)
        say_endless_body(fd);
    else if (strncmp(path, "/endless-head ", 14) == 0)
        say_endless_head(fd);
    else if (strncmp(path, "/silent ", 8) == 0)
        (void)!recv(fd, other, sizeof other, 0);
    else if (strncmp(path, "/once ", 6) == 0)
        redirect(fd, "/x.png");
    else if (strncmp(path, "/loop ", 6) == 0)
        redirect(fd, "/loop");
    else if (strncmp(path, "/to-file ", 9) == 0)
        redirect(fd, "file:///etc/passwd");
    else if (strncmp(path, "/to-user ", 9) == 0) {
        snprintf(other, sizeof other, "http://user@127.0.0.1:%u/x.png", port);
        redirect(fd, other);
    } else if (strncmp(path, "/to-name ", 9) == 0) {
        snprintf(other, sizeof other, "http://localhost:%u/x.png", port);
        redirect(fd, other);
    } else if (strncmp(path, "/to-mapped ", 11) == 0) {
        snprintf(other, sizeof other, "http://[::ffff:127.0.0.1]:%u/x.png", port);
        redirect(fd, other);
    } else if (strncmp(path, "/to-number ", 11) == 0) {
        snprintf(other, sizeof other, "http://2130706433:%u/x.png", port);
        redirect(fd, other);
    } else {
        say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n");
    }
}

static void serve(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        char request[2000] = "";
        size_t count = 0;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            _exit(0);
        atomic_fetch_add(heard, 1);
        while (!strstr(request, "\r\n\r\n") && count < sizeof request - 1) {
            ssize_t got = recv(fd, request + count, sizeof request - 1 - count, 0);
            if (got <= 0)
                break;
            count += (size_t)got;
            request[count] = '\0';
        }
        answer(fd, strncmp(request, "GET ", 4) == 0 ? request + 4 : "");
        close(fd);
    }
}

static int setup(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    struct error_text error;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    heard = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(heard != MAP_FAILED);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    port = ntohs(address.sin_port);
    server = fork();
    if (server == 0)
        serve(listener);
    close(listener);
    return (int)image_fetch_start(&error);
}

static int teardown(void **state)
{
    (void)state;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return munmap((void *)heard, 4096);
}

/* --- asking ---------------------------------------------------------------------------------- */

struct asked {
    enum result result;
    struct file_bytes file;
    struct error_text error;
    unsigned connections;
};

/* `url` and the host that is opened have "PORT" where the port goes. */
static void fill(const char *from, char to[300])
{
    const char *mark = strstr(from, "PORT");
    if (mark)
        snprintf(to, 300, "%.*s%u%s", (int)(mark - from), from, port, mark + 4);
    else
        snprintf(to, 300, "%s", from);
}

static struct asked ask(const char *url, const char *host, bool private)
{
    struct asked asked = {0};
    char own_url[300], own_host[300];
    fill(url, own_url);
    fill(host, own_host);
    const char *const hosts[] = {own_host};
    const struct media_policy policy = {.hosts = hosts,
                                        .host_count = 1,
                                        .allows_private = private,
                                        .most_bytes = MOST,
                                        .fetch_timeout_s = strstr(url, "/silent") ? 1 : 60};
    unsigned before = atomic_load(heard);
    asked.result = image_fetch(&policy, own_url, NULL, &asked.file, &asked.error);
    asked.connections = atomic_load(heard) - before;
    return asked;
}

static void expect_image(const char *url, const char *host)
{
    struct asked asked = ask(url, host, true);
    if (asked.result != RESULT_OK)
        fail_msg("%s: %s", url, asked.error.text);
    assert_int_equal(asked.file.count, 7);
    assert_memory_equal(asked.file.bytes, "picture", 7);
    file_bytes_fini(&asked.file);
}

static void expect_refusal(const char *url, const char *host, bool private, unsigned connections,
                           enum result as, const char *says)
{
    struct asked asked = ask(url, host, private);
    if (asked.result != as || !strstr(asked.error.text, says))
        fail_msg("%s: %s, %s", url, result_name(asked.result), asked.error.text);
    assert_null(asked.file.bytes);
    assert_int_equal(asked.connections, connections);
}

#define HOST  "127.0.0.1:PORT"
#define LOCAL "http://127.0.0.1:PORT"

static void images_arrive(void **state)
{
    (void)state;
    expect_image(LOCAL "/x.png", HOST);
    expect_image(LOCAL "/x.png?a=b#c", HOST "");
    expect_image(LOCAL "/chunked", HOST);
    expect_image(LOCAL "/once", HOST);
    expect_image("HTTP://LocalHost:PORT/x.png", "localhost:PORT");
    /* Another spelling of the same four numbers is that host. */
    expect_image("http://2130706433:PORT/x.png", HOST);
    expect_image(LOCAL "/to-number", HOST);
}

static void addresses_that_are_not_public_are_not_connected_to(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {LOCAL "/x.png", HOST},
        {"http://2130706433:PORT/x.png", HOST},
        {"http://0x7f000001:PORT/x.png", HOST},
        {"http://0177.0.0.1:PORT/x.png", HOST},
        {"http://127.1:PORT/x.png", HOST},
        {"http://%31%32%37.0.0.1:PORT/x.png", HOST},
        {"http://[::ffff:127.0.0.1]:PORT/x.png", "[::ffff:127.0.0.1]:PORT"},
        {"http://[::ffff:7f00:1]:PORT/x.png", "[::ffff:7f00:1]:PORT"},
        {"http://[::1]:PORT/x.png", "[::1]:PORT"},
        {"http://localhost:PORT/x.png", "localhost:PORT"},
        {"http://0.0.0.0:PORT/x.png", "0.0.0.0:PORT"},
        {"http://169.254.169.254/latest/meta-data/", "169.254.169.254"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_refusal(rows[i][0], rows[i][1], false, 0, RESULT_INVALID, "not a public");
}

static void hosts_that_are_not_named_are_not_asked(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "http://localhost:PORT/x.png",
        "http://2130706434:PORT/x.png",
        "http://[::1]:PORT/x.png",
        "http://[::ffff:127.0.0.1]:PORT/x.png",
        "http://127.0.0.1.example.com:PORT/x.png",
        "http://127.0.0.1./x.png",
        "http://127.0.0.1/x.png",
        "https://127.0.0.1/x.png",
        "http://127.0.0.1:1/x.png",
        "http://127.0.0.1%2f@localhost:PORT/x.png",
    };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        expect_refusal(urls[i], HOST, true, 0, RESULT_INVALID, "");
    expect_refusal("http://user@127.0.0.1:PORT/x.png", HOST, true, 0, RESULT_INVALID, "password");
    expect_refusal("http://:pass@127.0.0.1:PORT/x.png", HOST, true, 0, RESULT_INVALID, "password");
    expect_refusal("http://127.0.0.1:PORT@evil/x.png", HOST, true, 0, RESULT_INVALID, "");
    expect_refusal("http://evil\\@127.0.0.1:PORT/x.png", HOST, true, 0, RESULT_INVALID, "");
    expect_refusal("http://127.0.0.1:PORT\r\nX: y/x.png", HOST, true, 0, RESULT_INVALID, "");
    expect_refusal("http:///x.png", HOST, true, 0, RESULT_INVALID, "");
    expect_refusal("file:///etc/passwd", HOST, true, 0, RESULT_INVALID, "http");
    expect_refusal("gopher://127.0.0.1:PORT/x", HOST, true, 0, RESULT_INVALID, "http");
}

static void redirects_are_judged_like_the_first(void **state)
{
    (void)state;
    expect_refusal(LOCAL "/to-name", HOST, true, 1, RESULT_INVALID, "localhost");
    expect_refusal(LOCAL "/to-mapped", HOST, true, 1, RESULT_INVALID, "[::ffff:");
    expect_refusal(LOCAL "/to-file", HOST, true, 1, RESULT_INVALID, "http");
    expect_refusal(LOCAL "/to-user", HOST, true, 1, RESULT_INVALID, "password");
    expect_refusal(LOCAL "/loop", HOST, true, 4, RESULT_INVALID, "redirects more");
}

static void size_and_time_are_bounded(void **state)
{
    (void)state;
    expect_refusal(LOCAL "/large", HOST, true, 1, RESULT_TOO_LARGE, "1000");
    expect_refusal(LOCAL "/endless-body", HOST, true, 1, RESULT_TOO_LARGE, "1000");
    expect_refusal(LOCAL "/endless-head", HOST, true, 1, RESULT_IO, "");
    expect_refusal(LOCAL "/silent", HOST, true, 1, RESULT_TIMED_OUT, "1 s");
}

static void other_files_are_rejected(void **state)
{
    (void)state;
    expect_refusal(LOCAL "/missing", HOST, true, 1, RESULT_INVALID, "404");
    expect_refusal(LOCAL "/empty", HOST, true, 1, RESULT_INVALID, "empty");
    expect_refusal(LOCAL "/cut", HOST, true, 1, RESULT_IO, "");
}

static void entries_are_hosts(void **state)
{
    (void)state;
    static const char *const good[] = {"example.com", "example.com:8080", "[::1]", "[::1]:1"};
    static const char *const bad[] = {
        "",        "http://example.com", "example.com/", "a@b", "example.com:", "example.com:0",
        "a:65536", "*.example.com",      "[::1",         "a b", "::1"};
    struct error_text error;
    assert_int_equal(
        media_policy_check(&(struct media_policy){.hosts = good, .host_count = 4}, &error),
        RESULT_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            media_policy_check(&(struct media_policy){.hosts = bad + i, .host_count = 1}, &error),
            RESULT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_arrive),
        cmocka_unit_test(addresses_that_are_not_public_are_not_connected_to),
        cmocka_unit_test(hosts_that_are_not_named_are_not_asked),
        cmocka_unit_test(redirects_are_judged_like_the_first),
        cmocka_unit_test(size_and_time_are_bounded),
        cmocka_unit_test(other_files_are_rejected),
        cmocka_unit_test(entries_are_hosts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
