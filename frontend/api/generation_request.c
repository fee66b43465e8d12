/*
 * The life of a request's settings. Readers fill them.
 */
#include "frontend/api/generation_request.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

void generation_request_drop_body(struct generation_request *request)
{
    cJSON_Delete(request->body);
    request->body = NULL;
    request->messages = NULL;
    request->prompts = NULL;
    request->tools = NULL;
    request->tool_name = NULL;
    request->template_variables = NULL;
    request->thinking_start = NULL;
    request->thinking_end = NULL;
    request->stop_count = 0;
}

void generation_request_fini(struct generation_request *request)
{
    cJSON_Delete(request->body);
    free(request->logit_bias);
    if (request->own.destroy)
        request->own.destroy(request->own.state);
    *request = (struct generation_request){0};
}
