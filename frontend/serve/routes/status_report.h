/*
 * Status for operators: every worker and every request, as JSON.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_STATUS_REPORT_H
#define SHOAL_FRONTEND_SERVE_ROUTES_STATUS_REPORT_H

#include "frontend/base/client_key.h"
#include "frontend/base/text_buffer.h"
#include "frontend/serve/models/model_set.h"

/* Lists the requests and convictions of the client with the key `viewer`; NULL: of all. frontend/serve/README.md lists the fields. About 150 bytes per live request. */
void status_report_write(struct chat_engine *engine, const struct client_key *viewer,
                         struct text_buffer *out);
/* With --models-dir: every model, with the same report of those that are loaded. */
void status_report_write_models(const struct model_set *models, const struct client_key *viewer,
                                struct text_buffer *out);
/* An array of the models' states, without reports. */
void status_report_write_states(const struct model_set *models, struct text_buffer *out);

#endif
