/*
 * A client can hide the cost of an image: a file of some kilobytes may have a hundred million
 * pixels. So sizes are read first, all limits are checked with them, and only a request that will
 * run is decoded, one image at a time.
 *
 * A placeholder counts only where the template wrote the marker. Markers and placeholders in a
 * message's text stay text (chat_template.h); should a tokenizer turn them into the placeholder's
 * token nevertheless, the counts differ and the request is refused.
 */
#include "frontend/api/generation/image_prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/audio_prepare.h"
#include "frontend/api/generation/context_error.h"
#include "frontend/api/generation/film_layout.h"
#include "frontend/api/generation/image_costs.h"
#include "frontend/api/generation/video_prepare.h"
#include "frontend/assets/vision_assets.h"
#include "frontend/base/cancel_flag.h"
#include "frontend/image/image_reader.h"
#include "proto/must.h"

struct work_image {
    const struct request_image *named;
    struct audio_work *sound;
    struct video_work *video;
    struct audio_work *track; /* the sound of the video, and their order; or NULL */
    struct film_layout *film;
    /* Neither a sound nor a video: an image, with these: */
    struct file_bytes file;
    struct image_header header;
    struct image_plan plan;
};

struct image_work {
    struct vision_assets *vision;
    const struct media_policy *media;
    const struct image_reader *reader; /* parse_context's, like the next */
    const atomic_bool *cancelled;
    struct video_means means;
    uint32_t count;
    uint32_t
        record_count; /* an image has one, or another one for the whole image apart; a video one
                            * for each temporal patch */
    struct image_record records[LIMIT_REQUEST_RECORDS]; /* [record_count] */
    uint8_t kinds[LIMIT_REQUEST_RECORDS];               /* enum medium of each */
    struct work_image images[];
};

/* Sets an error about an image, after its place. */
static enum result work_image_refuse(const struct work_image *image, enum result result,
                                     const struct error_text *why, struct api_error *error)
{
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result == RESULT_PEER_GONE) {
        (void)api_error_set(error, result, 503, "image_decoder_unavailable", "%s: %s",
                            image->named->place, why->text);
        error->retry_after_s = 1;
        return result;
    }
    (void)api_error_set(error, result, 400, image->named->sound ? "invalid_audio" : "invalid_image",
                        "%s: %s", image->named->place, why->text);
    snprintf(error->param, sizeof error->param, "%s", image->named->place);
    return result;
}

/* --- reading --------------------------------------------------------------------------------- */

/* The error text is not sent. */
static enum result cancel_check(const struct image_work *work, struct api_error *error)
{
    if (!cancel_flag_is_set(work->cancelled))
        return RESULT_OK;
    return api_error_set(error, RESULT_CANCELLED, 503, NULL, "the request was cancelled");
}

static bool any_is_remote(const struct request_images *images)
{
    for (uint32_t i = 0; i < images->count; i++) {
        const struct request_image *image = &images->items[i];
        if (image->name && image_source_is_remote(image->naming, image->name))
            return true;
        for (uint32_t f = 0; image->video && f < image->video->frame_count; f++) {
            if (image_source_is_remote(image->video->frames[f].naming,
                                       image->video->frames[f].name))
                return true;
        }
    }
    return false;
}

/* Maximum per worker and request. */
static enum result patches_check(const struct image_plan *plan, struct error_text *error)
{
    struct image_plan whole;
    uint64_t patches = (uint64_t)plan->grid_w * plan->grid_h * plan->tiles;
    if (image_plan_apart(plan, &whole))
        patches += (uint64_t)whole.grid_w * whole.grid_h;
    if (patches <= LIMIT_PATCH_ROWS)
        return RESULT_OK;
    return error_set(error, RESULT_TOO_LARGE,
                     "an image of %u x %u pixels becomes %llu patches, more than %u: resize_shape "
                     "makes it smaller",
                     plan->width, plan->height, (unsigned long long)patches, LIMIT_PATCH_ROWS);
}

