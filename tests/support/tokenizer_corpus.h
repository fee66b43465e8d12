/*
 * The golden corpus of the tokenizers (tests/golden/tokenizer): cases, expected digests, whole
 * files. Format: scripts/golden/tokenizer_ids.py.
 */
#ifndef SHOAL_TESTS_SUPPORT_TOKENIZER_CORPUS_H
#define SHOAL_TESTS_SUPPORT_TOKENIZER_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole file, NUL-terminated; the caller frees it. If it cannot be read, prints `hint` and fails the
 * test. */
char *corpus_read_file(const char *path, const char *hint, size_t *byte_count);

struct corpus_case {
    unsigned line;
    char *bytes;
    size_t byte_count;
    size_t user_count; /* expected tokens with no special token recognized */
    uint64_t user_hash;
    size_t template_count; /* with all recognized */
    uint64_t template_hash;
};

/* Walks over the corpus and one tokenizer's expectations together. */
struct corpus {
    char *texts;
    char *digests;
    char *text_at;
    char *digest_at;
    unsigned line;
};
/* `folder` has corpus.txt and <name>.txt. */
void corpus_open(struct corpus *corpus, const char *folder, const char *name);
/* Returns 0 after the last case. Call corpus_case_fini() for each. */
int corpus_next(struct corpus *corpus, struct corpus_case *next);
void corpus_case_fini(struct corpus_case *done);
void corpus_close(struct corpus *corpus);

uint64_t corpus_hash(const uint32_t ids[], size_t count);

/* Encodes one text (as a user's, or as a template's) to ids[0..return), which corpus_check() frees.
 */
typedef size_t corpus_encode(void *tokenizer, const char *bytes, size_t byte_count,
                             bool is_template, uint32_t **ids);

/* Encodes every case both ways; prints those that differ; fails the test if any does. */
void corpus_check(const char *folder, const char *name, corpus_encode *encode, void *tokenizer);

#endif
