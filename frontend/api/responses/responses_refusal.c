/*
 * Three events: the response as it was created, the error, the failed response. The request was
 * discarded with its preparation, so its fields have the API's defaults.
 */
#include "frontend/api/responses/responses_refusal.h"

#include <string.h>

static void error_write(const struct api_error *error, struct text_buffer *out)
{
    text_buffer_append_format(
        out, "\"code\":\"%s\",\"message\":", error->code ? error->code : "server_error");
    api_error_append_words(error->message, out);
}

static void response_write(const struct reply_refusal *refusal, bool failed,
                           struct text_buffer *out)
{
    text_buffer_append_format(out,
                              ",\"response\":{\"id\":\"%s\",\"object\":\"response\","
                              "\"created_at\":%lld,\"status\":\"%s\",\"completed_at\":null,"
                              "\"output\":[],\"model\":",
                              refusal->id, (long long)refusal->created_unix_s,
                              failed ? "failed" : "in_progress");
    text_buffer_append_json_string(out, refusal->model_id, strlen(refusal->model_id));
    text_buffer_append_text(out, ",\"error\":");
    if (failed) {
        text_buffer_append_text(out, "{");
        error_write(refusal->error, out);
        text_buffer_append_text(out, "}");
    } else {
        text_buffer_append_text(out, "null");
    }
    text_buffer_append_text(out, ",\"incomplete_details\":null,\"instructions\":null,"
                                 "\"metadata\":{},\"parallel_tool_calls\":true,"
                                 "\"temperature\":null,\"top_p\":null,\"tool_choice\":\"auto\","
                                 "\"tools\":[],\"store\":false,\"background\":false,"
                                 "\"usage\":null}}\n\n");
}

static void event_begin(const char *name, unsigned number, struct text_buffer *out)
{
    text_buffer_append_format(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", name,
                              name, number);
}

void responses_refusal_write(const struct reply_refusal *refusal, struct text_buffer *out)
{
    event_begin("response.created", 0, out);
    response_write(refusal, false, out);
    event_begin("error", 1, out);
    text_buffer_append_text(out, ",");
    error_write(refusal->error, out);
    text_buffer_append_text(out, ",\"param\":");
    api_error_append_words(refusal->error->param, out);
    text_buffer_append_text(out, "}\n\n");
    event_begin("response.failed", 2, out);
    response_write(refusal, true, out);
}
