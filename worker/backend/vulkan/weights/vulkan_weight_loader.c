/*
 * Adopts the vault's weights, or fills the vault, or loads into private memory.
 *
 * A message in the vault whose manifest equals the one that this worker would write is adopted:
 * every allocation is imported, and matrices are placed in the order of the plan, as in the
 * exporter. Otherwise the worker that gets the vault's lock empties it (memory that no process can
 * use is freed before it is needed again), uploads into exportable memory and queues that; the
 * others wait for it. If the device cannot export, or the vault cannot be filled, only the next
 * worker's start is slower: the reason is kept for the log.
 *
 * Waiting is bounded: the frontend kills a worker that hangs while filling, which releases the
 * lock; for all other cases there is a limit.
 */
#include "worker/backend/vulkan/weights/vulkan_weight_loader.h"

#include <string.h>
#include <time.h>

#include "proto/log.h"
#include "proto/must.h"
#include "worker/backend/vulkan/weights/vulkan_manifest.h"

#define WAIT_LOOK_MS  5
#define WAIT_LIMIT_MS 600000 /* 60 GB from a slow disk */

struct loading {
    struct vulkan_weights *weights;
    const struct backend_options *options;
    backend_progress_fn *progress;
    void *context;
    struct vulkan_vault vault;
    struct vulkan_manifest manifest;
    struct error_text *reason;
};

/* --- from the checkpoint -----------------------------------------------------------------------
 */

static enum result place(const struct loading *loading, bool shared, struct error_text *error)
{
    struct vulkan_weights *weights = loading->weights;
    struct vulkan_arena *arena =
        vulkan_arena_create(weights->device, weights->matrix_bytes, shared);
    enum result result = vulkan_weights_place(weights, arena, error);
    if (result != RESULT_OK)
        vulkan_arena_destroy(arena);
    return result;
}

static enum result upload(const struct loading *loading, struct error_text *error)
{
    return vulkan_weights_upload(loading->weights, loading->options, loading->progress,
                                 loading->context, error);
}

static enum result keep_private(const struct loading *loading, struct error_text *error)
{
    enum result result = place(loading, false, error);
    return result == RESULT_OK ? upload(loading, error) : result;
}

/* --- the vault ---------------------------------------------------------------------------------
 */

/* After the upload: fills the empty vault. */
static enum result leave(struct loading *loading)
{
    const struct vulkan_device *device = loading->weights->device;
    const struct vulkan_arena *arena = loading->weights->arena;
    uint32_t chunk_count = vulkan_arena_chunk_count(arena);
    if (chunk_count > VULKAN_VAULT_FDS_MAX)
        return error_set(loading->reason, RESULT_TOO_LARGE,
                         "%u allocations; at most %u can be kept", chunk_count,
                         VULKAN_VAULT_FDS_MAX);
    struct vulkan_vault_message message = {.byte_count = sizeof loading->manifest};
    enum result result = RESULT_OK;
    vulkan_manifest_finish(&loading->manifest, chunk_count);
    memcpy(message.bytes, &loading->manifest, sizeof loading->manifest);
    for (uint32_t i = 0; i < chunk_count && result == RESULT_OK; i++) {
        result = vulkan_buffer_export(device, vulkan_arena_chunk(arena, i), &message.fds[i],
                                      loading->reason);
        if (result == RESULT_OK)
            message.fd_count++;
    }
    if (result == RESULT_OK)
        result = vulkan_vault_leave(&loading->vault, &message, loading->reason);
    vulkan_vault_message_close(&message);
    return result;
}

/* The caller holds the lock. Only failures that end the worker are errors. */
static enum result fill(struct loading *loading, enum worker_weights *kind,
                        struct error_text *error)
{
    *kind = WORKER_WEIGHTS_PRIVATE;
    if (vulkan_vault_empty(&loading->vault, loading->reason) != RESULT_OK) {
        *kind = WORKER_WEIGHTS_REFUSED;
        return keep_private(loading, error);
    }
    if (place(loading, true, loading->reason) != RESULT_OK)
        return keep_private(loading, error);
    enum result result = upload(loading, error);
    if (result == RESULT_OK && leave(loading) == RESULT_OK)
        *kind = WORKER_WEIGHTS_FILLED;
    return result;
}

