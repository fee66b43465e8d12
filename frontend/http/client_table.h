/*
 * Who a client is, as far as its address says, and how many requests of each are in hand.
 *
 * An IPv4 address is one client; of an IPv6 address the first 64 bits are, because whoever has one
 * address of such a network has all of them. Clients of a Unix socket cannot be told apart and are
 * not counted. Behind a proxy every request has the proxy's address: leave the limit off there.
 */
#ifndef SHOAL_FRONTEND_HTTP_CLIENT_TABLE_H
#define SHOAL_FRONTEND_HTTP_CLIENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;
struct client_table;

#define CLIENT_ADDRESS_TEXT 64u

struct client_address {
    uint8_t bytes[16]; /* IPv6; an IPv4 address mapped into it; zero for others */
    uint16_t port;
    bool known; /* it is one of the two */
};

void client_address_set(struct client_address *client, const struct sockaddr *address);
/* "192.0.2.1:4711", "[2001:db8::1]:4711" or "local". */
void client_address_write(const struct client_address *client, char text[CLIENT_ADDRESS_TEXT]);

/* Holds at most `max_clients` at once: one for each connection suffices. */
struct client_table *client_table_create(uint32_t max_clients, uint32_t max_requests_per_client);
void client_table_destroy(struct client_table *table);

/* Counts one more request of this client. False: it has as many as it may. */
bool client_table_take(struct client_table *table, const struct client_address *client);
/* The request of an earlier successful take is over. */
void client_table_give(struct client_table *table, const struct client_address *client);
/* Clients with requests in hand. */
uint32_t client_table_count(const struct client_table *table);

#endif
