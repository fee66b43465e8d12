/*
 * Reads the recordings of scripts/golden/llama_cpp_reference.py: token sequences with the
 * log-probabilities of llama.cpp. If a file cannot be read, ends the program with the reason.
 */
#ifndef SHOAL_TESTS_SUPPORT_LLAMA_CPP_REFERENCE_H
#define SHOAL_TESTS_SUPPORT_LLAMA_CPP_REFERENCE_H

#include <stdint.h>

#define REFERENCE_ALTERNATIVES_MAX 20u

struct reference_token {
    uint32_t id; /* what comes next */
    float logprob;
    uint32_t alternative_count; /* >= 2 */
    struct {
        uint32_t id;
        float logprob;
    } alternatives[REFERENCE_ALTERNATIVES_MAX]; /* the most probable next tokens, in order */
};

struct reference_sequence {
    char name[32];
    uint32_t prompt_tokens;
    uint32_t tokens;
    uint32_t *ids;                /* [prompt_tokens + tokens]: the prompt, then each token's id */
    struct reference_token *next; /* [tokens] */
};

struct llama_cpp_reference {
    uint32_t sequence_count;
    struct reference_sequence *sequences;
};

struct llama_cpp_reference *llama_cpp_reference_open(const char *path);
void llama_cpp_reference_close(struct llama_cpp_reference *reference);

#endif
