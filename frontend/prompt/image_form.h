/*
 * The form in which a chat template takes contents with images, and texts of a model that accepts
 * images.
 *
 * Most templates want a list of parts in which {"type": "image"} is an image, and print a marker
 * for it; some look for {"type": "image_url"}. Some (SmolVLM, Idefics 3) print nothing for a
 * content that is a string, so for them texts must be lists too.
 */
#ifndef SHOAL_FRONTEND_PROMPT_IMAGE_FORM_H
#define SHOAL_FRONTEND_PROMPT_IMAGE_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/result.h"

struct cJSON;
struct chat_prompt;
struct chat_template;

struct image_form {
    const char *type; /* of an image's part; static; NULL: the template has no place for images */
    bool texts_are_lists; /* a string becomes a list of one text part */
};

/* Found by rendering an image in each form and searching the output for the marker. */
struct image_form image_form_find(const struct chat_template *template, const char *marker);

/* The type of a video's part, and of a sound's, in templates and in checked messages. */
#define VIDEO_FORM_TYPE "video"
#define AUDIO_FORM_TYPE "audio"

/* True if the template writes `marker` once for a part of this type. */
bool image_form_shows(const struct chat_template *template, const char *type, const char *marker);

/* Converts checked messages, whose images are {"type": "image"} parts of content lists, to the
 * form. RESULT_OUT_OF_MEMORY leaves some unchanged. */
enum result image_form_apply(const struct image_form *form, struct cJSON *messages) RESULT_CHECKED;

/* A new text part of a content list, owned by the caller; NULL if out of memory. */
struct cJSON *image_form_text(const char *text);

/* How often the template itself wrote `marker`; occurrences in a caller's text do not count. */
size_t image_form_count(const struct chat_prompt *prompt, const char *marker);

#endif
