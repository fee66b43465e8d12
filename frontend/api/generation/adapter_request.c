/*
 * Adapters have no number in this API, and experts none of their own: vLLM's members for both must be absent or null.
 */
#include "frontend/api/generation/adapter_request.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"

static const char *const load_members[] = {"lora_name",    "lora_path",         "base_model_name",
                                           "load_inplace", "is_3d_lora_weight", NULL};
static const char *const unload_members[] = {"lora_name", "lora_int_id", NULL};
static const char *const load_refused[] = {"is_3d_lora_weight", NULL};
static const char *const unload_refused[] = {"lora_int_id", NULL};

static enum result read_text(const cJSON *body, const char *name, char *text, size_t capacity,
                             struct api_error *error)
{
    const char *value;
    if (request_fields_read_string(body, name, capacity - 1, &value, error) != RESULT_OK)
        return RESULT_INVALID;
    if (!value || !value[0])
        return api_error_invalid(error, name, "%s is required", name);
    strcpy(text, value);
    return RESULT_OK;
}

static enum result read_load(const struct model_assets *assets, const cJSON *body,
                             struct adapter_request *request, struct api_error *error)
{
    const char *base;
    if (request_fields_check_known(body, load_members, error) != RESULT_OK ||
        request_fields_refuse(body, load_refused, error) != RESULT_OK ||
        read_text(body, "lora_name", request->name, sizeof request->name, error) != RESULT_OK ||
        read_text(body, "lora_path", request->path, sizeof request->path, error) != RESULT_OK ||
        request_fields_read_bool(body, "load_inplace", "load_inplace", &request->replaces, error) !=
            RESULT_OK ||
        request_fields_read_string(body, "base_model_name", LIMIT_ADAPTER_NAME_BYTES - 1, &base,
                                   error) != RESULT_OK)
        return RESULT_INVALID;
    if (base && !model_assets_has_own_name(assets, base))
        return api_error_invalid(error, "base_model_name", "this server has the model '%.100s'",
                                 assets->model_id);
    if (model_assets_has_own_name(assets, request->name))
        return api_error_invalid(error, "lora_name", "the model itself has this name");
    return RESULT_OK;
}

enum result adapter_request_parse_load(const struct model_assets *assets, const char *json,
                                       size_t json_bytes, struct adapter_request *request,
                                       struct api_error *error)
{
    cJSON *body;
    *request = (struct adapter_request){0};
    if (request_fields_read_body(json, json_bytes, &body, error) != RESULT_OK)
        return RESULT_INVALID;
    enum result result = read_load(assets, body, request, error);
    cJSON_Delete(body);
    return result;
}

enum result adapter_request_parse_unload(const char *json, size_t json_bytes,
                                         struct adapter_request *request, struct api_error *error)
{
    cJSON *body;
    *request = (struct adapter_request){0};
    if (request_fields_read_body(json, json_bytes, &body, error) != RESULT_OK)
        return RESULT_INVALID;
    enum result result = request_fields_check_known(body, unload_members, error);
    if (result == RESULT_OK)
        result = request_fields_refuse(body, unload_refused, error);
    if (result == RESULT_OK)
        result = read_text(body, "lora_name", request->name, sizeof request->name, error);
    cJSON_Delete(body);
    return result;
}
