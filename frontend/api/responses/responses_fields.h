/*
 * The settings of a request of the Responses API: every field but what it says and its tools.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FIELDS_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FIELDS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/request_fields.h"

struct cJSON;

/* Those that are not in struct generation_request. */
struct responses_settings {
    bool store;
};

/* Fills stream, background, max_new_tokens, logprobs, thinking and template_variables of the
 * request, and checks the rest. Adds a member to `body` for variables of the template. */
enum result responses_fields_read(struct cJSON *body, struct generation_request *request,
                                  struct responses_settings *settings,
                                  struct api_error *error) RESULT_CHECKED;

/* The members of the response object that the request decides, each with a comma before it.
 * `tools` is the list as the client sent it, as JSON. */
void responses_fields_write(const struct cJSON *body, const struct generation_request *request,
                            const struct responses_settings *settings, const char *model_id,
                            const char *tools, struct text_buffer *out);

#endif
