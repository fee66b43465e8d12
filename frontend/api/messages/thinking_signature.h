/*
 * The signature of a thinking block: tells whether a block that a client sends back is this model's
 * and unchanged.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_THINKING_SIGNATURE_H
#define SHOAL_FRONTEND_API_MESSAGES_THINKING_SIGNATURE_H

#include <stddef.h>

#define THINKING_SIGNATURE_BYTES 40u /* with the NUL */

enum thinking_origin {
    THINKING_OWN,     /* of this model, unchanged */
    THINKING_CHANGED, /* of this model, with another text */
    THINKING_FOREIGN  /* of another model or server */
};

void thinking_signature_make(const char *model_id, const char *text, size_t text_bytes,
                             char signature[THINKING_SIGNATURE_BYTES]);
enum thinking_origin thinking_signature_check(const char *model_id, const char *text,
                                              size_t text_bytes, const char *signature);

#endif
