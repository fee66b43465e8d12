/*
 * What became of a request's tools, told in the log and in headers of the reply.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_TOOL_NOTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_TOOL_NOTES_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/assets/model_assets.h"
#include "frontend/http/http_exchange.h"

/* Names the format of calls, the tools that are left out, and those whose schemas are not held exactly.
 * `exchange` NULL: only in the log. */
void tool_notes_add(struct http_exchange *exchange, const char *request_id,
                    const struct generation_request *request, const struct model_assets *assets);

#endif
