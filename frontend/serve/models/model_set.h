/*
 * The models of a server: one that is loaded for good (--model), or those of a directory
 * (--models-dir), each loaded when a request needs it and unloaded to make room or when idle.
 *
 *   UNLOADED --a request, or preload--> LOADING --ready--> READY
 *      ^  ^                                |                 | no requests; room is needed, idle too
 *      |  +----------- FAILED <--failed----+<----failed------+ long, or asked
 *      |                                                     v
 *      +-------------------all processes ended---------- UNLOADING
 *
 * A model has an instance with a chat_engine while it is LOADING, READY or UNLOADING: workers, preparation
 * threads and caches of its own, so that its failures touch no other model. A changed model is loaded
 * beside the old instance, which ends with its last request (model_instance.h). A FAILED one is tried again by
 * a request after MODEL_RETRY_MS. All calls are from the event loop's thread.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_SET_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_SET_H

#include "frontend/serve/models/model_set_config.h"

#define MODEL_NAME_BYTES 256u /* as model_assets.model_id */

struct model;
struct model_set;

/* Reads --models-dir. */
enum result model_set_create(const struct model_set_config *config, struct model_set **set,
                             struct error_text *error) RESULT_CHECKED;
void model_set_destroy(struct model_set *set);

/* True with --models-dir. */
bool model_set_is_directory(const struct model_set *set);
uint32_t model_set_count(const struct model_set *set);
struct model *model_set_at(const struct model_set *set, uint32_t index);
/* By its name or one of its served names; NULL: none has it. With --model every name, and NULL, is
 * the one model's: its parser checks the name. */
struct model *model_set_find(const struct model_set *set, const char *name);
/* NULL with an error if the set has no model of that name. */
struct model *model_set_find_or_refuse(const struct model_set *set, const char *name,
                                       struct api_error *error);

const char *model_name(const struct model *model);
enum model_state model_state(const struct model *model);
/* llama.cpp's words: "unloaded", "loading", "loaded", "unloading", "failed". */
const char *model_state_name(enum model_state state);
const char *model_failure(const struct model *model); /* "" unless FAILED */
/* NULL while it is unloaded. */
struct chat_engine *model_engine(const struct model *model);
const struct options *model_options(const struct model *model);
uint64_t model_bytes(const struct model *model); /* of its weights' files; 0 with --model */
int64_t model_modified_unix_s(const struct model *model);
uint32_t model_waiting(const struct model *model); /* requests that wait until it is loaded */
int64_t model_used_ms(const struct model *model);  /* monotonic; 0: never */

/* Milliseconds without a request after which it is unloaded; -1: never. */
int64_t model_idle_limit_ms(const struct model *model);

/* Another form of it is loaded, or waits for room. */
bool model_is_reloading(const struct model *model);
/* Requests in progress on instances that were replaced. */
uint32_t model_set_retired_requests(const struct model_set *set);

/* A successor has the state directory: prefix caches are not saved any more. */
void model_set_end_saving(struct model_set *set);
/* RESULT_OK if the server takes requests; otherwise the 503. */
enum result model_set_check_ready(const struct model_set *set,
                                  struct api_error *error) RESULT_CHECKED;
void model_set_drain(struct model_set *set);
void model_set_fail_all(struct model_set *set, const struct api_error *error);

#endif
