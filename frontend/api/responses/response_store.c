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

#include "frontend/api/responses/response_file.h"
#include "frontend/api/responses/response_journal.h"
#include "frontend/base/api_error.h"
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
    bool listed;         /* in the list */
    bool filed;          /* has a file, or will have one */
    uint64_t file_bytes; /* counted for it */
    enum response_status status;
    int64_t created_unix_s;
    int64_t ended_unix_s;
    struct response_draft draft;
    struct response_outcome outcome;
    struct text_buffer script; /* response_script.h */
    char id[RESPONSE_ID_BYTES];
};

struct response_store {
    pthread_mutex_t mutex;
    uint64_t max_bytes;
    uint32_t max_records;
    uint64_t bytes;                   /* of all kept records */
    uint64_t making_bytes;            /* of unfinished records among them */
    uint64_t file_bytes;              /* of all records */
    struct response_journal *journal; /* NULL: no files */
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
        if (record->filed && record->store->journal)
            response_journal_remove(record->store->journal, record->id);
        record->store->file_bytes -= record->file_bytes;
        response_items_fini(&record->draft.input);
        text_buffer_fini(&record->draft.fields);
        response_items_fini(&record->outcome.output);
        text_buffer_fini(&record->outcome.fields);
        text_buffer_fini(&record->script);
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
    if (record->filed && store->journal && record->references > 1)
        response_journal_hide(store->journal, record->id);
    reference_drop(record);
}

/* Makes the record findable. */
static void record_show(struct response_record *record)
{
    struct response_store *store = record->store;
    struct response_record **bucket = bucket_of(store, record->id);
    record->in_bucket = *bucket;
    *bucket = record;
    record->found = true;
    record->references++;
    store->found_count++;
}

static void make_room(struct response_store *store)
{
    while (store->oldest &&
           (store->bytes > store->max_bytes || store->file_bytes > store->max_bytes ||
            store->found_count > store->max_records))
        forget(store->oldest);
}

/* Counts `bytes` for the record's file, for which older ones are evicted. False: there is no room,
 * or the file of the record that it continues is missing. */
static bool file_reserve(struct response_record *record, uint64_t bytes)
{
    struct response_store *store = record->store;
    uint64_t before = record->file_bytes;
    if (!store->journal || bytes > store->max_bytes ||
        (record->draft.previous && !record->draft.previous->filed))
        return false;
    record->file_bytes = bytes;
    store->file_bytes += bytes - before;
    make_room(store);
    if (store->file_bytes > store->max_bytes) {
        record->file_bytes = before;
        store->file_bytes -= bytes - before;
        return false;
    }
    record->filed = true;
    return true;
}

