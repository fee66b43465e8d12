/*
 * A hash table of the clients that have requests in progress. An entry is removed with its client's
 * last request, so the number of connections bounds the table.
 *
 * Entries lie in one array; indices link them into chains and, when free, into a list. Clients
 * choose their addresses, so the hash has a random key: otherwise a client could put all of its
 * addresses into one chain.
 */
#include "frontend/http/client_table.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "proto/must.h"

#define NONE         UINT32_MAX
#define PREFIX_BYTES 8u /* of an IPv6 address; they identify one client */

struct client_entry {
    uint8_t key[CLIENT_ADDRESS_BYTES];
    uint32_t requests;
    uint32_t next;
};

struct client_table {
    uint64_t secret[4]; /* key of the hash */
    uint32_t max_requests;
    uint32_t bucket_mask;
    uint32_t first_free;
    uint32_t used;
    uint32_t max_clients;
    uint32_t *buckets;
    struct client_entry *entries;
};

/* --- addresses ------------------------------------------------------------------------------- */

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

void client_address_set(struct client_address *client, const struct sockaddr *address)
{
    *client = (struct client_address){0};
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        memcpy(client->bytes, mapped_prefix, sizeof mapped_prefix);
        memcpy(client->bytes + sizeof mapped_prefix, &v4->sin_addr, sizeof v4->sin_addr);
        client->port = ntohs(v4->sin_port);
        client->known = true;
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        memcpy(client->bytes, &v6->sin6_addr, sizeof client->bytes);
        client->port = ntohs(v6->sin6_port);
        client->known = true;
    }
}

static bool is_mapped(const struct client_address *client)
{
    return memcmp(client->bytes, mapped_prefix, sizeof mapped_prefix) == 0;
}

void client_address_write(const struct client_address *client, char text[CLIENT_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN];
    if (!client->known) {
        snprintf(text, CLIENT_ADDRESS_TEXT, "local");
        return;
    }
    bool v4 = is_mapped(client);
    const void *bytes = v4 ? client->bytes + sizeof mapped_prefix : client->bytes;
    must(inet_ntop(v4 ? AF_INET : AF_INET6, bytes, host, sizeof host) != NULL);
    snprintf(text, CLIENT_ADDRESS_TEXT, v4 ? "%s:%u" : "[%s]:%u", host, client->port);
}

/* --- the table ------------------------------------------------------------------------------- */

static void key_write(const struct client_address *client, uint8_t key[CLIENT_ADDRESS_BYTES])
{
    memcpy(key, client->bytes, sizeof client->bytes);
    if (!is_mapped(client))
        memset(key + PREFIX_BYTES, 0, CLIENT_ADDRESS_BYTES - PREFIX_BYTES);
}

/* Multiplies with secret 128-bit numbers: a client cannot know which addresses share a bucket. */
static uint32_t *bucket_of(const struct client_table *table,
                           const uint8_t key[CLIENT_ADDRESS_BYTES])
{
    uint64_t words[2];
    memcpy(words, key, sizeof words);
    unsigned __int128 product = (unsigned __int128)(words[0] ^ table->secret[0]) *
                                (unsigned __int128)(words[1] ^ table->secret[1]);
    uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64) ^ table->secret[2];
    mixed *= table->secret[3];
    return &table->buckets[(uint32_t)(mixed >> 32) & table->bucket_mask];
}

/* The link to the client's entry, or the end of its chain. */
static uint32_t *link_find(const struct client_table *table,
                           const uint8_t key[CLIENT_ADDRESS_BYTES])
{
    uint32_t *link = bucket_of(table, key);
    while (*link != NONE && memcmp(table->entries[*link].key, key, CLIENT_ADDRESS_BYTES) != 0)
        link = &table->entries[*link].next;
    return link;
}

struct client_table *client_table_create(uint32_t max_clients, uint32_t max_requests_per_client)
{
    must(max_clients > 0 && max_clients < NONE && max_requests_per_client > 0);
    struct client_table *table = must_alloc(1, sizeof *table);
    uint32_t buckets = 16;
    while (buckets < max_clients && buckets < 1u << 20)
        buckets *= 2;
    table->max_requests = max_requests_per_client;
    table->max_clients = max_clients;
    table->bucket_mask = buckets - 1;
    table->buckets = must_alloc(buckets, sizeof table->buckets[0]);
    table->entries = must_alloc(max_clients, sizeof table->entries[0]);
    for (uint32_t i = 0; i < buckets; i++)
        table->buckets[i] = NONE;
    for (uint32_t i = 0; i < max_clients; i++)
        table->entries[i].next = i + 1 < max_clients ? i + 1 : NONE;
    must(getrandom(table->secret, sizeof table->secret, 0) == sizeof table->secret);
    table->secret[3] |= 1;
    return table;
}

void client_table_destroy(struct client_table *table)
{
    if (!table)
        return;
    free(table->buckets);
    free(table->entries);
    free(table);
}

bool client_table_take(struct client_table *table, const struct client_address *client)
{
    if (!client->known)
        return true;
    uint8_t key[CLIENT_ADDRESS_BYTES];
    key_write(client, key);
    uint32_t *link = link_find(table, key);
    if (*link == NONE) {
        uint32_t taken = table->first_free;
        if (taken == NONE)
            return false;
        struct client_entry *entry = &table->entries[taken];
        table->first_free = entry->next;
        memcpy(entry->key, key, sizeof entry->key);
        entry->requests = 0;
        entry->next = NONE;
        *link = taken;
        table->used++;
    }
    struct client_entry *entry = &table->entries[*link];
    if (entry->requests >= table->max_requests)
        return false;
    entry->requests++;
    return true;
}

void client_table_give(struct client_table *table, const struct client_address *client)
{
    if (!client->known)
        return;
    uint8_t key[CLIENT_ADDRESS_BYTES];
    key_write(client, key);
    uint32_t *link = link_find(table, key);
    must(*link != NONE);
    struct client_entry *entry = &table->entries[*link];
    must(entry->requests > 0);
    if (--entry->requests > 0)
        return;
    uint32_t freed = *link;
    *link = entry->next;
    entry->next = table->first_free;
    table->first_free = freed;
    table->used--;
}

uint32_t client_table_count(const struct client_table *table)
{
    return table->used;
}
