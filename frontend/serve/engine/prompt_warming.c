#include "frontend/serve/engine/prompt_warming.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/base/monotonic_clock.h"
#include "proto/limits.h"
#include "proto/log.h"
#include "proto/mapped_file.h"
#include "proto/must.h"

#define RETRY_MS 1000

struct warm_prompt {
    const char *body; /* in `text` */
    size_t bytes;
    uint32_t line;
};

struct prompt_warming {
    struct prompt_warming_config config;
    char *text;
    struct warm_prompt *prompts; /* [count] */
    size_t count;
    size_t next; /* of count * config.tenants.count jobs, prompts of a tenant in a row */
    size_t failed;
    struct event *timer;
    struct live_request *request; /* in progress, or NULL */
    int64_t began_ms;
    char name[48];
};

static void timer_start(struct prompt_warming *warming, int64_t after_ms)
{
    event_add(warming->timer, &(struct timeval){.tv_sec = (time_t)(after_ms / 1000),
                                                .tv_usec = (suseconds_t)(after_ms % 1000) * 1000});
}

static void job_end(struct prompt_warming *warming)
{
    warming->request = NULL;
    warming->next++;
    timer_start(warming, 0); /* not within the engine's call */
}

static void job_failed(struct prompt_warming *warming, const struct api_error *error)
{
    uint32_t line = warming->prompts[warming->next % warming->count].line;
    log_warn("--warm-prompts, line %u: %s", line, error->message);
    warming->failed++;
    job_end(warming);
}

static void on_prepared(void *context, const struct prepared_generation *prepared)
{
    (void)context;
    (void)prepared;
}

/* The prompt is computed; that is all. */
static bool on_token(void *context, const struct reply_token *token)
{
    (void)context;
    (void)token;
    return true;
}

static void on_flush(void *context)
{
    (void)context;
}

static void on_finished(void *context, enum finish_reason finish, struct cached_prompt cached)
{
    (void)finish;
    (void)cached;
    job_end(context);
}

static void on_failed(void *context, const struct api_error *error)
{
    job_failed(context, error);
}

static const char *on_name(void *context)
{
    struct prompt_warming *warming = context;
    return warming->name;
}

static const struct live_request_sink sink = {.prepared = on_prepared,
                                              .token = on_token,
                                              .flush = on_flush,
                                              .finished = on_finished,
                                              .failed = on_failed,
                                              .name = on_name};

static void job_begin(struct prompt_warming *warming)
{
    const struct warm_prompt *prompt = &warming->prompts[warming->next % warming->count];
    struct api_error error;
    struct prepare_input input = {
        .body = must_alloc(prompt->bytes + 1, 1),
        .body_bytes = prompt->bytes,
        .most_body_bytes = prompt->bytes,
        .format = &chat_format,
        .cache_salt = warming->config.tenants.items[warming->next / warming->count]};
    memcpy(input.body, prompt->body, prompt->bytes);
    snprintf(warming->name, sizeof warming->name, "warm prompt, line %u", prompt->line);
    if (warming->config.admit(warming->config.engine, &input, &sink, warming, &warming->request,
                              &error) == RESULT_OK)
        return;
    warming->request = NULL;
    if (error.status == 429)
        timer_start(warming, RETRY_MS);
    else if (error.status != 503) /* 503: it becomes ready again, or is drained */
        job_failed(warming, &error);
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct prompt_warming *warming = context;
    size_t jobs = warming->count * warming->config.tenants.count;
    if (warming->request)
        return;
    if (warming->next < jobs) {
        job_begin(warming);
        return;
    }
    log_info("%zu warm prompts computed in %.1f s, %zu failed", jobs - warming->failed,
             (double)(monotonic_clock_ms() - warming->began_ms) / 1000.0, warming->failed);
}

/* --- the file --------------------------------------------------------------------------------- */

static enum result file_read(struct prompt_warming *warming, const char *path, size_t *bytes,
                             struct error_text *error)
{
    struct mapped_file file;
    struct error_text why;
    if (mapped_file_open(AT_FDCWD, path, &file, &why) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "--warm-prompts %s: %s", path, why.text);
    *bytes = file.byte_count;
    if (file.byte_count <= LIMIT_WARM_BYTES) {
        warming->text = must_alloc(file.byte_count + 1, 1);
        memcpy(warming->text, file.bytes, file.byte_count);
    }
    mapped_file_close(&file);
    return warming->text ? RESULT_OK
                         : error_set(error, RESULT_INVALID, "--warm-prompts: more than %u bytes",
                                     LIMIT_WARM_BYTES);
}

static enum result lines_find(struct prompt_warming *warming, size_t bytes,
                              struct error_text *error)
{
    uint32_t line = 0;
    warming->prompts = must_alloc(LIMIT_WARM_PROMPTS, sizeof warming->prompts[0]);
    for (char *at = warming->text; at < warming->text + bytes;) {
        char *end = memchr(at, '\n', (size_t)(warming->text + bytes - at));
        end = end ? end : warming->text + bytes;
        line++;
        if (strspn(at, " \t\r") < (size_t)(end - at)) {
            if (warming->count == LIMIT_WARM_PROMPTS)
                return error_set(error, RESULT_INVALID, "--warm-prompts: more than %u prompts",
                                 LIMIT_WARM_PROMPTS);
            warming->prompts[warming->count++] =
                (struct warm_prompt){.body = at, .bytes = (size_t)(end - at), .line = line};
        }
        at = end + 1;
    }
    return RESULT_OK;
}

enum result prompt_warming_create(const struct prompt_warming_config *config,
                                  struct prompt_warming **warming, struct error_text *error)
{
    struct prompt_warming *made = must_alloc(1, sizeof *made);
    size_t bytes = 0;
    made->config = *config;
    enum result result = file_read(made, config->path, &bytes, error);
    if (result == RESULT_OK)
        result = lines_find(made, bytes, error);
    if (result != RESULT_OK) {
        prompt_warming_destroy(made);
        return result;
    }
    made->timer = event_new(config->base, -1, 0, on_timer, made);
    must(made->timer != NULL);
    *warming = made;
    return RESULT_OK;
}

void prompt_warming_destroy(struct prompt_warming *warming)
{
    if (!warming)
        return;
    if (warming->timer)
        event_free(warming->timer);
    free(warming->prompts);
    free(warming->text);
    free(warming);
}

void prompt_warming_start(struct prompt_warming *warming)
{
    if (warming->request || warming->count == 0)
        return;
    warming->next = warming->failed = 0;
    warming->began_ms = monotonic_clock_ms();
    timer_start(warming, 0);
}
