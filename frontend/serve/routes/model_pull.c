/*
 * The process writes Ollama's lines, so they are passed on as they are. The last one is held until the directory was read again:
 * a client that is told "success" may use the model at once. A client that reads slowly misses lines of progress.
 *
 * The process is killed when its client leaves, and reaped when its pidfd says that it has ended: a write to a slow disk must not
 * stop the loop. Its own blocks of a file, HASH.incomplete, are continued by the next download.
 */
#include "frontend/serve/routes/model_pull.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/api/ollama/ollama_pull.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/base/program_spawn.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/sse_stream.h"
#include "frontend/serve/models/model_reload.h"
#include "frontend/serve/models/model_set.h"
#include "frontend/serve/routes/route_body.h"
#include "frontend/serve/routes/route_replies.h"
#include "frontend/serve/settings/options.h"
#include "proto/log.h"
#include "proto/must.h"
#include "shm/peer_watch.h"

#define LINE_BYTES  4096u /* of the process; a longer one ends it */
#define READ_BYTES  4096u
#define SUCCESS     "{\"status\":\"success\"}"
#define STREAM_TYPE "application/x-ndjson"

extern char **environ;

struct model_pulls {
    struct event_base *base;
    const struct options *options;
    struct model_set *models;
    struct ollama_pull request;
    struct http_exchange *exchange; /* NULL: the client has left */
    struct sse_stream stream;       /* if the request streams and a line has come */
    pid_t pid;                      /* 0: no download */
    int pid_fd, lines_fd;
    struct event *exit, *lines;
    struct text_buffer line; /* the bytes after the last line's end */
    bool broken;             /* a line was too long */
    char last[LINE_BYTES];
};

/* --- to the client --------------------------------------------------------------------------- */

static void line_send(struct model_pulls *pulls, const char *line)
{
    char text[LINE_BYTES + 2];
    int64_t now_ms = monotonic_clock_ms();
    int bytes = snprintf(text, sizeof text, "%s\n", line);
    if (!pulls->exchange || !pulls->request.stream)
        return;
    if (!pulls->stream.exchange)
        sse_stream_open_as(&pulls->stream, pulls->exchange, STREAM_TYPE,
                           pulls->options->stream_buffer_bytes, now_ms, text, (size_t)bytes);
    else if (sse_stream_send(&pulls->stream, text, (size_t)bytes, now_ms) != RESULT_OK)
        log_debug("a slow reader misses a line of a download's progress");
}

/* Ends the reply; `error` NULL: with success. */
static void reply_end(struct model_pulls *pulls, const char *error)
{
    struct text_buffer text = {0};
    struct api_error refusal;
    struct http_exchange *exchange = pulls->exchange;
    pulls->exchange = NULL;
    if (!exchange)
        return;
    if (error)
        (void)api_error_set(&refusal, RESULT_IO, 500, "pull_failed", "%s", error);
    if (error && !pulls->stream.exchange) {
        http_reply_error(exchange, &refusal);
        return;
    }
    if (error) {
        text_buffer_append_text(&text, "{\"error\":");
        api_error_append_words(error, &text);
        text_buffer_append_text(&text, "}\n");
    } else {
        text_buffer_append_text(&text, SUCCESS "\n");
    }
    if (!pulls->stream.exchange)
        http_reply_whole(exchange, 200, "application/json", text.bytes, text.length);
    else if (text.failed || sse_stream_close(&pulls->stream, text.bytes, text.length) != RESULT_OK)
        sse_stream_abort(&pulls->stream);
    text_buffer_fini(&text);
}

/* --- the process's lines --------------------------------------------------------------------- */

static bool line_is_last(const char *line)
{
    return strcmp(line, SUCCESS) == 0 || strncmp(line, "{\"error\":", 9) == 0;
}

static void lines_take(struct model_pulls *pulls)
{
    struct text_buffer *text = &pulls->line;
    size_t from = 0;
    const char *end;
    while (!text->failed && (end = memchr(text->bytes + from, '\n', text->length - from)) != NULL) {
        size_t bytes = (size_t)(end - text->bytes) - from;
        if (bytes >= sizeof pulls->last) {
            pulls->broken = true;
            break;
        }
        memcpy(pulls->last, text->bytes + from, bytes);
        pulls->last[bytes] = '\0';
        if (!line_is_last(pulls->last))
            line_send(pulls, pulls->last);
        from += bytes + 1;
    }
    text_buffer_consume(text, from);
    pulls->broken |= text->failed || text->length >= LINE_BYTES;
    if (pulls->broken)
        kill(pulls->pid, SIGKILL);
}

