/*
 * The modules of a sentence-transformers folder (modules.json): how the vectors of tokens become the
 * vector of a text. https://sbert.net, sentence_transformers 6.2: a Transformer, then Pooling, then
 * any number of Dense, then perhaps Normalize.
 */
#ifndef SHOAL_PROTO_SENTENCE_MODULES_H
#define SHOAL_PROTO_SENTENCE_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/pooling.h"
#include "proto/result.h"

#define SENTENCE_FOLDER_BYTES 64u
#define SENTENCE_DENSE_MAX    4u /* published models have up to 2 */

struct sentence_modules {
    bool found; /* false: no modules.json, or it lists no Pooling; the rest is zero */
    enum pooling pooling;
    bool normalizes; /* to length 1 */
    uint32_t dense_count;
    char dense[SENTENCE_DENSE_MAX][SENTENCE_FOLDER_BYTES]; /* folders of the products, in order */
};

/* RESULT_OK also without modules.json. RESULT_UNSUPPORTED names a module, or a kind of pooling, that is
 * not served; RESULT_INVALID and RESULT_IO as usual. */
enum result sentence_modules_read(int folder_fd, struct sentence_modules *modules,
                                  struct error_text *error) RESULT_CHECKED;

#endif
