/*
 * The settings of a Responses request: all fields except its input and its tools.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FIELDS_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FIELDS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/responses/responses_tools.h"

struct cJSON;

/* Settings that struct generation_request does not have. */
struct responses_settings {
    bool store;
};

/* Fills stream, background, max_new_tokens, logprobs, thinking and template_variables of the
 * request, and checks the rest. Adds a member with template variables to `body`. */
enum result responses_fields_read(struct cJSON *body, struct generation_request *request,
                                  struct responses_settings *settings,
                                  struct api_error *error) RESULT_CHECKED;

/* The kind of summary of the reasoning that a checked body asks for, inside the body; NULL: none. */
const char *responses_fields_summary(const struct cJSON *body);

/* Writes the members of the response object that the request sets, each after a comma. */
void responses_fields_write(const struct cJSON *body, const struct generation_request *request,
                            const struct responses_settings *settings, const char *model_id,
                            const struct responses_tools_shown *shown, struct text_buffer *out);

#endif
