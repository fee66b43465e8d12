/*
 * The parts of a request that name a sound.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_REQUEST_AUDIO_H
#define SHOAL_FRONTEND_API_GENERATION_REQUEST_AUDIO_H

#include <stdbool.h>

#include "frontend/base/api_error.h"
#include "frontend/image/image_source.h"

struct cJSON;

/* True if parts of this type are sounds: input_audio, audio_url and audio. */
bool request_audio_is_type(const char *type);
/* Reads a part of such a type. *name is the file's, in the part's memory. */
enum result request_audio_read(const struct cJSON *part, const char *place, const char **name,
                               enum image_naming *naming, struct api_error *error) RESULT_CHECKED;

#endif
