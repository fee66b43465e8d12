/*
 * Spellings of a video. V is a URL, {"url": URL}, {"data": base64}, or a list of frames, each an
 * image's URL, {"url": URL}, or {"image_url": either of them}:
 *
 *     {"type": "video_url", "video_url": V}                          vLLM, SGLang
 *     {"type": "input_video", "video_url" or "input_video": V}       OpenAI's names for images and audio
 *     {"type": "video", "video": V}                                  Qwen, mlx-vlm
 *     {"type": "video", "source": {"type": "base64", "data": …} or {"type": "url", "url": …}}
 *
 * beside it, or in V, `fps` and `max_frames` as in qwen-vl-utils: the frames that are sampled of each
 * second of a file, and the most that are shown. Of a list of frames `fps` is the rate they have. With
 * `use_audio_in_video` of Qwen2.5-Omni's processor a file's sound is heard with it.
 */
#include "frontend/api/generation/request_videos.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define MOST_RATE 1000.0

bool request_videos_is_type(const char *type)
{
    static const char *const types[] = {"video_url", "input_video", "video"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(type, types[i]) == 0)
            return true;
    }
    return false;
}

void request_video_free(struct request_video *video)
{
    for (uint32_t i = 0; video && i < video->frame_count; i++)
        free(video->frames[i].name);
    free(video);
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return item && !cJSON_IsNull(item) ? item : NULL;
}

/* Reads fps, max_frames and use_audio_in_video of an object that may have them. */
static enum result numbers_read(const cJSON *object, const char *place, double *rate,
                                uint32_t *max_frames, bool *heard, struct api_error *error)
{
    const cJSON *fps = member(object, "fps"), *most = member(object, "max_frames");
    const cJSON *hears = member(object, "use_audio_in_video");
    if (hears && !cJSON_IsBool(hears))
        return api_error_invalid(error, place, "use_audio_in_video must be true or false");
    if (hears)
        *heard = cJSON_IsTrue(hears);
    if (fps && !(cJSON_IsNumber(fps) && fps->valuedouble > 0 && fps->valuedouble <= MOST_RATE))
        return api_error_invalid(error, place, "fps must be a number above 0, at most %g",
                                 MOST_RATE);
    if (most && !(cJSON_IsNumber(most) && most->valuedouble >= 1 &&
                  most->valuedouble == (double)most->valueint))
        return api_error_invalid(error, place, "max_frames must be a whole number above 0");
    if (fps)
        *rate = fps->valuedouble;
    if (most)
        *max_frames = (uint32_t)most->valueint;
    return RESULT_OK;
}

/* The value of a part: under the name of its type, or under another of these. */
static const cJSON *value_of(const cJSON *part)
{
    static const char *const names[] = {"video_url", "video", "input_video", "source"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (member(part, names[i]))
            return member(part, names[i]);
    }
    return NULL;
}

/* A URL or base64 data. NULL if it is neither. */
static const char *name_of(const cJSON *value, enum image_naming *naming)
{
    const cJSON *nested = member(value, "image_url");
    *naming = IMAGE_NAMED_BY_URI;
    if (cJSON_IsObject(value) && nested)
        value = nested;
    if (cJSON_IsString(value))
        return value->valuestring;
    if (cJSON_IsString(member(value, "url")))
        return member(value, "url")->valuestring;
    *naming = IMAGE_NAMED_BY_BASE64;
    return cJSON_GetStringValue(member(value, "data"));
}

/* Adds the names of a list of frames. */
static enum result frames_read(const cJSON *list, const char *place, struct request_video *video,
                               struct api_error *error)
{
    const cJSON *frame;
    cJSON_ArrayForEach(frame, list)
    {
        struct video_frame_name *to = &video->frames[video->frame_count];
        const char *name = name_of(frame, &to->naming);
        if (!name)
            return api_error_invalid(error, place, "frame %u of the video must be an image's URL",
                                     video->frame_count);
        to->name = strdup(name);
        if (!to->name)
            return api_error_memory(error);
        video->frame_count++;
    }
    return RESULT_OK;
}

enum result request_videos_read(const cJSON *part, const char *place, const char **name,
                                enum image_naming *naming, struct request_video **video,
                                struct api_error *error)
{
    const cJSON *value = value_of(part);
    int count = cJSON_IsArray(value) ? cJSON_GetArraySize(value) : 0;
    double rate = 0;
    uint32_t max_frames = 0;
    bool heard = false;
    *name = count > 0 ? NULL : name_of(value, naming);
    if (!*name && count == 0)
        return api_error_invalid(error, place,
                                 "a video must be a URL, an object with a string 'url' or 'data', "
                                 "or a list of frames");
    if (count > (int)LIMIT_VIDEO_FRAMES)
        return api_error_invalid(error, place, "a video has more than %u frames",
                                 LIMIT_VIDEO_FRAMES);
    enum result result = numbers_read(part, place, &rate, &max_frames, &heard, error);
    if (result == RESULT_OK && cJSON_IsObject(value))
        result = numbers_read(value, place, &rate, &max_frames, &heard, error);
    if (result != RESULT_OK)
        return result;
    if (heard && count > 0)
        return api_error_invalid(error, place,
                                 "use_audio_in_video needs a file: a list of frames has no sound");
    struct request_video *made = calloc(1, sizeof *made + (size_t)count * sizeof made->frames[0]);
    if (!made)
        return api_error_memory(error);
    made->wanted = (struct video_request){.rate = count > 0 ? 0 : rate, .max_frames = max_frames};
    made->rate = rate;
    made->heard = heard;
    if (count > 0)
        result = frames_read(value, place, made, error);
    if (result == RESULT_OK)
        *video = made;
    else
        request_video_free(made);
    return result;
}
