/*
 * The image processors of Janus: transformers' (janus) and the publisher's (multi_modality), which differ in keys, in
 * rounding and in the resizer.
 */
#include <math.h>
#include <string.h>

#include "frontend/image/image_settings.h"

static const float clip_mean[3] = {0.48145466f, 0.4578275f, 0.40821073f};
static const float clip_std[3] = {0.26862954f, 0.26130258f, 0.27577711f};

/* Settings that both forms of Janus have after the tower's; the colour around images is their mean. */
static void settings_centred(struct image_settings *s, const float *mean, const float *deviation,
                             struct image_processor *p)
{
    float colour[IMAGE_CHANNELS];
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, mean, deviation, p);
    memcpy(colour, mean, sizeof colour);
    image_settings_channels(s, "image_mean", colour);
    for (unsigned c = 0; c < IMAGE_CHANNELS; c++)
        p->pad_colour[c] = (uint8_t)fminf(255.0f, fmaxf(0.0f, colour[c] * 255.0f));
    p->merge = 1;
    image_settings_tile(s, p);
    p->min_side = image_settings_u32(s, s->image, "min_size", LIMIT_IMAGE_SIDE, 14);
    if (p->min_side > p->side)
        image_settings_fail(s, RESULT_INVALID, "min_size", "more than a side");
    image_settings_same(s, s->files->processor, "num_image_tokens", p->side_tokens);
    image_settings_token(s, "boi_token", "<begin_of_image>", p->tokens.begin);
    image_settings_token(s, "eoi_token", "<end_of_image>", p->tokens.end);
    image_settings_token(s, "image_token", "<image_placeholder>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

void image_processor_open_janus(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    bool prompted = false;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, 16);
    p->side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, 384);
    settings_centred(s, clip_mean, clip_std, p);
    image_settings_same(s, size, "height", p->side);
    image_settings_same(s, size, "width", p->side);
    if (!image_settings_bool(s, "do_pad", true))
        image_settings_fail(s, RESULT_UNSUPPORTED, "do_pad", "only true is done");
    if (json_value_bool(json_value_member(s->files->processor, "use_default_system_prompt"),
                        &prompted) == RESULT_INVALID ||
        prompted)
        image_settings_fail(s, RESULT_UNSUPPORTED, "use_default_system_prompt",
                            "only false is done");
}

/* The publisher's processor, on PIL. The tower's name has its patches. */
void image_processor_open_multi_modality(struct image_settings *s, struct image_processor *p)
{
    struct json_value params = json_value_member(s->vision, "params");
    char name[64] = "";
    (void)json_value_string(json_value_member(params, "model_name"), name, sizeof name);
    p->arithmetic = IMAGE_ARITHMETIC_PIL;
    p->truncates = true;
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE,
                                  strstr(name, "patch14") ? 14 : 16);
    p->side = image_settings_u32(s, params, "image_size", LIMIT_IMAGE_SIDE, 384);
    settings_centred(s, clip_mean, clip_std, p);
    image_settings_same(s, s->image, "image_size", p->side);
    image_settings_text(s, s->files->processor, "image_tag", p->tokens.soft, p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}