static enum result work_image_read(const struct image_work *work,
                                   const struct generation_request *request,
                                   struct work_image *image, struct image_costs *costs,
                                   struct api_error *error)
{
    struct error_text why;
    const struct vision_assets *vision = work->vision;
    const struct request_image *named = image->named;
    const struct image_request wanted = {.detail = named->detail,
                                         .box_width = request->box_width,
                                         .box_height = request->box_height,
                                         .images = work->count};
    enum result result = image_source_read(work->media, named->naming, named->name, work->cancelled,
                                           &image->file, &why);
    if (result == RESULT_OK)
        result = image_costs_add_file(costs, image->file.count, &why);
    const struct image_input input = {image->file.bytes, image->file.count, work->cancelled};
    if (result == RESULT_OK)
        result = work->reader->probe(work->reader->context, &input, &image->header, &why);
    if (result == RESULT_OK)
        result = image_costs_add_image(costs, &image->header, &why);
    if (result == RESULT_OK)
        result = image_processor_plan(&vision->processor, image->header.width, image->header.height,
                                      &wanted, &image->plan, &why);
    if (result == RESULT_OK)
        result = patches_check(&image->plan, &why);
    return result == RESULT_OK ? RESULT_OK : work_image_refuse(image, result, &why, error);
}

/* Maximum per worker and request, as for images. */
static enum result video_patches_check(const struct image_work *work, const struct video_plan *plan,
                                       struct error_text *error)
{
    uint64_t side = work->vision->processor.patch;
    uint64_t patches = plan->width / side * (plan->height / side);
    if (patches <= LIMIT_PATCH_ROWS)
        return RESULT_OK;
    return error_set(error, RESULT_TOO_LARGE,
                     "frames of %u x %u pixels become %llu patches, more than %u", plan->width,
                     plan->height, (unsigned long long)patches, LIMIT_PATCH_ROWS);
}

static struct film_parts film_of(const struct image_work *work, const struct work_image *image)
{
    return (struct film_parts){&work->vision->video, video_prepare_plan(image->video),
                               &work->vision->audio, audio_prepare_plan(image->track)};
}

/* Reads the sound of a video's file. */
static enum result work_track_read(const struct image_work *work, struct work_image *image,
                                   struct error_text *why)
{
    struct error_text words = {""};
    if (!vision_assets_hears(work->vision))
        return error_set(why, RESULT_UNSUPPORTED,
                         "this model takes no audio: use_audio_in_video is not supported");
    enum result result =
        audio_prepare_read_track(&work->means, &work->vision->audio,
                                 video_prepare_file(image->video), &image->track, &words);
    if (result != RESULT_OK)
        return error_set(why, result, "use_audio_in_video: %.200s", words.text);
    image->film = malloc(sizeof *image->film);
    if (!image->film)
        return RESULT_OUT_OF_MEMORY;
    const struct film_parts parts = film_of(work, image);
    return film_layout_make(&parts, image->film, why);
}

static enum result work_video_read(const struct image_work *work, struct work_image *image,
                                   struct image_costs *costs, struct api_error *error)
{
    struct error_text why = {""};
    enum result result = video_prepare_read(&work->means, image->named, costs, &image->video, &why);
    if (result == RESULT_OK)
        result = video_patches_check(work, video_prepare_plan(image->video), &why);
    if (result == RESULT_OK && image->named->video->heard)
        result = work_track_read(work, image, &why);
    return result == RESULT_OK ? RESULT_OK : work_image_refuse(image, result, &why, error);
}

static enum result work_sound_read(const struct image_work *work, struct work_image *image,
                                   struct image_costs *costs, struct api_error *error)
{
    struct error_text why = {""};
    enum result result = audio_prepare_read(&work->means, &work->vision->audio, image->named, costs,
                                            &image->sound, &why);
    return result == RESULT_OK ? RESULT_OK : work_image_refuse(image, result, &why, error);
}

static uint32_t work_image_records(const struct work_image *image)
{
    if (image->sound)
        return audio_prepare_plan(image->sound)->pieces;
    if (image->film)
        return image->film->count;
    if (image->video)
        return video_prepare_plan(image->video)->patches;
    return image->plan.apart_tokens > 0 ? 2 : 1;
}

static uint32_t work_image_tokens(const struct work_image *image)
{
    if (image->sound)
        return audio_prepare_plan(image->sound)->tokens;
    if (image->video)
        return video_prepare_plan(image->video)->patches *
                   video_prepare_plan(image->video)->patch_tokens +
               (image->film ? audio_prepare_plan(image->track)->tokens : 0);
    return image->plan.token_count + image->plan.apart_tokens;
}

