/*
 * Loads weights from the checkpoint into device memory.
 *
 * All threads pack rows into a slice of the staging buffer while the previous slice is copied. The
 * checkpoint's pages are released after each slice, so that a file larger than the machine's memory
 * loads. After loading the host keeps only addresses.
 */
#include "worker/backend/vulkan/weights/vulkan_weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/host/thread_pool.h"
#include "worker/backend/host/weight_rows.h"
#include "worker/backend/vulkan/device/vulkan_upload.h"
#include "worker/backend/vulkan/weights/vulkan_kv_tables.h"
#include "worker/backend/vulkan/weights/vulkan_padding.h"

#define STAGING_BYTES (32u << 20)
#define ROWS_AT_ONCE  4u /* per thread: enough to hide the claim */

static uint64_t align_piece(uint64_t bytes)
{
    return (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
}

static bool takes_matrices(enum op_stem stem)
{
    enum op_weights weights = op_facts(stem)->weights;
    return weights == OP_WEIGHTS_PRODUCT || weights == OP_WEIGHTS_TABLE;
}

/* As the rows lie that the op multiplies. */
static uint32_t columns_of(const struct plan *plan, const struct plan_op *op,
                           const struct plan_weight *weight)
{
    uint32_t columns = weight->columns;
    if (op->stem == OP_linear || op->stem == OP_linear_add)
        columns = vulkan_padding_columns(plan, op->inputs[0]);
    must(columns == weight->columns ||
         !vulkan_weight_format_facts(vulkan_weight_format_kind(weight->type)).quantized);
    return columns;
}

/* The matrix whose weights begin with `id`, or a new one. */
static uint32_t matrix_of(struct vulkan_weights *weights, const struct plan_op *op,
                          plan_weight_id id)
{
    const struct plan_weight *weight = &weights->plan->weights[id];
    uint32_t columns = columns_of(weights->plan, op, weight);
    for (uint32_t m = 0; m < weights->matrix_count; m++) {
        if (weights->matrices[m].weights[0] != id)
            continue;
        must(weights->matrices[m].columns == columns);
        return m;
    }
    weights->matrices[weights->matrix_count] =
        (struct vulkan_matrix){.kind = vulkan_weight_format_kind(weight->type), .columns = columns};
    return weights->matrix_count++;
}

static void list_matrices(struct vulkan_weights *weights, uint32_t op_index)
{
    const struct plan *plan = weights->plan;
    const struct plan_op *op = &plan->ops[op_index];
    struct vulkan_op_matrices *mine = &weights->by_op[op_index];
    for (uint32_t i = 0; i < OP_WEIGHTS_MAX && op->weights[i] != PLAN_NONE; i++) {
        plan_weight_id id = op->weights[i];
        const struct plan_weight *weight = &plan->weights[id];
        struct vulkan_matrix *last =
            mine->count ? &weights->matrices[mine->index[mine->count - 1]] : NULL;
        bool joins =
            last && weight->experts == 0 && last->kind == vulkan_weight_format_kind(weight->type);
        if (!joins) {
            uint32_t known = weights->matrix_count;
            uint32_t index = matrix_of(weights, op, id);
            mine->index[mine->count++] = index;
            last = &weights->matrices[index];
            if (index < known)
                continue; /* another op listed it */
        }
        last->weights[last->weight_count++] = id;
        last->rows += plan_weight_matrices(weight) * weight->rows;
    }
}

static uint64_t bytes_of(const struct vulkan_matrix *matrix)
{
    struct vulkan_weight_bytes bytes =
        vulkan_weight_format_bytes(matrix->kind, matrix->rows, matrix->columns);
    return align_piece(bytes.codes) + align_piece(bytes.high) + align_piece(bytes.scales);
}

void vulkan_weights_init(struct vulkan_weights *weights, const struct vulkan_device *device,
                         const struct plan *plan)
{
    weights->device = device;
    weights->plan = plan;
    weights->matrices = must_alloc(plan->weight_count, sizeof *weights->matrices);
    weights->by_op = must_alloc(plan->op_count, sizeof *weights->by_op);
    weights->vector_address = must_alloc(plan->weight_count, sizeof *weights->vector_address);
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (takes_matrices(plan->ops[i].stem))
            list_matrices(weights, i);
    for (uint32_t m = 0; m < weights->matrix_count; m++)
        weights->matrix_bytes += bytes_of(&weights->matrices[m]);
}

static bool is_same(const struct plan_weight *a, const struct plan_weight *b)
{
    return a->data == b->data && a->type == b->type && a->rows == b->rows &&
           a->columns == b->columns && a->experts == b->experts && !a->parts && !b->parts &&
           a->source.layout == WEIGHT_IN_PLACE && b->source.layout == WEIGHT_IN_PLACE;
}

static bool has_same_weights(const struct vulkan_weights *a, const struct vulkan_matrix *x,
                             const struct vulkan_weights *b, const struct vulkan_matrix *y)
{
    if (x->kind != y->kind || x->columns != y->columns || x->weight_count != y->weight_count)
        return false;
    for (uint32_t w = 0; w < x->weight_count; w++)
        if (!is_same(&a->plan->weights[x->weights[w]], &b->plan->weights[y->weights[w]]))
            return false;
    return true;
}

void vulkan_weights_borrow(struct vulkan_weights *weights, const struct vulkan_weights *lender)
{
    must(!weights->arena && lender->arena && weights->device == lender->device);
    for (uint32_t m = 0; m < weights->matrix_count; m++) {
        struct vulkan_matrix *matrix = &weights->matrices[m];
        for (uint32_t n = 0; n < lender->matrix_count && !matrix->lent; n++)
            if (has_same_weights(weights, matrix, lender, &lender->matrices[n]))
                matrix->lent = &lender->matrices[n];
        if (matrix->lent)
            weights->matrix_bytes -= bytes_of(matrix);
    }
}

void vulkan_weights_fini(struct vulkan_weights *weights)
{
    free(weights->matrices);
    free(weights->by_op);
    free(weights->vector_address);
    vulkan_arena_destroy(weights->arena);
    if (weights->device)
        vulkan_buffer_destroy(weights->device, &weights->vectors);
    *weights = (struct vulkan_weights){0};
}

static enum result take(struct vulkan_arena *arena, uint64_t bytes, struct vulkan_piece *piece,
                        struct error_text *error)
{
    *piece = (struct vulkan_piece){0};
    return bytes > 0 ? vulkan_arena_take(arena, bytes, "weights", piece, error) : RESULT_OK;
}

enum result vulkan_weights_place(struct vulkan_weights *weights, struct vulkan_arena *arena,
                                 struct error_text *error)
{
    enum result result = RESULT_OK;
    for (uint32_t m = 0; m < weights->matrix_count && result == RESULT_OK; m++) {
        struct vulkan_matrix *matrix = &weights->matrices[m];
        struct vulkan_weight_bytes bytes =
            vulkan_weight_format_bytes(matrix->kind, matrix->rows, matrix->columns);
        if (matrix->lent) {
            matrix->codes = matrix->lent->codes;
            matrix->high = matrix->lent->high;
            matrix->scales = matrix->lent->scales;
            continue;
        }
        result = take(arena, bytes.codes, &matrix->codes, error);
        if (result == RESULT_OK)
            result = take(arena, bytes.high, &matrix->high, error);
        if (result == RESULT_OK)
            result = take(arena, bytes.scales, &matrix->scales, error);
    }
    if (result == RESULT_OK)
        weights->arena = arena;
    return result;
}

/* One slice: rows of one weight, packed by all threads. */
struct slice {
    enum vulkan_weight_kind kind;
    struct plan_weight_part part;
    uint32_t first_row;        /* of the part */
    uint64_t source_row_bytes; /* in the checkpoint */
    uint64_t typed_row_bytes;  /* of the weight's type */
    uint32_t row_count;
    uint32_t columns;
    bool padded;
    struct vulkan_weight_bytes row_bytes; /* packed */
    struct vulkan_weight_arrays out;
    _Atomic uint32_t next_row;
    _Atomic uint64_t *heartbeat;
};

/* `count` rows from the slice's row `first` on: in the checkpoint, or made in `made`. */
static const uint8_t *typed_rows(const struct slice *slice, uint32_t first, uint32_t count,
                                 uint8_t *made)
{
    uint32_t row = slice->first_row + first;
    if (!made)
        return (const uint8_t *)slice->part.data + row * slice->source_row_bytes;
    weight_rows_read(&slice->part.source, slice->columns, slice->part.first_row + row, count, made);
    return made;
}

/* Rows with more columns on the device than in the checkpoint are floats; the added ones are zeros.
 */
static void pack_padded(const struct slice *slice, const uint8_t *rows, uint32_t count,
                        uint8_t *codes)
{
    uint64_t packed = vulkan_weight_format_row_bytes(slice->kind, slice->columns).codes;
    for (uint32_t i = 0; i < count; i++, codes += slice->row_bytes.codes) {
        const struct vulkan_weight_arrays out = {.codes = codes};
        vulkan_weight_format_pack(slice->kind, rows + i * slice->typed_row_bytes, 1, slice->columns,
                                  &out);
        memset(codes + packed, 0, slice->row_bytes.codes - packed);
    }
}

static void pack_rows(void *context, uint32_t thread)
{
    struct slice *slice = context;
    (void)thread;
    uint8_t *made = NULL;
    if (slice->part.source.layout != WEIGHT_IN_PLACE)
        made = must_alloc(ROWS_AT_ONCE, slice->typed_row_bytes);
    for (;;) {
        uint32_t first = atomic_fetch_add(&slice->next_row, ROWS_AT_ONCE);
        if (first >= slice->row_count)
            break;
        uint32_t left = slice->row_count - first;
        uint32_t count = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
        const struct vulkan_weight_arrays out = {slice->out.codes + first * slice->row_bytes.codes,
                                                 slice->out.high + first * slice->row_bytes.high,
                                                 slice->out.scales +
                                                     first * slice->row_bytes.scales};
        const uint8_t *rows = typed_rows(slice, first, count, made);
        if (slice->padded)
            pack_padded(slice, rows, count, out.codes);
        else
            vulkan_weight_format_pack(slice->kind, rows, count, slice->columns, &out);
    }
    free(made);
}

struct loading {
    struct vulkan_upload *upload;
    struct thread_pool *pool;
    const struct backend_options *options;
    backend_progress_fn *progress;
    void *context;
    uint64_t done_bytes;
    uint64_t total_bytes;
};

/* Whole pages of a read-only file mapping that are no longer needed. */
static void drop_pages(const uint8_t *bytes, uint64_t byte_count)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)bytes + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)bytes + byte_count) / page * page;
    if (first < end)
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

