/*
 * A prompt of a tower scene as a request to a worker, with its images.
 */
#ifndef SHOAL_TESTS_SUPPORT_SCENE_REQUEST_H
#define SHOAL_TESTS_SUPPORT_SCENE_REQUEST_H

#include "tests/support/test_frontend.h"
#include "tests/support/tower_scene.h"
#include "worker/plan/model_vision.h"

struct scene_request {
    struct test_request request; /* greedy; points into the scene and to `part` */
    uint8_t *part;               /* the caller frees it */
};

void scene_request_make(const struct tower_scene *scene, const struct scene_prompt *prompt,
                        const struct model_vision *vision, uint32_t answer_tokens,
                        struct scene_request *made);

#endif
