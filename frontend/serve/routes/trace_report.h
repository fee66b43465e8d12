/*
 * Event "trace" of GET /v1/status/stream: the newest steps of each worker and a map of its KV
 * cache (proto/step_trace.h).
 *
 *     {"workers":[{"worker":0,"step_count":812,"steps":[[64,0,0,6100],...],"kv_map":"0f0f..."}]}
 *
 * `step_count` counts the steps of the worker's process, the last of `steps` included: decode rows,
 * prompt rows, image patches, microseconds. `kv_map` has two hexadecimal digits for each cell: the
 * part that only the prefix cache has, the part in use. Workers without a process are left out.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_TRACE_REPORT_H
#define SHOAL_FRONTEND_SERVE_ROUTES_TRACE_REPORT_H

struct chat_engine;
struct text_buffer;

/* Appends the JSON, and asks the workers for a new map, which the next report shows. */
void trace_report_write(struct chat_engine *engine, struct text_buffer *out);

#endif
