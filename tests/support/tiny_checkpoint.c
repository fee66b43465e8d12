/*
 * Lists of keys and tensors that a test edits before they are written, in order, as a GGUF file.
 */
#include "tests/support/tiny_checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gguf_file.h"
#include "proto/must.h"

#define HIDDEN       16u
#define HEADS        4u
#define KV_HEADS     2u
#define HEAD_DIM     4u
#define FEED_FORWARD 20u
#define VOCAB        8u
#define ALIGNMENT    32u

static struct tiny_key *key_at(struct tiny_checkpoint *tiny, const char *name,
                               enum tiny_key_type type)
{
    uint32_t i = 0;
    while (i < tiny->key_count && strcmp(tiny->keys[i].name, name) != 0)
        i++;
    must(i < TINY_KEYS_MAX);
    if (i == tiny->key_count)
        tiny->key_count++;
    tiny->keys[i] = (struct tiny_key){.type = type};
    snprintf(tiny->keys[i].name, sizeof tiny->keys[i].name, "%s", name);
    return &tiny->keys[i];
}

void tiny_checkpoint_set_u32(struct tiny_checkpoint *tiny, const char *key, uint32_t value)
{
    key_at(tiny, key, TINY_U32)->u32 = value;
}

void tiny_checkpoint_set_f32(struct tiny_checkpoint *tiny, const char *key, float value)
{
    key_at(tiny, key, TINY_F32)->f32 = value;
}

void tiny_checkpoint_set_bool(struct tiny_checkpoint *tiny, const char *key, uint32_t value)
{
    key_at(tiny, key, TINY_BOOL)->u32 = value;
}

void tiny_checkpoint_set_string(struct tiny_checkpoint *tiny, const char *key, const char *value)
{
    struct tiny_key *k = key_at(tiny, key, TINY_STRING);
    snprintf(k->string, sizeof k->string, "%s", value);
}

void tiny_checkpoint_set_strings(struct tiny_checkpoint *tiny, const char *key, uint32_t count)
{
    key_at(tiny, key, TINY_STRINGS)->u32 = count;
}

struct tiny_tensor *tiny_checkpoint_tensor(struct tiny_checkpoint *tiny, const char *name)
{
    for (uint32_t i = 0; i < tiny->tensor_count; i++)
        if (strcmp(tiny->tensors[i].name, name) == 0)
            return &tiny->tensors[i];
    return NULL;
}

void tiny_checkpoint_set_tensor(struct tiny_checkpoint *tiny, const char *name, uint64_t columns,
                                uint64_t rows)
{
    struct tiny_tensor *tensor = tiny_checkpoint_tensor(tiny, name);
    if (!tensor) {
        must(tiny->tensor_count < TINY_TENSORS_MAX);
        tensor = &tiny->tensors[tiny->tensor_count++];
    }
    *tensor = (struct tiny_tensor){.dimensions = {columns, rows}, .type = GGML_F32, .fill = 1.0f};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
}

void tiny_checkpoint_drop_key(struct tiny_checkpoint *tiny, const char *key)
{
    for (uint32_t i = 0; i < tiny->key_count; i++)
        if (strcmp(tiny->keys[i].name, key) == 0) {
            tiny->keys[i] = tiny->keys[--tiny->key_count];
            return;
        }
    fail_msg("no key %s", key);
}

void tiny_checkpoint_drop_tensor(struct tiny_checkpoint *tiny, const char *name)
{
    struct tiny_tensor *tensor = tiny_checkpoint_tensor(tiny, name);
    if (!tensor)
        fail_msg("no tensor %s", name);
    else
        *tensor = tiny->tensors[--tiny->tensor_count];
}

/* --- the two families ------------------------------------------------------------------------- */

static void add_layer_tensor(struct tiny_checkpoint *tiny, uint32_t layer, const char *name,
                             uint64_t columns, uint64_t rows)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", layer, name);
    tiny_checkpoint_set_tensor(tiny, full, columns, rows);
}

static void init_shared(struct tiny_checkpoint *tiny, const char *architecture, uint32_t layers)
{
    static const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {
        {"context_length", 64},
        {"embedding_length", HIDDEN},
        {"feed_forward_length", FEED_FORWARD},
        {"attention.head_count", HEADS},
        {"attention.head_count_kv", KV_HEADS},
    };
    char key[64];
    memset(tiny, 0, sizeof *tiny);
    tiny_checkpoint_set_string(tiny, "general.architecture", architecture);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, sizes[i].name);
        tiny_checkpoint_set_u32(tiny, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.block_count", architecture);
    tiny_checkpoint_set_u32(tiny, key, layers);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    tiny_checkpoint_set_f32(tiny, key, 1e-5f);

    tiny_checkpoint_set_tensor(tiny, "token_embd.weight", HIDDEN, VOCAB);
    tiny_checkpoint_set_tensor(tiny, "output_norm.weight", HIDDEN, 1);
    for (uint32_t layer = 0; layer < layers; layer++) {
        add_layer_tensor(tiny, layer, "attn_norm", HIDDEN, 1);
        add_layer_tensor(tiny, layer, "attn_q", HIDDEN, HEADS * HEAD_DIM);
        add_layer_tensor(tiny, layer, "attn_k", HIDDEN, KV_HEADS * HEAD_DIM);
        add_layer_tensor(tiny, layer, "attn_v", HIDDEN, KV_HEADS * HEAD_DIM);
        add_layer_tensor(tiny, layer, "attn_output", HEADS * HEAD_DIM, HIDDEN);
        add_layer_tensor(tiny, layer, "ffn_norm", HIDDEN, 1);
        add_layer_tensor(tiny, layer, "ffn_gate", HIDDEN, FEED_FORWARD);
        add_layer_tensor(tiny, layer, "ffn_up", HIDDEN, FEED_FORWARD);
        add_layer_tensor(tiny, layer, "ffn_down", FEED_FORWARD, HIDDEN);
    }
}