static enum result load_slice(struct loading *loading, const struct vulkan_matrix *matrix,
                              struct slice *slice, uint32_t first_row, struct error_text *error)
{
    uint8_t *staging;
    enum result result = vulkan_upload_claim(loading->upload, (void **)&staging, error);
    if (result != RESULT_OK)
        return result;
    uint64_t codes_bytes = slice->row_count * slice->row_bytes.codes;
    uint64_t high_bytes = slice->row_count * slice->row_bytes.high;
    uint64_t scales_bytes = slice->row_count * slice->row_bytes.scales;
    slice->out = (struct vulkan_weight_arrays){staging, staging + codes_bytes,
                                               staging + codes_bytes + high_bytes};
    atomic_store(&slice->next_row, 0);
    thread_pool_run(loading->pool, pack_rows, slice);
    vulkan_upload_copy(loading->upload, 0, matrix->codes.buffer,
                       matrix->codes.offset + first_row * slice->row_bytes.codes, codes_bytes);
    vulkan_upload_copy(loading->upload, codes_bytes, matrix->high.buffer,
                       matrix->high.offset + first_row * slice->row_bytes.high, high_bytes);
    vulkan_upload_copy(loading->upload, codes_bytes + high_bytes, matrix->scales.buffer,
                       matrix->scales.offset + first_row * slice->row_bytes.scales, scales_bytes);
    result = vulkan_upload_commit(loading->upload, error);
    if (loading->options->drop_source_pages)
        drop_pages((const uint8_t *)slice->part.data + slice->first_row * slice->source_row_bytes,
                   slice->row_count * slice->source_row_bytes);
    loading->done_bytes += codes_bytes + high_bytes + scales_bytes;
    if (loading->progress)
        loading->progress(loading->context, loading->done_bytes, loading->total_bytes);
    return result;
}

