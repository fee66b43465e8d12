/*
 * GET /models/sse: llama.cpp's event stream of a server of several models. Each event is one JSON object
 * {"model", "event", "data"}: `model_status` for every model when the stream begins, and `status_change`
 * whenever a model is loaded, unloaded or fails, and while its loading makes progress.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_MODEL_EVENTS_H
#define SHOAL_FRONTEND_SERVE_ROUTES_MODEL_EVENTS_H

struct event_base;
struct model;
struct model_events;
struct options;

struct model_events *model_events_create(struct event_base *base, const struct options *options);
/* Ends every stream. Others may be opened later. */
void model_events_end(struct model_events *events);
/* No stream is left. NULL is allowed. */
void model_events_destroy(struct model_events *events);

/* Tells all streams the model's state. */
void model_events_tell(struct model_events *events, const struct model *model);

#endif
