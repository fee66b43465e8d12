/*
 * Repacks weights into the order of packed_weight.h, or adopts those of an earlier worker from the
 * vault, for which only the manifest is compared.
 *
 * The first worker on an empty vault packs into it; workers that start at the same time wait for
 * it. A worker that finds the vault of another checkpoint, or cannot use it, packs into private
 * memory and reports it (enum worker_weights), so that the frontend can give the next one a new
 * vault.
 *
 * Packing is split by group over the threads, in slices: progress is visible, and the checkpoint's
 * pages go back to the kernel once they are packed, so that a weight is resident once. Each
 * weight's checksum is computed while its bytes are in the cache.
 */
#include "worker/backend/cpu/weights/cpu_weights.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/host/weight_rows.h"
#include "worker/plan/content_hash.h"

/* Checkpoint bytes between two progress calls: about 10 ms of work. */
#define SLICE_BYTES (8u << 20)

/* The state of one load. */
struct loading {
    struct cpu_weights *weights;
    struct thread_pool *pool;
    const struct backend_options *options;
    backend_progress_fn *progress;
    void *context;
};

/* Bytes of a row in the checkpoint. */
static uint64_t stored_row_bytes(const struct plan_weight *weight)
{
    return weight->source.layout == WEIGHT_IN_PLACE ? ggml_row_bytes(weight->type, weight->columns)
                                                    : weight->source.row_bytes;
}

/* What the lender has repacked of the weight; NULL: nothing. */
static const struct packed_weight *find_lent(const struct cpu_weights *weights, uint32_t number)
{
    const struct plan_weight *weight = &weights->plan->weights[number];
    const struct cpu_weights *lender = weights->lender;
    for (uint32_t w = 0; lender && w < lender->plan->weight_count; w++) {
        const struct plan_weight *other = &lender->plan->weights[w];
        if (lender->packed[w].group_bytes > 0 && other->data == weight->data &&
            other->type == weight->type && other->rows == weight->rows &&
            other->columns == weight->columns && other->experts == weight->experts &&
            other->source.layout == weight->source.layout)
            return &lender->packed[w];
    }
    return NULL;
}

static void borrow(struct cpu_weights *weights)
{
    for (uint32_t w = 0; w < weights->plan->weight_count; w++) {
        const struct packed_weight *lent = find_lent(weights, w);
        if (lent)
            weights->packed[w] = *lent;
    }
}

void cpu_weights_init(struct cpu_weights *weights, const struct plan *plan,
                      const struct cpu_weights *lender)
{
    weights->plan = plan;
    weights->lender = lender;
    weights->packed = must_alloc(plan->weight_count, sizeof *weights->packed);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (op_facts(plan->ops[i].stem)->weights != OP_WEIGHTS_PRODUCT)
            continue;
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX; w++) {
            plan_weight_id id = plan->ops[i].weights[w];
            if (id == PLAN_NONE || weights->packed[id].group_bytes > 0 || find_lent(weights, id))
                continue;
            const struct plan_weight *weight = &plan->weights[id];
            uint32_t matrices = plan_weight_matrices(weight);
            must(weight->data_bytes / matrices >= weight->rows * stored_row_bytes(weight));
            weights->packed[id] =
                packed_weight_describe(weight->type, matrices, weight->rows, weight->columns);
            weights->packed_bytes += packed_weight_bytes(&weights->packed[id]);
        }
    }
}

/* At the manifest's offset from `base`. */
static void place(struct cpu_weights *weights, uint8_t *base)
{
    const struct weight_manifest_entry *entry = weights->manifest.entries;
    for (uint32_t w = 0; w < weights->plan->weight_count; w++)
        if (weights->packed[w].group_bytes > 0)
            weights->packed[w].data = base + (entry++)->offset;
}

/* --- packing ---------------------------------------------------------------------------------- */

/* Groups [next_group, end_group) of one weight. */
struct group_job {
    const struct packed_weight *packed;
    const struct plan_weight *source; /* NULL: already packed, only the checksum is needed */
    _Atomic uint32_t next_group;
    uint32_t end_group;
    _Atomic uint64_t checksum;
};