/* `rows` rows of a weight: the matrix's rows from `first_row` on. */
static enum result load_part(struct loading *loading, const struct vulkan_matrix *matrix,
                             const struct plan_weight *weight, struct plan_weight_part part,
                             uint32_t rows, uint32_t first_row, struct error_text *error)
{
    struct vulkan_weight_bytes row = vulkan_weight_format_row_bytes(matrix->kind, matrix->columns);
    uint32_t rows_at_once = (uint32_t)(STAGING_BYTES / (row.codes + row.high + row.scales));
    uint64_t typed_row_bytes = ggml_row_bytes(weight->type, weight->columns);
    bool in_place = part.source.layout == WEIGHT_IN_PLACE;
    must(rows_at_once > 0);
    for (uint32_t done = 0; done < rows;) {
        uint32_t left = rows - done;
        struct slice slice = {.kind = matrix->kind,
                              .part = part,
                              .first_row = done,
                              .source_row_bytes =
                                  in_place ? typed_row_bytes : part.source.row_bytes,
                              .typed_row_bytes = typed_row_bytes,
                              .row_count = left < rows_at_once ? left : rows_at_once,
                              .columns = weight->columns,
                              .padded = weight->columns != matrix->columns,
                              .row_bytes = row};
        enum result result = load_slice(loading, matrix, &slice, first_row + done, error);
        if (result != RESULT_OK)
            return result;
        done += slice.row_count;
    }
    return RESULT_OK;
}