static enum result records_refuse(const struct work_image *image, struct api_error *error)
{
    struct error_text why;
    enum result result =
        error_set(&why, RESULT_TOO_LARGE,
                  "with it the grids, the whole images and the pairs of frames are more than %u",
                  LIMIT_REQUEST_RECORDS);
    return work_image_refuse(image, result, &why, error);
}

enum result image_prepare_read(const struct parse_context *context,
                               const struct generation_request *request, uint32_t most_tokens,
                               struct image_work **work, struct api_error *error)
{
    const struct request_images *images = &request->images;
    struct image_costs costs = {0};
    *work = NULL;
    if (images->count == 0)
        return RESULT_OK;
    enum preparation_lane needed = any_is_remote(images) ? PREPARATION_NETWORK : PREPARATION_IMAGES;
    if (context->lane && *context->lane < needed) {
        *context->lane = needed;
        return RESULT_CANCELLED;
    }
    struct image_work *made = calloc(1, sizeof *made + images->count * sizeof made->images[0]);
    if (!made)
        return api_error_memory(error);
    made->vision = context->assets->vision;
    made->media = &context->assets->media;
    made->reader = context->reader;
    made->cancelled = context->cancelled;
    must(made->reader != NULL);
    made->means =
        (struct video_means){&made->vision->video, made->media, made->reader, made->cancelled};
    made->count = images->count;
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < images->count && result == RESULT_OK; i++) {
        struct work_image *image = &made->images[i];
        image->named = &images->items[i];
        result = cancel_check(made, error);
        if (result == RESULT_OK && image->named->sound)
            result = work_sound_read(made, image, &costs, error);
        else if (result == RESULT_OK)
            result = image->named->video ? work_video_read(made, image, &costs, error)
                                         : work_image_read(made, request, image, &costs, error);
        costs.tokens += work_image_tokens(image);
        made->record_count += work_image_records(image);
        if (result == RESULT_OK && made->record_count > LIMIT_REQUEST_RECORDS)
            result = records_refuse(image, error);
        if (result == RESULT_OK && costs.tokens >= most_tokens)
            result = context_error_set(error, image->named->place,
                                       &(struct context_overflow){.prompt_tokens = costs.tokens,
                                                                  .most_tokens = most_tokens,
                                                                  .at_least = true});
    }
    if (result == RESULT_OK)
        *work = made;
    else
        image_prepare_end(made);
    return result;
}

void image_prepare_end(struct image_work *work)
{
    for (uint32_t i = 0; work && i < work->count; i++) {
        file_bytes_fini(&work->images[i].file);
        video_prepare_end(work->images[i].video);
        audio_prepare_end(work->images[i].sound);
        audio_prepare_end(work->images[i].track);
        free(work->images[i].film);
    }
    free(work);
}

/* --- placeholders ---------------------------------------------------------------------------- */

/* Some templates print only the text of a tool's result. */
static enum result count_refuse(const struct image_work *work, size_t found,
                                struct api_error *error)
{
    uint32_t of_tools = 0, first = 0;
    for (uint32_t i = 0; i < work->count; i++)
        if (work->images[i].named->of_tool && of_tools++ == 0)
            first = i;
    if (of_tools > 0 && found == work->count - of_tools) {
        const char *place = work->images[first].named->place;
        (void)api_error_set(error, RESULT_INVALID, 400, "invalid_image",
                            "%s: the model's chat template has no place for images in results of "
                            "tools; send them in a message of the user",
                            place);
        snprintf(error->param, sizeof error->param, "%s", place);
        return RESULT_INVALID;
    }
    (void)api_error_set(error, RESULT_INVALID, 400, "invalid_image",
                        "the chat template has places for %zu of the request's %u images", found,
                        work->count);
    strcpy(error->param, "messages");
    return RESULT_INVALID;
}

/* The prompt being written: the spans of each part start where the previous part ends. */
static void span_add(struct chat_prompt *prompt, size_t bytes, bool trusted)
{
    struct prompt_span *last = prompt->span_count ? &prompt->spans[prompt->span_count - 1] : NULL;
    if (last && last->trusted == trusted)
        last->text_bytes += bytes;
    else if (bytes > 0)
        prompt->spans[prompt->span_count++] =
            (struct prompt_span){.text_bytes = bytes, .trusted = trusted};
}

/* A kind of medium, its marker in the template's text, and its placeholder. */
enum medium { MEDIUM_IMAGE, MEDIUM_VIDEO, MEDIUM_SOUND, MEDIA };

