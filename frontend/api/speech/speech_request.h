/*
 * Reads the form of /v1/audio/transcriptions and /v1/audio/translations, and prepares the first round of the answer
 * (speech_job.h), as api_format.parse and .prepare.
 */
#ifndef SHOAL_FRONTEND_API_SPEECH_SPEECH_REQUEST_H
#define SHOAL_FRONTEND_API_SPEECH_SPEECH_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

struct prepared_generation;

enum result speech_request_parse_transcription(const struct parse_context *context,
                                               const char *body, size_t body_bytes,
                                               struct generation_request *request,
                                               struct api_error *error) RESULT_CHECKED;
enum result speech_request_parse_translation(const struct parse_context *context, const char *body,
                                             size_t body_bytes, struct generation_request *request,
                                             struct api_error *error) RESULT_CHECKED;
enum result speech_request_prepare(const struct parse_context *context,
                                   struct prepared_generation *prepared,
                                   struct api_error *error) RESULT_CHECKED;

#endif
