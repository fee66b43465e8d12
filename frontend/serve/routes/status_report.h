/*
 * Status for operators: every worker and every request, as JSON.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_STATUS_REPORT_H
#define SHOAL_FRONTEND_SERVE_ROUTES_STATUS_REPORT_H

#include "frontend/base/text_buffer.h"
#include "frontend/serve/engine/chat_engine.h"

/* frontend/serve/README.md lists the fields. About 150 bytes per live request. */
void status_report_write(const struct chat_engine *engine, struct text_buffer *out);

#endif
