/*
 * A checkpoint in GGUF: one file, or a split one (NAME-00001-of-00003.gguf ...) whose first file is
 * named by the caller and whose other files are in the same folder.
 */
#ifndef SHOAL_WORKER_MODEL_GGUF_GGUF_PARTS_H
#define SHOAL_WORKER_MODEL_GGUF_GGUF_PARTS_H

#include "proto/gguf_file.h"
#include "proto/result.h"
#include "worker/model/checkpoint/model_fingerprint.h"
#include "worker/plan/tensor_table.h"

struct gguf_parts; /* opaque */
struct opened_files;

/* Maps and checks every file; with `opened` those and no others (proto/opened_files.h). If there are several, the
 * error names the part. */
enum result gguf_parts_open(const char *path, const struct opened_files *opened,
                            struct gguf_parts **parts, struct error_text *error) RESULT_CHECKED;
/* The same for one complete file in the caller's bytes, aligned to 8. */
enum result gguf_parts_open_bytes(const void *bytes, size_t byte_count, struct gguf_parts **parts,
                                  struct error_text *error) RESULT_CHECKED;
void gguf_parts_close(struct gguf_parts *parts);

/* Valid until closed. The first file has the metadata. */
const struct gguf_file *gguf_parts_first(const struct gguf_parts *parts);
const struct tensor_table *gguf_parts_tensors(const struct gguf_parts *parts);
struct model_fingerprint gguf_parts_fingerprint(const struct gguf_parts *parts);

#endif
