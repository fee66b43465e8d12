/*
 * A tiny vision model: the tiny tokenizer, a ChatML-like template that writes <|image_pad|> for an
 * image, and Qwen's image processor with patches of 4 pixels. 2 x 2 patches are one placeholder, so
 * an image of 16 x 8 pixels is 2 tokens.
 */
#ifndef SHOAL_TESTS_SUPPORT_TINY_VISION_H
#define SHOAL_TESTS_SUPPORT_TINY_VISION_H

#include "frontend/assets/model_assets.h"
#include "frontend/assets/vision_assets.h"

/* Ends the program if a file cannot be opened. */
void tiny_vision_open(struct model_assets *assets, struct media_policy media);
void tiny_vision_close(struct model_assets *assets);

/* A PNG file of one colour as base64; malloc'd. */
char *tiny_vision_png(uint32_t width, uint32_t height, uint32_t rgb);

#endif
