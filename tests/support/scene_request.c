/*
 * An image that occurs in several prompts has the same content hash in all of them.
 */
#include "tests/support/scene_request.h"

#include <stdlib.h>
#include <string.h>

#include "proto/image_record.h"
#include "proto/must.h"

static const struct encode_image *image_of(const struct tower_scene *scene, uint32_t row,
                                           const struct model_vision *vision)
{
    for (uint32_t i = 0; i < scene->image_count; i++) {
        const struct encode_image *image = &scene->images[i];
        if (row >= image->first_feature &&
            row < image->first_feature +
                      model_vision_image_rows(vision, image->shape, &image->mosaic))
            return image;
    }
    return NULL;
}

/* A temporal patch without text before it that begins at the line of the patch before belongs to the
 * same video: its time follows from the reference's positions. */
static void join_video(const struct scene_prompt *prompt, struct image_record *records,
                       uint32_t index)
{
    struct image_record *record = &records[index];
    const struct image_record *before = record - 1, *patch = before;
    if (index == 0 || (record->frames <= 1 && !record->sound) ||
        before->first_token + before->span_tokens != record->first_token)
        return;
    while (patch->sound && patch->joined)
        patch--;
    if (patch->frames <= 1)
        return;
    const struct rope_position *at = &prompt->positions[record->first_token];
    uint32_t start = prompt->positions[patch->first_token].height;
    if (record->frames > 1 && start != at->height)
        return;
    record->joined = 1;
    record->time = at->time - start;
}

static bool is_twin(const struct scene_prompt *prompt, uint32_t token)
{
    return token > 0 && token < prompt->count && prompt->feature_rows[token] == ROW_FEATURE_NONE &&
           prompt->positions[token - 1].time == prompt->positions[token].time;
}

/* Neighbours of text with equal positions. */
static void find_twins(const struct scene_prompt *prompt, struct image_record *records,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct image_record *record = &records[i];
        uint32_t end = record->first_token + record->span_tokens;
        if (record->joined == 0 && record->first_token > 0 &&
            is_twin(prompt, record->first_token - 1))
            record->twins |= IMAGE_TWINS_BEFORE;
        if ((i + 1 == count || records[i + 1].joined == 0) && is_twin(prompt, end + 1))
            record->twins |= IMAGE_TWINS_AFTER;
    }
}

/* Lists the images in the order of the prompt; returns how many. */
static uint32_t find_images(const struct tower_scene *scene, const struct scene_prompt *prompt,
                            const struct model_vision *vision, struct image_record *records,
                            const struct encode_image **images)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < prompt->count; at++) {
        if (prompt->feature_rows[at] == ROW_FEATURE_NONE)
            continue;
        const struct encode_image *image = image_of(scene, prompt->feature_rows[at], vision);
        must(image != NULL);
        if (prompt->feature_rows[at] == image->first_feature) {
            must(count < SCENE_IMAGES);
            images[count] = image;
            records[count++] = (struct image_record){.tiles = image->shape.tiles,
                                                     .width = image->shape.width,
                                                     .height = image->shape.height,
                                                     .frames = image->shape.frames,
                                                     .sound = image->shape.sound,
                                                     .first_token = at};
            memcpy(records[count - 1].mosaic, &image->mosaic, sizeof image->mosaic);
            join_video(prompt, records, count - 1);
        }
        struct image_record *record = &records[count - 1];
        record->token_count++;
        record->span_tokens = at + 1 - record->first_token;
    }
    find_twins(prompt, records, count);
    return count;
}

void scene_request_make(const struct tower_scene *scene, const struct scene_prompt *prompt,
                        const struct model_vision *vision, uint32_t answer_tokens,
                        struct scene_request *made)
{
    struct image_record records[SCENE_IMAGES];
    const struct encode_image *images[SCENE_IMAGES];
    uint32_t count = find_images(scene, prompt, vision, records, images);
    for (uint32_t i = 0; i < count; i++) {
        records[i].content_hash[0] = (uint8_t)(1 + (images[i] - scene->images));
        memcpy(records[i].scale, images[i]->scale, sizeof records[i].scale);
        memcpy(records[i].bias, images[i]->bias, sizeof records[i].bias);
    }
    made->request = (struct test_request){.prompt = prompt->ids,
                                          .prompt_tokens = prompt->count,
                                          .max_new_tokens = answer_tokens,
                                          .sampling = sampling_params_default(),
                                          .image_count = count,
                                          .image_bytes = image_record_place(records, count)};
    made->request.sampling.temperature = 0.0f;
    made->part = must_alloc(made->request.image_bytes + 1, 1);
    memcpy(made->part, records, count * sizeof *records);
    for (uint32_t i = 0; i < count; i++)
        memcpy(made->part + records[i].pixels_offset, images[i]->pixels, records[i].pixels_bytes);
    made->request.image_part = made->part;
}
