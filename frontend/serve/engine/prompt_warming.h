/*
 * Computes the prompts of a file (--warm-prompts) when the engine becomes ready, so that later requests
 * which begin like them find their prefix cached.
 *
 * The file has a JSON object a line: the body of a chat completion. Empty lines are skipped. Only the
 * prompt is computed: the answer ends with its first token. One prompt is computed at a time, beside the
 * requests of clients. What fails is logged and skipped; while the server is full, it waits.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_PROMPT_WARMING_H
#define SHOAL_FRONTEND_SERVE_ENGINE_PROMPT_WARMING_H

#include "frontend/api/generation/cache_salt.h"
#include "frontend/serve/engine/live_request.h"
#include "frontend/serve/engine/prepare_pool.h"

struct event_base;
struct prompt_warming;

struct prompt_warming_config {
    struct event_base *base;
    const char *path;           /* of the file; need not outlive the call */
    struct cache_salts tenants; /* each has a cache of its own */
    /* chat_engine_admit() of `engine`. */
    enum result (*admit)(struct chat_engine *engine, struct prepare_input *input,
                         const struct live_request_sink *sink, void *sink_context,
                         struct live_request **request, struct api_error *error);
    struct chat_engine *engine;
};
/* RESULT_INVALID, with a message, if the file cannot be read, is larger than LIMIT_WARM_BYTES, or has more
 * than LIMIT_WARM_PROMPTS prompts. */
enum result prompt_warming_create(const struct prompt_warming_config *config,
                                  struct prompt_warming **warming,
                                  struct error_text *error) RESULT_CHECKED;
/* Call while the engine's requests can still be cancelled. NULL is allowed. */
void prompt_warming_destroy(struct prompt_warming *warming);
/* The engine became ready, perhaps again: begins with the first prompt, unless it is at work. */
void prompt_warming_start(struct prompt_warming *warming);

#endif
