/*
 * The listening sockets: binding, sockets passed by a service manager, which addresses are of this
 * machine only, and pauses in accepting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "frontend/http/http_listener.h"
#include "proto/limits.h"
#include "proto/log.h"

#define BURST 64 /* ACCEPT_BURST of the listener */

static struct event_base *base;
static struct http_listener *listener;
static struct error_text error;
static int arrived_count;
static uint16_t arrived_port; /* of the last client */

static void on_arrived(void *context, int fd, const struct sockaddr *address)
{
    assert_ptr_equal(context, &arrived_count);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    if (address->sa_family == AF_INET)
        arrived_port = ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    arrived_count++;
    close(fd);
}

static int setup(void **state)
{
    (void)state;
    log_init("test", LOG_ERROR);
    base = event_base_new();
    listener = NULL;
    arrived_count = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_listener_destroy(listener); /* may be NULL */
    event_base_free(base);
    return 0;
}

static enum result listen_on(const char *host, uint16_t port)
{
    struct http_listener_config config = {
        .host = host, .port = port, .context = &arrived_count, .arrived = on_arrived};
    return http_listener_create(base, &config, &listener, &error);
}

static enum result adopt(const int *fds, size_t count)
{
    struct http_listener_config config = {
        .fds = fds, .fd_count = count, .context = &arrived_count, .arrived = on_arrived};
    return http_listener_create(base, &config, &listener, &error);
}

static void restart(void)
{
    http_listener_destroy(listener);
    listener = NULL;
}

static int bound(int domain, int type, const void *address, socklen_t bytes)
{
    int fd = socket(domain, type, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, address, bytes), 0);
    return fd;
}

/* A socket on a free port of an IPv4 address. */
static int bound_v4(const char *ip, int type)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, ip, &address.sin_addr), 1);
    return bound(AF_INET, type, &address, sizeof address);
}

static int listening_v4(const char *ip)
{
    int fd = bound_v4(ip, SOCK_STREAM);
    assert_int_equal(listen(fd, 4 * BURST), 0);
    return fd;
}

static int listening_v6(const char *ip)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    int off = 0;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), 0);
    assert_int_equal(inet_pton(AF_INET6, ip, &address.sin6_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)(void *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 4 * BURST), 0);
    return fd;
}

/* In the abstract namespace: leaves no file. */
static int listening_unix(int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int bytes = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "shoal-listener-%d-%d",
                         (int)getpid(), type);
    int fd = bound(AF_UNIX, type, &address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes));
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int client_connect(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {.tv_sec = 5};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)(void *)&address, sizeof address), 0);
    return fd;
}

/* Runs the loop until so many clients have arrived. */
static void expect_arrived(int count)
{
    for (int turns_left = 20000; turns_left > 0 && arrived_count < count; turns_left--) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(500);
    }
    assert_int_equal(arrived_count, count);
}

static void a_free_port_is_bound_and_clients_arrive(void **state)
{
    (void)state;
    assert_int_equal(listen_on("127.0.0.1", 0), RESULT_OK);
    uint16_t port = http_listener_port(listener);
    assert_true(port > 0);
    int client = client_connect(port);
    expect_arrived(1);
    assert_int_equal(arrived_port, port_of(client));
    close(client);
}

static void a_destroyed_listener_frees_its_port(void **state)
{
    (void)state;
    assert_int_equal(listen_on("127.0.0.1", 0), RESULT_OK);
    uint16_t port = http_listener_port(listener);
    restart();
    assert_int_equal(listen_on("127.0.0.1", port), RESULT_OK);
    assert_int_equal(http_listener_port(listener), port);
}

static void a_port_in_use_is_an_error(void **state)
{
    (void)state;
    char words[80];
    int other = listening_v4("127.0.0.1");
    assert_int_equal(listen_on("127.0.0.1", port_of(other)), RESULT_IO);
    assert_null(listener);
    snprintf(words, sizeof words, "cannot listen on 127.0.0.1 port %u: %s", port_of(other),
             strerror(EADDRINUSE));
    assert_string_equal(error.text, words);
    close(other);
}

static void an_ipv6_address_has_a_port(void **state)
{
    (void)state;
    int fd = listening_v6("::1");
    uint16_t port = port_of(fd); /* at the same place in both kinds of address */
    assert_int_equal(adopt(&fd, 1), RESULT_OK);
    assert_int_equal(http_listener_port(listener), port);
}

static void passed_sockets_are_all_listened_on(void **state)
{
    (void)state;
    int fds[] = {listening_v4("127.0.0.1"), listening_v4("127.0.0.1"), -1};
    uint16_t ports[] = {port_of(fds[0]), port_of(fds[1])};
    assert_int_equal(adopt(fds, 2), RESULT_OK);
    assert_int_equal(http_listener_port(listener), ports[0]);
    for (int i = 0; i < 2; i++) {
        int client = client_connect(ports[i]);
        expect_arrived(i + 1);
        close(client);
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
    }
    restart();
    assert_false(is_open(fds[0]));
    assert_false(is_open(fds[1]));
}

static void a_unix_socket_has_no_port(void **state)
{
    (void)state;
    int fd = listening_unix(SOCK_STREAM);
    assert_int_equal(adopt(&fd, 1), RESULT_OK);
    assert_int_equal(http_listener_port(listener), 0);
    assert_false(http_listener_is_loopback(listener));
}

