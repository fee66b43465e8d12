/*
 * Settings of an image processor from a checkpoint's JSON: an absent or null one has a default, one out of range
 * fails with its name. image_processor_open.c says which files have which.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_SETTINGS_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/image/image_processor.h"
#include "proto/json_value.h"
#include "proto/limits.h"
#include "proto/result.h"

/* State of the reading; the first failure is kept. */
struct image_settings {
    const struct image_processor_files *files;
    struct json_value image;  /* the image processor's settings */
    struct json_value vision; /* config.json's vision_config */
    struct error_text *error;
    enum result result;
};

void image_settings_fail(struct image_settings *s, enum result result, const char *name,
                         const char *words);
/* A number from 1 to `most`; `fallback` if it is absent. */
uint32_t image_settings_u32(struct image_settings *s, struct json_value object, const char *name,
                            uint32_t most, uint32_t fallback);
bool image_settings_bool(struct image_settings *s, const char *name, bool fallback);
/* The same setting under the image processor's name and under vision_config's. */
uint32_t image_settings_agreed(struct image_settings *s, const char *name, const char *vision_name,
                               uint32_t most, uint32_t fallback);
/* One number for all channels, or three. */
void image_settings_channels(struct image_settings *s, const char *name, float out[IMAGE_CHANNELS]);
/* byte * scale + bias for what Hugging Face computes as (byte * rescale - mean) / std. */
void image_settings_normalization(struct image_settings *s, bool normalize, const float mean[3],
                                  const float deviation[3], struct image_processor *p);
void image_settings_filter(struct image_settings *s, enum image_filter fallback,
                           struct image_processor *p);
/* Fails if a step that is always done here is turned off. */
void image_settings_steps(struct image_settings *s);
void image_settings_text(struct image_settings *s, struct json_value object, const char *name,
                         const char *fallback, char text[LIMIT_IMAGE_MARKER_BYTES]);
/* A token's text in tokenizer_config.json, at one of three places. */
void image_settings_token(struct image_settings *s, const char *name, const char *fallback,
                          char text[LIMIT_IMAGE_MARKER_BYTES]);
/* Checks that a number which a file may repeat is this one. */
void image_settings_same(struct image_settings *s, struct json_value object, const char *name,
                         uint32_t value);
/* Sets the placeholders of a tile from its side, its patches and how many are merged. */
void image_settings_tile(struct image_settings *s, struct image_processor *p);

/* Reads a list of sizes in pixels, [height, width] each or the other way round, as grids of tiles. False: the object
 * has none. */
bool image_settings_grids(struct image_settings *s, struct json_value object, const char *name,
                          bool width_first, struct image_processor *p);

/* Parts of image_processor_mosaic.c and image_processor_deepseek.c for each other. Chooses the grid that keeps most of
 * the image's pixels and, of those, wastes least. */
void image_mosaic_choose_grid(const struct image_processor *p, struct image_plan *plan);
enum result image_mosaic_resize(const struct image_processor *p, const struct image_pixels *source,
                                uint32_t width, uint32_t height, struct image_pixels *resized,
                                struct error_text *error);
/* Fills the canvas with the colour and puts the image on it, where it fits. */
void image_mosaic_paste(const struct image_pixels *image, uint32_t left, uint32_t top,
                        const uint8_t colour[IMAGE_CHANNELS], struct image_pixels *canvas);
/* Copies the tile of the plan that begins at x, y. */
void image_mosaic_cut(const struct image_plan *plan, const struct image_pixels *from, uint32_t x,
                      uint32_t y, uint8_t *out);
enum result image_views_plan(const struct image_processor *p, bool low, struct image_plan *plan,
                             struct error_text *error);
enum result image_views_run(const struct image_processor *p, const struct image_plan *plan,
                            const struct image_pixels *source, uint8_t *out,
                            struct error_text *error);

/* The grid of min_tiles to max_tiles squares whose aspect is nearest to the image's. */
void image_plan_choose_grid(const struct image_processor *p, struct image_plan *plan);
enum result image_ocr_plan(const struct image_processor *p, bool low, struct image_plan *plan,
                           struct error_text *error);
enum result image_ocr_run(const struct image_processor *p, const struct image_plan *plan,
                          const struct image_pixels *source, uint8_t *out,
                          struct error_text *error);

/* Processors in files of their own: image_processor_janus.c, image_processor_deepseek.c, image_processor_mllama.c. */
void image_processor_open_deepseek_ocr(struct image_settings *s, struct image_processor *p);
void image_processor_open_deepseek(struct image_settings *s, struct image_processor *p);
void image_processor_open_mllama(struct image_settings *s, struct image_processor *p);
void image_processor_open_janus(struct image_settings *s, struct image_processor *p);
void image_processor_open_multi_modality(struct image_settings *s, struct image_processor *p);

#endif
