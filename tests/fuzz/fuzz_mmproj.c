/*
 * Any bytes as a projector file of a GGUF model: reading its keys and listing its tower must end in
 * an error or in a plan. The first byte chooses the text model.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/model/build/plan_builder.h"
#include "worker/model/gguf/checkpoint_mmproj.h"
#include "worker/model/gguf/gguf_parts.h"
#include "worker/plan/plan.h"

static void list_tower(const struct gguf_parts *file, const struct mmproj_tower *tower)
{
    struct error_text error = {""};
    struct plan *plan = NULL;
    struct plan_source source = {.tensors = gguf_parts_tensors(file),
                                 .naming = &tower->naming,
                                 .prefix = "",
                                 .vision = &tower->config.vision};
    struct plan_builder *builder = plan_builder_create(&source, &tower->config.tower, &error);
    must(builder);
    tower->list_ops(builder, &tower->config);
    enum result result = plan_builder_finish(builder, PLAN_NONE, &plan);
    must((result == RESULT_OK) == (plan != NULL) && (plan || error.text[0] != '\0'));
    plan_builder_destroy(builder);
    plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct model_config texts[] = {
        {.architecture = "gemma3", .hidden = 32},
        {.architecture = "gemma4", .hidden = 32, .per_layer_columns = 8},
        {.architecture = "llama", .hidden = 32},
        {.architecture = "qwen2vl", .hidden = 32},
        {.architecture = "qwen3vl", .hidden = 32, .deepstack_layers = 2},
        {.architecture = "glm4", .hidden = 32},
        {.architecture = "paddleocr", .hidden = 32},
        {.architecture = "deepseek2", .hidden = 32},
        {.architecture = "glm4moe", .hidden = 32},
        {.architecture = "hunyuan_vl", .hidden = 32},
    };
    static struct mmproj_tower tower;
    struct error_text error = {""};
    struct gguf_parts *file = NULL;
    if (size == 0)
        return 0;
    const struct model_config *text = &texts[data[0] % (sizeof texts / sizeof texts[0])];
    uint8_t *bytes = malloc(size); /* aligned as an mmap would be; data need not be */
    if (!bytes)
        return 0;
    memcpy(bytes, data + 1, size - 1);
    if (gguf_parts_open_bytes(bytes, size - 1, &file, &error) == RESULT_OK) {
        if (checkpoint_mmproj_read(gguf_parts_first(file), text, &tower, &error) == RESULT_OK)
            list_tower(file, &tower);
        else
            must(error.text[0] != '\0');
    }
    gguf_parts_close(file);
    free(bytes);
    return 0;
}
