/*
 * Opening a checkpoint: map, index, config, plan, each step refusing what it cannot trust.
 *
 * Nothing is copied: the plan's weights are pointers into the mapping, and a backend reads each
 * weight once when it packs it. So opening costs the header, not the weights.
 *
 * Refuses to do: guarding against the file being changed under the mapping (model.h says what
 * happens), and directories of shards.
 */
#include "worker/model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/gguf_file.h"
#include "worker/model/checkpoint_gguf.h"
#include "worker/model/content_hash.h"
#include "worker/model/plan_builder.h"

struct model {
    void *mapped; /* NULL when the bytes are the caller's */
    const uint8_t *bytes;
    size_t byte_count;
    struct gguf_file *file;
    struct plan *plan;
    struct model_fingerprint fingerprint;
};

static enum result build_plan(struct model *model, struct error_text *error)
{
    const struct model_family *family = NULL;
    struct model_config config;
    enum result result = checkpoint_gguf_read(model->file, &family, &config, error);
    if (result != RESULT_OK)
        return result;
    struct plan_builder *builder = plan_builder_create(model->file, &config, error);
    if (!builder)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
    plan_tensor_id logits = family->list_ops(builder, &config);
    result = plan_builder_finish(builder, logits, &model->plan);
    plan_builder_destroy(builder);
    return result;
}

/* The header ends where the first tensor's data begins. */
static uint64_t hash_header(const struct model *model)
{
    const uint8_t *end = model->bytes + model->byte_count;
    uint32_t count = gguf_file_tensor_count(model->file);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *data = gguf_file_tensor(model->file, i)->data;
        end = data < end ? data : end;
    }
    return content_hash(model->bytes, (size_t)(end - model->bytes), 0);
}

static enum result open_contents(struct model *model, struct error_text *error)
{
    enum result result = gguf_file_open(model->bytes, model->byte_count, &model->file, error);
    if (result == RESULT_OK)
        result = build_plan(model, error);
    if (result != RESULT_OK)
        return result;
    model->fingerprint.file_bytes = model->byte_count;
    model->fingerprint.header_hash = hash_header(model);
    return RESULT_OK;
}

static enum result map_file(int fd, struct model *model, struct error_text *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return error_set(error, RESULT_IO, "%s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set(error, RESULT_INVALID, "not a regular file");
    if (status.st_size <= 0)
        return error_set(error, RESULT_INVALID, "the file is empty");
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return error_set(error, RESULT_IO, "mmap: %s", strerror(errno));
    model->mapped = bytes;
    model->bytes = bytes;
    model->byte_count = (size_t)status.st_size;
    model->fingerprint.modified_ns =
        (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    model->fingerprint.changed_ns =
        (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
    model->fingerprint.device = (uint64_t)status.st_dev;
    model->fingerprint.inode = (uint64_t)status.st_ino;
    return RESULT_OK;
}

enum result model_open_bytes(const void *bytes, size_t byte_count, struct model **model,
                             struct error_text *error)
{
    *model = NULL;
    struct model *opened = calloc(1, sizeof(*opened));
    if (!opened)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory");
    opened->bytes = bytes;
    opened->byte_count = byte_count;
    enum result result = open_contents(opened, error);
    if (result == RESULT_OK)
        *model = opened;
    else
        model_close(opened);
    return result;
}

enum result model_open(const char *path, struct model **model, struct error_text *error)
{
    struct error_text reason = {""};
    enum result result;
    *model = NULL;
    struct model *opened = calloc(1, sizeof(*opened));
    if (!opened)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory");
    /* Not waiting matters for a path that names a FIFO; regular files ignore it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        result = error_set(&reason, RESULT_IO, "%s", strerror(errno));
        goto out;
    }
    result = map_file(fd, opened, &reason);
    close(fd);
    if (result == RESULT_OK)
        result = open_contents(opened, &reason);
out:
    if (result == RESULT_OK) {
        *model = opened;
        return RESULT_OK;
    }
    model_close(opened);
    return error_set(error, result, "%.100s: %s", path, reason.text);
}

void model_close(struct model *model)
{
    if (!model)
        return;
    plan_destroy(model->plan);
    if (model->file)
        gguf_file_close(model->file);
    if (model->mapped)
        munmap(model->mapped, model->byte_count);
    free(model);
}

const struct plan *model_plan(const struct model *model)
{
    return model->plan;
}

const struct model_config *model_config(const struct model *model)
{
    return &model->plan->config;
}

struct model_fingerprint model_fingerprint(const struct model *model)
{
    return model->fingerprint;
}
