/*
 * Files are read first and then become records, each after the one that it continues. A file whose
 * conversation is not complete (a file is missing, belongs to another client, is unfinished, or
 * continues itself) is removed with all that continue it.
 */
#include "frontend/api/responses/response_recovery.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/log.h"
#include "proto/must.h"

enum loaded_state { LOADED_WAITS, LOADED_VISITED, LOADED_RESTORED, LOADED_DROPPED };

struct loaded {
    struct response_journal_entry entry;
    struct response_file file;
    struct response_record *record; /* a reference, once restored */
    enum loaded_state state;
};

struct recovery {
    struct response_store *store;
    struct response_journal *journal;
    struct loaded *list; /* [count], oldest first */
    struct loaded **by_id;
    size_t count;
};

static int newest_first(const void *a, const void *b)
{
    const struct response_journal_entry *left = a, *right = b;
    return left->changed_ns < right->changed_ns ? 1 : left->changed_ns > right->changed_ns ? -1 : 0;
}

static int ids_compare(const void *a, const void *b)
{
    return strcmp((*(struct loaded *const *)a)->entry.id, (*(struct loaded *const *)b)->entry.id);
}

/* --- files ----------------------------------------------------------------------------------- */

static enum result file_read(struct response_journal *journal,
                             const struct response_journal_entry *entry, struct response_file *file,
                             struct error_text *error)
{
    struct text_buffer bytes = {0};
    *file = (struct response_file){0};
    enum result result = response_journal_read(journal, entry, &bytes, error);
    if (result == RESULT_OK)
        result = response_file_decode(bytes.bytes ? bytes.bytes : "", bytes.length, file, error);
    text_buffer_fini(&bytes);
    if (result == RESULT_OK && strcmp(file->id, entry->id) != 0) {
        response_file_fini(file);
        result = error_set(error, RESULT_CORRUPT, "it has another response's name");
    }
    return result;
}

enum result response_recovery_read(struct response_journal *journal, const char *id,
                                   struct response_file *file, struct error_text *error)
{
    struct response_journal_entry entry = {.bytes = LIMIT_STATE_FILE_BYTES};
    strcpy(entry.id, id);
    enum result result = file_read(journal, &entry, file, error);
    if (result == RESULT_OK && response_status_is_final(file->status)) {
        response_file_fini(file);
        result = error_set(error, RESULT_STALE, "it is finished");
    }
    return result;
}

static void entry_drop(struct response_journal *journal, const struct response_journal_entry *entry,
                       const char *why, bool removes)
{
    log_warn("state file %s%s is dropped%s: %s", entry->id, entry->hidden ? " (hidden)" : "",
             removes ? "" : " and left alone", why);
    if (removes)
        response_journal_remove(journal, entry->id);
}

/* Number of the newest entries that fit; the others are removed. */
static size_t entries_bound(struct response_journal *journal, struct response_journal_entry *list,
                            size_t count, uint64_t max_bytes)
{
    uint64_t bytes = 0;
    size_t fit = 0;
    qsort(list, count, sizeof *list, newest_first);
    while (fit < count && fit < LIMIT_STORED_RESPONSES && list[fit].bytes <= max_bytes - bytes)
        bytes += list[fit++].bytes;
    if (fit < count)
        log_warn("the %zu oldest state files are removed: all are more than "
                 "--response-store-bytes or %u",
                 count - fit, LIMIT_STORED_RESPONSES);
    for (size_t i = fit; i < count; i++)
        response_journal_remove(journal, list[i].id);
    return fit;
}

static void files_read(struct recovery *recovery, uint64_t max_bytes)
{
    size_t count;
    struct response_journal_entry *entries = response_journal_list(recovery->journal, &count);
    count = entries_bound(recovery->journal, entries, count, max_bytes);
    recovery->list = must_alloc(count + 1, sizeof *recovery->list);
    recovery->by_id = must_alloc(count + 1, sizeof recovery->by_id[0]);
    for (size_t i = count; i-- > 0;) {
        struct loaded *loaded = &recovery->list[recovery->count];
        struct error_text error;
        loaded->entry = entries[i];
        enum result result = file_read(recovery->journal, &entries[i], &loaded->file, &error);
        if (result != RESULT_OK) {
            entry_drop(recovery->journal, &entries[i], error.text, result == RESULT_CORRUPT);
            continue;
        }
        text_buffer_fini(&loaded->file.body); /* read again when its answer is made */
        recovery->by_id[recovery->count++] = loaded;
    }
    free(entries);
    qsort(recovery->by_id, recovery->count, sizeof recovery->by_id[0], ids_compare);
}

/* --- records --------------------------------------------------------------------------------- */

static struct loaded *loaded_find(const struct recovery *recovery, const char *id)
{
    struct loaded key, *wanted = &key;
    strcpy(key.entry.id, id);
    struct loaded **found =
        bsearch(&wanted, recovery->by_id, recovery->count, sizeof recovery->by_id[0], ids_compare);
    return found ? *found : NULL;
}

static void loaded_drop(struct recovery *recovery, struct loaded *loaded)
{
    entry_drop(recovery->journal, &loaded->entry, "the response that it continues is missing",
               true);
    response_file_fini(&loaded->file);
    loaded->state = LOADED_DROPPED;
}