/* RESULT_EMPTY: there is nothing to adopt. Otherwise the reason says why the content cannot be
 * used. */
static enum result adopt(struct loading *loading)
{
    struct vulkan_weights *weights = loading->weights;
    struct vulkan_vault_message message;
    enum result result = vulkan_vault_peek(&loading->vault, &message, loading->reason);
    if (result != RESULT_OK)
        return result;
    result = vulkan_manifest_check(&loading->manifest, message.bytes, message.byte_count,
                                   message.fd_count, loading->reason);
    if (result == RESULT_OK) {
        struct vulkan_arena *arena = vulkan_arena_create_imported(
            weights->device, weights->matrix_bytes, message.fds, message.fd_count);
        result = vulkan_weights_place(weights, arena, loading->reason);
        if (result == RESULT_OK && vulkan_arena_chunk_count(arena) != message.fd_count)
            result = error_set(loading->reason, RESULT_CORRUPT,
                               "V7: %u allocations for matrices that take %u", message.fd_count,
                               vulkan_arena_chunk_count(arena));
        if (result != RESULT_OK) {
            vulkan_arena_destroy(arena);
            weights->arena = NULL;
        }
    }
    vulkan_vault_message_close(&message);
    if (result == RESULT_OK && loading->progress)
        loading->progress(loading->context, weights->matrix_bytes, weights->matrix_bytes);
    return result;
}

/* The caller holds the lock: another worker may have filled the vault before it was taken. */
static enum result adopt_or_fill(struct loading *loading, enum worker_weights *kind,
                                 struct error_text *error)
{
    enum result result = adopt(loading);
    if (result == RESULT_OK) {
        *kind = WORKER_WEIGHTS_ADOPTED;
    } else {
        if (result != RESULT_EMPTY)
            log_warn("weights of an earlier worker are not used: %s", loading->reason->text);
        result = fill(loading, kind, error);
    }
    vulkan_vault_unlock(&loading->vault);
    return result;
}

static enum result use_vault(struct loading *loading, enum worker_weights *kind,
                             struct error_text *error)
{
    for (int waited_ms = 0; waited_ms < WAIT_LIMIT_MS; waited_ms += WAIT_LOOK_MS) {
        enum result result = vulkan_vault_lock(&loading->vault, loading->reason);
        if (result == RESULT_OK)
            return adopt_or_fill(loading, kind, error);
        if (result != RESULT_FULL)
            return keep_private(loading, error);
        if (loading->progress)
            loading->progress(loading->context, 0, loading->weights->matrix_bytes);
        nanosleep(&(struct timespec){.tv_nsec = WAIT_LOOK_MS * 1000000L}, NULL);
    }
    (void)error_set(loading->reason, RESULT_TIMED_OUT, "another worker fills it for too long");
    return keep_private(loading, error);
}

enum result vulkan_weight_loader_run(struct vulkan_weights *weights,
                                     const struct backend_options *options,
                                     backend_progress_fn *progress, void *context,
                                     struct vulkan_weight_origin *origin, struct error_text *error)
{
    struct loading loading = {
        .weights = weights,
        .options = options,
        .progress = progress,
        .context = context,
        .vault = {.fd = options->vault_fd, .send_fd = options->vault_send_fd},
        .manifest = vulkan_manifest_describe(weights, &options->checkpoint),
        .reason = &origin->reason,
    };
    *origin = (struct vulkan_weight_origin){.kind = WORKER_WEIGHTS_PRIVATE};
    if (!options->has_vault)
        return keep_private(&loading, error);
    enum result result;
    if (!weights->device->facts.external_memory) {
        (void)error_set(&origin->reason, RESULT_UNSUPPORTED,
                        "%.60s cannot share memory between processes", weights->device->facts.name);
        result = keep_private(&loading, error);
    } else if (options->vault_send_fd < 0) {
        (void)error_set(&origin->reason, RESULT_INVALID, "the vault is not one for descriptors");
        result = keep_private(&loading, error);
    } else {
        result = use_vault(&loading, &origin->kind, error);
    }
    if (origin->kind == WORKER_WEIGHTS_FILLED || origin->kind == WORKER_WEIGHTS_ADOPTED)
        origin->reason.text[0] = '\0';
    return result;
}
