/*
 * A checkpoint whose vision part cannot be used is served as a text model with a warning: texts are
 * answered, and an image gets a 400. Its settings are never guessed. Likewise, only videos are refused
 * if it is those that cannot be used.
 */
#include "frontend/assets/vision_assets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/gguf_file.h"
#include "proto/log.h"
#include "proto/mapped_file.h"
#include "proto/must.h"

/* Finds the places of images in tokenizer and template, once the processor is open. */
static enum result find_places(const struct chat_template *template,
                               const struct tokenizer *tokenizer, struct vision_assets *vision,
                               struct error_text *error)
{
    const char *soft = vision->processor.tokens.soft;
    int32_t soft_token = tokenizer_find_token(tokenizer, soft, strlen(soft));
    if (soft_token < 0)
        return error_set(error, RESULT_INVALID, "its tokenizer has no %s", soft);
    vision->soft_token = (uint32_t)soft_token;
    if (!template)
        return error_set(error, RESULT_NOT_FOUND, "it has no chat template");
    vision->form = image_form_find(template, vision->processor.tokens.marker);
    if (!vision->form.type)
        return error_set(error, RESULT_UNSUPPORTED, "its chat template has no place for them");
    return RESULT_OK;
}

/* Finds the places of videos, once those of images are found. Qwen3-VL's text replaces the marks
 * around the placeholder too, if the template writes them. */
static enum result find_video_places(const struct chat_template *template,
                                     const struct tokenizer *tokenizer,
                                     struct vision_assets *vision, struct error_text *error)
{
    struct video_processor *video = &vision->video;
    char framed[4 * LIMIT_IMAGE_MARKER_BYTES];
    int32_t soft_token = tokenizer_find_token(tokenizer, video->soft, strlen(video->soft));
    if (soft_token < 0)
        return error_set(error, RESULT_INVALID, "its tokenizer has no %s", video->soft);
    vision->video_soft_token = (uint32_t)soft_token;
    int length = snprintf(framed, sizeof framed, "%s%s%s", video->begin, video->soft, video->end);
    must(length > 0 && (size_t)length < sizeof framed);
    if (video->rule == VIDEO_RULE_QWEN3 && (size_t)length < sizeof video->marker &&
        image_form_shows(template, VIDEO_FORM_TYPE, framed))
        memcpy(video->marker, framed, (size_t)length + 1);
    else if (!image_form_shows(template, VIDEO_FORM_TYPE, video->marker))
        return error_set(error, RESULT_UNSUPPORTED, "its chat template has no place for them");
    return RESULT_OK;
}

/* `result`: of opening the processor of videos. */
static void finish_videos(enum result result, const struct chat_template *template,
                          const struct tokenizer *tokenizer, struct vision_assets *vision,
                          struct error_text *error)
{
    if (result == RESULT_OK && vision->video.rule != VIDEO_RULE_NONE)
        result = find_video_places(template, tokenizer, vision, error);
    if (result == RESULT_OK)
        return;
    log_info("videos are refused for this model: %s", error->text);
    vision->video.rule = VIDEO_RULE_NONE;
}

/* Takes the result of opening the processor. Returns the assets, or NULL after a warning. */
static struct vision_assets *finish(enum result result, const struct chat_template *template,
                                    const struct tokenizer *tokenizer, struct vision_assets *vision,
                                    struct error_text *error)
{
    bool sees = result == RESULT_OK && vision->processor.family != IMAGE_FAMILY_NONE;
    if (sees)
        result = find_places(template, tokenizer, vision, error);
    if (result != RESULT_OK)
        log_warn("images are refused for this model: %s", error->text);
    if (sees && result == RESULT_OK)
        return vision;
    free(vision);
    return NULL;
}

/* Finds the places of sounds, once their processor is open. */
static enum result find_audio_places(const struct chat_template *template,
                                     const struct tokenizer *tokenizer,
                                     struct vision_assets *vision, struct error_text *error)
{
    const char *soft = vision->audio.soft;
    int32_t soft_token = tokenizer_find_token(tokenizer, soft, strlen(soft));
    if (soft_token < 0)
        return error_set(error, RESULT_INVALID, "its tokenizer has no %s", soft);
    vision->audio_soft_token = (uint32_t)soft_token;
    if (!template)
        return error_set(error, RESULT_NOT_FOUND, "it has no chat template");
    if (vision->processor.family == IMAGE_FAMILY_NONE) {
        vision->form = image_form_find(template, vision->audio.marker);
        vision->form.type = NULL; /* of images */
    }
    if (image_form_shows(template, AUDIO_FORM_TYPE, vision->audio.marker))
        return RESULT_OK;
    return error_set(error, RESULT_UNSUPPORTED, "its chat template has no place for them");
}

