/*
 * Any checkpoint with a layer that predicts a further token: opening the model and the layer must end in
 * an error with a text, or in plans whose weights can be read to their last row. A layer that is refused
 * leaves the model usable. Input that begins with "GGUF" is a GGUF file; other input is a config.json, a
 * NUL and a safetensors file. "DRAFTER" and a byte, the bytes of a GGUF file in 32 bits, that file, and a
 * config.json, a NUL and a safetensors file are a model and a drafter that reads its inner states.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/must.h"
#include "proto/opened_files.h"
#include "worker/backend/host/weight_rows.h"
#include "worker/draft/draft_model.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"

enum { COLUMNS_MOST = 4096, MARK_BYTES = 8 };

static void read_last_row(const struct plan_weight *weight, uint32_t number)
{
    struct plan_weight_part part = plan_weight_part(weight, number);
    must(weight->rows > 0 && weight->columns > 0);
    if (weight->columns > COLUMNS_MOST)
        return;
    uint8_t *out = must_alloc(weight->columns, sizeof(float));
    weight_rows_read(&part.source, weight->columns, part.first_row + weight->rows - 1, 1, out);
    free(out);
}

/* A vector is in place: its bytes are read as they are. */
static void read_vector(const struct plan_weight *weight)
{
    const uint8_t *bytes = weight->data;
    static volatile uint8_t sink;
    must(weight->data_bytes > 0);
    sink = bytes[weight->data_bytes - 1];
    (void)sink;
}

static void check_plan(const struct plan *plan)
{
    must(plan->config.layers >= 1 && plan->op_count > 0);
    must(plan->logits != PLAN_NONE || (plan->takes_hidden && !plan->keeps_hidden));
    for (uint32_t i = 0; i < plan->weight_count; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        uint32_t matrices = plan_weight_matrices(weight);
        if (plan_weight_part(weight, 0).source.layout == WEIGHT_IN_PLACE)
            read_vector(weight);
        else
            read_last_row(weight, matrices - 1);
    }
}

/* `result`: of opening the layer or drafter. */
static void check_opened(const struct model *model, enum result result,
                         const struct error_text *error)
{
    const struct plan *plan = model_plan(model), *ahead = model_ahead_plan(model);
    must((result == RESULT_OK) == (ahead != NULL) && (ahead || error->text[0] != '\0'));
    must(plan->keeps_hidden == (ahead != NULL));
    check_plan(plan);
    if (!ahead)
        return;
    must(plan->tensors[plan->hidden_out].rows == PLAN_ROWS_STEP && ahead->state.layers == 0);
    check_plan(ahead);
}

static void check_layer(struct model *model)
{
    struct error_text error = {""};
    enum result result = model_open_ahead(model, &error);
    const struct plan *plan = model_plan(model), *ahead = model_ahead_plan(model);
    check_opened(model, result, &error);
    if (!ahead)
        return;
    must(ahead->takes_hidden && ahead->keeps_hidden && ahead->config.layers == 1);
    must(ahead->config.hidden == plan->config.hidden);
    must(ahead->tensors[ahead->hidden_in].columns == plan->tensors[plan->hidden_out].columns);
}

static void check_drafter(const struct model *model, enum result result,
                          const struct error_text *error)
{
    const struct plan *ahead = model_ahead_plan(model);
    const struct target_drafter *drafter = model_drafter(model);
    check_opened(model, result, error);
    if (!ahead)
        return;
    must(drafter && ahead->config.vocab_tokens == model_plan(model)->config.vocab_tokens);
    must(!drafter->token_map == (ahead->config.logit_tokens == 0));
    for (uint32_t i = 0; drafter->token_map && i < plan_drawn_tokens(ahead); i++)
        must(drafter->token_map[i] < ahead->config.vocab_tokens);
    struct draft_model_parts parts = {.group_count = 0};
    const struct plan *reader = drafter->context_plan ? drafter->context_plan : ahead;
    draft_model_describe(model_plan(model), reader, &parts);
    must(parts.group_count > 0 && parts.hidden_columns > 0);
    must(!drafter->context_plan == (drafter->block_tokens == 0));
    if (drafter->context_plan)
        check_plan(drafter->context_plan);
}

static int file_of(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz_ahead", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    return fd;
}

/* model: NULL: the folder is one, *opened; else a drafter of it. */
static enum result open_folder(const uint8_t *data, size_t size, struct model *model,
                               struct model **opened, struct error_text *error)
{
    const uint8_t *end = memchr(data, 0, size);
    if (!end)
        return error_set(error, RESULT_INVALID, "no NUL");
    size_t text_bytes = (size_t)(end - data);
    struct opened_file list[] = {
        {.fd = file_of(data, text_bytes), .name = "config.json"},
        {.fd = file_of(end + 1, size - text_bytes - 1), .name = "model.safetensors"}};
    const struct opened_files files = {.list = list, .count = 2};
    enum result result = model ? model_open_drafter(model, "folder", &files, error)
                               : model_open_of("folder", &files, opened, error);
    close(list[0].fd);
    close(list[1].fd);
    return result;
}

/* Aligned as an mmap would be; data need not be. */
static uint8_t *copy_bytes(const uint8_t *data, size_t size)
{
    uint8_t *bytes = must_alloc(size ? size : 1, 1);
    memcpy(bytes, data, size);
    return bytes;
}

/* data: what follows the mark. */
static void try_drafter(const uint8_t *data, size_t size)
{
    struct error_text error = {""};
    struct model *model = NULL;
    uint32_t model_bytes;
    if (size < sizeof model_bytes)
        return;
    memcpy(&model_bytes, data, sizeof model_bytes);
    data += sizeof model_bytes;
    size -= sizeof model_bytes;
    if (model_bytes > size)
        return;
    uint8_t *bytes = copy_bytes(data, model_bytes);
    if (model_open_bytes(bytes, model_bytes, &model, &error) == RESULT_OK) {
        enum result result =
            open_folder(data + model_bytes, size - model_bytes, model, NULL, &error);
        check_drafter(model, result, &error);
    }
    model_close(model);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error_text error = {""};
    struct model *model = NULL;
    bool is_gguf = size >= 4 && memcmp(data, "GGUF", 4) == 0;
    if (size >= MARK_BYTES && memcmp(data, "DRAFTER", MARK_BYTES - 1) == 0) {
        try_drafter(data + MARK_BYTES, size - MARK_BYTES);
        return 0;
    }
    uint8_t *bytes = copy_bytes(data, size);
    enum result result = is_gguf ? model_open_bytes(bytes, size, &model, &error)
                                 : open_folder(bytes, size, NULL, &model, &error);
    must((result == RESULT_OK) == (model != NULL) && (model || error.text[0] != '\0'));
    if (model)
        check_layer(model);
    model_close(model);
    free(bytes);
    return 0;
}
