/*
 * Complete checkpoints of a few kilobytes, for tests of loading: valid ones, and ones with a single
 * key or tensor changed. Widths: hidden 16, 4 query and 2 key-value heads of 4, feed-forward 20,
 * 8 tokens. Weights are F32 and all 1.
 */
#ifndef SHOAL_TESTS_SUPPORT_TINY_CHECKPOINT_H
#define SHOAL_TESTS_SUPPORT_TINY_CHECKPOINT_H

#include <stdint.h>

#include "proto/result.h"
#include "tests/support/gguf_builder.h"
#include "worker/model/model.h"

#define TINY_KEYS_MAX    32u
#define TINY_TENSORS_MAX 128u

enum tiny_key_type { TINY_U32, TINY_F32, TINY_STRING, TINY_BOOL, TINY_STRINGS };

struct tiny_key {
    char name[64];
    enum tiny_key_type type;
    uint32_t u32; /* of TINY_STRINGS: how many, each the string */
    float f32;
    char string[32];
};

struct tiny_tensor {
    char name[64];
    uint64_t dimensions[2]; /* fastest first; 1 for a vector's second */
    uint32_t type;          /* GGUF's number; data of other types than F32 is zeros */
    float fill;
};

struct tiny_checkpoint {
    uint32_t key_count;
    struct tiny_key keys[TINY_KEYS_MAX];
    uint32_t tensor_count;
    struct tiny_tensor tensors[TINY_TENSORS_MAX];
    struct gguf_builder file; /* what tiny_checkpoint_build() wrote */
};

/* A checkpoint that opens: `layers` layers, tied embeddings, context 64; gemma3 has window 8. */
void tiny_checkpoint_init_llama(struct tiny_checkpoint *tiny, uint32_t layers);
void tiny_checkpoint_init_gemma3(struct tiny_checkpoint *tiny, uint32_t layers);

/* Each sets a key or tensor that is there, or adds it. */
void tiny_checkpoint_set_u32(struct tiny_checkpoint *tiny, const char *key, uint32_t value);
void tiny_checkpoint_set_f32(struct tiny_checkpoint *tiny, const char *key, float value);
void tiny_checkpoint_set_string(struct tiny_checkpoint *tiny, const char *key, const char *value);
void tiny_checkpoint_set_bool(struct tiny_checkpoint *tiny, const char *key, uint32_t value);
void tiny_checkpoint_set_strings(struct tiny_checkpoint *tiny, const char *key, uint32_t count);
void tiny_checkpoint_set_tensor(struct tiny_checkpoint *tiny, const char *name, uint64_t columns,
                                uint64_t rows);
struct tiny_tensor *tiny_checkpoint_tensor(struct tiny_checkpoint *tiny, const char *name);
void tiny_checkpoint_drop_key(struct tiny_checkpoint *tiny, const char *key);
void tiny_checkpoint_drop_tensor(struct tiny_checkpoint *tiny, const char *name);

/* Writes the file and opens it; `tiny` must outlive the model. */
enum result tiny_checkpoint_open(struct tiny_checkpoint *tiny, struct model **model,
                                 struct error_text *error);

/* Fail the running test unless the file opens, or is refused with this result and these words. */
struct model *tiny_checkpoint_must_open(struct tiny_checkpoint *tiny);
void tiny_checkpoint_must_refuse(struct tiny_checkpoint *tiny, enum result result,
                                 const char *words);

#endif