/* Adds sounds to `seen`, the assets for images, or makes assets for sounds alone if it is NULL. NULL if the model
 * takes neither. There is a warning if sounds cannot be used. */
static struct vision_assets *open_audio(int folder_fd, const struct chat_template *template,
                                        const struct tokenizer *tokenizer,
                                        struct vision_assets *seen)
{
    struct error_text error;
    struct vision_assets *vision = seen ? seen : must_alloc(1, sizeof *vision);
    enum result result = audio_processor_open_folder(folder_fd, &vision->audio, &error);
    if (result == RESULT_OK && vision->audio.family != AUDIO_FAMILY_NONE)
        result = find_audio_places(template, tokenizer, vision, &error);
    if (result != RESULT_OK)
        log_warn("audio is refused for this model: %s", error.text);
    if (result == RESULT_OK && vision->audio.family != AUDIO_FAMILY_NONE)
        return vision;
    vision->audio.family = AUDIO_FAMILY_NONE;
    if (!seen)
        free(vision);
    return seen;
}

bool vision_assets_sees(const struct vision_assets *vision)
{
    return vision && vision->processor.family != IMAGE_FAMILY_NONE;
}

bool vision_assets_hears(const struct vision_assets *vision)
{
    return vision && vision->audio.family != AUDIO_FAMILY_NONE;
}

/* Maps a GGUF file and reads its header. */
static enum result open_gguf(const char *path, struct mapped_file *mapped, struct gguf_file **file,
                             struct error_text *error)
{
    struct error_text reason = {""};
    enum result result = mapped_file_open(AT_FDCWD, path, mapped, &reason);
    if (result == RESULT_OK)
        result = gguf_file_open(mapped->bytes, mapped->byte_count, file, &reason);
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result, "%.100s: %s", path, reason.text);
}

struct vision_assets *vision_assets_open_mmproj(const char *model, const char *mmproj,
                                                const struct chat_template *template,
                                                const struct tokenizer *tokenizer)
{
    struct error_text error, reason = {""};
    struct mapped_file mapped[2] = {{0}, {0}};
    struct gguf_file *text = NULL, *tower = NULL;
    struct vision_assets *vision = must_alloc(1, sizeof *vision);
    enum result result = open_gguf(model, &mapped[0], &text, &error);
    if (result == RESULT_OK)
        result = open_gguf(mmproj, &mapped[1], &tower, &error);
    if (result == RESULT_OK) {
        result = image_processor_open_mmproj(tower, text, &vision->processor, &reason);
        if (result != RESULT_OK)
            (void)error_set(&error, result, "%.100s: %s", mmproj, reason.text);
    }
    gguf_file_close(text);
    gguf_file_close(tower);
    mapped_file_close(&mapped[0]);
    mapped_file_close(&mapped[1]);
    video_processor_open_published(&vision->processor, &vision->video);
    vision = finish(result, template, tokenizer, vision, &error);
    if (vision)
        finish_videos(RESULT_OK, template, tokenizer, vision, &error);
    return vision;
}

struct vision_assets *vision_assets_open(const char *folder, const struct chat_template *template,
                                         const struct tokenizer *tokenizer)
{
    struct error_text error;
    int folder_fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder_fd < 0)
        return NULL;
    struct vision_assets *vision = must_alloc(1, sizeof *vision);
    enum result result = image_processor_open_folder(folder_fd, &vision->processor, &error);
    vision = finish(result, template, tokenizer, vision, &error);
    if (vision) {
        result = video_processor_open_folder(folder_fd, &vision->processor, &vision->video, &error);
        finish_videos(result, template, tokenizer, vision, &error);
    }
    vision = open_audio(folder_fd, template, tokenizer, vision);
    close(folder_fd);
    return vision;
}
