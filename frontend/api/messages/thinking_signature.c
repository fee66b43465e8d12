/*
 * A checksum of the text and one of the model's name: "shoal." and twice 16 hexadecimal digits.
 *
 * The key is no secret, on purpose. A client may put any words into an assistant's mouth, so there
 * is nothing to forge; what the signature must tell is whether a client mangled the text on its
 * way, and whether another model wrote it, of whose thoughts this one should not take itself to be
 * the author. With a secret of this process every conversation would break when the server is
 * started again, or behind a balancer with several.
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