/* Returns false when there is nothing more to read now. */
static bool lines_read(struct model_pulls *pulls)
{
    char bytes[READ_BYTES];
    ssize_t count = read(pulls->lines_fd, bytes, sizeof bytes);
    if (count > 0 && !pulls->broken) {
        text_buffer_append(&pulls->line, bytes, (size_t)count);
        lines_take(pulls);
    }
    if (count == 0)
        event_del(pulls->lines);
    return count > 0 || (count < 0 && errno == EINTR);
}

static void on_lines(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    (void)lines_read(context);
}

/* --- its end --------------------------------------------------------------------------------- */

static void process_close(struct model_pulls *pulls, struct error_text *how)
{
    event_free(pulls->exit);
    event_free(pulls->lines);
    close(pulls->pid_fd);
    close(pulls->lines_fd);
    (void)program_reap(pulls->pid, how);
    text_buffer_fini(&pulls->line);
    pulls->pid = 0;
}

static void ended_log(const struct model_pulls *pulls, const char *error)
{
    const struct log_field fields[] = {LOG_TEXT("model", pulls->request.name),
                                       LOG_TEXT("error", error)};
    log_event(error ? LOG_WARN : LOG_INFO, error ? "model_pull_failed" : "model_pulled", fields,
              error ? 2 : 1);
}

/* The words of the last line, or why there is none. NULL: success. */
static const char *failure_words(struct model_pulls *pulls, const cJSON *last,
                                 const struct error_text *how, struct error_text *words)
{
    const char *said = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(last, "error"));
    if (said)
        (void)error_set(words, RESULT_IO, "%s", said);
    else if (strcmp(pulls->last, SUCCESS) != 0)
        (void)error_set(words, RESULT_IO, "the download has ended: %.150s", how->text);
    else if (!model_set_find(pulls->models, pulls->request.name))
        (void)error_set(
            words, RESULT_IO,
            "the model is downloaded, but not listed under this name: GET /v1/models lists "
            "the names, and the log says what could not be read");
    else
        return NULL;
    return words->text;
}

static void on_exit_event(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct model_pulls *pulls = context;
    struct error_text how, words;
    while (lines_read(pulls)) { /* at most what fits into a pipe */
    }
    process_close(pulls, &how);
    if (strcmp(pulls->last, SUCCESS) == 0)
        model_set_reload(pulls->models);
    cJSON *last = cJSON_Parse(pulls->last);
    const char *error = failure_words(pulls, last, &how, &words);
    cJSON_Delete(last);
    ended_log(pulls, error);
    reply_end(pulls, error);
}

static void on_gone(void *context)
{
    struct model_pulls *pulls = context;
    pulls->exchange = NULL;
    kill(pulls->pid, SIGKILL); /* not reaped yet */
}

/* --- its start ------------------------------------------------------------------------------- */

static enum result process_spawn(struct model_pulls *pulls, int lines_fd, struct error_text *error)
{
    const struct options *options = pulls->options;
    char path[PROGRAM_PATH_BYTES], stall[24], retries[24];
    char *arguments[] = {path,
                         "pull",
                         pulls->request.name,
                         "--json",
                         "--endpoint",
                         (char *)(uintptr_t)options->endpoint,
                         "--hf-cache",
                         (char *)(uintptr_t)options->models_dir,
                         "--stall-timeout",
                         stall,
                         "--retries",
                         retries,
                         options->token_file ? "--token-file" : NULL,
                         (char *)(uintptr_t)options->token_file,
                         NULL};
    const struct program_descriptor out = {lines_fd, STDOUT_FILENO};
    const struct program_start start = {.path = path,
                                        .arguments = arguments,
                                        .environment = environ,
                                        .descriptors = &out,
                                        .descriptor_count = 1};
    snprintf(stall, sizeof stall, "%" PRIu64, options->stall_timeout_s);
    snprintf(retries, sizeof retries, "%" PRIu64, options->retries);
    enum result result = program_path("shoal", path, error);
    return result == RESULT_OK ? program_spawn(&start, &pulls->pid, error) : result;
}

