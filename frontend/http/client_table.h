/*
 * Identifies clients by their address and counts the requests in progress of each.
 *
 * An IPv4 address is one client. The first 64 bits of an IPv6 address are one client, because the
 * owner of one address in such a network owns all of them. Clients of a Unix socket cannot be told
 * apart and are not counted. Behind a proxy all requests have the proxy's address: leave the limit
 * off there.
 */
#ifndef SHOAL_FRONTEND_HTTP_CLIENT_TABLE_H
#define SHOAL_FRONTEND_HTTP_CLIENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;
struct client_table;

#define CLIENT_ADDRESS_TEXT  64u
#define CLIENT_ADDRESS_BYTES 16u

struct client_address {
    uint8_t bytes[CLIENT_ADDRESS_BYTES]; /* IPv6; an IPv4 address mapped into it; zero for others */
    uint16_t port;
    bool known; /* IPv4 or IPv6 */
};

void client_address_set(struct client_address *client, const struct sockaddr *address);
/* "192.0.2.1:4711", "[2001:db8::1]:4711" or "local". */
void client_address_write(const struct client_address *client, char text[CLIENT_ADDRESS_TEXT]);

/* Holds at most `max_clients` at once; the maximum number of connections suffices. */
struct client_table *client_table_create(uint32_t max_clients, uint32_t max_requests_per_client);
void client_table_destroy(struct client_table *table);

/* Counts one more request of this client. False: the client has reached its maximum. */
bool client_table_take(struct client_table *table, const struct client_address *client);
/* Ends a request that was counted. */
void client_table_give(struct client_table *table, const struct client_address *client);
/* Number of clients with requests in progress. */
uint32_t client_table_count(const struct client_table *table);

#endif
