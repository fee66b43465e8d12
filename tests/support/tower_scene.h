/*
 * A folder of tests/golden/towers (scripts/golden/tower_folders.py): images, their features from
 * transformers' tower, prompts with the images, and the expected logits. Those of videos
 * (scripts/golden/video_scenes.py) have the checkpoint of another folder. Those of a model with two towers
 * (omni_scenes.py) have its sounds first.
 *
 * If a scene cannot be read, the running test fails.
 */
#ifndef SHOAL_TESTS_SUPPORT_TOWER_SCENE_H
#define SHOAL_TESTS_SUPPORT_TOWER_SCENE_H

#include <stdint.h>

#include "tests/support/model_runner.h"
#include "worker/backend/host/encode_batch.h"
#include "worker/backend/host/step_batch.h"

#define SCENE_IMAGES     24u
#define SCENE_PROMPTS    8u
#define SCENE_TOKENS     256u /* of a prompt */
#define SCENE_GREEDY     24u  /* tokens after a prompt */
#define SCENE_FAMILIES   80u
#define SCENE_NAME_BYTES 64u
#define SCENE_PATH_BYTES 512u

/* Tokens that follow a prompt by the largest logit of tokens of text, and by how much it exceeds the
 * next one. */
struct scene_following {
    uint32_t count; /* 0: of a scene without them */
    uint32_t ids[SCENE_GREEDY];
    struct rope_position positions[SCENE_GREEDY];
    float margins[SCENE_GREEDY];
};

struct scene_prompt {
    uint32_t count;
    uint32_t ids[SCENE_TOKENS];
    uint32_t feature_rows[SCENE_TOKENS];
    struct rope_position positions[SCENE_TOKENS];
    /* If rows attend to features: those of the last image at or before the row, and of images just before that;
     * or, where an image has further rows, all of all images. */
    struct row_crossing crossed[SCENE_TOKENS];
    struct feature_range ranges[2 * SCENE_IMAGES];
    uint32_t range_count;
    uint32_t span_ends[SCENE_TOKENS]; /* end of the image span around the row; else the next row */
    const float *logits;              /* [count, vocab] */
    uint32_t greedy_count;            /* the answer that is known: 0 or SCENE_GREEDY tokens */
    uint32_t greedy[SCENE_GREEDY];
    struct scene_following following;
};

struct tower_scene {
    char name[SCENE_NAME_BYTES]; /* of the family, without "_video" */
    char path[SCENE_PATH_BYTES]; /* of its checkpoint */
    uint32_t image_count;
    struct encode_image images[SCENE_IMAGES]; /* features one after the other, from row 0 */
    uint32_t seen_rows[SCENE_IMAGES]; /* of the features, that rows after the image see; 0: all */
    uint32_t feature_rows;
    uint32_t feature_columns;
    float *features; /* [feature_rows, feature_columns] */
    uint32_t prompt_count;
    struct scene_prompt prompts[SCENE_PROMPTS];
    uint32_t vocab;
    uint8_t *pixels;
    float *logits;
};

/* The directory of the folders, instead of tests/golden/towers; the text is kept by the caller. */
void tower_scene_use_directory(const char *path);

/* Writes the names of the folders; returns their number. */
uint32_t tower_scene_families(char names[SCENE_FAMILIES][SCENE_NAME_BYTES]);

void tower_scene_read(const char *family, struct tower_scene *scene);
void tower_scene_free(struct tower_scene *scene);

/* Rows [from, end) of the prompt as a part of a step, with bidirectional spans if the model has them. */
struct model_runner_part tower_scene_part(const struct model_runner *runner,
                                          const struct scene_prompt *prompt, uint32_t slot,
                                          uint32_t from, uint32_t end);

/* Decodes after each prompt in slot 0, which is empty before and after; the slot must have room for
 * SCENE_TOKENS + SCENE_GREEDY tokens. Fails unless the tokens are the golden ones; where the golden
 * margin is at most `doubt` of the largest logit, another one passes. */
void tower_scene_check_following(struct model_runner *runner, const struct tower_scene *scene,
                                 double doubt);

/* The largest difference, divided by the largest golden magnitude. A token that the model never draws has a logit
 * of at most SCENE_NO_LOGIT, which must be equal and counts for nothing. */
#define SCENE_NO_LOGIT (-1e29f)
double tower_scene_difference(const float *golden, const float *found, size_t count);

#endif
