/*
 * GET /v1/status/stream: the status report and the totals behind /metrics as server-sent events,
 * for the dashboard of the page.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_STATUS_STREAM_H
#define SHOAL_FRONTEND_SERVE_ROUTES_STATUS_STREAM_H

struct event_base;
struct status_streams;

struct status_streams *status_streams_create(struct event_base *base);
/* Ends all streams; they would never end by themselves. */
void status_streams_end(struct status_streams *streams);
/* Call after every exchange is over. NULL is allowed. */
void status_streams_destroy(struct status_streams *streams);

#endif
