/*
 * A checkpoint opened for serving: its mapped files, its checked config and the plan over its
 * weights.
 *
 * Files are mapped read-only and stay mapped until model_close(): weights of the plan point into
 * them. A file that another program truncates while it is mapped ends the worker with SIGBUS; that
 * is outside what loading can check, and the supervisor treats it as any other death.
 */
#ifndef SHOAL_WORKER_MODEL_MODEL_H
#define SHOAL_WORKER_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/model/checkpoint/model_fingerprint.h"
#include "worker/plan/model_config.h"
#include "worker/plan/model_vision.h"
#include "worker/plan/plan.h"

struct model; /* opaque */

/* `path` is a GGUF file or a Hugging Face folder (checkpoint_folder.h). RESULT_IO (errno's words),
 * or what is wrong with it: INVALID, UNSUPPORTED, TOO_LARGE, CORRUPT. The error begins with the
 * path and names the file in a folder, and key or tensor. */
enum result model_open(const char *path, struct model **model,
                       struct error_text *error) RESULT_CHECKED;
/* The same over a GGUF's bytes that the caller keeps, aligned to 8; it is no file, so times, device
 * and inode are 0. For tests and fuzzing.
 */
enum result model_open_bytes(const void *bytes, size_t byte_count, struct model **model,
                             struct error_text *error) RESULT_CHECKED;
/* Has the plan's KV cache quantized, before a backend loads it; the errors of kv_layout_quantize().
 */
enum result model_quantize_kv(struct model *model, const struct kv_quantization *quantization,
                              struct error_text *error) RESULT_CHECKED;
void model_close(struct model *model);

const struct plan *model_plan(const struct model *model);
const struct model_config *model_config(const struct model *model);
/* NULL where the model takes no pictures; model_blindness() then says why, as the end of a sentence
 * that begins with the model. Both or neither of vision and plan are there. */
const struct model_vision *model_vision(const struct model *model);
const struct plan *model_vision_plan(const struct model *model);
const char *model_blindness(const struct model *model);
struct model_fingerprint model_fingerprint(const struct model *model);

#endif
