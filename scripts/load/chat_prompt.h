/*
 * The requests to send: chats of random words or of a data set, as whole HTTP requests.
 */
#ifndef SHOAL_SCRIPTS_LOAD_CHAT_PROMPT_H
#define SHOAL_SCRIPTS_LOAD_CHAT_PROMPT_H

#include "frontend/base/text_buffer.h"
#include "proto/result.h"
#include "scripts/load/load_random.h"

#define CHAT_PROMPT_LINE_BYTES (8u << 20) /* one conversation of a data set */
#define CHAT_PROMPT_LINES      (1u << 20)
#define CHAT_PROMPT_WORDS      (1u << 20) /* of one random prompt */

/* Conversations of a file, each the JSON of a `messages` list. */
struct chat_dataset {
    char **messages; /* chat_dataset_fini() frees */
    size_t count;
};

/* A file with one JSON value a line: a list of messages, or an object with such a list under
 * "messages" or "conversation", or with a string under "prompt". Empty lines are skipped. */
enum result chat_dataset_read(const char *path, struct chat_dataset *dataset,
                              struct error_text *error) RESULT_CHECKED;
void chat_dataset_fini(struct chat_dataset *dataset);

struct chat_target {
    const char *host;   /* for the Host header */
    const char *prefix; /* before /v1, usually "" */
    const char *model;
    const char *api_key; /* NULL: none */
    const char
        *extra_body; /* NULL, or the inside of a JSON object: additional fields of every request */
};

/* The `messages` list of one user message of `words` random words. */
void chat_prompt_write_words(struct load_random *random, uint32_t words, struct text_buffer *out);
/* A whole streamed request for those messages, with usage requested. */
void chat_prompt_write_request(const struct chat_target *target, const char *messages,
                               uint32_t output_tokens, struct text_buffer *out);
/* A request that every server must reject: broken JSON, wrong types, wrong paths. The kind is
 * random. */
void chat_prompt_write_bad(const struct chat_target *target, struct load_random *random,
                           struct text_buffer *out);

/* The inside of the JSON object `text`, or RESULT_INVALID. *inside is malloc'd, NULL for {}. */
enum result chat_prompt_check_extra(const char *text, char **inside) RESULT_CHECKED;

#endif
