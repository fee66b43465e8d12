/*
 * What a checkpoint says about itself, read from headers and settings without its weights.
 */
#ifndef SHOAL_FRONTEND_ASSETS_CHECKPOINT_SUMMARY_H
#define SHOAL_FRONTEND_ASSETS_CHECKPOINT_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

#define SUMMARY_TEXT_BYTES 128u
#define SUMMARY_TYPES      16u

/* Elements and bytes of the tensors of one element type. */
struct summary_type {
    const char *name; /* static: "Q4_K", "BF16" */
    uint64_t elements;
    uint64_t bytes;
};

struct checkpoint_summary {
    bool gguf;                             /* otherwise a Hugging Face folder */
    char family[SUMMARY_TEXT_BYTES];       /* architecture or model_type */
    char name[SUMMARY_TEXT_BYTES];         /* GGUF: general.name, or ""; folder: its class, or "" */
    char quantization[SUMMARY_TEXT_BYTES]; /* folder: quant_method of its config, or "" */
    uint32_t context_tokens;               /* 0: not stated */
    uint32_t layers;                       /* 0: not stated */
    uint32_t hidden;                       /* columns of the residual; 0: not stated */
    uint32_t tensors;
    uint32_t files;        /* of weights */
    uint64_t elements;     /* of all tensors; parameters, unless the folder packs several in one */
    uint64_t weight_bytes; /* of all tensors */
    bool vision;           /* folder: the config has a vision part */
    char *chat_template;   /* malloc'd, NUL-terminated; NULL: none */
    struct summary_type types[SUMMARY_TYPES]; /* most bytes first */
    uint32_t type_count;
};

/* `path` is a GGUF file, of a split one the first part, or a folder. RESULT_INVALID and others, with
 * a text that names the file. On failure *summary is empty. */
enum result checkpoint_summary_read(const char *path, struct checkpoint_summary *summary,
                                    struct error_text *error) RESULT_CHECKED;
void checkpoint_summary_fini(struct checkpoint_summary *summary);

#endif
