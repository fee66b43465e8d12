/*
 * One row for each path and method. A row is handled in one of three ways: an answer from the
 * model (`format`), an inspection of the body on a preparation thread (`inspect`), or an immediate
 * reply from what the frontend has at hand (`reply`), whose rows are in route_replies.h.
 *
 * Most paths exist with and without "/v1": the table names them without it. Health checks and
 * metrics need no key, because load balancers and scrapers have none.
 */
#include "frontend/serve/routes/route_table.h"

#include <stdio.h>
#include <stdlib.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/chat/completions_format.h"
#include "frontend/api/chat/tokenize_routes.h"
#include "frontend/api/llama/llama_format.h"
#include "frontend/api/llama/llama_legacy.h"
#include "frontend/api/messages/messages_count.h"
#include "frontend/api/messages/messages_error.h"
#include "frontend/api/messages/messages_format.h"
#include "frontend/api/ollama/ollama_error.h"
#include "frontend/api/ollama/ollama_format.h"
#include "frontend/api/ollama/ollama_model.h"
#include "frontend/api/pooling/embedding_format.h"
#include "frontend/api/pooling/rerank_format.h"
#include "frontend/api/responses/responses_format.h"
#include "frontend/api/speech/speech_format.h"
#include "frontend/serve/routes/generation_route.h"
#include "frontend/serve/routes/inspect_route.h"
#include "frontend/serve/routes/route_replies.h"
#include "proto/must.h"

#define PATH_BYTES 64u

struct route_row {
    const char *path; /* where it ends with '/': every path below it; "/" itself is only itself */
    enum http_method method;
    enum route_prefix prefix;
    enum route_access access;
    bool stores;                   /* format and inspect get the response store */
    api_error_writer *write_error; /* NULL: OpenAI's shape */

    /* one of these */
    const struct api_format *format;
    inspection *inspect;
    void (*reply)(const struct route_context *context, struct http_exchange *exchange);
};

static const struct route_row rows[] = {
    {"/chat/completions", HTTP_POST, V1_AND_ROOT, .format = &chat_format},
    {"/completions", HTTP_POST, V1_ONLY, .format = &completions_format},
    {"/completions", HTTP_POST, ROOT_ONLY, .format = &llama_legacy_format},
    {"/tokenize", HTTP_POST, V1_AND_ROOT, .inspect = tokenize_routes_tokenize},
    {"/detokenize", HTTP_POST, V1_AND_ROOT, .inspect = tokenize_routes_detokenize},
    {"/apply-template", HTTP_POST, V1_AND_ROOT, .inspect = tokenize_routes_apply_template},

    {"/completion", HTTP_POST, ROOT_ONLY, .format = &llama_completion_format},
    {"/infill", HTTP_POST, ROOT_ONLY, .format = &llama_infill_format},

    {"/api/chat", HTTP_POST, ROOT_ONLY, .format = &ollama_chat_format,
     .write_error = ollama_error_write},
    {"/api/generate", HTTP_POST, ROOT_ONLY, .format = &ollama_generate_format,
     .write_error = ollama_error_write},
    {"/api/show", HTTP_POST, ROOT_ONLY, .inspect = ollama_model_show,
     .write_error = ollama_error_write},

    {"/audio/transcriptions", HTTP_POST, V1_ONLY, .format = &transcription_format},
    {"/audio/translations", HTTP_POST, V1_ONLY, .format = &translation_format},

    {"/embeddings", HTTP_POST, V1_ONLY, .format = &embedding_format},
    {"/embeddings", HTTP_POST, ROOT_ONLY, .format = &embedding_llama_format},
    {"/embedding", HTTP_POST, ROOT_ONLY, .format = &embedding_llama_format},
    {"/api/embed", HTTP_POST, ROOT_ONLY, .format = &embedding_ollama_format,
     .write_error = ollama_error_write},
    {"/api/embeddings", HTTP_POST, ROOT_ONLY, .format = &embedding_ollama_old_format,
     .write_error = ollama_error_write},

    {"/rerank", HTTP_POST, V1_AND_ROOT, .format = &rerank_format},
    {"/reranking", HTTP_POST, V1_AND_ROOT, .format = &rerank_format},
    {"/score", HTTP_POST, V1_AND_ROOT, .format = &score_format},

    {"/messages", HTTP_POST, V1_AND_ROOT, .format = &messages_format,
     .write_error = messages_error_write},
    {"/messages/count_tokens", HTTP_POST, V1_AND_ROOT, .inspect = messages_count_tokens,
     .write_error = messages_error_write},

    {"/responses", HTTP_POST, V1_AND_ROOT, .format = &responses_format, .stores = true},
    {"/responses/input_tokens", HTTP_POST, V1_AND_ROOT, .inspect = responses_count_tokens,
     .stores = true},
#define REPLY_ROW(route_path, http_method, route_prefix, route_access, errors, function)           \
    {.path = route_path,                                                                           \
     .method = http_method,                                                                        \
     .prefix = route_prefix,                                                                       \
     .access = route_access,                                                                       \
     .write_error = errors,                                                                        \
     .reply = function},
    ROUTE_REPLIES(REPLY_ROW)
#undef REPLY_ROW
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

/* Paths of the expanded table: "/v1" and the row's, since http_route points at a string. */
static char v1_paths[ROW_COUNT][PATH_BYTES];

static void handle(void *context, struct http_exchange *exchange)
{
    const struct route_context *routes = context;
    const struct route_row *row = exchange->route->row;
    void *store = row->stores ? routes->responses : NULL;
    if (row->format)
        generation_route_handle(routes->generation, exchange, row->format, store);
    else if (row->inspect)
        inspect_route_handle(routes->inspections, exchange, row->inspect, store);
    else
        row->reply(routes, exchange);
}

struct http_route *route_table_create(bool protect_metrics, size_t *count)
{
    struct http_route *routes = must_alloc(2 * ROW_COUNT, sizeof *routes);
    *count = 0;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct route_row *row = &rows[i];
        struct http_route route = {.path = row->path,
                                   .method = row->method,
                                   .open =
                                       row->access == OPEN ||
                                       (row->access == OPEN_UNLESS_PROTECTED && !protect_metrics),
                                   .admin = row->access == ADMIN,
                                   .write_error = row->write_error,
                                   .row = row,
                                   .handle = handle};
        if (row->prefix != V1_ONLY)
            routes[(*count)++] = route;
        if (row->prefix == ROOT_ONLY)
            continue;
        int bytes = snprintf(v1_paths[i], PATH_BYTES, "/v1%s", row->path);
        must(bytes > 0 && (unsigned)bytes < PATH_BYTES);
        route.path = v1_paths[i];
        routes[(*count)++] = route;
    }
    return routes;
}
