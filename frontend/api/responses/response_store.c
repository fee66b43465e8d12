/*
 * Records with reference counts, a hash table of the records that can be found, and a list of the
 * finished ones among them in the order of their last use. One mutex guards counts, tables and the
 * changing parts of a record; the only work done under it is writing the text of a fetched
 * response.
 *
 * The table holds one reference to each record in it. Removing a record takes it from the table and
 * releases that reference; its memory is freed when the last answer, reader or continuation that
 * holds it is gone, so eviction counts what is really freed.
 */
#include "frontend/api/responses/response_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/must.h"

#define BUCKETS 4096u

struct response_record {
    struct response_store *store;
    struct response_record *in_bucket; /* next */
    struct response_record *older;     /* neighbours among the finished records in the table */
    struct response_record *newer;
    uint64_t bytes;
    uint32_t references;
    bool found;
    bool listed; /* in the list */
    enum response_status status;
    int64_t created_unix_s;
    int64_t ended_unix_s;
    struct response_draft draft;
    struct response_outcome outcome;
    char id[RESPONSE_ID_BYTES];
};

struct response_store {
    pthread_mutex_t mutex;
    uint64_t max_bytes;
    uint32_t max_records;
    uint64_t bytes;        /* of all kept records */
    uint64_t making_bytes; /* of unfinished records among them */
    uint32_t found_count;
    struct response_record *oldest;
    struct response_record *newest;
    struct response_record *buckets[BUCKETS];
};

static const char *const status_names[] = {"queued",     "in_progress", "completed",
                                           "incomplete", "failed",      "cancelled"};

bool response_status_is_final(enum response_status status)
{
    return status >= RESPONSE_COMPLETED;
}

static void lock(struct response_store *store)
{
    must(pthread_mutex_lock(&store->mutex) == 0);
}

static void unlock(struct response_store *store)
{
    must(pthread_mutex_unlock(&store->mutex) == 0);
}

/* --- under the lock -------------------------------------------------------------------------- */

static struct response_record **bucket_of(struct response_store *store, const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return &store->buckets[hash % BUCKETS];
}

static void order_remove(struct response_store *store, struct response_record *record)
{
    if (!record->listed)
        return;
    *(record->older ? &record->older->newer : &store->oldest) = record->newer;
    *(record->newer ? &record->newer->older : &store->newest) = record->older;
    record->older = record->newer = NULL;
    record->listed = false;
}

static void order_add_newest(struct response_store *store, struct response_record *record)
{
    record->older = store->newest;
    *(store->newest ? &store->newest->newer : &store->oldest) = record;
    store->newest = record;
    record->listed = true;
}

/* Drops a reference; frees the record, and what it alone held, with the last one. */
static void reference_drop(struct response_record *record)
{
    while (record && --record->references == 0) {
        struct response_record *previous = record->draft.previous;
        if (record->draft.kept)
            record->store->bytes -= record->bytes;
        if (record->draft.kept && !response_status_is_final(record->status))
            record->store->making_bytes -= record->bytes;
        response_items_fini(&record->draft.input);
        text_buffer_fini(&record->draft.fields);
        response_items_fini(&record->outcome.output);
        text_buffer_fini(&record->outcome.fields);
        free(record);
        record = previous;
    }
}

static void forget(struct response_record *record)
{
    struct response_store *store = record->store;
    if (!record->found)
        return;
    struct response_record **at = bucket_of(store, record->id);
    while (*at != record)
        at = &(*at)->in_bucket;
    *at = record->in_bucket;
    order_remove(store, record);
    record->found = false;
    store->found_count--;
    reference_drop(record);
}

static void make_room(struct response_store *store)
{
    while (store->oldest &&
           (store->bytes > store->max_bytes || store->found_count > store->max_records))
        forget(store->oldest);
}

static uint64_t record_measure(const struct response_record *record)
{
    return sizeof *record + response_items_bytes(&record->draft.input) +
           record->draft.fields.capacity + response_items_bytes(&record->outcome.output) +
           record->outcome.fields.capacity;
}

static struct response_record *record_find(struct response_store *store,
                                           const struct client_key *client_key, const char *id)
{
    struct response_record *record = *bucket_of(store, id);
    while (record && (strcmp(record->id, id) != 0 ||
                      memcmp(&record->draft.client_key, client_key, sizeof *client_key) != 0))
        record = record->in_bucket;
    return record;
}

/* --- life ------------------------------------------------------------------------------------ */

struct response_store *response_store_create(uint64_t max_bytes, uint32_t max_records)
{
    struct response_store *store = must_alloc(1, sizeof *store);
    must(pthread_mutex_init(&store->mutex, NULL) == 0);
    store->max_bytes = max_bytes;
    store->max_records = max_records;
    return store;
}

void response_store_destroy(struct response_store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (store->buckets[i])
            forget(store->buckets[i]);
    }
    must(store->bytes == 0);
    must(pthread_mutex_destroy(&store->mutex) == 0);
    free(store);
}

