/*
 * The bodies of vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_ADAPTER_REQUEST_H
#define SHOAL_FRONTEND_API_GENERATION_ADAPTER_REQUEST_H

#include "frontend/assets/adapter_set.h"
#include "frontend/assets/model_assets.h"
#include "frontend/base/api_error.h"

struct adapter_request {
    char name[LIMIT_ADAPTER_NAME_BYTES]; /* lora_name */
    char path[ADAPTER_PATH_BYTES];       /* lora_path */
    bool replaces;                       /* load_inplace */
};

/* RESULT_INVALID: *error is the reply. The name is none of the model's own, and base_model_name is one. */
enum result adapter_request_parse_load(const struct model_assets *assets, const char *json,
                                       size_t json_bytes, struct adapter_request *request,
                                       struct api_error *error) RESULT_CHECKED;
/* Sets the name alone. */
enum result adapter_request_parse_unload(const char *json, size_t json_bytes,
                                         struct adapter_request *request,
                                         struct api_error *error) RESULT_CHECKED;

#endif