static enum result load_matrix(struct loading *loading, const struct plan *plan,
                               const struct vulkan_matrix *matrix, struct error_text *error)
{
    uint32_t first_row = 0;
    for (uint32_t w = 0; w < matrix->weight_count; w++) {
        const struct plan_weight *weight = &plan->weights[matrix->weights[w]];
        /* Consecutive experts are rows of one matrix. */
        uint32_t parts = weight->parts ? weight->experts : 1;
        uint32_t rows = plan_weight_matrices(weight) / parts * weight->rows;
        for (uint32_t p = 0; p < parts; p++, first_row += rows) {
            enum result result = load_part(loading, matrix, weight, plan_weight_part(weight, p),
                                           rows, first_row, error);
            if (result != RESULT_OK)
                return result;
        }
    }
    return RESULT_OK;
}

enum result vulkan_weights_upload(struct vulkan_weights *weights,
                                  const struct backend_options *options,
                                  backend_progress_fn *progress, void *context,
                                  struct error_text *error)
{
    struct loading loading = {.options = options,
                              .progress = progress,
                              .context = context,
                              .total_bytes = weights->matrix_bytes};
    enum result result = thread_pool_create(options->threads, &loading.pool, error);
    if (result == RESULT_OK)
        result = vulkan_upload_create(weights->device, STAGING_BYTES, &loading.upload, error);
    for (uint32_t m = 0; m < weights->matrix_count && result == RESULT_OK; m++)
        if (!weights->matrices[m].lent)
            result = load_matrix(&loading, weights->plan, &weights->matrices[m], error);
    if (result == RESULT_OK)
        result = vulkan_upload_finish(loading.upload, error);
    vulkan_upload_destroy(loading.upload);
    if (loading.pool)
        thread_pool_destroy(loading.pool);
    return result;
}

static void lay_vector(const struct plan_weight *weight, float *out)
{
    uint64_t row_bytes = ggml_row_bytes(weight->type, weight->columns);
    for (uint32_t row = 0; row < weight->rows; row++)
        ggml_dequantize_row(weight->type, (const uint8_t *)weight->data + row * row_bytes,
                            weight->columns, out + (uint64_t)row * weight->columns);
}

