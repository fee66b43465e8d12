/*
 * Unfinished responses wait in a list, oldest first; LIMIT_RESUMED_AT_ONCE of them are made at a
 * time, and one that finds no place is tried again. Their request bodies are read from their files
 * only then. A response whose file is gone, or that began with another model, fails.
 *
 * While the process before this one still serves its last requests, its unfinished responses are held:
 * they are found here, and end here when that process sends them, or are made here after its end.
 * A response that was deleted here in between is not restored by what it sends: ids stay in the list.
 */
#include "frontend/serve/routes/response_resume.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/responses/response_recovery.h"
#include "frontend/api/responses/responses_format.h"
#include "frontend/serve/routes/generation_call.h"
#include "frontend/serve/routes/generation_route.h"
#include "frontend/serve/routes/response_watches.h"
#include "proto/log.h"
#include "proto/must.h"

#define RETRY_MS 200

struct unfinished {
    struct response_record *record; /* a reference; NULL: it is over */
    bool running;
    char id[RESPONSE_ID_BYTES];
};

struct response_resume {
    struct response_resume_config config;
    struct event *timer;
    struct unfinished *list;
    size_t count;
    size_t capacity;
    uint32_t running;
    uint64_t resumed;
    bool stopping;
    bool held;
};

static void timer_start(struct response_resume *resume, int64_t after_ms)
{
    if (!resume->stopping)
        event_add(resume->timer, &(struct timeval){.tv_usec = (suseconds_t)after_ms * 1000});
}

static struct unfinished *unfinished_find(struct response_resume *resume, const char *id)
{
    for (size_t i = 0; i < resume->count; i++) {
        if (resume->list[i].record && strcmp(response_record_id(resume->list[i].record), id) == 0)
            return &resume->list[i];
    }
    return NULL;
}

static void unfinished_release(struct response_resume *resume, struct unfinished *unfinished)
{
    if (unfinished->running)
        resume->running--;
    response_record_release(unfinished->record);
    unfinished->record = NULL;
    unfinished->running = false;
}

static void unfinished_fail(struct response_resume *resume, struct unfinished *unfinished,
                            const struct api_error *error)
{
    if (!response_status_is_final(response_record_status(unfinished->record)))
        responses_format_abandon(unfinished->record, RESPONSE_FAILED, error);
    unfinished_release(resume, unfinished);
}

static void on_over(void *context, const char *id, const struct api_error *error)
{
    struct response_resume *resume = context;
    struct unfinished *unfinished = unfinished_find(resume, id);
    if (!unfinished)
        return;
    if (error)
        unfinished_fail(resume, unfinished, error);
    else
        unfinished_release(resume, unfinished);
    timer_start(resume, 0);
}

/* The model with this name, or NULL. */
static struct model *model_find(const struct model_set *models, const struct text_buffer *name)
{
    char id[MODEL_NAME_BYTES];
    snprintf(id, sizeof id, "%.*s", (int)name->length, name->length > 0 ? name->bytes : "");
    struct model *model = model_set_find(models, id);
    if (!model || model_set_is_directory(models))
        return model;
    const struct model_assets *assets = chat_engine_assets(model_engine(model));
    return assets && strcmp(assets->model_id, id) == 0 ? model : NULL;
}

/* Reads the file again; fails if it is gone or names a model that is not served. */
static enum result job_read(struct response_resume *resume, const struct unfinished *unfinished,
                            struct response_file *file, struct model **model,
                            struct api_error *error)
{
    struct error_text why;
    if (response_recovery_read(resume->config.journal, response_record_id(unfinished->record), file,
                               &why) != RESULT_OK)
        return api_error_set(error, RESULT_IO, 500, NULL,
                             "the server was restarted and cannot read its request: %s", why.text);
    *model = model_find(resume->config.models, &file->model_id);
    if (*model)
        return RESULT_OK;
    response_file_fini(file);
    return api_error_set(error, RESULT_INVALID, 500, NULL,
                         "the server was restarted with another model");
}

/* False: there is no place for it now. */
static bool unfinished_begin(struct response_resume *resume, struct unfinished *unfinished)
{
    struct response_file file;
    struct model *model;
    struct api_error error;
    if (job_read(resume, unfinished, &file, &model, &error) != RESULT_OK) {
        unfinished_fail(resume, unfinished, &error);
        return true;
    }
    const struct generation_resumption resumption = {.model = model,
                                                     .format = &responses_format,
                                                     .format_context = resume->config.store,
                                                     .id = response_record_id(unfinished->record),
                                                     .client_key = file.client_key,
                                                     .cache_salt = file.cache_salt,
                                                     .random_seed = file.random_seed,
                                                     .now_unix_s = file.asked_unix_s,
                                                     .body = file.body.bytes,
                                                     .body_bytes = file.body.length,
                                                     .context = resume,
                                                     .over = on_over};
    file.body = (struct text_buffer){0};
    response_file_fini(&file);
    if (generation_route_resume(resume->config.generation, &resumption, &error) != RESULT_OK)
        return false;
    unfinished->running = true;
    resume->running++;
    resume->resumed++;
    return true;
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct response_resume *resume = context;
    struct api_error error;
    if (model_set_check_ready(resume->config.models, &error) != RESULT_OK)
        return; /* started again when it is */
    for (size_t i = 0;
         !resume->held && i < resume->count && resume->running < LIMIT_RESUMED_AT_ONCE; i++) {
        struct unfinished *unfinished = &resume->list[i];
        if (unfinished->record && !unfinished->running && !unfinished_begin(resume, unfinished)) {
            timer_start(resume, RETRY_MS);
            return;
        }
    }
}

