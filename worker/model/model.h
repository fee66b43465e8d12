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
struct opened_files;
struct target_drafter;

/* `path` is a GGUF file or a Hugging Face folder (checkpoint_folder.h). RESULT_IO with errno's
 * text, or INVALID, UNSUPPORTED, TOO_LARGE or CORRUPT for a bad checkpoint. The error begins with
 * the path and names the file in a folder, and the key or tensor. */
enum result model_open(const char *path, struct model **model,
                       struct error_text *error) RESULT_CHECKED;
/* The same; with `opened` the files are those and no others (proto/opened_files.h), whatever has their
 * names by now. NULL: as model_open(). */
enum result model_open_of(const char *path, const struct opened_files *opened, struct model **model,
                          struct error_text *error) RESULT_CHECKED;
/* Opens a GGUF in the caller's bytes, aligned to 8, which must outlive the model. The fingerprint's
 * times, device and inode are 0. For tests and fuzzing. */
enum result model_open_bytes(const void *bytes, size_t byte_count, struct model **model,
                             struct error_text *error) RESULT_CHECKED;
/* Adds the vision tower of a projector file (mmproj) to a model that was opened from a GGUF file. The
 * fingerprint then covers both files. Errors as model_open()'s, beginning with the path; the model
 * stays usable without a tower. */
enum result model_open_tower(struct model *model, const char *path,
                             struct error_text *error) RESULT_CHECKED;
enum result model_open_tower_of(struct model *model, const char *path,
                                const struct opened_files *opened,
                                struct error_text *error) RESULT_CHECKED;
/* The same for a file in the caller's bytes, which must outlive the model. */
enum result model_open_tower_bytes(struct model *model, const void *bytes, size_t byte_count,
                                   struct error_text *error) RESULT_CHECKED;
/* Makes the plan's KV cache a quantized one; call it before a backend loads the plan. Errors: those
 * of kv_layout_quantize(). */
enum result model_quantize_kv(struct model *model, const struct kv_quantization *quantization,
                              struct error_text *error) RESULT_CHECKED;
/* Makes its plan one that gives vectors; likewise. Errors: those of plan_pool(). */
enum result model_pool(struct model *model, struct error_text *error) RESULT_CHECKED;
/* Opens the layer that predicts a further token, and makes the model's plan keep the hidden states that
 * it takes; call it before model_quantize_kv(). RESULT_NOT_FOUND if the checkpoint has none, else errors
 * of model_open(); the model stays usable without it. */
enum result model_open_ahead(struct model *model, struct error_text *error) RESULT_CHECKED;
/* Opens a drafter that reads the model's inner states (proto/drafter_kind.h) and makes the model's plan keep
 * them; not with model_open_ahead(), and before model_quantize_kv(). `opened` as in model_open_of(). Errors of model_open(); the model stays
 * usable without it. */
enum result model_open_drafter(struct model *model, const char *path,
                               const struct opened_files *opened,
                               struct error_text *error) RESULT_CHECKED;
/* The plan of the layer or drafter; NULL without. */
const struct plan *model_ahead_plan(const struct model *model);
/* NULL without model_open_drafter(). */
const struct target_drafter *model_drafter(const struct model *model);
void model_close(struct model *model);

const struct plan *model_plan(const struct model *model);
const struct model_config *model_config(const struct model *model);
/* NULL if the model takes no images; model_no_vision_reason() then says why, as the end of a
 * sentence whose subject is the model. model_vision() and model_vision_plan() are both set or both
 * NULL. */
const struct model_vision *model_vision(const struct model *model);
const struct plan *model_vision_plan(const struct model *model);
const char *model_no_vision_reason(const struct model *model);
struct model_fingerprint model_fingerprint(const struct model *model);

#endif
