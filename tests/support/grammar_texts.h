/*
 * Which texts the grammar of a schema or regular expression accepts: the frontend's compilers and the
 * worker's matcher with a vocabulary of the 256 bytes.
 */
#ifndef SHOAL_TESTS_SUPPORT_GRAMMAR_TEXTS_H
#define SHOAL_TESTS_SUPPORT_GRAMMAR_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/json_schema_compile.h"
#include "frontend/grammar/regex_compile.h"

struct cJSON;
struct grammar_vocabulary;

enum text_verdict {
    TEXT_REFUSED,
    TEXT_ACCEPTED,
    TEXT_UNDECIDED /* fuel or memory of the matcher */
};

/* A compiled grammar; blob.bytes is owned. */
struct grammar_texts {
    struct grammar_blob_out blob;
    struct grammar_error error;
    uint64_t cpu_us; /* of the compilation, by the process's CPU clock */
};

/* `schema` NULL: any object. False: refused, `error` is set. */
bool grammar_texts_schema(struct grammar_texts *texts, const struct cJSON *schema,
                          const struct json_schema_options *options);
bool grammar_texts_regex(struct grammar_texts *texts, const char *pattern,
                         const struct regex_options *options);
void grammar_texts_close(struct grammar_texts *texts);

/* *reached: bytes from the start that the grammar allows. */
enum text_verdict grammar_texts_read(const struct grammar_texts *texts,
                                     struct grammar_vocabulary *vocabulary, const char *text,
                                     size_t *reached);
/* Closed by grammar_vocabulary_close(). */
struct grammar_vocabulary *grammar_texts_vocabulary(void);

#endif
