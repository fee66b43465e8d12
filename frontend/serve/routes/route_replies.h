/*
 * The routes that are answered at once, on the loop, from what the frontend has at hand. A new one is a row here, its function
 * and its entry in frontend/api/openapi.json.
 *
 *   row(path, method, prefix, access, errors, function)
 *
 * Rows are compared in this order, after those of route_table.c. A path that ends with '/' stands for every path below it.
 * `errors`: who writes an error in the API's own shape; NULL: OpenAI's.
 *
 *   llama_routes_slots         with ?fail_on_no_slot=1 503 if every slot is in use. Requests of other API keys are in use without
 *                              details, unless the key is an admin's
 *   model_pulls_start          403 without --endpoint, 503 while another download runs (model_pull.h)
 *   ollama_routes_tags         the served model under each of its names
 *   ollama_routes_ps           the model, if a worker is ready
 *   ollama_routes_version      the version of Ollama's API that these routes follow
 *   responses_routes_get       a stored response, or its input_items; one of another key's client is not found
 *   responses_routes_delete    an answer in progress is cancelled first
 *   responses_routes_post      /cancel; a finished response is returned unchanged
 *   model_events_open          400 with --model, 429 beyond LIMIT_STATUS_STREAMS streams (model_events.h)
 *   model_routes_get           with --models-dir every entry has llama.cpp's `status`, and one that is not loaded only what its files
 *                              tell
 *   model_routes_load, _unload {"model": NAME}, as llama.cpp's router: begins it and replies {"success": true}
 *   adapter_routes_load, _unload  403 without --lora-dir; a load is answered when the workers have read the adapter (adapter_changes.h)
 *   status_routes_health       200 while the loop runs; with --health-needs-ready as /ready
 *   page_routes_root           the page for a browser (Accept lists text/html), otherwise as /health
 *   status_routes_ready        200 if a worker is ready to run a request, otherwise 503 with the progress of loading
 *   status_routes_status       every worker and every request (status_report.h)
 *   status_stream_open         events `status` and `figures` every STATUS_STREAM_MS (status_stream.h); 429 beyond
 *                              LIMIT_STATUS_STREAMS
 *   quarantine_routes_delete   404 for an unknown id and for a conviction of another client (quarantine_routes.h)
 *   cache_routes_stats, _reset contents and hits of the prefix and image caches
 *   metrics_page_reply         for Prometheus and gateways, from the frontend's counters and the workers' gauges
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_ROUTE_REPLIES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_ROUTE_REPLIES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

/* With a prefix "/v1", without one, or both. */
enum route_prefix { V1_ONLY, ROOT_ONLY, V1_AND_ROOT };

/* With any key, without one, without one unless --protect-metrics is given, with an admin's. */
enum route_access { KEY, OPEN, OPEN_UNLESS_PROTECTED, ADMIN };

/* clang-format off */
#define ROUTE_REPLIES(row)                                                                                     \
    row("/props",          HTTP_GET,    ROOT_ONLY,   KEY,   NULL,               llama_routes_props)            \
    row("/slots",          HTTP_GET,    ROOT_ONLY,   KEY,   NULL,               llama_routes_slots)            \
    row("/api/pull",       HTTP_POST,   ROOT_ONLY,   ADMIN, ollama_error_write, model_pulls_start)             \
    row("/api/tags",       HTTP_GET,    ROOT_ONLY,   KEY,   ollama_error_write, ollama_routes_tags)            \
    row("/api/ps",         HTTP_GET,    ROOT_ONLY,   KEY,   ollama_error_write, ollama_routes_ps)              \
    row("/api/version",    HTTP_GET,    ROOT_ONLY,   KEY,   ollama_error_write, ollama_routes_version)         \
    row("/responses/",     HTTP_GET,    V1_AND_ROOT, KEY,   NULL,               responses_routes_get)          \
    row("/responses/",     HTTP_DELETE, V1_AND_ROOT, KEY,   NULL,               responses_routes_delete)       \
    row("/responses/",     HTTP_POST,   V1_AND_ROOT, KEY,   NULL,               responses_routes_post)         \
    row("/models/sse",     HTTP_GET,    V1_AND_ROOT, KEY,   NULL,               model_events_open)             \
    row("/models",         HTTP_GET,    V1_AND_ROOT, KEY,   NULL,               model_routes_get)              \
    row("/models/",        HTTP_GET,    V1_AND_ROOT, KEY,   NULL,               model_routes_get)              \
    row("/models/load",    HTTP_POST,   V1_AND_ROOT, ADMIN, NULL,               model_routes_load)             \
    row("/models/unload",  HTTP_POST,   V1_AND_ROOT, ADMIN, NULL,               model_routes_unload)           \
    row("/load_lora_adapter",   HTTP_POST, V1_ONLY, ADMIN, NULL,                adapter_routes_load)           \
    row("/unload_lora_adapter", HTTP_POST, V1_ONLY, ADMIN, NULL,                adapter_routes_unload)         \
    row("/health",         HTTP_GET,    V1_AND_ROOT, OPEN,  NULL,               status_routes_health)          \
    row("/ping",           HTTP_GET,    ROOT_ONLY,   OPEN,  NULL,               status_routes_health)          \
    row("/",               HTTP_GET,    ROOT_ONLY,   OPEN,  NULL,               page_routes_root)              \
    row("/page/",          HTTP_GET,    ROOT_ONLY,   OPEN,  NULL,               page_routes_file)              \
    row("/version",        HTTP_GET,    V1_AND_ROOT, KEY,   NULL,               status_routes_version)         \
    row("/ready",          HTTP_GET,    V1_AND_ROOT, OPEN,  NULL,               status_routes_ready)           \
    row("/status",         HTTP_GET,    V1_ONLY,     KEY,   NULL,               status_routes_status)          \
    row("/status/stream",  HTTP_GET,    V1_ONLY,     KEY,   NULL,               status_stream_open)            \
    row("/quarantine/",    HTTP_DELETE, V1_ONLY,     KEY,   NULL,               quarantine_routes_delete)      \
    row("/cache/stats",    HTTP_GET,    V1_ONLY,     KEY,   NULL,               cache_routes_stats)            \
    row("/cache/reset",    HTTP_POST,   V1_ONLY,     ADMIN, NULL,               cache_routes_reset)            \
    row("/openapi.json",   HTTP_GET,    ROOT_ONLY,   KEY,   NULL,               status_routes_openapi)         \
    row("/metrics",        HTTP_GET,    ROOT_ONLY,   OPEN_UNLESS_PROTECTED, NULL, metrics_page_reply)
/* clang-format on */

#define ROUTE_REPLY_DECLARE(path, method, prefix, access, errors, function)                        \
    void function(const struct route_context *context, struct http_exchange *exchange);
ROUTE_REPLIES(ROUTE_REPLY_DECLARE)
#undef ROUTE_REPLY_DECLARE

#endif