struct medium_form {
    bool taken;
    const char *marker;
    const char *soft;
    uint32_t soft_token;
};

static struct medium_form form_of(const struct image_work *work, enum medium medium)
{
    const struct vision_assets *vision = work->vision;
    switch (medium) {
    case MEDIUM_IMAGE:
        return (struct medium_form){vision_assets_sees(vision), vision->processor.tokens.marker,
                                    vision->processor.tokens.soft, vision->soft_token};
    case MEDIUM_VIDEO:
        return (struct medium_form){vision->video.rule != VIDEO_RULE_NONE, vision->video.marker,
                                    vision->video.soft, vision->video_soft_token};
    default:
        return (struct medium_form){vision_assets_hears(vision), vision->audio.marker,
                                    vision->audio.soft, vision->audio_soft_token};
    }
}

static enum medium medium_of(const struct work_image *image)
{
    return image->sound ? MEDIUM_SOUND : image->video ? MEDIUM_VIDEO : MEDIUM_IMAGE;
}

/* The first marker in the trusted text [at, end), and its kind. NULL: none. */
static const char *marker_find(const struct image_work *work, const char *at, const char *end,
                               enum medium *medium)
{
    const char *first = NULL;
    for (enum medium m = 0; m < MEDIA; m++) {
        struct medium_form form = form_of(work, m);
        const char *found =
            form.taken ? memmem(at, (size_t)(end - at), form.marker, strlen(form.marker)) : NULL;
        if (!found || (first && found >= first))
            continue;
        first = found;
        *medium = m;
    }
    return first;
}

static void medium_expand(const struct image_work *work, const struct work_image *image,
                          struct text_buffer *text)
{
    const struct vision_assets *vision = work->vision;
    switch (medium_of(image)) {
    case MEDIUM_IMAGE: image_processor_expand(&vision->processor, &image->plan, text); break;
    case MEDIUM_VIDEO:
        if (image->film) {
            const struct film_parts parts = film_of(work, image);
            film_layout_expand(&parts, image->film, text);
            break;
        }
        video_processor_expand(&vision->video, video_prepare_plan(image->video), text);
        break;
    default: audio_processor_expand(&vision->audio, audio_prepare_plan(image->sound), text);
    }
}

/* Copies a span with its markers replaced by the placeholders of the images, videos and sounds from
 * *next on. False if one is of the wrong kind, or there are too many. */
static bool span_expand(const struct image_work *work, const struct prompt_span *span,
                        uint32_t *next, struct text_buffer *text)
{
    const char *at = span->text, *end = span->text + span->text_bytes, *found;
    enum medium medium = MEDIUM_IMAGE;
    while (span->trusted && (found = marker_find(work, at, end, &medium))) {
        const struct work_image *image = &work->images[*next];
        if (*next == work->count || medium != medium_of(image))
            return false;
        text_buffer_append(text, at, (size_t)(found - at));
        medium_expand(work, image, text);
        at = found + strlen(form_of(work, medium).marker);
        (*next)++;
    }
    text_buffer_append(text, at, (size_t)(end - at));
    return true;
}

/* Points the spans into the text, once it no longer moves. */
static void spans_settle(struct chat_prompt *prompt)
{
    const char *at = prompt->text;
    for (size_t i = 0; i < prompt->span_count; i++) {
        prompt->spans[i].text = at;
        at += prompt->spans[i].text_bytes;
    }
}

/* The number of places that the template wrote for the request's images, videos and sounds. */
static size_t places_count(const struct image_work *work, const struct chat_prompt *prompt)
{
    size_t count = 0;
    for (enum medium m = 0; m < MEDIA; m++) {
        struct medium_form form = form_of(work, m);
        count += form.taken ? image_form_count(prompt, form.marker) : 0;
    }
    return count;
}

enum result image_prepare_expand(const struct image_work *work, struct chat_prompt *prompt,
                                 struct api_error *error)
{
    size_t found = places_count(work, prompt);
    struct text_buffer text = {0};
    struct chat_prompt made = {0};
    uint32_t next = 0;
    bool good = true;
    if (found != work->count)
        return count_refuse(work, found, error);
    made.spans = calloc(prompt->span_count, sizeof *made.spans);
    for (size_t i = 0; made.spans && good && i < prompt->span_count; i++) {
        size_t before = text.length;
        good = span_expand(work, &prompt->spans[i], &next, &text);
        span_add(&made, text.length - before, prompt->spans[i].trusted);
    }
    if (!made.spans || text.failed || !good) {
        free(made.spans);
        text_buffer_fini(&text);
        return good ? api_error_memory(error)
                    : api_error_invalid(error, "messages",
                                        "the chat template has its images, videos and audio in "
                                        "another order");
    }
    made.text = text.bytes;
    made.text_bytes = text.length;
    spans_settle(&made);
    chat_prompt_fini(prompt);
    *prompt = made;
    return RESULT_OK;
}

