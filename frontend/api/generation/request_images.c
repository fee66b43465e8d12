/*
 * Three spellings of an image:
 *
 *     {"type": "image_url", "image_url": "URL" or {"url": "URL", "detail": "low"}}
 *     {"type": "input_image", "image_url": as above, "detail": "low"}
 *     {"type": "image", "source": {"type": "base64", "data": "…"} or {"type": "url", "url": "URL"}}
 *
 * Those of videos are in request_videos.c, of sounds in request_audio.c.
 *
 * Not supported: ids of uploaded files, and members that this server would have to ignore.
 */
#include "frontend/api/generation/request_images.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/request_audio.h"
#include "frontend/base/base64.h"
#include "frontend/prompt/image_form.h"
#include "proto/limits.h"

void request_images_fini(struct request_images *images)
{
    for (uint32_t i = 0; i < images->count; i++) {
        free(images->items[i].name);
        request_video_free(images->items[i].video);
    }
    free(images->items);
    *images = (struct request_images){.taken = images->taken,
                                      .videos_taken = images->videos_taken,
                                      .sounds_taken = images->sounds_taken,
                                      .context = images->context};
}

bool request_images_is_type(const char *type)
{
    static const char *const types[] = {"image_url", "input_image", "image"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(type, types[i]) == 0)
            return true;
    }
    return request_videos_is_type(type) || request_audio_is_type(type);
}

struct cJSON *request_images_part(const char *given)
{
    cJSON *part = cJSON_CreateObject();
    const char *type = given && request_videos_is_type(given)  ? VIDEO_FORM_TYPE
                       : given && request_audio_is_type(given) ? AUDIO_FORM_TYPE
                                                               : "image";
    if (cJSON_AddStringToObject(part, "type", type))
        return part;
    cJSON_Delete(part);
    return NULL;
}

/* --- one part -------------------------------------------------------------------------------- */

static enum result detail_read(const cJSON *object, const char *place, enum image_detail *detail,
                               struct api_error *error)
{
    static const struct {
        const char *name;
        enum image_detail detail;
    } details[] = {{"auto", IMAGE_DETAIL_AUTO},
                   {"high", IMAGE_DETAIL_AUTO},
                   {"original", IMAGE_DETAIL_AUTO},
                   {"low", IMAGE_DETAIL_LOW}};
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "detail");
    if (!item || cJSON_IsNull(item))
        return RESULT_OK;
    for (size_t i = 0; cJSON_IsString(item) && i < sizeof details / sizeof details[0]; i++) {
        if (strcmp(item->valuestring, details[i].name) == 0) {
            *detail = details[i].detail;
            return RESULT_OK;
        }
    }
    return api_error_invalid(error, place, "detail must be auto, low or high");
}

/* Reads an image_url or input_image. */
static enum result url_part_read(const cJSON *part, const char *place, struct request_image *image,
                                 const char **name, struct api_error *error)
{
    const cJSON *url = cJSON_GetObjectItemCaseSensitive(part, "image_url");
    const cJSON *file = cJSON_GetObjectItemCaseSensitive(part, "file_id");
    if (file && !cJSON_IsNull(file))
        return api_error_invalid(error, place,
                                 "uploaded files are not supported: send the image itself");
    enum result result = detail_read(part, place, &image->detail, error);
    if (result == RESULT_OK && cJSON_IsObject(url)) {
        result = detail_read(url, place, &image->detail, error);
        url = cJSON_GetObjectItemCaseSensitive(url, "url");
    }
    if (result != RESULT_OK)
        return result;
    if (!cJSON_IsString(url))
        return api_error_invalid(error, place,
                                 "image_url must be a string or an object with a string 'url'");
    image->naming = IMAGE_NAMED_BY_URI;
    *name = url->valuestring;
    return RESULT_OK;
}

/* Reads an image block of Anthropic's API. */
static enum result source_read(const cJSON *part, const char *place, struct request_image *image,
                               const char **name, struct api_error *error)
{
    static const struct {
        const char *type;
        const char *member;
        enum image_naming naming;
    } kinds[] = {{"base64", "data", IMAGE_NAMED_BY_BASE64}, {"url", "url", IMAGE_NAMED_BY_URI}};
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(part, "source");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(source, "type");
    if (!cJSON_IsObject(source) || !cJSON_IsString(type))
        return api_error_invalid(error, place, "an image needs a source with a type");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(type->valuestring, kinds[i].type) != 0)
            continue;
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(source, kinds[i].member);
        if (!cJSON_IsString(value))
            return api_error_invalid(error, place, "a source of type %s needs a string '%s'",
                                     kinds[i].type, kinds[i].member);
        image->naming = kinds[i].naming;
        *name = value->valuestring;
        return RESULT_OK;
    }
    return api_error_invalid(error, place,
                             "sources of type '%.40s' are not supported: base64 and url are",
                             type->valuestring);
}

