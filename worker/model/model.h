/*
 * A checkpoint opened for serving: the mapped file, its checked config and the plan over its
 * weights.
 *
 * The file is mapped read-only and stays mapped until model_close(): weights of the plan point into
 * it. A file that another program truncates while it is mapped ends the worker with SIGBUS; that is
 * outside what loading can check, and the supervisor treats it as any other death.
 */
#ifndef SHOAL_WORKER_MODEL_MODEL_H
#define SHOAL_WORKER_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/model/model_config.h"
#include "worker/model/plan.h"

struct model; /* opaque */

/*
 * What tells one checkpoint file from another without reading its weights: equal fingerprints mean
 * the same bytes as far as file, size, times of change and the whole header (metadata and tensor
 * table) tell.
 */
struct model_fingerprint {
    uint64_t file_bytes;
    int64_t modified_ns; /* since the epoch */
    int64_t changed_ns;  /* the same of the inode: no program can set it back */
    uint64_t device;
    uint64_t inode;
    uint64_t header_hash; /* content_hash() of every byte before the first tensor's data */
};

/* RESULT_IO (errno's words), or what is wrong with the file: INVALID, UNSUPPORTED, TOO_LARGE,
 * CORRUPT. The error begins with the path and names key or tensor. */
enum result model_open(const char *path, struct model **model,
                       struct error_text *error) RESULT_CHECKED;
/* The same over bytes that the caller keeps, aligned to 8; it is no file, so times, device and
 * inode are 0. For tests and fuzzing.
 */
enum result model_open_bytes(const void *bytes, size_t byte_count, struct model **model,
                             struct error_text *error) RESULT_CHECKED;
void model_close(struct model *model);

const struct plan *model_plan(const struct model *model);
const struct model_config *model_config(const struct model *model);
struct model_fingerprint model_fingerprint(const struct model *model);

#endif
