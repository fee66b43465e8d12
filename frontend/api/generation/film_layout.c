/*
 * A piece of the sound is what the tower encodes apart, so that its records can stand between those of the
 * video. The publisher's code also cuts within a temporal patch, where patches are longer than a piece; such
 * videos are refused.
 */
#include "frontend/api/generation/film_layout.h"

#include "proto/must.h"

static uint32_t time_of(const struct film_parts *parts, uint32_t patch)
{
    return video_plan_time(parts->video, parts->video_plan, patch);
}

enum result film_layout_make(const struct film_parts *parts, struct film_layout *layout,
                             struct error_text *error)
{
    uint32_t patches = parts->video_plan->patches, pieces = parts->audio_plan->pieces;
    uint32_t each = parts->audio->piece_time, patch = 0, piece = 0;
    *layout = (struct film_layout){0};
    if (each == 0 || !video_processor_joins(parts->video))
        return error_set(error, RESULT_UNSUPPORTED,
                         "this model does not hear videos: use_audio_in_video is not supported");
    if (patches > LIMIT_REQUEST_RECORDS || pieces > LIMIT_REQUEST_RECORDS - patches)
        return error_set(error, RESULT_TOO_LARGE, "its %u patches and %u pieces are more than %u",
                         patches, pieces, LIMIT_REQUEST_RECORDS);
    if (patches > 1 && time_of(parts, 1) > each)
        return error_set(error, RESULT_INVALID,
                         "with its sound a video needs a greater fps: %u positions from frame to "
                         "frame are more than %u",
                         time_of(parts, 1), each);
    for (uint64_t end = each; patch < patches || piece < pieces; end += each) {
        while (patch < patches && time_of(parts, patch) < end)
            layout->patches[patch++] = layout->count++;
        if (piece < pieces)
            layout->pieces[piece++] = layout->count++;
    }
    return RESULT_OK;
}

static void append_often(struct text_buffer *text, const char *soft, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        text_buffer_append_text(text, soft);
}

void film_layout_expand(const struct film_parts *parts, const struct film_layout *layout,
                        struct text_buffer *text)
{
    uint32_t patch = 0, piece = 0;
    text_buffer_append_text(text, parts->audio->begin);
    for (uint32_t at = 0; at < layout->count; at++) {
        if (patch < parts->video_plan->patches && layout->patches[patch] == at) {
            append_often(text, parts->video->soft, parts->video_plan->patch_tokens);
            patch++;
            continue;
        }
        append_often(text, parts->audio->soft, audio_plan_piece_tokens(parts->audio_plan, piece));
        piece++;
    }
    text_buffer_append_text(text, parts->audio->end);
}

void film_layout_records(const struct film_parts *parts, const struct film_layout *layout,
                         struct image_record *records)
{
    must(layout->count > 0 && layout->patches[0] == 0);
    for (uint32_t piece = 0; piece < parts->audio_plan->pieces; piece++)
        records[layout->pieces[piece]].time = piece * parts->audio_plan->piece_tokens;
    for (uint32_t at = 0; at < layout->count; at++)
        records[at].joined = at > 0;
    records[0].twins = IMAGE_TWINS_BEFORE;
    records[layout->count - 1].twins |= IMAGE_TWINS_AFTER;
}
