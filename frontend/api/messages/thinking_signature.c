/*
 * A checksum of the text and one of the model's name: "shoal." and two times 16 hexadecimal digits.
 *
 * The key is deliberately not secret. A client may write any assistant message, so there is nothing
 * to forge. The signature tells whether a client changed the text, and whether another model wrote
 * it, whose reasoning this model must not take for its own. With a secret key of the process,
 * conversations would break after a restart or behind a load balancer.
 */
#include "frontend/api/messages/thinking_signature.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proto/keyed_hash.h"

static const struct keyed_hash_key model_key = {{0x73686f616c206d6full, 0x64656c206e616d65ull}};
static const struct keyed_hash_key text_key = {{0x73686f616c207468ull, 0x696e6b696e672031ull}};

void thinking_signature_make(const char *model_id, const char *text, size_t text_bytes,
                             char signature[THINKING_SIGNATURE_BYTES])
{
    snprintf(signature, THINKING_SIGNATURE_BYTES, "shoal.%016llx%016llx",
             (unsigned long long)keyed_hash(&model_key, model_id, strlen(model_id)),
             (unsigned long long)keyed_hash(&text_key, text, text_bytes));
}

enum thinking_origin thinking_signature_check(const char *model_id, const char *text,
                                              size_t text_bytes, const char *signature)
{
    char own[THINKING_SIGNATURE_BYTES];
    thinking_signature_make(model_id, text, text_bytes, own);
    size_t model_bytes = strlen(own) - 16;
    if (strncmp(own, signature, model_bytes) != 0)
        return THINKING_FOREIGN;
    return strcmp(own, signature) == 0 ? THINKING_OWN : THINKING_CHANGED;
}
