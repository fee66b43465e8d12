/*
 * A temporary Hugging Face folder of a llama with one layer, valid or deliberately invalid.
 * Widths as in tiny_checkpoint.h; weights are zeros.
 */
#ifndef SHOAL_TESTS_SUPPORT_TINY_FOLDER_H
#define SHOAL_TESTS_SUPPORT_TINY_FOLDER_H

#include <stdint.h>

#define TINY_FOLDER_TENSORS_MAX 24u

struct tiny_folder_tensor {
    char name[64];
    const char *type; /* "F32", "BF16", "I16" ... */
    uint32_t dimension_count;
    uint64_t dimensions[2]; /* slowest first */
};

struct tiny_folder {
    char path[64];
    uint32_t tensor_count;
    struct tiny_folder_tensor tensors[TINY_FOLDER_TENSORS_MAX];
};

/* Makes the folder, its config.json and the list of tensors in BF16; no weights are written. */
void tiny_folder_create(struct tiny_folder *folder);
/* Removes it and every file in it. */
void tiny_folder_destroy(struct tiny_folder *folder);

/* The path of a file of the folder; valid until the next call. */
const char *tiny_folder_file(const struct tiny_folder *folder, const char *name);
void tiny_folder_write(const struct tiny_folder *folder, const char *name, const char *text);

/* rows 1: a vector. */
void tiny_folder_add_tensor(struct tiny_folder *folder, const char *name, uint64_t rows,
                            uint64_t columns);
/* A safetensors file of the tensors whose number leaves `part` when divided by `parts`. */
void tiny_folder_write_weights(const struct tiny_folder *folder, const char *name, uint32_t part,
                               uint32_t parts);
/* An index of those files, called part-<part>.safetensors. */
void tiny_folder_write_index(const struct tiny_folder *folder, uint32_t parts);

#endif
