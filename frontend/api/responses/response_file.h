/*
 * A record of the response store as bytes of a file, so that it survives the frontend.
 *
 * offset  bytes  field
 *      0      8  "shoalrsp"
 *      8      4  version
 *     12      4  bytes of the head, 328
 *     16      8  bytes of the file
 *     24     16  checksum of everything after it: SipHash, keyed with the fields before it
 *     40     64  id; then, likewise with a NUL, 64 bytes: the id of the response that it continues
 *    168     32  client key
 *    200      4  status; then 4 bytes 0
 *    208     32  created, ended, asked (seconds), seed
 *    240     16  cache salt
 *    256     72  bytes of each section
 *    328         the sections (enum response_file_section)
 *
 * Numbers are little-endian. A file of another version, and one that is cut or changed, is not read.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_FILE_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_FILE_H

#include "frontend/api/generation/cache_salt.h"
#include "frontend/api/responses/response_items.h"
#include "frontend/api/responses/response_status.h"
#include "frontend/base/client_key.h"
#include "proto/result.h"

struct response_file {
    char id[RESPONSE_ID_BYTES];
    char previous_id[RESPONSE_ID_BYTES]; /* "": it continues no response */
    struct client_key client_key;
    enum response_status status;
    int64_t created_unix_s;
    int64_t ended_unix_s;
    struct response_items input;
    struct text_buffer fields;
    struct response_items output; /* this and the next two: of a finished response */
    struct text_buffer outcome;
    struct text_buffer script; /* response_script.h */

    /* Of an unfinished response: what its answer is made from. */
    struct text_buffer body; /* of the request */
    struct text_buffer model_id;
    uint64_t random_seed;
    int64_t asked_unix_s; /* the time that a chat template sees */
    struct cache_salt cache_salt;
};

void response_file_fini(struct response_file *file);

uint64_t response_file_bytes(const struct response_file *file);
void response_file_encode(const struct response_file *file, struct text_buffer *out);
/* RESULT_UNSUPPORTED: another version; RESULT_CORRUPT; RESULT_OUT_OF_MEMORY. On failure *file is
 * empty. */
enum result response_file_decode(const char *bytes, size_t count, struct response_file *file,
                                 struct error_text *error) RESULT_CHECKED;

#endif