/* All are closed, valid ones too. */
static void passed_descriptors_that_do_not_listen_are_refused(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const int bad[] = {bound_v4("127.0.0.1", SOCK_STREAM), bound_v4("127.0.0.1", SOCK_DGRAM),
                       listening_unix(SOCK_SEQPACKET), pipes[0]};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char words[80];
        int fds[] = {listening_v4("127.0.0.1"), bad[i], listening_v4("127.0.0.1")};
        assert_int_equal(adopt(fds, 3), RESULT_INVALID);
        assert_null(listener);
        snprintf(words, sizeof words, "the descriptor %d that was passed is no listening socket",
                 bad[i]);
        assert_string_equal(error.text, words);
        for (int j = 0; j < 3; j++)
            assert_false(is_open(fds[j]));
    }
    close(pipes[1]);
}

static void passed_sockets_have_a_maximum(void **state)
{
    (void)state;
    int fds[LIMIT_LISTEN_SOCKETS + 1];
    for (size_t i = 0; i <= LIMIT_LISTEN_SOCKETS; i++)
        fds[i] = listening_v4("127.0.0.1");
    assert_int_equal(adopt(fds, LIMIT_LISTEN_SOCKETS + 1), RESULT_INVALID);
    char words[80];
    snprintf(words, sizeof words, "more sockets were passed than are taken (descriptor %d)",
             fds[LIMIT_LISTEN_SOCKETS]);
    assert_string_equal(error.text, words);
    for (size_t i = 0; i <= LIMIT_LISTEN_SOCKETS; i++)
        assert_false(is_open(fds[i]));
    for (size_t i = 0; i < LIMIT_LISTEN_SOCKETS; i++)
        fds[i] = listening_v4("127.0.0.1");
    assert_int_equal(adopt(fds, LIMIT_LISTEN_SOCKETS), RESULT_OK);
}

static void loopback_addresses_are_127_8_and_ipv6_1(void **state)
{
    (void)state;
    static const struct {
        const char *ip;
        bool loopback;
    } cases[] = {
        {"127.0.0.1", true},        {"127.255.255.254", true}, {"0.0.0.0", false}, {"::1", true},
        {"::ffff:127.0.0.1", true}, {"::ffff:0.0.0.0", false}, {"::", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = strchr(cases[i].ip, ':') ? listening_v6(cases[i].ip) : listening_v4(cases[i].ip);
        assert_int_equal(adopt(&fd, 1), RESULT_OK);
        assert_int_equal(http_listener_is_loopback(listener), cases[i].loopback);
        restart();
    }
}

static void one_other_address_is_enough_not_to_be_loopback(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        int fds[2];
        for (int i = 0; i < 2; i++)
            fds[i] = listening_v4(i == other ? "0.0.0.0" : "127.0.0.1");
        assert_int_equal(adopt(fds, 2), RESULT_OK);
        assert_false(http_listener_is_loopback(listener));
        restart();
    }
}

/* Other events are handled after BURST clients, also if the flood is on the first of two sockets. */
static void a_flood_of_clients_is_interrupted(void **state)
{
    (void)state;
    int clients[BURST + 6];
    int fds[] = {listening_v4("127.0.0.1"), listening_v4("127.0.0.1")};
    uint16_t port = port_of(fds[0]);
    assert_int_equal(adopt(fds, 2), RESULT_OK);
    for (int i = 0; i < BURST + 6; i++)
        clients[i] = client_connect(port);
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK); /* one look at the sockets */
    assert_int_equal(arrived_count, BURST);
    expect_arrived(BURST + 6);
    for (int i = 0; i < BURST + 6; i++)
        close(clients[i]);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void accepting_pauses_while_descriptors_are_short(void **state)
{
    (void)state;
    assert_int_equal(listen_on("127.0.0.1", 0), RESULT_OK);
    int client = client_connect(http_listener_port(listener));
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int64_t start_ms = now_ms();
    event_base_loop(base, EVLOOP_ONCE); /* accept() fails */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(arrived_count, 0);
    expect_arrived(1);
    /* 100 ms of the loop's clock, which advances by up to 10 ms at once. */
    assert_true(now_ms() - start_ms >= 80);
    close(client);
}

/* A successor's listener: connections wait until it accepts, and for the other holder of the socket once
 * it has stopped. */
static void a_paused_listener_keeps_connections_waiting(void **state)
{
    (void)state;
    int fd = listening_v4("127.0.0.1");
    int kept = dup(fd);
    uint16_t port = port_of(fd);
    struct http_listener_config config = {.fds = &fd,
                                          .fd_count = 1,
                                          .paused = true,
                                          .context = &arrived_count,
                                          .arrived = on_arrived};
    assert_int_equal(http_listener_create(base, &config, &listener, &error), RESULT_OK);
    assert_int_equal(http_listener_count(listener), 1);
    int first = client_connect(port);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(arrived_count, 0);
    http_listener_resume(listener);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(arrived_count, 1);
    http_listener_stop(listener);
    assert_int_equal(http_listener_count(listener), 0);
    int second = client_connect(port);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(arrived_count, 1);
    int taken = accept(kept, NULL, NULL);
    assert_true(taken >= 0);
    close(taken);
    close(first);
    close(second);
    close(kept);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_paused_listener_keeps_connections_waiting),
        TEST(a_free_port_is_bound_and_clients_arrive),
        TEST(a_destroyed_listener_frees_its_port),
        TEST(a_port_in_use_is_an_error),
        TEST(an_ipv6_address_has_a_port),
        TEST(passed_sockets_are_all_listened_on),
        TEST(a_unix_socket_has_no_port),
        TEST(passed_descriptors_that_do_not_listen_are_refused),
        TEST(passed_sockets_have_a_maximum),
        TEST(loopback_addresses_are_127_8_and_ipv6_1),
        TEST(one_other_address_is_enough_not_to_be_loopback),
        TEST(a_flood_of_clients_is_interrupted),
        TEST(accepting_pauses_while_descriptors_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
