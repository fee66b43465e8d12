/*
 * What route handlers work on.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_ROUTE_CONTEXT_H
#define SHOAL_FRONTEND_SERVE_ROUTES_ROUTE_CONTEXT_H

#include <stdbool.h>

struct generation_route;
struct http_server;
struct inspect_route;
struct model_set;
struct options;
struct model_events;
struct model_pulls;
struct response_resume;
struct response_store;
struct response_watches;
struct status_streams;

/* Complete before the event loop runs; the members outlive every exchange. */
struct route_context {
    struct http_server *server;
    struct model_set *models;
    const struct options *options;
    struct generation_route *generation;
    struct inspect_route *inspections;
    struct response_store *responses;
    struct response_watches *watches;
    struct response_resume *resume;
    struct status_streams *status_streams;
    struct model_events *model_events;
    struct model_pulls *model_pulls;
    bool health_needs_ready;
};

#endif
