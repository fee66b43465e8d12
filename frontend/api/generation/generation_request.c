/*
 * Frees a request's settings, in whole or but for its body.
 */
#include "frontend/api/generation/generation_request.h"
#include "frontend/assets/adapter_set.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "frontend/base/shared_bytes.h"
#include "proto/must.h"

const struct reasoning_format *
generation_request_reasoning(const struct generation_request *request,
                             const struct reasoning_format *model, struct reasoning_format *custom)
{
    if (!request->thinking_start && !request->thinking_end)
        return model;
    must(reasoning_format_set_custom(custom, model, request->thinking_start,
                                     request->thinking_end) == RESULT_OK);
    return custom;
}

void generation_request_drop_body(struct generation_request *request)
{
    cJSON_Delete(request->body);
    request_images_fini(&request->images);
    request->body = NULL;
    request->messages = NULL;
    request->prompts = NULL;
    request->tools = NULL;
    request->tool_name = NULL;
    request->tool_inputs = NULL;
    request->ignored_tools = NULL;
    request->template_variables = NULL;
    request->thinking_start = NULL;
    request->thinking_end = NULL;
    request->stop_count = 0;
}

void generation_request_fini(struct generation_request *request)
{
    cJSON_Delete(request->body);
    request_images_fini(&request->images);
    free(request->logit_bias);
    shared_bytes_release(request->grammar);
    adapter_release(request->adapter);
    shared_bytes_release(request->dry_breakers);
    shared_bytes_release(request->loose_tools);
    if (request->own.destroy)
        request->own.destroy(request->own.state);
    *request = (struct generation_request){0};
}