struct response_resume *response_resume_create(const struct response_resume_config *config)
{
    struct response_resume *resume = must_alloc(1, sizeof *resume);
    resume->config = *config;
    resume->timer = event_new(config->base, -1, 0, on_timer, resume);
    must(resume->timer != NULL);
    return resume;
}

/* Takes over the reference. */
static void unfinished_add(struct response_resume *resume, struct response_record *record)
{
    if (resume->count == resume->capacity) {
        resume->capacity = resume->capacity * 2 + 64;
        resume->list = realloc(resume->list, resume->capacity * sizeof *resume->list);
        must(resume->list != NULL);
    }
    struct unfinished *unfinished = &resume->list[resume->count++];
    *unfinished = (struct unfinished){.record = record};
    strcpy(unfinished->id, response_record_id(record));
}

void response_resume_load(struct response_resume *resume, bool held)
{
    const struct response_resume_config *config = &resume->config;
    size_t count;
    if (!config->journal)
        return;
    struct response_record **records =
        response_recovery_load(config->store, config->journal, config->max_bytes, &count);
    for (size_t i = 0; i < count; i++)
        unfinished_add(resume, records[i]);
    free(records);
    resume->held = held;
}

/* --- from the process before this one ---------------------------------------------------------- */

static struct unfinished *known_find(struct response_resume *resume, const char *id)
{
    for (size_t i = 0; i < resume->count; i++)
        if (strcmp(resume->list[i].id, id) == 0)
            return &resume->list[i];
    return NULL;
}

static void response_receive(struct response_resume *resume, const char *bytes, size_t byte_count)
{
    const struct text_buffer whole = {.bytes = (char *)(uintptr_t)bytes, .length = byte_count};
    struct error_text error = {""};
    struct response_record *made = NULL;
    struct response_file file;
    char id[RESPONSE_ID_BYTES] = "";
    struct unfinished *known = NULL;
    enum result result = response_file_decode(bytes, byte_count, &file, &error);
    if (result == RESULT_OK) {
        strcpy(id, file.id);
        known = known_find(resume, id);
        if (known && !known->record) { /* it was cancelled or deleted here */
            response_file_fini(&file);
            return;
        }
        result = response_recovery_receive(resume->config.store, resume->config.journal, &whole,
                                           &file, known ? known->record : NULL, &made, &error);
    }
    if (result != RESULT_OK)
        log_warn("a response %s of the process before this one is dropped: %s", id, error.text);
    if (known && response_status_is_final(response_record_status(known->record)))
        unfinished_release(resume, known);
    if (made)
        unfinished_add(resume, made);
    response_watches_advance(resume->config.watches, id);
}

void response_resume_receive(struct response_resume *resume, char kind, const char *bytes,
                             size_t byte_count)
{
    char id[RESPONSE_ID_BYTES];
    if (kind == RESPONSE_MESSAGE_RESPONSE) {
        response_receive(resume, bytes, byte_count);
        return;
    }
    if (kind != RESPONSE_MESSAGE_WITHDRAW || byte_count >= sizeof id)
        return;
    memcpy(id, bytes, byte_count);
    id[byte_count] = '\0';
    struct response_record *record = response_store_find_any(resume->config.store, id);
    struct unfinished *known = known_find(resume, id);
    if (known && known->record)
        unfinished_release(resume, known);
    if (record)
        response_record_withdraw(record);
    response_record_release(record);
}

void response_resume_release(struct response_resume *resume)
{
    resume->held = false;
    response_resume_start(resume);
}

void response_resume_destroy(struct response_resume *resume)
{
    if (!resume)
        return;
    resume->stopping = true;
    for (size_t i = 0; i < resume->count; i++) {
        if (!resume->list[i].record)
            continue;
        if (resume->list[i].running)
            generation_route_drop_resumed(resume->config.generation,
                                          response_record_id(resume->list[i].record));
        if (resume->list[i].record)
            unfinished_release(resume, &resume->list[i]);
    }
    event_free(resume->timer);
    free(resume->list);
    free(resume);
}

void response_resume_start(struct response_resume *resume)
{
    if (resume->count > 0 && !resume->held)
        timer_start(resume, 0);
}

void response_resume_cancel(struct response_resume *resume, struct response_record *record)
{
    const char *id = response_record_id(record);
    struct unfinished *unfinished = unfinished_find(resume, id);
    generation_route_drop_resumed(resume->config.generation, id);
    if (!response_status_is_final(response_record_status(record)))
        responses_format_abandon(record, RESPONSE_CANCELLED, NULL);
    if (unfinished && unfinished->record)
        unfinished_release(resume, unfinished);
}

struct response_resume_figures response_resume_figures(struct response_resume *resume)
{
    struct response_resume_figures figures = {.resumed = resume->resumed};
    for (size_t i = 0; i < resume->count; i++)
        figures.waiting += resume->list[i].record && !resume->list[i].running;
    figures.file_bytes = response_store_file_bytes(resume->config.store);
    if (resume->config.journal) {
        struct response_journal_figures files = response_journal_figures(resume->config.journal);
        figures.files_written = files.written;
        figures.file_failures = files.failed;
    }
    return figures;
}
