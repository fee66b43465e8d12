/*
 * Clients by address: what counts as one client, the limit per client, and that the table becomes
 * empty.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "frontend/http/client_table.h"
#include "tests/support/test_random.h"

static struct client_address v4(const char *text, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct client_address client;
    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    client_address_set(&client, (struct sockaddr *)(void *)&address);
    return client;
}

static struct client_address v6(const char *text, uint16_t port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct client_address client;
    assert_int_equal(inet_pton(AF_INET6, text, &address.sin6_addr), 1);
    client_address_set(&client, (struct sockaddr *)(void *)&address);
    return client;
}

static struct client_address local(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct client_address client;
    client_address_set(&client, (struct sockaddr *)(void *)&address);
    return client;
}

static void addresses_are_written_in_usual_notation(void **state)
{
    (void)state;
    char text[CLIENT_ADDRESS_TEXT];
    struct client_address client = v4("192.0.2.7", 4711);
    client_address_write(&client, text);
    assert_string_equal(text, "192.0.2.7:4711");
    client = v6("2001:db8::1", 80);
    client_address_write(&client, text);
    assert_string_equal(text, "[2001:db8::1]:80");
    client = v6("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", 65535);
    client_address_write(&client, text);
    assert_string_equal(text, "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
    client = v6("::ffff:192.0.2.7", 1);
    client_address_write(&client, text);
    assert_string_equal(text, "192.0.2.7:1");
    client = local();
    client_address_write(&client, text);
    assert_string_equal(text, "local");
}

static void clients_are_counted_separately(void **state)
{
    (void)state;
    struct client_table *table = client_table_create(4, 2);
    struct client_address one = v4("192.0.2.1", 1000);
    struct client_address same = v4("192.0.2.1", 2000);
    struct client_address mapped = v6("::ffff:192.0.2.1", 3000);
    struct client_address other = v4("192.0.2.2", 1000);
    assert_true(client_table_take(table, &one));
    assert_true(client_table_take(table, &same));
    assert_false(client_table_take(table, &one));
    assert_false(client_table_take(table, &mapped));
    assert_true(client_table_take(table, &other));
    assert_int_equal(client_table_count(table), 2);
    client_table_give(table, &mapped);
    assert_true(client_table_take(table, &one));
    client_table_give(table, &one);
    client_table_give(table, &one);
    client_table_give(table, &other);
    assert_int_equal(client_table_count(table), 0);
    client_table_destroy(table);
}

static void an_ipv6_network_of_64_bits_is_one_client(void **state)
{
    (void)state;
    struct client_table *table = client_table_create(4, 1);
    struct client_address one = v6("2001:db8:1:2::1", 1);
    struct client_address same = v6("2001:db8:1:2:ffff:ffff:ffff:ffff", 2);
    struct client_address other = v6("2001:db8:1:3::1", 1);
    assert_true(client_table_take(table, &one));
    assert_false(client_table_take(table, &same));
    assert_true(client_table_take(table, &other));
    client_table_give(table, &same);
    assert_true(client_table_take(table, &one));
    client_table_destroy(table);
}

static void local_clients_are_not_counted(void **state)
{
    (void)state;
    struct client_table *table = client_table_create(1, 1);
    struct client_address client = local();
    for (int i = 0; i < 10; i++)
        assert_true(client_table_take(table, &client));
    client_table_give(table, &client);
    assert_int_equal(client_table_count(table), 0);
    client_table_destroy(table);
}

static void a_full_table_takes_no_other_client(void **state)
{
    (void)state;
    struct client_table *table = client_table_create(2, 2);
    struct client_address one = v4("192.0.2.1", 1), two = v4("192.0.2.2", 1);
    struct client_address three = v4("192.0.2.3", 1);
    assert_true(client_table_take(table, &one));
    assert_true(client_table_take(table, &two));
    assert_false(client_table_take(table, &three));
    assert_true(client_table_take(table, &two));
    assert_int_equal(client_table_count(table), 2);
    client_table_give(table, &one);
    assert_true(client_table_take(table, &three));
    client_table_destroy(table);
    client_table_destroy(NULL);
}

/* A thousand addresses are taken and given at random and compared with a plain array. */
#define MODEL_CLIENTS 1000
static void a_thousand_clients_match_a_plain_array(void **state)
{
    (void)state;
    static uint32_t counts[MODEL_CLIENTS];
    struct test_random random = {.state = 7};
    struct client_table *table = client_table_create(MODEL_CLIENTS, 3);
    uint32_t clients = 0;
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < 200000; i++) {
        uint32_t at = (uint32_t)(test_random_next(&random) % MODEL_CLIENTS);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(at)}};
        struct client_address client;
        client_address_set(&client, (struct sockaddr *)(void *)&address);
        if (test_random_next(&random) % 2) {
            assert_int_equal(client_table_take(table, &client), counts[at] < 3);
            clients += counts[at] == 0;
            counts[at] += counts[at] < 3;
        } else if (counts[at] > 0) {
            client_table_give(table, &client);
            counts[at]--;
            clients -= counts[at] == 0;
        }
        assert_int_equal(client_table_count(table), clients);
    }
    client_table_destroy(table);
}

/* Chains of entries stay short for networks of either kind: if all clients were in one, this would
 * take minutes. */
static void many_clients_are_found_quickly(void **state)
{
    (void)state;
    enum { CLIENTS = 50000 };
    struct client_table *table = client_table_create(2 * CLIENTS, 1);
    for (int give = 0; give < 2; give++) {
        for (uint32_t at = 0; at < CLIENTS; at++) {
            struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(at << 8)}};
            struct sockaddr_in6 network = {.sin6_family = AF_INET6};
            struct client_address client, other;
            const uint32_t prefix = htonl(at);
            memcpy(&network.sin6_addr, &prefix, sizeof prefix);
            network.sin6_addr.s6_addr[4] = 0x20;
            client_address_set(&client, (struct sockaddr *)(void *)&address);
            client_address_set(&other, (struct sockaddr *)(void *)&network);
            if (give) {
                client_table_give(table, &client);
                client_table_give(table, &other);
            } else {
                assert_true(client_table_take(table, &client));
                assert_true(client_table_take(table, &other));
            }
        }
        assert_int_equal(client_table_count(table), give ? 0 : 2 * CLIENTS);
    }
    client_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_written_in_usual_notation),
        cmocka_unit_test(clients_are_counted_separately),
        cmocka_unit_test(an_ipv6_network_of_64_bits_is_one_client),
        cmocka_unit_test(local_clients_are_not_counted),
        cmocka_unit_test(a_full_table_takes_no_other_client),
        cmocka_unit_test(a_thousand_clients_match_a_plain_array),
        cmocka_unit_test(many_clients_are_found_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