/* The same of quantized groups' tables. */
static uint64_t lay_kv_tables(struct vulkan_weights *weights, uint8_t *base, uint64_t address,
                              uint64_t at)
{
    const struct kv_layout *kv = &weights->plan->kv;
    for (uint32_t g = 0; g < kv->group_count; g++) {
        weights->kv_tables_address[g] = 0;
        if (!kv->groups[g].quantized || kv->quantization.scheme != KV_QUANT_TURBOQUANT)
            continue;
        weights->kv_tables_address[g] = address + at;
        uint64_t bytes = vulkan_kv_tables_bytes(kv->groups[g].head_dim);
        if (base) {
            struct kv_codec codec;
            kv_codec_init(&codec, &kv->quantization, kv->groups[g].head_dim);
            vulkan_kv_tables_fill((struct vulkan_kv_tables *)(void *)(base + at), &codec);
            kv_codec_fini(&codec);
        }
        at += align_piece(bytes);
    }
    return at;
}

/* Assigns the vectors' places from `base` on (NULL: only counts) and fills them. */
static uint64_t lay_vectors(struct vulkan_weights *weights, uint8_t *base, uint64_t address)
{
    const struct plan *plan = weights->plan;
    uint64_t at = 0;
    memset(weights->vector_address, 0, plan->weight_count * sizeof *weights->vector_address);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        plan_weight_id id = plan->ops[i].weights[0];
        if (op_facts(plan->ops[i].stem)->weights != OP_WEIGHTS_VECTORS || id == PLAN_NONE ||
            weights->vector_address[id])
            continue;
        weights->vector_address[id] = address + at;
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && plan->ops[i].weights[w] != PLAN_NONE; w++) {
            const struct plan_weight *weight = &plan->weights[plan->ops[i].weights[w]];
            if (base)
                lay_vector(weight, (float *)(void *)(base + at));
            at += (uint64_t)weight->rows * weight->columns * sizeof(float);
        }
        at = align_piece(at);
    }
    uint32_t ones = plan_ones(plan);
    weights->ones_address = address + at;
    for (uint32_t d = 0; base && d < ones; d++)
        memcpy(base + at + d * sizeof(float), &(float){1.0f}, sizeof(float));
    at += align_piece(ones * sizeof(float));
    for (uint32_t r = 0; r < plan->config.rope_count; r++) {
        const struct rope_config *rope = &plan->config.ropes[r];
        weights->rope_address[r] = address + at;
        const uint32_t pairs = rope->dims / 2;
        uint32_t *axes = base ? (uint32_t *)(void *)(base + at) + pairs : NULL;
        if (base)
            memcpy(base + at, rope->inverse_frequency, pairs * sizeof(float));
        for (uint32_t pair = 0; base && pair < pairs; pair++) {
            axes[pair] = rope->axis[pair];
            axes[pairs + pair] = rope->divided ? rope->second_axis[pair] : rope->axis[pair];
        }
        at += align_piece(pairs * (sizeof(float) + 2 * sizeof(uint32_t)));
    }
    return lay_kv_tables(weights, base, address, at);
}

enum result vulkan_weights_upload_vectors(struct vulkan_weights *weights, struct error_text *error)
{
    struct vulkan_upload *upload = NULL;
    uint64_t bytes = lay_vectors(weights, NULL, 1) + VULKAN_ALIGNMENT;
    uint8_t *values = malloc(bytes);
    if (!values)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for norm weights");
    enum result result = vulkan_buffer_create(weights->device, VULKAN_DEVICE, bytes, "norm weights",
                                              &weights->vectors, error);
    if (result == RESULT_OK)
        result = vulkan_upload_create(weights->device, bytes, &upload, error);
    if (result == RESULT_OK) {
        (void)lay_vectors(weights, values, weights->vectors.address);
        result = vulkan_upload_bytes(upload, values, bytes, &weights->vectors, 0, error);
    }
    if (result == RESULT_OK)
        result = vulkan_upload_finish(upload, error);
    vulkan_upload_destroy(upload);
    free(values);
    return result;
}
