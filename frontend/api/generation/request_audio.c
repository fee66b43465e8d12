/*
 * Spellings of a sound. A is a URL, {"url": URL} or {"data": base64, "format": "wav"}:
 *
 *     {"type": "input_audio", "input_audio": A}    OpenAI
 *     {"type": "audio_url", "audio_url": A}        vLLM, SGLang
 *     {"type": "audio", "audio": A}                Qwen, mlx-vlm
 *
 * The kind of file follows from its bytes; a `format` only has to be the name of one that is taken.
 */
#include "frontend/api/generation/request_audio.h"

#include <cjson/cJSON.h>
#include <string.h>

static bool is_listed(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

bool request_audio_is_type(const char *type)
{
    static const char *const types[] = {"input_audio", "audio_url", "audio", NULL};
    return is_listed(type, types);
}

static enum result format_check(const cJSON *value, const char *place, struct api_error *error)
{
    static const char *const formats[] = {"wav", "mp3", "flac", "ogg",  "opus", "vorbis",
                                          "aac", "m4a", "mp4",  "webm", "mka",  NULL};
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(value, "format");
    if (!format || cJSON_IsNull(format) ||
        (cJSON_IsString(format) && is_listed(format->valuestring, formats)))
        return RESULT_OK;
    return api_error_invalid(error, place,
                             "format must be wav, mp3, flac, ogg, opus, vorbis, aac, m4a, mp4, "
                             "webm or mka");
}

enum result request_audio_read(const cJSON *part, const char *place, const char **name,
                               enum image_naming *naming, struct api_error *error)
{
    const char *type = cJSON_GetObjectItemCaseSensitive(part, "type")->valuestring;
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(part, type);
    const cJSON *url =
        cJSON_IsString(value) ? value : cJSON_GetObjectItemCaseSensitive(value, "url");
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(value, "data");
    *naming = cJSON_IsString(url) ? IMAGE_NAMED_BY_URI : IMAGE_NAMED_BY_BASE64;
    *name = cJSON_IsString(url) ? url->valuestring : cJSON_GetStringValue(data);
    if (!*name)
        return api_error_invalid(
            error, place, "%s must be a URL or an object with a string 'url' or 'data'", type);
    return cJSON_IsObject(value) ? format_check(value, place, error) : RESULT_OK;
}
