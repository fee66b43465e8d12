/*
 * An error reply in OpenAI's shape: {"error":{"message","type","param","code"}} with its HTTP
 * status.
 */
#ifndef SHOAL_FRONTEND_BASE_API_ERROR_H
#define SHOAL_FRONTEND_BASE_API_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "proto/result.h"

#define API_PARAM_BYTES 96u /* a parameter's path, such as "messages[12].content[3].text" */

/* A request that is longer than the context, for APIs whose clients read the numbers. */
struct context_overflow {
    size_t prompt_tokens;   /* 0: unknown */
    uint32_t answer_tokens; /* requested, if only prompt and answer together are too long; else 0 */
    uint32_t most_tokens;   /* of prompt and answer */
    const char *option;     /* static: the operator's option that set most_tokens, or NULL */
    bool at_least;          /* the prompt may have more tokens than were counted */
};

struct api_error {
    int status;       /* HTTP */
    const char *type; /* static: "invalid_request_error", "rate_limit_error", "server_error", … */
    const char *code; /* static, or NULL for null */
    char param[API_PARAM_BYTES]; /* "" for null */
    char message[512];
    uint32_t retry_after_s;           /* > 0: sent as Retry-After */
    struct context_overflow overflow; /* most_tokens > 0: this is the error */
    bool in_stream; /* the client asked for a stream and expects this error as its events */
};

/* 400 invalid_request_error about `param` ("" for none). Returns RESULT_INVALID. */
enum result api_error_invalid(struct api_error *error, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Any other error. type follows from status (400/404/413 invalid_request_error, 401
 * authentication_error, 403 permission_error, 429 rate_limit_error, 5xx server_error). Returns
 * `result`. */
enum result api_error_set(struct api_error *error, enum result result, int status, const char *code,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
/* 500 for memory that the system refused. Returns RESULT_OUT_OF_MEMORY. */
enum result api_error_memory(struct api_error *error);
/* Writes `words` as a JSON string. They may quote client bytes that end within a character: invalid
 * UTF-8 is replaced. */
void api_error_append_words(const char *words, struct text_buffer *out);
void api_error_write_json(const struct api_error *error, struct text_buffer *out);
/* The same object as one SSE event. */
void api_error_write_event(const struct api_error *error, struct text_buffer *out);
/* That event and OpenAI's last one, [DONE]. */
void api_error_write_last_events(const struct api_error *error, struct text_buffer *out);

/* Writes the body of an error in the shape of an API. Returns the HTTP status of that API for it.
 */
typedef int api_error_writer(const struct api_error *error, const char *request_id,
                             struct text_buffer *out);

#endif
