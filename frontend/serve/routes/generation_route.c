/*
 * All requests for answers (generation_call.h), and one timer that sends keep-alives to silent
 * streams; it runs only while there are streams.
 */
#include "frontend/serve/routes/generation_route.h"

#include <event2/event.h>
#include <stdlib.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/routes/generation_call.h"
#include "proto/must.h"

#define KEEP_ALIVE_LOOK_MS 500

struct generation_route {
    struct generation_calls calls;
    struct event *timer;
};

static void timer_start(struct generation_route *route)
{
    event_add(route->timer, &(struct timeval){.tv_usec = KEEP_ALIVE_LOOK_MS * 1000});
}

static void on_stream_begins(void *context)
{
    struct generation_route *route = context;
    if (!event_pending(route->timer, EV_TIMEOUT, NULL))
        timer_start(route);
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct generation_route *route = context;
    int64_t now_ms = monotonic_clock_ms();
    bool any = false;
    for (struct generation_call *call = route->calls.list; call; call = generation_call_next(call))
        any |= generation_call_keep_alive(call, now_ms);
    if (any)
        timer_start(route);
}

void generation_route_handle(struct generation_route *route, struct http_exchange *exchange,
                             const struct api_format *format, void *format_context)
{
    generation_call_start(&route->calls, exchange, format, format_context);
}

enum result generation_route_cancel(struct generation_route *route,
                                    const struct client_key *client_key, const char *id)
{
    struct generation_call *call = generation_call_find(&route->calls, client_key, id);
    if (!call)
        return RESULT_NOT_FOUND;
    generation_call_stop(call);
    return RESULT_OK;
}

enum result generation_route_resume(struct generation_route *route,
                                    const struct generation_resumption *resumption,
                                    struct api_error *error)
{
    return generation_call_resume(&route->calls, resumption, error);
}

void generation_route_drop_resumed(struct generation_route *route, const char *id)
{
    struct generation_call *call = generation_call_find_resumed(&route->calls, id);
    if (call)
        generation_call_drop(call);
}

struct generation_route *generation_route_create(const struct generation_route_config *config)
{
    struct generation_route *route = must_alloc(1, sizeof *route);
    route->calls = (struct generation_calls){.models = config->models,
                                             .salt_key = config->salt_key,
                                             .options = config->options,
                                             .usage = config->usage,
                                             .watches = config->watches,
                                             .base = config->base,
                                             .stream_begins = on_stream_begins,
                                             .context = route};
    route->timer = event_new(config->base, -1, 0, on_timer, route);
    must(route->timer != NULL);
    return route;
}

void generation_route_destroy(struct generation_route *route)
{
    if (!route)
        return;
    while (route->calls.list)
        generation_call_drop(route->calls.list);
    event_free(route->timer);
    free(route);
}

const struct generation_counters *generation_route_counters(const struct generation_route *route)
{
    return &route->calls.counters;
}