static enum result process_start(struct model_pulls *pulls, struct error_text *error)
{
    int ends[2];
    struct error_text how;
    pulls->last[0] = '\0';
    pulls->broken = false;
    pulls->stream = (struct sse_stream){0};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(error, RESULT_IO, "no pipe: %s", strerror(errno));
    enum result result = process_spawn(pulls, ends[1], error);
    close(ends[1]);
    if (result == RESULT_OK) {
        result = peer_watch_open(pulls->pid, &pulls->pid_fd, error);
        if (result != RESULT_OK) {
            kill(pulls->pid, SIGKILL);
            (void)program_reap(pulls->pid, &how);
        }
    }
    if (result != RESULT_OK) {
        pulls->pid = 0;
        close(ends[0]);
        return result;
    }
    pulls->lines_fd = ends[0];
    must(evutil_make_socket_nonblocking(pulls->lines_fd) == 0);
    pulls->lines = event_new(pulls->base, pulls->lines_fd, EV_READ | EV_PERSIST, on_lines, pulls);
    pulls->exit = event_new(pulls->base, pulls->pid_fd, EV_READ, on_exit_event, pulls);
    must(pulls->lines && pulls->exit && event_add(pulls->lines, NULL) == 0 &&
         event_add(pulls->exit, NULL) == 0);
    return RESULT_OK;
}

/* --- from the route -------------------------------------------------------------------------- */

/* Reads the body. */
static enum result request_read(struct http_exchange *exchange, struct ollama_pull *request,
                                struct api_error *error)
{
    size_t bytes;
    char *body = route_body_take(exchange, &bytes, error);
    enum result result = body ? ollama_pull_parse(body, bytes, request, error) : RESULT_INVALID;
    free(body);
    return result;
}

static enum result admit(const struct model_pulls *pulls, const struct model_set *models,
                         struct api_error *error)
{
    if (!pulls->options->endpoint || !model_set_is_directory(models))
        return api_error_set(error, RESULT_UNSUPPORTED, 403, "pull_disabled",
                             "this server downloads no models: it was started without --models-dir "
                             "and --endpoint");
    if (model_set_check_ready(models, error) != RESULT_OK)
        return RESULT_FULL;
    if (pulls->pid == 0)
        return RESULT_OK;
    (void)api_error_set(error, RESULT_FULL, 503, "pull_in_progress",
                        "another model is being downloaded; try again later");
    error->retry_after_s = 5;
    return RESULT_FULL;
}

void model_pulls_start(const struct route_context *context, struct http_exchange *exchange)
{
    struct model_pulls *pulls = context->model_pulls;
    struct ollama_pull request;
    struct error_text why;
    struct api_error error;
    enum result result = admit(pulls, context->models, &error);
    if (result == RESULT_OK)
        result = request_read(exchange, &request, &error);
    if (result == RESULT_OK) {
        pulls->request = request;
        pulls->models = context->models;
        if (process_start(pulls, &why) != RESULT_OK)
            result = api_error_set(&error, RESULT_IO, 500, "pull_failed",
                                   "the download cannot be started: %.200s", why.text);
    }
    if (result != RESULT_OK) {
        http_reply_error(exchange, &error);
        return;
    }
    pulls->exchange = exchange;
    http_exchange_on_gone(exchange, on_gone, pulls);
}

struct model_pulls *model_pulls_create(struct event_base *base, const struct options *options)
{
    struct model_pulls *pulls = must_alloc(1, sizeof *pulls);
    pulls->base = base;
    pulls->options = options;
    return pulls;
}

void model_pulls_end(struct model_pulls *pulls)
{
    if (!pulls || pulls->pid == 0)
        return;
    kill(pulls->pid, SIGKILL);
    reply_end(pulls, "the server is shutting down");
}

void model_pulls_destroy(struct model_pulls *pulls)
{
    struct error_text how;
    if (!pulls)
        return;
    if (pulls->pid > 0) {
        kill(pulls->pid, SIGKILL);
        process_close(pulls, &how);
    }
    free(pulls);
}