static uint64_t record_measure(const struct response_record *record)
{
    return sizeof *record + response_items_bytes(&record->draft.input) +
           record->draft.fields.capacity + response_items_bytes(&record->outcome.output) +
           record->outcome.fields.capacity + record->script.capacity;
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

/* --- files ----------------------------------------------------------------------------------- */

/* The record as a file; its buffers stay the record's. */
static struct response_file file_of(const struct response_record *record)
{
    struct response_file file = {.client_key = record->draft.client_key,
                                 .status = record->status,
                                 .created_unix_s = record->created_unix_s,
                                 .ended_unix_s = record->ended_unix_s,
                                 .input = record->draft.input,
                                 .fields = record->draft.fields,
                                 .output = record->outcome.output,
                                 .outcome = record->outcome.fields,
                                 .script = record->script};
    strcpy(file.id, record->id);
    if (record->draft.previous)
        strcpy(file.previous_id, record->draft.previous->id);
    return file;
}

/* A finished record does not change, so this needs no lock. */
static void record_encode(void *context, struct text_buffer *out)
{
    const struct response_file file = file_of(context);
    response_file_encode(&file, out);
}

static void record_release(void *context)
{
    response_record_release(context);
}

/* Has the finished record written. Under the lock. */
static void record_write_later(struct response_record *record)
{
    const struct response_file file = file_of(record);
    if (!record->found || !file_reserve(record, response_file_bytes(&file)))
        return;
    record->references++;
    response_journal_write_later(
        record->store->journal, record->id,
        &(struct response_journal_source){record, record_encode, record_release});
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

void response_store_set_journal(struct response_store *store, struct response_journal *journal)
{
    lock(store);
    store->journal = journal;
    unlock(store);
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
    must(strlen(id) < RESPONSE_ID_BYTES && !record->found);
    lock(store);
    strcpy(record->id, id);
    if (!record->filed)
        record->created_unix_s = created_unix_s;
    if (record->draft.kept) {
        record_show(record);
        make_room(store);
    }
    unlock(store);
}

void response_record_file(struct response_record *record, const struct response_file *job)
{
    struct response_store *store = record->store;
    struct text_buffer bytes = {0};
    struct response_journal *journal;
    lock(store);
    record->created_unix_s = job->asked_unix_s;
    strcpy(record->id, job->id);
    struct response_file file = file_of(record);
    file.status = job->status;
    file.body = job->body;
    file.model_id = job->model_id;
    file.random_seed = job->random_seed;
    file.asked_unix_s = job->asked_unix_s;
    file.cache_salt = job->cache_salt;
    journal = record->draft.kept && file_reserve(record, response_file_bytes(&file))
                  ? store->journal
                  : NULL;
    unlock(store);
    if (!journal)
        return;
    response_file_encode(&file, &bytes);
    (void)response_journal_write(journal, record->id, &bytes);
    text_buffer_fini(&bytes);
}

struct response_record *response_record_restore(struct response_store *store,
                                                struct response_file *file,
                                                struct response_record *previous, bool shown,
                                                uint64_t file_bytes)
{
    struct response_record *made = must_alloc(1, sizeof *made);
    bool final = response_status_is_final(file->status);
    made->store = store;
    made->references = 1;
    made->status = file->status;
    made->ended_unix_s = file->ended_unix_s;
    made->draft = (struct response_draft){.client_key = file->client_key,
                                          .kept = true,
                                          .previous = previous,
                                          .input = file->input,
                                          .fields = file->fields};
    made->outcome = (struct response_outcome){
        .status = file->status, .output = file->output, .fields = file->outcome};
    made->script = file->script;
    made->created_unix_s = file->created_unix_s;
    made->bytes = record_measure(made);
    made->filed = true;
    made->file_bytes = file_bytes;
    strcpy(made->id, file->id);
    file->input = file->output = (struct response_items){0};
    file->fields = file->outcome = file->script = (struct text_buffer){0};
    response_file_fini(file);
    lock(store);
    store->bytes += made->bytes;
    store->file_bytes += file_bytes;
    if (!final)
        store->making_bytes += made->bytes;
    if (shown)
        record_show(made);
    if (shown && final)
        order_add_newest(store, made);
    make_room(store);
    unlock(store);
    return made;
}

void response_record_set_status(struct response_record *record, enum response_status status)
{
    must(!response_status_is_final(status));
    lock(record->store);
    record->status = status;
    unlock(record->store);
}

/* Under the lock; takes over the outcome. */
static void record_end(struct response_record *record, const struct response_outcome *outcome,
                       int64_t ended_unix_s)
{
    struct response_store *store = record->store;
    record->status = outcome->status;
    record->ended_unix_s = ended_unix_s;
    record->outcome = *outcome;
    if (record->draft.kept) {
        uint64_t before = record->bytes;
        record->bytes = record_measure(record);
        store->bytes += record->bytes - before;
        store->making_bytes -= before;
        if (record->found)
            order_add_newest(store, record);
        record_write_later(record);
        make_room(store);
    }
}

void response_record_finish(struct response_record *record, struct response_outcome *outcome)
{
    struct response_store *store = record->store;
    must(response_status_is_final(outcome->status));
    lock(store);
    must(!response_status_is_final(record->status));
    record_end(record, outcome, (int64_t)time(NULL));
    unlock(store);
    *outcome = (struct response_outcome){0};
}

void response_record_finish_as(struct response_record *record, struct response_file *file)
{
    struct response_store *store = record->store;
    const struct response_outcome outcome = {
        .status = file->status, .output = file->output, .fields = file->outcome};
    must(response_status_is_final(file->status));
    lock(store);
    if (!response_status_is_final(record->status)) {
        text_buffer_fini(&record->script);
        record->script = file->script;
        record_end(record, &outcome, file->ended_unix_s);
        file->script = file->outcome = (struct text_buffer){0};
        file->output = (struct response_items){0};
    }
    unlock(store);
    response_file_fini(file);
}

void response_record_withdraw(struct response_record *record)
{
    struct response_store *store = record->store;
    lock(store);
    if (record->found && record->filed && store->journal)
        response_journal_withdraw(store->journal, record->id);
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

struct response_record *response_store_find_any(struct response_store *store, const char *id)
{
    lock(store);
    struct response_record *record = *bucket_of(store, id);
    while (record && strcmp(record->id, id) != 0)
        record = record->in_bucket;
    if (record)
        record->references++;
    unlock(store);
    return record;
}

enum result response_store_refuse(struct response_store *store, int status, const char *code,
                                  const char *id, struct api_error *error)
{
    lock(store);
    bool left = store->journal && response_journal_is_left(store->journal);
    unlock(store);
    if (!left)
        return api_error_set(error, RESULT_NOT_FOUND, status, code,
                             "response with id '%.64s' not found", id);
    (void)api_error_set(error, RESULT_NOT_FOUND, 503, "server_replaced",
                        "response with id '%.64s' not found here: a newer process has the stored "
                        "responses, to which new connections lead",
                        id);
    error->retry_after_s = 1;
    return RESULT_NOT_FOUND;
}

static void record_write(const struct response_record *record, enum response_status status,
                         struct text_buffer *out)
{
    const struct response_items *output = &record->outcome.output;
    const struct text_buffer *fields = &record->outcome.fields;
    text_buffer_append_format(out,
                              "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,"
                              "\"status\":\"%s\",\"completed_at\":",
                              record->id, (long long)record->created_unix_s, status_names[status]);
    if (status == RESPONSE_COMPLETED)
        text_buffer_append_format(out, "%lld", (long long)record->ended_unix_s);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_text(out, ",\"output\":[");
    if (response_status_is_final(status)) {
        text_buffer_append(out, output->text.bytes, output->text.length);
        text_buffer_append_text(out, "]");
        text_buffer_append(out, fields->bytes, fields->length);
        out->failed |= output->text.failed || fields->failed;
    } else {
        text_buffer_append_text(out, "],\"error\":null,\"incomplete_details\":null,\"usage\":null");
    }
    text_buffer_append(out, record->draft.fields.bytes, record->draft.fields.length);
    text_buffer_append_text(out, "}");
}

void response_record_write(struct response_record *record, struct text_buffer *out)
{
    lock(record->store);
    record_write(record, record->status, out);
    unlock(record->store);
}

void response_record_write_unfinished(struct response_record *record, enum response_status status,
                                      struct text_buffer *out)
{
    must(!response_status_is_final(status));
    lock(record->store);
    record_write(record, status, out);
    unlock(record->store);
}

void response_record_add_step(struct response_record *record, const struct response_step *step)
{
    lock(record->store);
    must(!response_status_is_final(record->status));
    if (record->draft.kept)
        response_script_append(&record->script, step);
    unlock(record->store);
}

bool response_record_read_step(struct response_record *record, size_t *offset,
                               struct text_buffer *bytes, struct response_step *step)
{
    size_t begin = *offset;
    struct response_step found;
    text_buffer_clear(bytes);
    lock(record->store);
    bool reads = !record->script.failed &&
                 response_script_read(record->script.bytes, record->script.length, offset, &found);
    if (reads)
        text_buffer_append(bytes, record->script.bytes + begin, *offset - begin);
    unlock(record->store);
    begin = 0;
    return reads && !bytes->failed &&
           response_script_read(bytes->bytes, bytes->length, &begin, step);
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

const struct client_key *response_record_client(const struct response_record *record)
{
    return &record->draft.client_key;
}

struct response_record *response_record_hold_previous(struct response_record *record)
{
    return record->draft.previous ? response_record_hold(record->draft.previous) : NULL;
}

uint64_t response_store_file_bytes(struct response_store *store)
{
    lock(store);
    uint64_t bytes = store->file_bytes;
    unlock(store);
    return bytes;
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