/* Makes room for one more. */
static bool list_grow(struct request_images *images)
{
    if (images->count < images->capacity)
        return true;
    uint32_t capacity = images->capacity ? 2 * images->capacity : 4;
    struct request_image *grown = realloc(images->items, capacity * sizeof *grown);
    if (!grown)
        return false;
    images->items = grown;
    images->capacity = capacity;
    return true;
}

/* Adds the image, whose name and video it takes over; if both are NULL, there was no memory. */
static enum result image_note(struct request_images *images, struct request_image *image,
                              const char *place, struct api_error *error)
{
    enum result result = RESULT_OK;
    snprintf(image->place, sizeof image->place, "%s", place);
    if (images->count == LIMIT_REQUEST_IMAGES)
        result = api_error_invalid(error, place, "more than %u images", LIMIT_REQUEST_IMAGES);
    else if ((!image->name && !image->video) || !list_grow(images))
        result = api_error_memory(error);
    if (result == RESULT_OK)
        images->items[images->count++] = *image;
    else {
        free(image->name);
        request_video_free(image->video);
    }
    return result;
}

static enum result video_add(struct request_images *images, const cJSON *part, const char *place,
                             struct request_image *image, struct api_error *error)
{
    const char *name = NULL;
    if (!images->videos_taken)
        return api_error_invalid(error, place,
                                 "this model takes no videos: parts of type '%s' are not "
                                 "supported",
                                 cJSON_GetObjectItemCaseSensitive(part, "type")->valuestring);
    enum result result =
        request_videos_read(part, place, &name, &image->naming, &image->video, error);
    if (result != RESULT_OK)
        return result;
    image->name = name ? strdup(name) : NULL;
    if (name && !image->name) {
        request_video_free(image->video);
        image->video = NULL;
    }
    return image_note(images, image, place, error);
}

static enum result sound_add(struct request_images *images, const cJSON *part, const char *place,
                             struct request_image *image, struct api_error *error)
{
    const char *name = NULL;
    if (!images->sounds_taken)
        return api_error_invalid(error, place,
                                 "this model takes no audio: parts of type '%s' are not supported",
                                 cJSON_GetObjectItemCaseSensitive(part, "type")->valuestring);
    enum result result = request_audio_read(part, place, &name, &image->naming, error);
    if (result != RESULT_OK)
        return result;
    image->sound = true;
    image->name = strdup(name);
    return image_note(images, image, place, error);
}

enum result request_images_add(struct request_images *images, const cJSON *part, const char *place,
                               struct api_error *error)
{
    const char *type = cJSON_GetObjectItemCaseSensitive(part, "type")->valuestring;
    struct request_image image = {.detail = IMAGE_DETAIL_AUTO, .of_tool = images->of_tool};
    const char *name = NULL;
    if (request_audio_is_type(type))
        return sound_add(images, part, place, &image, error);
    if (!images->taken)
        return api_error_invalid(error, place,
                                 "this model takes no images: parts of type '%s' are not "
                                 "supported",
                                 type);
    if (request_videos_is_type(type))
        return video_add(images, part, place, &image, error);
    enum result result = strcmp(type, "image") == 0
                             ? source_read(part, place, &image, &name, error)
                             : url_part_read(part, place, &image, &name, error);
    if (result != RESULT_OK)
        return result;
    image.name = strdup(name);
    return image_note(images, &image, place, error);
}

enum result request_images_add_file(struct request_images *images, const struct file_bytes *file,
                                    const char *place, struct api_error *error)
{
    struct request_image image = {
        .naming = IMAGE_NAMED_BY_BASE64, .detail = IMAGE_DETAIL_AUTO, .of_tool = images->of_tool};
    struct text_buffer text = {0};
    base64_append(file->bytes, file->count, &text);
    if (text.failed)
        text_buffer_fini(&text);
    image.name = text.bytes;
    return image_note(images, &image, place, error);
}
