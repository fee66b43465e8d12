/*
 * The images, videos and sounds that a request names, in the order of its conversation.
 *
 * Readers of bodies call request_images_add() for each image's or video's part or block and put
 * request_images_part() in its place. The images are read later (image_prepare.h), when the whole
 * body is known to be valid.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_REQUEST_IMAGES_H
#define SHOAL_FRONTEND_API_GENERATION_REQUEST_IMAGES_H

#include <stdbool.h>

#include "frontend/api/generation/request_videos.h"
#include "frontend/base/api_error.h"
#include "frontend/image/image_processor.h"
#include "frontend/image/image_source.h"

struct cJSON;
struct parse_context;

struct request_image {
    char *name;                  /* owned; NULL of a video that is a list of frames */
    struct request_video *video; /* owned; NULL: an image or a sound */
    bool sound;
    enum image_naming naming;
    enum image_detail detail;
    bool of_tool;   /* in the result of a tool */
    char place[80]; /* in the client's body: "messages[2].content[1]" */
};

struct request_images {
    bool taken;        /* whether the model takes images; set before the first is added */
    bool videos_taken; /* likewise */
    bool sounds_taken; /* likewise */
    bool of_tool;      /* whether those added next are in the result of a tool; set by the reader */
    struct request_image *items;
    uint32_t count;
    uint32_t capacity;
    /* For request_documents.h, set by its request_documents_begin(). */
    const struct parse_context *context; /* while the body is parsed */
    uint32_t document_count;
    int64_t document_cpu_left_ms; /* for reading them */
};

void request_images_fini(struct request_images *images);

/* True if parts of this type are images (image_url and input_image of OpenAI's APIs, image of
 * Anthropic's), videos (request_videos.h) or sounds (request_audio.h). */
bool request_images_is_type(const char *type);
/* Checks the part and notes what it names. Refuses it if the model does not take its kind. */
enum result request_images_add(struct request_images *images, const struct cJSON *part,
                               const char *place, struct api_error *error) RESULT_CHECKED;
/* The same for an image that is part of a document at `place`. */
enum result request_images_add_file(struct request_images *images, const struct file_bytes *file,
                                    const char *place, struct api_error *error) RESULT_CHECKED;
/* The part that stands for an image, or for a video or a sound if that is what parts of type `given` are
 * (NULL: an image), in messages until it gets the template's own form (image_form.h). NULL: out of memory. */
struct cJSON *request_images_part(const char *given);

#endif