/* `rows`: room for the rows of a group; NULL if the checkpoint's rows are packed as they are. */
static void pack_group(const struct group_job *job, uint32_t group, uint8_t *rows)
{
    const struct plan_weight *weight = job->source;
    const struct plan_weight_part part = plan_weight_part(weight, group / job->packed->groups);
    if (!rows) {
        packed_weight_fill_group(job->packed, weight->type, part.data, group);
        return;
    }
    weight_rows_read(&part.source, weight->columns,
                     part.first_row + (uint64_t)(group % job->packed->groups) * PACKED_ROWS,
                     packed_weight_group_rows(job->packed, group), rows);
    packed_weight_fill_rows(job->packed, weight->type, rows, group);
}

static void work_on_groups(void *context, uint32_t thread)
{
    (void)thread;
    struct group_job *job = context;
    uint64_t checksum = 0;
    uint8_t *rows = NULL;
    if (job->source && job->source->source.layout != WEIGHT_IN_PLACE)
        rows = must_alloc(PACKED_ROWS, ggml_row_bytes(job->source->type, job->source->columns));
    for (;;) {
        uint32_t group = atomic_fetch_add_explicit(&job->next_group, 1, memory_order_relaxed);
        if (group >= job->end_group)
            break;
        if (job->source)
            pack_group(job, group, rows);
        checksum += content_hash(job->packed->data + group * job->packed->group_bytes,
                                 job->packed->group_bytes, group);
    }
    free(rows);
    atomic_fetch_add_explicit(&job->checksum, checksum, memory_order_relaxed);
}

/* Whole pages around the bytes: neighbouring bytes are file pages too and are read again on demand.
 */
static void drop_pages(const uint8_t *first, uint64_t byte_count)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)first / page * page;
    uintptr_t end = (uintptr_t)first + (uintptr_t)byte_count;
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* a failure only costs memory */
}

/* Packs one matrix of a weight to where it was placed, in slices; returns its checksum. */
static uint64_t pack_matrix(const struct loading *loading, uint32_t number, uint32_t matrix,
                            uint64_t *done_bytes)
{
    struct cpu_weights *weights = loading->weights;
    const struct plan_weight *source = &weights->plan->weights[number];
    const struct packed_weight *packed = &weights->packed[number];
    const uint8_t *matrix_source = plan_weight_part(source, matrix).data;
    uint64_t matrix_bytes = source->data_bytes / packed->matrices;
    uint64_t group_source = PACKED_ROWS * stored_row_bytes(source);
    uint32_t slice = (uint32_t)(SLICE_BYTES / group_source) + 1;
    uint32_t base = matrix * packed->groups;
    uint64_t checksum = 0;
    for (uint32_t first = 0; first < packed->groups; first += slice) {
        uint32_t left = packed->groups - first;
        uint32_t count = left < slice ? left : slice;
        uint64_t source_bytes = (uint64_t)count * group_source;
        struct group_job job = {packed, source, base + first, base + first + count, 0};
        if (weights->vault.bytes)
            weight_mapping_prepare(&weights->vault,
                                   (uint64_t)(packed->data - weights->vault.bytes) +
                                       (base + first + count) * packed->group_bytes);
        thread_pool_run(loading->pool, work_on_groups, &job);
        checksum += job.checksum;
        if (first + count == packed->groups)
            source_bytes = matrix_bytes - first * group_source;
        if (loading->options->drop_source_pages)
            drop_pages(matrix_source + first * group_source, source_bytes);
        *done_bytes += count * packed->group_bytes;
        if (loading->progress)
            loading->progress(loading->context, *done_bytes, weights->packed_bytes);
    }
    return checksum;
}

static uint64_t pack_weight(const struct loading *loading, uint32_t number, uint64_t *done_bytes)
{
    uint64_t checksum = 0;
    for (uint32_t m = 0; m < loading->weights->packed[number].matrices; m++)
        checksum += pack_matrix(loading, number, m, done_bytes);
    return checksum;
}

static void pack_all(const struct loading *loading, uint8_t *base)
{
    struct cpu_weights *weights = loading->weights;
    struct weight_manifest_entry *entry = weights->manifest.entries;
    uint64_t done_bytes = 0;
    place(weights, base);
    for (uint32_t w = 0; w < weights->plan->weight_count; w++)
        if (weights->packed[w].group_bytes > 0)
            (entry++)->checksum = pack_weight(loading, w, &done_bytes);
    weight_manifest_finish(&weights->manifest);
}

/* --- the vault -------------------------------------------------------------------------------- */