/* Counts a new record that will be kept. */
static enum result record_count(struct response_record *record)
{
    struct response_store *store = record->store;
    if (record->bytes > store->max_bytes)
        return RESULT_TOO_LARGE;
    if (store->making_bytes + record->bytes > store->max_bytes)
        return RESULT_FULL;
    store->bytes += record->bytes;
    make_room(store);
    if (store->bytes > store->max_bytes) { /* chains held by answers in progress */
        store->bytes -= record->bytes;
        return RESULT_FULL;
    }
    store->making_bytes += record->bytes;
    record->draft.kept = true;
    return RESULT_OK;
}

enum result response_record_create(struct response_store *store, struct response_draft *draft,
                                   struct response_record **record)
{
    struct response_record *made = must_alloc(1, sizeof *made);
    made->store = store;
    made->references = 1;
    made->draft = *draft;
    made->draft.kept = false;
    made->bytes = record_measure(made);
    enum result result =
        draft->input.text.failed || draft->fields.failed ? RESULT_OUT_OF_MEMORY : RESULT_OK;
    lock(store);
    if (result == RESULT_OK && draft->kept)
        result = record_count(made);
    if (result != RESULT_OK)
        reference_drop(made);
    unlock(store);
    *draft = (struct response_draft){0};
    if (result == RESULT_OK)
        *record = made;
    return result;
}

struct response_record *response_record_hold(struct response_record *record)
{
    lock(record->store);
    record->references++;
    unlock(record->store);
    return record;
}

void response_record_release(struct response_record *record)
{
    if (!record)
        return;
    struct response_store *store = record->store;
    lock(store);
    reference_drop(record);
    unlock(store);
}

void response_record_publish(struct response_record *record, const char *id, int64_t created_unix_s)
{
    struct response_store *store = record->store;
    must(strlen(id) < RESPONSE_ID_BYTES && record->id[0] == '\0');
    lock(store);
    strcpy(record->id, id);
    record->created_unix_s = created_unix_s;
    if (record->draft.kept) {
        struct response_record **bucket = bucket_of(store, id);
        record->in_bucket = *bucket;
        *bucket = record;
        record->found = true;
        record->references++;
        store->found_count++;
        make_room(store);
    }
    unlock(store);
}

void response_record_set_status(struct response_record *record, enum response_status status)
{
    must(!response_status_is_final(status));
    lock(record->store);
    record->status = status;
    unlock(record->store);
}

void response_record_finish(struct response_record *record, struct response_outcome *outcome)
{
    struct response_store *store = record->store;
    must(response_status_is_final(outcome->status));
    lock(store);
    must(!response_status_is_final(record->status));
    record->status = outcome->status;
    record->ended_unix_s = (int64_t)time(NULL);
    record->outcome = *outcome;
    if (record->draft.kept) {
        uint64_t before = record->bytes;
        record->bytes = record_measure(record);
        store->bytes += record->bytes - before;
        store->making_bytes -= before;
        if (record->found)
            order_add_newest(store, record);
        make_room(store);
    }
    unlock(store);
    *outcome = (struct response_outcome){0};
}

void response_record_withdraw(struct response_record *record)
{
    struct response_store *store = record->store;
    lock(store);
    forget(record);
    unlock(store);
}

/* --- looks ----------------------------------------------------------------------------------- */

struct response_record *response_store_find(struct response_store *store,
                                            const struct client_key *client_key, const char *id)
{
    lock(store);
    struct response_record *record = record_find(store, client_key, id);
    if (record) {
        record->references++;
        if (record->listed) {
            order_remove(store, record);
            order_add_newest(store, record);
        }
    }
    unlock(store);
    return record;
}

void response_record_write(struct response_record *record, struct text_buffer *out)
{
    lock(record->store);
    const struct response_items *output = &record->outcome.output;
    const struct text_buffer *fields = &record->outcome.fields;
    text_buffer_append_format(out,
                              "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,"
                              "\"status\":\"%s\",\"completed_at\":",
                              record->id, (long long)record->created_unix_s,
                              status_names[record->status]);
    if (record->status == RESPONSE_COMPLETED)
        text_buffer_append_format(out, "%lld", (long long)record->ended_unix_s);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_text(out, ",\"output\":[");
    text_buffer_append(out, output->text.bytes, output->text.length);
    text_buffer_append_text(out, "]");
    if (response_status_is_final(record->status))
        text_buffer_append(out, fields->bytes, fields->length);
    else
        text_buffer_append_text(out, ",\"error\":null,\"incomplete_details\":null,\"usage\":null");
    text_buffer_append(out, record->draft.fields.bytes, record->draft.fields.length);
    text_buffer_append_text(out, "}");
    out->failed |= output->text.failed || fields->failed;
    unlock(record->store);
}

enum response_status response_record_status(struct response_record *record)
{
    lock(record->store);
    enum response_status status = record->status;
    unlock(record->store);
    return status;
}

const char *response_record_id(const struct response_record *record)
{
    return record->id;
}

const struct response_record *response_record_previous(const struct response_record *record)
{
    return record->draft.previous;
}

const struct response_items *response_record_input(const struct response_record *record)
{
    return &record->draft.input;
}

const struct response_items *response_record_output(const struct response_record *record)
{
    return &record->outcome.output;
}

uint64_t response_store_bytes(struct response_store *store)
{
    lock(store);
    uint64_t bytes = store->bytes;
    unlock(store);
    return bytes;
}

uint32_t response_store_records(struct response_store *store)
{
    lock(store);
    uint32_t count = store->found_count;
    unlock(store);
    return count;
}
