/*
 * The parts of a multipart/form-data body (RFC 7578). The boundary is that of the body's first line, so the
 * header of the request is not needed; a preamble before it is refused. Nothing is copied, and time is linear in the
 * body.
 */
#ifndef SHOAL_FRONTEND_API_SPEECH_MULTIPART_FORM_H
#define SHOAL_FRONTEND_API_SPEECH_MULTIPART_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/result.h"

#define MULTIPART_PARTS_MAX    64u
#define MULTIPART_NAME_BYTES   64u
#define MULTIPART_HEADER_BYTES 4096u /* of one part */

struct multipart_part {
    char name[MULTIPART_NAME_BYTES];
    bool is_file;      /* it has a filename */
    const char *bytes; /* [byte_count] inside the body; not NUL-terminated */
    size_t byte_count;
};

struct multipart_form {
    unsigned count;
    struct multipart_part parts[MULTIPART_PARTS_MAX];
};

/* RESULT_INVALID: it is no such body, and the error says why; RESULT_TOO_LARGE: a bound above is exceeded. */
enum result multipart_form_read(const char *body, size_t body_bytes, struct multipart_form *form,
                                struct error_text *error) RESULT_CHECKED;
/* The first part of that name; NULL: none. */
const struct multipart_part *multipart_form_find(const struct multipart_form *form,
                                                 const char *name);

#endif