/* The caller holds the vault's lock. */
static enum result fill_vault(const struct loading *loading)
{
    struct cpu_weights *weights = loading->weights;
    struct weight_mapping *vault = &weights->vault;
    uint64_t total_bytes = weights->manifest.head->total_bytes;
    int fd = loading->options->vault_fd;
    struct error_text *reason = &weights->reason;
    enum result result = weight_vault_map_empty(fd, total_bytes, vault, reason);
    if (result == RESULT_OK) {
        pack_all(loading, vault->bytes);
        memcpy(vault->bytes, weights->manifest.head, weights->manifest.byte_count);
        result = weight_vault_seal(fd, vault, reason);
    }
    weight_vault_release(fd);
    if (result == RESULT_OK)
        result = weight_vault_map_sealed(fd, total_bytes, vault, reason);
    return result;
}

static enum result verify(const struct loading *loading)
{
    struct cpu_weights *weights = loading->weights;
    const struct weight_manifest_entry *entry = weights->manifest.entries;
    uint64_t done_bytes = 0;
    for (uint32_t w = 0; w < weights->plan->weight_count; w++) {
        const struct packed_weight *packed = &weights->packed[w];
        if (packed->group_bytes == 0)
            continue;
        struct group_job job = {packed, NULL, 0, packed->matrices * packed->groups, 0};
        thread_pool_run(loading->pool, work_on_groups, &job);
        if (job.checksum != (entry++)->checksum)
            return error_set(&weights->reason, RESULT_CORRUPT, "weight %.64s is damaged",
                             weights->plan->weights[w].name);
        done_bytes += packed_weight_bytes(packed);
        if (loading->progress)
            loading->progress(loading->context, done_bytes, weights->packed_bytes);
    }
    return RESULT_OK;
}

static enum result adopt_vault(const struct loading *loading)
{
    struct cpu_weights *weights = loading->weights;
    struct weight_manifest *manifest = &weights->manifest;
    enum result result = weight_vault_map_sealed(
        loading->options->vault_fd, manifest->head->total_bytes, &weights->vault, &weights->reason);
    if (result == RESULT_OK)
        result = weight_manifest_check(manifest, weights->vault.bytes, &weights->reason);
    if (result != RESULT_OK)
        return result;
    place(weights, weights->vault.bytes);
    if (loading->options->verify_weights)
        return verify(loading);
    if (loading->progress)
        loading->progress(loading->context, weights->packed_bytes, weights->packed_bytes);
    return RESULT_OK;
}

/* Uses the vault if possible; weights->origin says what happened. */
static enum worker_weights try_vault(const struct loading *loading)
{
    struct cpu_weights *weights = loading->weights;
    enum result result =
        weight_vault_acquire(loading->options->vault_fd, weights->packed_bytes, loading->progress,
                             loading->context, &weights->reason);
    if (result == RESULT_EMPTY)
        return fill_vault(loading) == RESULT_OK ? WORKER_WEIGHTS_FILLED : WORKER_WEIGHTS_PRIVATE;
    if (result == RESULT_OK) {
        result = adopt_vault(loading);
        if (result == RESULT_OK)
            return WORKER_WEIGHTS_ADOPTED;
    }
    bool never = result == RESULT_INVALID || result == RESULT_STALE || result == RESULT_CORRUPT;
    return never ? WORKER_WEIGHTS_REFUSED : WORKER_WEIGHTS_PRIVATE;
}

enum result cpu_weights_load(struct cpu_weights *weights, struct thread_pool *pool,
                             const struct backend_options *options, backend_progress_fn *progress,
                             void *context, struct error_text *error)
{
    const struct loading loading = {weights, pool, options, progress, context};
    must(!weights->manifest.head);
    weights->manifest =
        weight_manifest_create(weights->plan, weights->packed, &options->checkpoint);
    weights->origin = options->has_vault ? try_vault(&loading) : WORKER_WEIGHTS_PRIVATE;
    if (weights->origin == WORKER_WEIGHTS_FILLED || weights->origin == WORKER_WEIGHTS_ADOPTED) {
        place(weights, weights->vault.bytes);
        borrow(weights);
        return RESULT_OK;
    }
    weight_mapping_close(&weights->vault);
    enum result result = lazy_memory_reserve(&weights->memory, weights->manifest.head->total_bytes,
                                             true, "weights", error);
    if (result == RESULT_OK)
        pack_all(&loading, weights->memory.bytes);
    borrow(weights);
    return result;
}

void cpu_weights_fini(struct cpu_weights *weights)
{
    free(weights->packed);
    weight_manifest_destroy(&weights->manifest);
    weight_mapping_close(&weights->vault);
    lazy_memory_release(&weights->memory);
}
