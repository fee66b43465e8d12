/*
 * Models come from one hub at its current revision, so a name has neither a host nor a revision.
 */
#include "frontend/api/ollama/ollama_pull.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"

static const char *const known[] = {"model", "name", "stream", "insecure", NULL};

static enum result fields_read(const cJSON *body, struct ollama_pull *pull, struct api_error *error)
{
    const size_t most = sizeof pull->name - 1;
    const char *model, *name;
    bool insecure = false;
    struct hub_name parsed;
    if (request_fields_check_known(body, known, error) != RESULT_OK ||
        request_fields_read_bool(body, "stream", "stream", &pull->stream, error) != RESULT_OK ||
        request_fields_read_bool(body, "insecure", "insecure", &insecure, error) != RESULT_OK ||
        request_fields_read_string(body, "model", most, &model, error) != RESULT_OK ||
        request_fields_read_string(body, "name", most, &name, error) != RESULT_OK)
        return RESULT_INVALID;
    if (insecure)
        return api_error_invalid(error, "insecure", "insecure cannot be true");
    if (model && name)
        return api_error_invalid(error, "name", "name is the former name of model: send one");
    if (!model && !name)
        return api_error_invalid(error, "model", "model is required");
    pull->stream |= !request_fields_member(body, "stream");
    model = model ? model : name;
    if (!hub_name_parse(model, &parsed) || parsed.has_revision)
        return api_error_invalid(error, "model",
                                 "model must be a name on the hub: org/name or org/name:QUANT");
    strcpy(pull->name, model);
    return RESULT_OK;
}

enum result ollama_pull_parse(const char *json, size_t json_bytes, struct ollama_pull *pull,
                              struct api_error *error)
{
    cJSON *body;
    *pull = (struct ollama_pull){0};
    enum result result = request_fields_read_body(json, json_bytes, &body, error);
    if (result != RESULT_OK)
        return result;
    result = fields_read(body, pull, error);
    cJSON_Delete(body);
    return result;
}