/* `previous` NULL: it continues nothing. */
static void loaded_restore(struct recovery *recovery, struct loaded *loaded,
                           const struct loaded *previous)
{
    loaded->record = response_record_restore(
        recovery->store, &loaded->file, previous ? response_record_hold(previous->record) : NULL,
        !loaded->entry.hidden, loaded->entry.bytes);
    loaded->state = LOADED_RESTORED;
}

static bool continues(const struct loaded *loaded, const struct loaded *previous)
{
    return previous && previous->state == LOADED_RESTORED &&
           response_status_is_final(response_record_status(previous->record)) &&
           memcmp(response_record_client(previous->record), &loaded->file.client_key,
                  sizeof loaded->file.client_key) == 0;
}

/* Restores a response and those that it continues. `stack` has room for all. */
static void chain_restore(struct recovery *recovery, struct loaded *loaded, struct loaded **stack)
{
    size_t depth = 0;
    while (loaded && loaded->state == LOADED_WAITS) {
        loaded->state = LOADED_VISITED;
        stack[depth++] = loaded;
        loaded =
            loaded->file.previous_id[0] ? loaded_find(recovery, loaded->file.previous_id) : NULL;
    }
    while (depth > 0) {
        struct loaded *next = stack[--depth];
        bool begins = !next->file.previous_id[0];
        if (begins || continues(next, loaded))
            loaded_restore(recovery, next, begins ? NULL : loaded);
        else
            loaded_drop(recovery, next);
        loaded = next;
    }
}

struct response_record **response_recovery_load(struct response_store *store,
                                                struct response_journal *journal,
                                                uint64_t max_bytes, size_t *unfinished_count)
{
    struct recovery recovery = {.store = store, .journal = journal};
    files_read(&recovery, max_bytes);
    response_store_set_journal(store, journal);
    struct loaded **stack = must_alloc(recovery.count + 1, sizeof *stack);
    for (size_t i = 0; i < recovery.count; i++)
        chain_restore(&recovery, &recovery.list[i], stack);
    struct response_record **unfinished = must_alloc(recovery.count + 1, sizeof *unfinished);
    size_t restored = 0;
    *unfinished_count = 0;
    for (size_t i = 0; i < recovery.count; i++) {
        struct loaded *loaded = &recovery.list[i];
        if (loaded->state != LOADED_RESTORED)
            continue;
        restored++;
        if (!loaded->entry.hidden &&
            !response_status_is_final(response_record_status(loaded->record)))
            unfinished[(*unfinished_count)++] = loaded->record;
        else
            response_record_release(loaded->record);
    }
    if (restored > 0)
        log_info("%zu stored responses loaded, %zu of them unfinished", restored,
                 *unfinished_count);
    free(stack);
    free(recovery.by_id);
    free(recovery.list);
    return unfinished;
}

/* --- from another process ---------------------------------------------------------------------- */

static void bytes_encode(void *context, struct text_buffer *out)
{
    const struct text_buffer *bytes = context;
    text_buffer_append(out, bytes->bytes, bytes->length);
}

static void bytes_release(void *context)
{
    struct text_buffer *bytes = context;
    text_buffer_fini(bytes);
    free(bytes);
}

/* An unfinished one is read again when its answer is made, perhaps at once: it is written now. */
static void bytes_write(struct response_journal *journal, const char *id, bool now,
                        const struct text_buffer *bytes)
{
    if (now) {
        (void)response_journal_write(journal, id, bytes);
        return;
    }
    struct text_buffer *copy = must_alloc(1, sizeof *copy);
    bytes_encode((void *)(uintptr_t)bytes, copy);
    response_journal_write_later(
        journal, id, &(struct response_journal_source){copy, bytes_encode, bytes_release});
}

static enum result previous_find(struct response_store *store, const struct response_file *file,
                                 struct response_record **previous, struct error_text *error)
{
    *previous = NULL;
    if (!file->previous_id[0])
        return RESULT_OK;
    struct response_record *found = response_store_find_any(store, file->previous_id);
    if (found && response_status_is_final(response_record_status(found)) &&
        memcmp(response_record_client(found), &file->client_key, sizeof file->client_key) == 0) {
        *previous = found;
        return RESULT_OK;
    }
    response_record_release(found);
    return error_set(error, RESULT_CORRUPT, "the response that it continues is missing");
}

enum result response_recovery_receive(struct response_store *store,
                                      struct response_journal *journal,
                                      const struct text_buffer *bytes, struct response_file *file,
                                      struct response_record *record, struct response_record **made,
                                      struct error_text *error)
{
    struct response_record *previous = NULL;
    bool final = response_status_is_final(file->status);
    *made = NULL;
    if (record && final) {
        response_record_finish_as(record, file);
        return RESULT_OK;
    }
    enum result result = record ? RESULT_OK : previous_find(store, file, &previous, error);
    if (record || result != RESULT_OK) {
        response_file_fini(file);
        return result;
    }
    bytes_write(journal, file->id, !final, bytes);
    text_buffer_fini(&file->body);
    *made = response_record_restore(store, file, previous, true, bytes->length);
    if (final) {
        response_record_release(*made);
        *made = NULL;
    }
    return RESULT_OK;
}
