/*
 * Fields that several APIs share, read and checked one at a time: types, ranges, counts. A field
 * that is null counts as absent. An error's param names the field.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_REQUEST_FIELDS_H
#define SHOAL_FRONTEND_API_GENERATION_REQUEST_FIELDS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/assets/model_assets.h"

struct cJSON;

/* Parses the whole body: one JSON object (RFC 8259) without NUL characters, nested at most LIMIT_BODY_DEPTH deep, no object with
 * two members of one name. *body is the caller's on RESULT_OK, otherwise NULL. */
enum result request_fields_read_body(const char *json, size_t json_bytes, struct cJSON **body,
                                     struct api_error *error) RESULT_CHECKED;
/* NULL if the field is absent or null. */
const struct cJSON *request_fields_member(const struct cJSON *object, const char *name);

/* `param`: name of the field in errors. False if it is absent. */
enum result request_fields_read_bool(const struct cJSON *object, const char *name,
                                     const char *param, bool *value,
                                     struct api_error *error) RESULT_CHECKED;
/* *present: whether it exists. Exact for magnitudes below 2^53. */
enum result request_fields_read_integer(const struct cJSON *body, const char *name, double least,
                                        double most, bool *present, int64_t *value,
                                        struct api_error *error) RESULT_CHECKED;

/* A string of at most `most` bytes, inside the body; NULL if absent. */
enum result request_fields_read_string(const struct cJSON *body, const char *name, size_t most,
                                       const char **value, struct api_error *error) RESULT_CHECKED;
/* Refuses each of the fields (NULL-terminated) that is neither absent, null, false, 0 nor empty. */
enum result request_fields_refuse(const struct cJSON *body, const char *const names[],
                                  struct api_error *error) RESULT_CHECKED;

/* Refuses a member that is not one of these (NULL-terminated). */
enum result request_fields_check_known(const struct cJSON *body, const char *const known[],
                                       struct api_error *error) RESULT_CHECKED;

/* Checks that `model` is the served model, an adapter of it, or absent. */
enum result request_fields_check_model(const struct cJSON *body, const struct model_assets *assets,
                                       struct api_error *error) RESULT_CHECKED;
/* The adapter that `model` names, to be released; NULL: it names none. `body` may be NULL. Refuses a
 * name that was an adapter's when it was checked. */
enum result request_fields_take_adapter(const struct cJSON *body, const struct model_assets *assets,
                                        const struct adapter **adapter,
                                        struct api_error *error) RESULT_CHECKED;
/* The name of the adapter that `model` names, in the body; otherwise the model's. */
const char *request_fields_model_name(const struct cJSON *body, const struct model_assets *assets);
/* Reads all of struct sampling_params. Absent fields come from the checkpoint, otherwise from
 * OpenAI's defaults; an absent seed from `random_seed`. */
enum result request_fields_read_sampling(const struct cJSON *body,
                                         const struct model_assets *assets, uint64_t random_seed,
                                         struct sampling_params *sampling,
                                         struct api_error *error) RESULT_CHECKED;
/* Reads `min_tokens`, `ignore_eos`, `speculation` and llama.cpp's `cache_prompt`; call it after the request's
 * max_new_tokens is set. */
enum result request_fields_read_ends(const struct cJSON *body, struct generation_request *request,
                                     struct api_error *error) RESULT_CHECKED;
/* Reads `name`: a string or a list of strings (OpenAI's `stop`, Anthropic's `stop_sequences`). */
enum result request_fields_read_stop(const struct cJSON *body, const char *name,
                                     struct generation_request *request,
                                     struct api_error *error) RESULT_CHECKED;
/* Reads vLLM's `stop_token_ids` and `include_stop_str_in_output`. */
enum result request_fields_read_stop_tokens(const struct cJSON *body,
                                            const struct model_assets *assets,
                                            struct generation_request *request,
                                            struct api_error *error) RESULT_CHECKED;

#endif
