/*
 * What the checkpoint says: family, format, size of its files, chat template. The number of
 * parameters and the quantization are not known here and are empty. Ollama's digest names the
 * content of a model; here it is a hash of path, size and time of the file, which changes when the
 * model does.
 */
#include "frontend/api/ollama/ollama_model.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "frontend/api/generation/fim_tokens.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/ollama/ollama_fields.h"
#include "frontend/assets/vision_assets.h"
#include "proto/keyed_hash.h"

static bool is_gguf(const struct model_assets *assets)
{
    size_t length = strlen(assets->path);
    return length > 5 && strcmp(assets->path + length - 5, ".gguf") == 0;
}

static void date_write(int64_t unix_s, struct text_buffer *out)
{
    char date[32] = "1970-01-01T00:00:00Z";
    time_t seconds = (time_t)unix_s;
    struct tm utc;
    if (gmtime_r(&seconds, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    text_buffer_append_format(out, "\"%s\"", date);
}

static void digest_write(const struct model_assets *assets, uint64_t bytes, struct text_buffer *out)
{
    char text[sizeof assets->path + 64];
    uint64_t words[2];
    snprintf(text, sizeof text, "%s %llu %lld", assets->path, (unsigned long long)bytes,
             (long long)assets->created_unix_s);
    for (uint64_t i = 0; i < 2; i++) {
        const struct keyed_hash_key key = {{0x73686f616cu, i}};
        keyed_hash_wide(&key, text, strlen(text), words);
        text_buffer_append_format(out, "%016llx%016llx", (unsigned long long)words[0],
                                  (unsigned long long)words[1]);
    }
}

static void details_write(const struct model_assets *assets, struct text_buffer *out)
{
    text_buffer_append_format(out, "{\"parent_model\":\"\",\"format\":\"%s\",\"family\":",
                              is_gguf(assets) ? "gguf" : "safetensors");
    api_error_append_words(assets->family, out);
    text_buffer_append_text(out, ",\"families\":[");
    api_error_append_words(assets->family, out);
    text_buffer_append_text(out, "],\"parameter_size\":\"\",\"quantization_level\":\"\"}");
}

static void capabilities_write(const struct model_assets *assets, struct text_buffer *out)
{
    struct fim_tokens tokens;
    const struct {
        const char *name;
        bool has;
    } capabilities[] = {{"tools", assets->chat_template && assets->formats.tools},
                        {"insert", fim_tokens_find(assets->tokenizer, &tokens)},
                        {"vision", vision_assets_sees(assets->vision)},
                        {"thinking", assets->formats.reasoning != NULL}};
    text_buffer_append_text(out, "[\"completion\"");
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
        if (capabilities[i].has)
            text_buffer_append_format(out, ",\"%s\"", capabilities[i].name);
    }
    text_buffer_append_text(out, "]");
}

void ollama_model_write(const struct model_assets *assets, const char *name,
                        struct text_buffer *out)
{
    uint64_t bytes = assets->file_bytes;
    text_buffer_append_text(out, "\"name\":");
    text_buffer_append_json_string(out, name, strlen(name));
    text_buffer_append_text(out, ",\"model\":");
    text_buffer_append_json_string(out, name, strlen(name));
    text_buffer_append_text(out, ",\"modified_at\":");
    date_write(assets->created_unix_s, out);
    text_buffer_append_format(out, ",\"size\":%llu,\"digest\":\"", (unsigned long long)bytes);
    digest_write(assets, bytes, out);
    text_buffer_append_text(out, "\",\"details\":");
    details_write(assets, out);
    text_buffer_append_text(out, ",\"capabilities\":");
    capabilities_write(assets, out);
}

static void info_write(const struct model_assets *assets, struct text_buffer *out)
{
    char key[sizeof assets->family + 32];
    text_buffer_append_text(out, "{\"general.architecture\":");
    api_error_append_words(assets->family, out);
    text_buffer_append_text(out, ",\"general.basename\":");
    text_buffer_append_json_string(out, assets->model_id, strlen(assets->model_id));
    snprintf(key, sizeof key, "%s.context_length", assets->family);
    text_buffer_append_text(out, ",");
    api_error_append_words(key, out);
    text_buffer_append_format(out, ":%u}", assets->context_tokens);
}

enum result ollama_model_show(const struct parse_context *context, const char *json,
                              size_t json_bytes, int64_t now_unix_s, struct text_buffer *reply,
                              struct api_error *error)
{
    (void)now_unix_s;
    const struct model_assets *assets = context->assets;
    cJSON *body;
    size_t source_bytes;
    enum result result = request_fields_read_body(json, json_bytes, &body, error);
    if (result != RESULT_OK)
        return result;
    cJSON *name = cJSON_DetachItemFromObjectCaseSensitive(body, "name"); /* its former name */
    if (!name || request_fields_member(body, "model") ||
        !cJSON_AddItemToObject(body, "model", name))
        cJSON_Delete(name);
    ollama_fields_strip_tag(body);
    result = request_fields_check_model(body, assets, error);
    cJSON_Delete(body);
    if (result != RESULT_OK)
        return result;
    const char *source =
        assets->chat_template ? chat_template_source(assets->chat_template, &source_bytes) : "";
    text_buffer_append_text(reply, "{\"license\":\"\",\"modelfile\":\"\",\"parameters\":\"\","
                                   "\"template\":");
    text_buffer_append_json_string(reply, source, strlen(source));
    text_buffer_append_text(reply, ",\"details\":");
    details_write(assets, reply);
    text_buffer_append_text(reply, ",\"model_info\":");
    info_write(assets, reply);
    text_buffer_append_text(reply, ",\"capabilities\":");
    capabilities_write(assets, reply);
    text_buffer_append_text(reply, ",\"modified_at\":");
    date_write(assets->created_unix_s, reply);
    text_buffer_append_text(reply, "}");
    return RESULT_OK;
}
