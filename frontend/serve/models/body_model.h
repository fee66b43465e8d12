/*
 * Finds the model that a request names, before its body is parsed: the server must know which
 * model's threads parse it.
 *
 * It only looks for one member and proves nothing about the rest of the body. The parser of the
 * chosen model checks the whole body, and that the model has this name.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_BODY_MODEL_H
#define SHOAL_FRONTEND_SERVE_MODELS_BODY_MODEL_H

#include <stdbool.h>
#include <stddef.h>

enum body_model {
    BODY_MODEL_NAMED,  /* written to `name`, NUL-terminated */
    BODY_MODEL_ABSENT, /* no such member, or the body is not an object */
    BODY_MODEL_INVALID /* not a string, longer than `name`, or with a NUL */
};

/* Looks for the first member "model" of the JSON object `json`. Linear time; `name` has `capacity`
 * bytes, at least 1. */
enum body_model body_model_find(const char *json, size_t json_bytes, char *name, size_t capacity);
/* True if the value of the first member "stream" of the object begins with `true`. Linear time. */
bool body_model_streams(const char *json, size_t json_bytes);

#endif
