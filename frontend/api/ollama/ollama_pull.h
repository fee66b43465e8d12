/*
 * The body of Ollama's POST /api/pull.
 */
#ifndef SHOAL_FRONTEND_API_OLLAMA_OLLAMA_PULL_H
#define SHOAL_FRONTEND_API_OLLAMA_OLLAMA_PULL_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/api_error.h"
#include "frontend/hub/hub_name.h"

#define OLLAMA_PULL_NAME_BYTES (2 * HUB_PART_BYTES + HUB_QUANT_BYTES + 2)

struct ollama_pull {
    char name[OLLAMA_PULL_NAME_BYTES]; /* org/name or org/name:QUANT */
    bool stream;
};

/* Members: `model` (formerly `name`), `stream` (default true) and `insecure`, which may only be false. Others are refused. */
enum result ollama_pull_parse(const char *json, size_t json_bytes, struct ollama_pull *pull,
                              struct api_error *error) RESULT_CHECKED;

#endif
