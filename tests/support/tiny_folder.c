/*
 * Lists of tensors that a test edits before they are written.
 */
#include "tests/support/tiny_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/must.h"

#define HEADER_BYTES 8192

static const char config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":16,\"intermediate_size\":20,"
    "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"vocab_size\":8,\"max_position_embeddings\":64,\"tie_word_embeddings\":true}";

void tiny_folder_create(struct tiny_folder *folder)
{
    static const struct {
        const char *name;
        uint64_t rows, columns;
    } tensors[] = {
        {"model.embed_tokens.weight", 8, 16},
        {"model.norm.weight", 1, 16},
        {"model.layers.0.input_layernorm.weight", 1, 16},
        {"model.layers.0.self_attn.q_proj.weight", 16, 16},
        {"model.layers.0.self_attn.k_proj.weight", 8, 16},
        {"model.layers.0.self_attn.v_proj.weight", 8, 16},
        {"model.layers.0.self_attn.o_proj.weight", 16, 16},
        {"model.layers.0.post_attention_layernorm.weight", 1, 16},
        {"model.layers.0.mlp.gate_proj.weight", 20, 16},
        {"model.layers.0.mlp.up_proj.weight", 20, 16},
        {"model.layers.0.mlp.down_proj.weight", 16, 20},
    };
    *folder = (struct tiny_folder){.path = "/tmp/shoal-folder-XXXXXX"};
    must(mkdtemp(folder->path) != NULL);
    tiny_folder_write(folder, "config.json", config);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        tiny_folder_add_tensor(folder, tensors[i].name, tensors[i].rows, tensors[i].columns);
}

void tiny_folder_destroy(struct tiny_folder *folder)
{
    DIR *listing = opendir(folder->path);
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        unlink(tiny_folder_file(folder, entry->d_name));
    if (listing)
        closedir(listing);
    must(rmdir(folder->path) == 0);
}

const char *tiny_folder_file(const struct tiny_folder *folder, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return path;
}

static void write_file(const struct tiny_folder *folder, const char *name, const void *head,
                       size_t head_bytes, size_t zeros)
{
    FILE *file = fopen(tiny_folder_file(folder, name), "wb");
    must(file && fwrite(head, 1, head_bytes, file) == head_bytes);
    for (size_t i = 0; i < zeros; i++)
        must(fputc(0, file) == 0);
    must(fclose(file) == 0);
}

void tiny_folder_write(const struct tiny_folder *folder, const char *name, const char *text)
{
    write_file(folder, name, text, strlen(text), 0);
}

void tiny_folder_add_tensor(struct tiny_folder *folder, const char *name, uint64_t rows,
                            uint64_t columns)
{
    must(folder->tensor_count < TINY_FOLDER_TENSORS_MAX);
    struct tiny_folder_tensor *tensor = &folder->tensors[folder->tensor_count++];
    *tensor = (struct tiny_folder_tensor){.type = "BF16", .dimension_count = rows == 1 ? 1 : 2};
    tensor->dimensions[0] = rows == 1 ? columns : rows;
    tensor->dimensions[1] = columns;
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
}

static size_t tensor_bytes(const struct tiny_folder_tensor *tensor)
{
    uint64_t columns = tensor->dimension_count == 2 ? tensor->dimensions[1] : 1;
    return (size_t)(tensor->dimensions[0] * columns) * (strcmp(tensor->type, "F32") == 0 ? 4 : 2);
}

void tiny_folder_write_weights(const struct tiny_folder *folder, const char *name, uint32_t part,
                               uint32_t parts)
{
    char header[HEADER_BYTES] = "\0\0\0\0\0\0\0\0";
    size_t length = 8, at = 0;
    for (uint32_t i = part; i < folder->tensor_count; i += parts) {
        const struct tiny_folder_tensor *tensor = &folder->tensors[i];
        char second[32] = "";
        if (tensor->dimension_count == 2)
            snprintf(second, sizeof second, ",%llu", (unsigned long long)tensor->dimensions[1]);
        length += (size_t)snprintf(
            header + length, sizeof header - length,
            "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu%s],\"data_offsets\":[%zu,%zu]}",
            length == 8 ? "{" : ",", tensor->name, tensor->type,
            (unsigned long long)tensor->dimensions[0], second, at, at + tensor_bytes(tensor));
        at += tensor_bytes(tensor);
    }
    header[length++] = '}';
    must(length < sizeof header);
    header[0] = (char)((length - 8) & 0xff);
    header[1] = (char)((length - 8) >> 8);
    write_file(folder, name, header, length, at);
}

void tiny_folder_write_index(const struct tiny_folder *folder, uint32_t parts)
{
    char text[HEADER_BYTES] = "{\"metadata\":{},\"weight_map\":{";
    size_t length = strlen(text);
    for (uint32_t i = 0; i < folder->tensor_count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "%s\"%s\":\"part-%u.safetensors\"", i ? "," : "",
                                   folder->tensors[i].name, i % parts);
    snprintf(text + length, sizeof text - length, "}}");
    tiny_folder_write(folder, "model.safetensors.index.json", text);
}