static size_t token_count(const struct token_list *tokens, uint32_t token)
{
    size_t count = 0;
    for (size_t i = 0; i < tokens->count; i++)
        count += tokens->ids[i] == token;
    return count;
}

static void record_plan(const struct image_work *work, const struct image_plan *plan,
                        struct image_record *record)
{
    record->token_count = plan->token_count;
    record->width = plan->tile_width;
    record->height = plan->tile_height;
    record->tiles = plan->tiles;
    record->tile_lines = plan->lines;
    memcpy(record->mosaic, plan->mosaic, sizeof record->mosaic);
    memcpy(record->scale, work->vision->processor.scale, sizeof record->scale);
    memcpy(record->bias, work->vision->processor.bias, sizeof record->bias);
}

/* Of the pieces of a sound: records[places[piece]], or records[piece] if `places` is NULL. */
static void records_plan_sound(const struct image_work *work, const struct audio_work *sound,
                               const uint32_t *places, struct image_record *records)
{
    const struct audio_plan *plan = audio_prepare_plan(sound);
    for (uint32_t piece = 0; piece < plan->pieces; piece++)
        audio_processor_record(&work->vision->audio, plan, piece,
                               &records[places ? places[piece] : piece]);
}

/* Of a sound, or a video. */
static void records_plan_media(const struct image_work *work, const struct work_image *image,
                               struct image_record *records)
{
    if (image->sound) {
        records_plan_sound(work, image->sound, NULL, records);
        return;
    }
    video_prepare_records(&work->means, image->video, image->film ? image->film->patches : NULL,
                          records);
    if (!image->film)
        return;
    const struct film_parts parts = film_of(work, image);
    records_plan_sound(work, image->track, image->film->pieces, records);
    film_layout_records(&parts, image->film, records);
}

/* Sets the kinds of the records of a sound, or a video. */
static void records_mark(struct image_work *work, const struct work_image *image,
                         const struct image_record *records)
{
    uint32_t first = (uint32_t)(records - work->records), count = work_image_records(image);
    for (uint32_t i = first; i < first + count; i++)
        work->kinds[i] = work->records[i].sound ? MEDIUM_SOUND : MEDIUM_VIDEO;
}

/* Sets what the plans say of the records. */
static void records_plan(struct image_work *work)
{
    struct image_record *record = work->records;
    for (uint32_t i = 0; i < work->count; i++) {
        struct image_plan whole;
        if (work->images[i].sound || work->images[i].video) {
            records_plan_media(work, &work->images[i], record);
            records_mark(work, &work->images[i], record);
            record += work_image_records(&work->images[i]);
            continue;
        }
        record_plan(work, &work->images[i].plan, record++);
        if (image_plan_apart(&work->images[i].plan, &whole))
            record_plan(work, &whole, record++);
    }
    must(record == work->records + work->record_count);
}

/* The placeholder of a record. */
static uint32_t record_soft(const struct image_work *work, uint32_t record)
{
    return form_of(work, (enum medium)work->kinds[record]).soft_token;
}

/* Whether there are as many placeholders of a kind as the records have. A video's may be an image's. */
static enum result soft_check(const struct image_work *work, const struct token_list *tokens,
                              enum medium medium, struct api_error *error)
{
    struct medium_form form = form_of(work, medium);
    size_t wanted = 0;
    for (uint32_t i = 0; i < work->record_count; i++)
        wanted += record_soft(work, i) == form.soft_token ? work->records[i].token_count : 0;
    if (!form.taken || token_count(tokens, form.soft_token) == wanted)
        return RESULT_OK;
    (void)api_error_set(error, RESULT_INVALID, 400, "invalid_image",
                        "a message contains the text of an image's placeholder (%s)", form.soft);
    strcpy(error->param, "messages");
    return RESULT_INVALID;
}

