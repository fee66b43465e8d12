#include "frontend/image/image_settings.h"

#include <math.h>
#include <string.h>

#include "proto/must.h"

static const float zeros[IMAGE_CHANNELS] = {0.0f, 0.0f, 0.0f};
static const float ones[IMAGE_CHANNELS] = {1.0f, 1.0f, 1.0f};

/* Values of PIL's Image.Resampling, as in the files. */
static const struct {
    uint32_t number;
    enum image_filter filter;
} filter_numbers[] = {
    {1, IMAGE_FILTER_LANCZOS}, {2, IMAGE_FILTER_BILINEAR}, {3, IMAGE_FILTER_BICUBIC}};

void image_settings_fail(struct image_settings *s, enum result result, const char *name,
                         const char *words)
{
    if (s->result == RESULT_OK)
        s->result = error_set(s->error, result, "%s: %s", name, words);
}

uint32_t image_settings_u32(struct image_settings *s, struct json_value object, const char *name,
                            uint32_t most, uint32_t fallback)
{
    uint32_t value = fallback;
    enum result result = json_value_u32(json_value_member(object, name), &value);
    if (result == RESULT_INVALID || (result == RESULT_OK && (value < 1 || value > most))) {
        image_settings_fail(s, RESULT_INVALID, name, "not a number, or out of range");
        return fallback;
    }
    return value;
}

bool image_settings_bool(struct image_settings *s, const char *name, bool fallback)
{
    bool value = fallback;
    if (json_value_bool(json_value_member(s->image, name), &value) == RESULT_INVALID)
        image_settings_fail(s, RESULT_INVALID, name, "neither true nor false");
    return value;
}

uint32_t image_settings_agreed(struct image_settings *s, const char *name, const char *vision_name,
                               uint32_t most, uint32_t fallback)
{
    uint32_t vision = image_settings_u32(s, s->vision, vision_name, most, fallback);
    uint32_t value = image_settings_u32(s, s->image, name, most, vision);
    if (value != vision)
        image_settings_fail(s, RESULT_INVALID, name, "contradicts vision_config of config.json");
    return value;
}

void image_settings_channels(struct image_settings *s, const char *name, float out[IMAGE_CHANNELS])
{
    struct json_value list = json_value_member(s->image, name), element;
    unsigned count = 0;
    bool good = true;
    if (json_value_type(list) == JSON_ABSENT)
        return;
    if (json_value_type(list) == JSON_NUMBER) {
        good = json_value_f32(list, &out[0]) == RESULT_OK;
        out[1] = out[2] = out[0];
        count = IMAGE_CHANNELS;
    }
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element); count++)
        good = good && count < IMAGE_CHANNELS && json_value_f32(element, &out[count]) == RESULT_OK;
    if (!good || count != IMAGE_CHANNELS)
        image_settings_fail(s, RESULT_INVALID, name, "not three numbers");
}

void image_settings_normalization(struct image_settings *s, bool normalize, const float mean[3],
                                  const float deviation[3], struct image_processor *p)
{
    float rescale = 1.0f / 255.0f, m[3], d[3];
    memcpy(m, mean, sizeof m);
    memcpy(d, deviation, sizeof d);
    if (json_value_f32(json_value_member(s->image, "rescale_factor"), &rescale) == RESULT_INVALID)
        image_settings_fail(s, RESULT_INVALID, "rescale_factor", "not a number");
    image_settings_channels(s, "image_mean", m);
    image_settings_channels(s, "image_std", d);
    if (!image_settings_bool(s, "do_rescale", true))
        rescale = 1.0f;
    if (!image_settings_bool(s, "do_normalize", normalize)) {
        memcpy(m, zeros, sizeof m);
        memcpy(d, ones, sizeof d);
    }
    for (unsigned c = 0; c < IMAGE_CHANNELS; c++) {
        p->scale[c] = rescale / d[c];
        p->bias[c] = -m[c] / d[c];
        if (!(fabsf(p->scale[c]) <= IMAGE_SCALE_MAX) || p->scale[c] == 0 ||
            !(fabsf(p->bias[c]) <= IMAGE_SCALE_MAX))
            image_settings_fail(s, RESULT_INVALID, "image_std, image_mean or rescale_factor",
                                "out of range");
    }
}

void image_settings_filter(struct image_settings *s, enum image_filter fallback,
                           struct image_processor *p)
{
    uint32_t number = 0;
    p->filter = fallback;
    enum result result = json_value_u32(json_value_member(s->image, "resample"), &number);
    if (result == RESULT_NOT_FOUND)
        return;
    bool known = false;
    for (size_t i = 0; i < sizeof filter_numbers / sizeof filter_numbers[0]; i++) {
        if (result == RESULT_OK && filter_numbers[i].number == number) {
            p->filter = filter_numbers[i].filter;
            known = true;
        }
    }
    if (!known || (p->filter == IMAGE_FILTER_LANCZOS && p->arithmetic == IMAGE_ARITHMETIC_TORCH))
        image_settings_fail(s, RESULT_UNSUPPORTED, "resample", "this filter is not done");
}

void image_settings_steps(struct image_settings *s)
{
    static const char *const steps[] = {"do_resize", "do_convert_rgb"};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (!image_settings_bool(s, steps[i], true))
            image_settings_fail(s, RESULT_UNSUPPORTED, steps[i], "only true is done");
    }
}

/* The text of a token: a string, or an object with its content. */
static void take_text(struct image_settings *s, struct json_value value, const char *name,
                      const char *fallback, char text[LIMIT_IMAGE_MARKER_BYTES])
{
    if (json_value_type(value) == JSON_OBJECT)
        value = json_value_member(value, "content");
    must(strlen(fallback) < LIMIT_IMAGE_MARKER_BYTES);
    memcpy(text, fallback, strlen(fallback) + 1);
    if (json_value_string(value, text, LIMIT_IMAGE_MARKER_BYTES) == RESULT_INVALID || !text[0])
        image_settings_fail(s, RESULT_INVALID, name, "not the text of a token");
}

void image_settings_text(struct image_settings *s, struct json_value object, const char *name,
                         const char *fallback, char text[LIMIT_IMAGE_MARKER_BYTES])
{
    take_text(s, json_value_member(object, name), name, fallback, text);
}

void image_settings_token(struct image_settings *s, const char *name, const char *fallback,
                          char text[LIMIT_IMAGE_MARKER_BYTES])
{
    static const char *const places[] = {"model_specific_special_tokens", "extra_special_tokens"};
    struct json_value tokenizer = s->files->tokenizer;
    struct json_value value = json_value_member(tokenizer, name);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (json_value_type(value) == JSON_ABSENT)
            value = json_value_member(json_value_member(tokenizer, places[i]), name);
    }
    take_text(s, value, name, fallback, text);
}

void image_settings_same(struct image_settings *s, struct json_value object, const char *name,
                         uint32_t value)
{
    if (image_settings_u32(s, object, name, UINT32_MAX, value) != value)
        image_settings_fail(s, RESULT_INVALID, name, "contradicts config.json");
}

void image_settings_tile(struct image_settings *s, struct image_processor *p)
{
    uint32_t across = p->side / p->patch / p->merge;
    p->side_tokens = across * across;
    if (across < 1 || p->side / p->patch % p->merge != 0)
        image_settings_fail(s, RESULT_INVALID, "image_size", "is no square of merged patches");
    if (p->side_tokens > LIMIT_IMAGE_TOKENS)
        image_settings_fail(s, RESULT_INVALID, "image_size", "makes too many tokens");
}
