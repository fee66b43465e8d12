/*
 * Which of the server's models a request is for.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_MODEL_CHOICE_H
#define SHOAL_FRONTEND_SERVE_ROUTES_MODEL_CHOICE_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/models/model_set.h"
#include "frontend/serve/routes/route_context.h"

/* By member "model" of the body. With --models-dir a compressed body is unpacked in place, up to
 * MODEL_CHOICE_UNPACKED_BYTES. NULL: *error is the reply. */
#define MODEL_CHOICE_UNPACKED_BYTES (1u << 20)
struct model *model_choice_of_body(const struct model_set *set, struct prepare_input *input,
                                   struct api_error *error);

/* By member "model" of the query; NULL after an error reply. */
struct model *model_choice_of_query(const struct route_context *context,
                                    struct http_exchange *exchange);
/* The same, and its engine; NULL after an error reply also if the model is not loaded. */
struct chat_engine *model_choice_engine(const struct route_context *context,
                                        struct http_exchange *exchange);

#endif