enum result image_prepare_find(struct image_work *work, const struct token_list *tokens,
                               struct api_error *error)
{
    size_t at = 0;
    records_plan(work);
    enum result result = RESULT_OK;
    for (enum medium m = 0; m < MEDIA && result == RESULT_OK; m++)
        result = soft_check(work, tokens, m, error);
    for (uint32_t i = 0; i < work->record_count && result == RESULT_OK; i++) {
        struct image_record *record = &work->records[i];
        for (uint32_t have = 0; have < record->token_count; at++) {
            must(at < tokens->count);
            if (tokens->ids[at] != record_soft(work, i))
                continue;
            if (have++ == 0)
                record->first_token = (uint32_t)at;
            record->span_tokens = (uint32_t)at + 1 - record->first_token;
        }
    }
    return result;
}

/* --- pixels ---------------------------------------------------------------------------------- */

static enum result set_refuse(enum result result, struct api_error *error)
{
    switch (result) {
    case RESULT_FULL:
        (void)api_error_set(error, result, 429, "images_full",
                            "the images of other requests fill this server's memory for them");
        error->retry_after_s = 1;
        return result;
    case RESULT_OUT_OF_MEMORY: return api_error_memory(error);
    default:
        (void)api_error_set(error, result, 400, "invalid_image",
                            "the request's images are together larger than this server's memory "
                            "for images");
        strcpy(error->param, "messages");
        return result;
    }
}

static enum result run_plan(const struct image_work *work, const struct image_plan *plan,
                            const struct image_pixels *pixels, struct image_set *set,
                            uint32_t record, struct error_text *why)
{
    return image_processor_run(&work->vision->processor, plan, pixels,
                               image_set_pixels(set, record),
                               image_set_record(set, record)->content_hash, why);
}

/* A sound, or a video and its sound; the latter first, because decoding the video frees its file. */
static enum result work_media_decode(const struct image_work *work, struct work_image *image,
                                     struct image_set *set, uint32_t first, struct error_text *why)
{
    const struct audio_processor *audio = &work->vision->audio;
    if (image->sound)
        return audio_prepare_decode(&work->means, audio, image->sound, set, first, NULL, why);
    if (!image->film)
        return video_prepare_decode(&work->means, image->video, NULL, set, first, why);
    enum result result = audio_prepare_decode(&work->means, audio, image->track, set, first,
                                              image->film->pieces, why);
    return result == RESULT_OK ? video_prepare_decode(&work->means, image->video,
                                                      image->film->patches, set, first, why)
                               : result;
}

/* Fills the image's records in the set, from *record on, and sets *record after them. */
static enum result work_image_decode(const struct image_work *work, struct work_image *image,
                                     struct image_set *set, uint32_t *record,
                                     struct api_error *error)
{
    struct error_text why = {""};
    if (image->video || image->sound) {
        enum result done = work_media_decode(work, image, set, *record, &why);
        *record += work_image_records(image);
        return done == RESULT_OK ? RESULT_OK : work_image_refuse(image, done, &why, error);
    }
    struct image_pixels pixels = {0};
    const struct image_plan *plan = &image->plan;
    struct image_plan whole;
    const struct image_input input = {image->file.bytes, image->file.count, work->cancelled};
    enum result result =
        work->reader->decode(work->reader->context, &input, &image->header, plan->wanted_width,
                             plan->wanted_height, &pixels, &why);
    if (result == RESULT_OK)
        result = run_plan(work, plan, &pixels, set, (*record)++, &why);
    if (result == RESULT_OK && image_plan_apart(plan, &whole))
        result = run_plan(work, &whole, &pixels, set, (*record)++, &why);
    image_pixels_fini(&pixels);
    file_bytes_fini(&image->file);
    return result == RESULT_OK ? RESULT_OK : work_image_refuse(image, result, &why, error);
}

enum result image_prepare_decode(struct image_work *work, struct image_set **set,
                                 struct api_error *error)
{
    struct image_set *made;
    uint32_t record = 0;
    enum result result =
        image_set_create(work->records, work->record_count, &work->vision->budget, &made);
    if (result != RESULT_OK)
        return set_refuse(result, error);
    for (uint32_t i = 0; i < work->count && result == RESULT_OK; i++)
        result = work_image_decode(work, &work->images[i], made, &record, error);
    if (result == RESULT_OK)
        *set = made;
    else
        image_set_release(made);
    return result;
}