void tiny_checkpoint_init_llama(struct tiny_checkpoint *tiny, uint32_t layers)
{
    init_shared(tiny, "llama", layers);
}

void tiny_checkpoint_init_gemma3(struct tiny_checkpoint *tiny, uint32_t layers)
{
    init_shared(tiny, "gemma3", layers);
    tiny_checkpoint_set_u32(tiny, "gemma3.attention.sliding_window", 8);
    for (uint32_t layer = 0; layer < layers; layer++) {
        add_layer_tensor(tiny, layer, "attn_q_norm", HEAD_DIM, 1);
        add_layer_tensor(tiny, layer, "attn_k_norm", HEAD_DIM, 1);
        add_layer_tensor(tiny, layer, "post_attention_norm", HIDDEN, 1);
        add_layer_tensor(tiny, layer, "post_ffw_norm", HIDDEN, 1);
    }
}

/* --- writing and opening ---------------------------------------------------------------------- */

static void write_key(struct gguf_builder *file, const struct tiny_key *key)
{
    switch (key->type) {
    case TINY_U32: gguf_builder_add_key_u32(file, key->name, key->u32); break;
    case TINY_F32: gguf_builder_add_key_f32(file, key->name, key->f32); break;
    case TINY_STRING: gguf_builder_add_key_string(file, key->name, key->string); break;
    case TINY_BOOL:
        gguf_builder_add_key(file, key->name, GGUF_BOOL);
        gguf_builder_add_u8(file, key->u32 != 0);
        break;
    case TINY_STRINGS:
        gguf_builder_add_key_array(file, key->name, GGUF_STRING, key->u32);
        for (uint32_t i = 0; i < key->u32; i++)
            gguf_builder_add_string(file, key->string);
        break;
    }
}

static uint64_t data_bytes(const struct tiny_tensor *tensor)
{
    struct ggml_block block = ggml_type_block((enum ggml_type)tensor->type);
    return tensor->dimensions[0] * tensor->dimensions[1] / block.elements * block.bytes;
}

static void write_data(struct gguf_builder *file, const struct tiny_tensor *tensor)
{
    uint64_t bytes = data_bytes(tensor);
    uint32_t word = 0;
    if (tensor->type == GGML_F32)
        memcpy(&word, &tensor->fill, sizeof word);
    gguf_builder_add_data(file, ALIGNMENT, 0);
    for (uint64_t i = 0; i < bytes; i++)
        gguf_builder_add_u8(file, (uint8_t)(word >> (i % 4 * 8)));
}

static void build(struct tiny_checkpoint *tiny)
{
    uint64_t offset = 0;
    gguf_builder_init(&tiny->file, tiny->tensor_count, tiny->key_count);
    for (uint32_t i = 0; i < tiny->key_count; i++)
        write_key(&tiny->file, &tiny->keys[i]);
    for (uint32_t i = 0; i < tiny->tensor_count; i++) {
        const struct tiny_tensor *tensor = &tiny->tensors[i];
        gguf_builder_add_tensor(&tiny->file, tensor->name, tensor->dimensions[1] == 1 ? 1 : 2,
                                tensor->dimensions, tensor->type, offset);
        offset += (data_bytes(tensor) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    for (uint32_t i = 0; i < tiny->tensor_count; i++)
        write_data(&tiny->file, &tiny->tensors[i]);
    gguf_builder_add_data(&tiny->file, ALIGNMENT, 0);
}

enum result tiny_checkpoint_open(struct tiny_checkpoint *tiny, struct model **model,
                                 struct error_text *error)
{
    build(tiny);
    return model_open_bytes(tiny->file.bytes, tiny->file.byte_count, model, error);
}

struct model *tiny_checkpoint_must_open(struct tiny_checkpoint *tiny)
{
    struct error_text error = {""};
    struct model *model = NULL;
    if (tiny_checkpoint_open(tiny, &model, &error) != RESULT_OK)
        fail_msg("refused: %s", error.text);
    return model;
}

void tiny_checkpoint_must_refuse(struct tiny_checkpoint *tiny, enum result result,
                                 const char *words)
{
    struct error_text error = {""};
    struct model *model = NULL;
    enum result opened = tiny_checkpoint_open(tiny, &model, &error);
    if (opened == RESULT_OK)
        model_close(model);
    if (opened != result || !strstr(error.text, words))
        fail_msg("%s \"%s\", not %s with \"%s\"", result_name(opened), error.text,
                 result_name(result), words);
    assert_null(model);
}
