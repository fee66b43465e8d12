/*
 * scene.txt has words and numbers in a fixed order. The number of features and the offsets of the
 * images follow from them and are checked against the sizes of the other files.
 */
#include "tests/support/tower_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/must.h"
#include "tests/support/whole_file.h"

#define TEXT_FIRST 3u /* tokens of text: TEXT of scripts/golden/tower_folders.py */
#define TEXT_END   80u

static const char *directory = "tests/golden/towers";

void tower_scene_use_directory(const char *path)
{
    directory = path;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

uint32_t tower_scene_families(char names[SCENE_FAMILIES][SCENE_NAME_BYTES])
{
    uint32_t count = 0;
    DIR *folder = opendir(directory);
    if (!folder)
        fail_msg("%s is missing", directory);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.' && !strchr(entry->d_name, '.') && count < SCENE_FAMILIES)
            snprintf(names[count++], SCENE_NAME_BYTES, "%.*s", (int)SCENE_NAME_BYTES - 1,
                     entry->d_name);
    closedir(folder);
    qsort(names, count, SCENE_NAME_BYTES, by_name);
    return count;
}

/* The whole file; the caller frees it. */
static void *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[SCENE_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%.60s/%s", directory, folder, name);
    return whole_file_read(path, bytes);
}

/* Sets `used` to the length of the line, or to 0 if there is none. */
static void read_mosaic(char *const *at, struct image_mosaic *mosaic, int *used)
{
    *used = 0;
    if (sscanf(*at, " mosaic %u %u %u %u %u %u%n", &mosaic->rows, &mosaic->columns,
               &mosaic->kept_height, &mosaic->kept_width, &mosaic->height, &mosaic->width,
               used) != 6)
        *used = 0;
}

/* The number of frames, or 0 if there is none; sets `used` likewise. */
static uint32_t read_frames(char *const *at, int *used)
{
    uint32_t frames = 0;
    *used = 0;
    if (sscanf(*at, " frames %u%n", &frames, used) != 1)
        *used = 0;
    return frames;
}

static void read_images(const char *folder, struct tower_scene *scene, char **at)
{
    float mean[3], deviation[3];
    int used = 0;
    size_t pixel_bytes = 0, file_bytes = 0;
    scene->pixels = read_file(folder, "pixels.u8", &file_bytes);
    if (sscanf(*at, "normal %f %f %f %f %f %f%n", &mean[0], &mean[1], &mean[2], &deviation[0],
               &deviation[1], &deviation[2], &used) != 6)
        fail_msg("%s: no normal", scene->path);
    for (;;) {
        struct encode_image *image = &scene->images[scene->image_count];
        uint32_t features = 0;
        *at += used;
        if (sscanf(*at, " image %u %u %u %u%n", &image->shape.tiles, &image->shape.width,
                   &image->shape.height, &features, &used) != 4)
            break;
        must(++scene->image_count < SCENE_IMAGES);
        *at += used;
        read_mosaic(at, &image->mosaic, &used);
        *at += used;
        image->shape.frames = read_frames(at, &used);
        *at += used;
        used = 0;
        if (sscanf(*at, " seen %u%n", &scene->seen_rows[scene->image_count - 1], &used) != 1)
            used = 0;
        *at += used;
        used = strncmp(*at, " sound", 6) == 0 ? 6 : 0;
        image->shape.sound = used > 0;
        image->pixels = scene->pixels + pixel_bytes;
        image->first_feature = scene->feature_rows;
        for (uint32_t c = 0; c < 3; c++) {
            image->scale[c] = 1.0f / (255.0f * deviation[c]);
            image->bias[c] = -mean[c] / deviation[c];
        }
        pixel_bytes += image->shape.tiles * model_vision_tile_bytes(image->shape);
        scene->feature_rows += features;
    }
    assert_int_equal(pixel_bytes, file_bytes);
}

/* Whether the row is a feature of a sound. */
static bool is_heard(const struct tower_scene *scene, uint32_t feature_row)
{
    bool heard = false;
    for (uint32_t i = 0; i < scene->image_count && feature_row != ROW_FEATURE_NONE; i++)
        if (scene->images[i].first_feature <= feature_row)
            heard = scene->images[i].shape.sound != 0;
    return heard;
}

/* A span of an image ends where feature rows stop being consecutive. */
static void find_spans(const struct tower_scene *scene, struct scene_prompt *prompt)
{
    for (uint32_t i = prompt->count; i-- > 0;) {
        bool goes_on = i + 1 < prompt->count && prompt->feature_rows[i] != ROW_FEATURE_NONE &&
                       prompt->feature_rows[i + 1] == prompt->feature_rows[i] + 1 &&
                       !is_heard(scene, prompt->feature_rows[i]);
        prompt->span_ends[i] = goes_on ? prompt->span_ends[i + 1] : i + 1;
    }
}

/* The answer after a prompt, if it is there. */
static void read_greedy(char **at, struct scene_prompt *prompt)
{
    int used = 0;
    if (strncmp(*at, "\ngreedy", 7) != 0)
        return;
    *at += 7;
    for (; prompt->greedy_count < SCENE_GREEDY; prompt->greedy_count++, *at += used)
        if (sscanf(*at, " %u%n", &prompt->greedy[prompt->greedy_count], &used) != 1)
            fail_msg("an answer of %u tokens", prompt->greedy_count);
}

/* The image whose first feature row is at the token, or image_count. */
static uint32_t image_at(const struct tower_scene *scene, uint32_t feature_row)
{
    uint32_t image = 0;
    while (image < scene->image_count && scene->images[image].first_feature != feature_row)
        image++;
    return image;
}

static uint32_t rows_of(const struct tower_scene *scene, uint32_t image)
{
    uint32_t end = image + 1 < scene->image_count ? scene->images[image + 1].first_feature
                                                  : scene->feature_rows;
    return end - scene->images[image].first_feature;
}

static void find_crossed(const struct tower_scene *scene, struct scene_prompt *prompt)
{
    uint32_t images = 0, begin = 0, last = UINT32_MAX;
    bool ahead = false;
    for (uint32_t i = 0; i < prompt->count; i++)
        images += image_at(scene, prompt->feature_rows[i]) < scene->image_count;
    for (uint32_t i = 0, seen = 0; i < prompt->count; i++) {
        uint32_t image = image_at(scene, prompt->feature_rows[i]);
        if (image < scene->image_count) {
            uint32_t first = scene->images[image].first_feature, rows = rows_of(scene, image);
            uint32_t part = scene->seen_rows[image];
            begin = last == i - 1 ? begin : seen;
            last = i;
            ahead |= part > 0;
            prompt->ranges[seen] = (struct feature_range){first, part > 0 ? part : rows};
            prompt->ranges[images + seen++] = (struct feature_range){first, rows};
        }
        prompt->crossed[i] =
            (struct row_crossing){.first_range = begin, .range_count = seen - begin};
    }
    prompt->range_count = 2 * images;
    for (uint32_t i = 0; i < prompt->count && ahead && prompt->crossed[i].range_count == 0; i++)
        prompt->crossed[i] = (struct row_crossing){images, images, true};
}

static uint32_t read_prompts(struct tower_scene *scene, char *at)
{
    uint32_t all = 0;
    int used = 0;
    for (;; scene->prompt_count++) {
        must(scene->prompt_count < SCENE_PROMPTS);
        struct scene_prompt *prompt = &scene->prompts[scene->prompt_count];
        if (sscanf(at, " prompt %u%n", &prompt->count, &used) != 1)
            break;
        must(prompt->count <= SCENE_TOKENS);
        for (uint32_t i = 0; i < prompt->count; i++) {
            int row = 0;
            struct rope_position *position = &prompt->positions[i];
            at += used;
            if (sscanf(at, " %u %d %u %u %u%n", &prompt->ids[i], &row, &position->time,
                       &position->height, &position->width, &used) != 5)
                fail_msg("%s: token %u is no line", scene->path, i);
            prompt->feature_rows[i] = row < 0 ? ROW_FEATURE_NONE : (uint32_t)row;
        }
        at += used;
        read_greedy(&at, prompt);
        find_spans(scene, prompt);
        find_crossed(scene, prompt);
        all += prompt->count;
    }
    return all;
}

static void read_following(const char *folder, struct tower_scene *scene)
{
    char path[SCENE_PATH_BYTES + 32];
    size_t bytes = 0;
    int used = 0;
    snprintf(path, sizeof path, "%s/%.60s/greedy.txt", directory, folder);
    if (access(path, F_OK) != 0)
        return;
    char *text = whole_file_read(path, &bytes), *at = text;
    for (uint32_t p = 0; p < scene->prompt_count; p++) {
        struct scene_following *following = &scene->prompts[p].following;
        if (sscanf(at, " greedy %u%n", &following->count, &used) != 1)
            fail_msg("%s: no tokens after prompt %u", path, p);
        must(following->count <= SCENE_GREEDY);
        for (uint32_t i = 0; i < following->count; i++) {
            struct rope_position *position = &following->positions[i];
            at += used;
            if (sscanf(at, " %u %u %u %u %f%n", &following->ids[i], &position->time,
                       &position->height, &position->width, &following->margins[i], &used) != 5)
                fail_msg("%s: token %u is no line", path, i);
        }
        at += used;
    }
    free(text);
}

void tower_scene_read(const char *family, struct tower_scene *scene)
{
    size_t text_bytes = 0, feature_bytes = 0, logit_bytes = 0;
    *scene = (struct tower_scene){0};
    char *text = read_file(family, "scene.txt", &text_bytes), *at = text;
    int used = 0;
    if (sscanf(at, "of %63s\n%n", scene->name, &used) != 1)
        snprintf(scene->name, sizeof scene->name, "%.63s", family);
    at += used;
    snprintf(scene->path, sizeof scene->path, "%s/%.60s", directory, scene->name);
    read_images(family, scene, &at);
    uint32_t tokens = read_prompts(scene, at);
    free(text);
    read_following(family, scene);
    scene->features = read_file(family, "features.f32", &feature_bytes);
    scene->logits = read_file(family, "logits.f32", &logit_bytes);
    must(scene->feature_rows > 0 && tokens > 0);
    scene->feature_columns = (uint32_t)(feature_bytes / sizeof(float) / scene->feature_rows);
    scene->vocab = (uint32_t)(logit_bytes / sizeof(float) / tokens);
    const float *logits = scene->logits;
    for (uint32_t p = 0; p < scene->prompt_count; p++) {
        scene->prompts[p].logits = logits;
        logits += (size_t)scene->prompts[p].count * scene->vocab;
    }
}

void tower_scene_free(struct tower_scene *scene)
{
    free(scene->pixels);
    free(scene->features);
    free(scene->logits);
}

struct model_runner_part tower_scene_part(const struct model_runner *runner,
                                          const struct scene_prompt *prompt, uint32_t slot,
                                          uint32_t from, uint32_t end)
{
    bool whole = model_vision(model_runner_model(runner))->spans_whole;
    bool crossed = model_vision(model_runner_model(runner))->crossed_layers > 0;
    return (struct model_runner_part){
        .slot = slot,
        .tokens = prompt->ids + from,
        .count = end - from,
        .feature_rows = crossed ? NULL : prompt->feature_rows + from,
        .rope_positions = prompt->positions + from,
        .visible_ends = whole ? prompt->span_ends + from : NULL,
        .crossed = crossed ? prompt->crossed + from : NULL,
        .ranges = prompt->ranges,
        .range_count = crossed ? prompt->range_count : 0,
    };
}

static uint32_t largest_of_text(const float *logits)
{
    uint32_t best = TEXT_FIRST;
    for (uint32_t token = TEXT_FIRST; token < TEXT_END; token++)
        best = logits[token] > logits[best] ? token : best;
    return best;
}

static void check_token(const struct tower_scene *scene, const struct scene_following *following,
                        uint32_t i, const float *logits, double doubt)
{
    uint32_t found = largest_of_text(logits);
    double bound = doubt * fabs((double)logits[found]);
    if (found != following->ids[i] && (double)following->margins[i] > bound)
        fail_msg("%s: token %u after a prompt is %u and not %u, whose logit exceeds others by %g",
                 scene->path, i, found, following->ids[i], (double)following->margins[i]);
}

void tower_scene_check_following(struct model_runner *runner, const struct tower_scene *scene,
                                 double doubt)
{
    for (uint32_t p = 0; p < scene->prompt_count; p++) {
        const struct scene_prompt *prompt = &scene->prompts[p];
        const struct scene_following *following = &prompt->following;
        struct model_runner_part part = tower_scene_part(runner, prompt, 0, 0, prompt->count);
        if (following->count == 0)
            continue;
        part.logit_from = prompt->count - 1;
        for (uint32_t i = 0; i < following->count; i++) {
            check_token(scene, following, i, model_runner_step(runner, &part, 1), doubt);
            part = (struct model_runner_part){.slot = 0,
                                              .tokens = following->ids + i,
                                              .count = 1,
                                              .rope_positions = following->positions + i,
                                              .crossed = &prompt->crossed[prompt->count - 1],
                                              .ranges = prompt->ranges,
                                              .range_count = prompt->range_count};
        }
        model_runner_reset(runner, 0);
    }
}

double tower_scene_difference(const float *golden, const float *found, size_t count)
{
    double largest = 0, difference = 0;
    for (size_t i = 0; i < count; i++) {
        if (golden[i] <= SCENE_NO_LOGIT && found[i] == golden[i])
            continue;
        largest = fmax(largest, fabs((double)golden[i]));
        double here = fabs((double)golden[i] - (double)found[i]);
        if (!(here <= difference))
            difference = here;
    }
    return difference / largest;
}
