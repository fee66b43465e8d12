/*
 * A vision tower in a GGUF file of its own, as llama.cpp's converter writes it for a text model
 * ("mmproj"): its keys, its tensor names, and which text models it belongs to.
 */
#ifndef SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_MMPROJ_H
#define SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_MMPROJ_H

#include "proto/gguf_file.h"
#include "proto/result.h"
#include "worker/plan/tensor_naming.h"
#include "worker/plan/vision_config.h"

struct plan_builder;

struct mmproj_tower {
    struct vision_config config;
    struct tensor_naming naming;
    void (*list_ops)(struct plan_builder *builder, const struct vision_config *config);
};

/* Fills *tower for the text model; its naming is static. RESULT_UNSUPPORTED for a projector that is
 * not known, or that belongs to another kind of text model; RESULT_INVALID, RESULT_TOO_LARGE for
 * keys and tensors that contradict each other or a range. The error names the key or tensor. */
enum result checkpoint_mmproj_read(const struct gguf_file *file, const struct model_config *text,
                                   struct mmproj_tower *tower,
                                   struct error_text *error) RESULT_CHECKED;

#endif
