/*
 * Reads the recorded reference with fscanf. The file is part of the repository, so an error in it
 * ends the program.
 */
#include "tests/support/llama_cpp_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define SEQUENCES_MAX 64u
#define TOKENS_MAX    8192u

static void want(int fact, const char *path, const char *what)
{
    if (fact)
        return;
    fprintf(stderr, "llama_cpp_reference: %s: %s\n", path, what);
    exit(1);
}

static void read_token(FILE *file, const char *path, struct reference_token *token)
{
    uint32_t *count = &token->alternative_count;
    want(fscanf(file, " token %u %f", &token->id, &token->logprob) == 2, path, "bad token line");
    while (*count < REFERENCE_ALTERNATIVES_MAX &&
           fscanf(file, "%u %f", &token->alternatives[*count].id,
                  &token->alternatives[*count].logprob) == 2)
        ++*count;
    want(*count >= 2, path, "a token without alternatives");
}

static void read_sequence(FILE *file, const char *path, struct reference_sequence *sequence)
{
    want(fscanf(file, "%31s %u %u", sequence->name, &sequence->prompt_tokens, &sequence->tokens) ==
                 3 &&
             sequence->prompt_tokens <= TOKENS_MAX && sequence->tokens <= TOKENS_MAX,
         path, "bad sequence line");
    sequence->ids = must_alloc(sequence->prompt_tokens + sequence->tokens, sizeof(uint32_t));
    sequence->next = must_alloc(sequence->tokens, sizeof(*sequence->next));
    want(fscanf(file, " prompt") == 0, path, "no prompt line");
    for (uint32_t i = 0; i < sequence->prompt_tokens; i++)
        want(fscanf(file, "%u", &sequence->ids[i]) == 1, path, "short prompt");
    for (uint32_t i = 0; i < sequence->tokens; i++) {
        read_token(file, path, &sequence->next[i]);
        sequence->ids[sequence->prompt_tokens + i] = sequence->next[i].id;
    }
}

struct llama_cpp_reference *llama_cpp_reference_open(const char *path)
{
    struct llama_cpp_reference *reference = must_alloc(1, sizeof(*reference));
    char word[32];
    FILE *file = fopen(path, "r");
    want(file != NULL, path, "cannot be opened");
    reference->sequences = must_alloc(SEQUENCES_MAX, sizeof(*reference->sequences));
    while (fscanf(file, "%31s", word) == 1) {
        if (strcmp(word, "sequence") != 0) {
            want(fscanf(file, "%*[^\n]") == 0, path, "bad line"); /* model, command */
            continue;
        }
        want(reference->sequence_count < SEQUENCES_MAX, path, "too many sequences");
        read_sequence(file, path, &reference->sequences[reference->sequence_count++]);
    }
    fclose(file);
    want(reference->sequence_count > 0, path, "no sequences");
    return reference;
}

void llama_cpp_reference_close(struct llama_cpp_reference *reference)
{
    for (uint32_t i = 0; i < reference->sequence_count; i++) {
        free(reference->sequences[i].ids);
        free(reference->sequences[i].next);
    }
    free(reference->sequences);
    free(reference);
}
