/*
 * Writes the PNG with stored deflate blocks, so its bytes do not depend on a library.
 */
#include "tests/support/tiny_vision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/base64.h"
#include "proto/must.h"
#include "tests/support/tiny_tokenizer.h"

static const char template[] =
    "{% for m in messages %}<|im_start|>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'image' %}<|image_pad|>{% else %}{{ p.text }}"
    "{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}";

static const char config[] =
    "{\"model_type\":\"qwen2_5_vl\",\"vision_config\":{\"patch_size\":4,\"spatial_merge_size\":2,"
    "\"temporal_patch_size\":2}}";
static const char preprocessor[] =
    "{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"patch_size\":4,\"merge_size\":2,"
    "\"temporal_patch_size\":2,\"min_pixels\":64,\"max_pixels\":4096}";

static struct json_value json_of(const char *text)
{
    struct json_value root;
    struct error_text error;
    must(json_value_open(text, strlen(text), 4096, &root, &error) == RESULT_OK);
    return root;
}

void tiny_vision_open(struct model_assets *assets, struct media_policy media)
{
    struct error_text error;
    *assets = (struct model_assets){.model_id = "tiny",
                                    .bos_text = "",
                                    .eos_text = "<|im_end|>",
                                    .context_tokens = 512,
                                    .sampling = {NAN, NAN, NAN, NAN, UINT32_MAX}};
    assets->tokenizer = tiny_tokenizer_open();
    must(chat_template_open(template, strlen(template), &assets->chat_template, &error) ==
         RESULT_OK);
    struct vision_assets *vision = must_alloc(1, sizeof *vision);
    const struct image_processor_files files = {.config = json_of(config),
                                                .preprocessor = json_of(preprocessor)};
    must(image_processor_open(&files, &vision->processor, &error) == RESULT_OK);
    vision->form = image_form_find(assets->chat_template, vision->processor.tokens.marker);
    vision->soft_token = TINY_IMAGE;
    assets->media = media;
    vision->budget.most_bytes = 1u << 20;
    assets->vision = vision;
}

void tiny_vision_close(struct model_assets *assets)
{
    chat_template_close(assets->chat_template);
    tokenizer_close(assets->tokenizer);
    free(assets->vision);
}

/* --- a PNG ----------------------------------------------------------------------------------- */

static void put_u32(struct text_buffer *out, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                              (uint8_t)value};
    text_buffer_append(out, (const char *)bytes, 4);
}

static uint32_t crc32_of(const uint8_t *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void put_chunk(struct text_buffer *out, const char *type, const struct text_buffer *data)
{
    put_u32(out, (uint32_t)data->length);
    size_t start = out->length;
    text_buffer_append(out, type, 4);
    text_buffer_append(out, data->length ? data->bytes : "", data->length);
    put_u32(out, crc32_of((const uint8_t *)out->bytes + start, out->length - start));
}

/* Rows of a filter byte and pixels, in one stored block. */
static void put_pixels(struct text_buffer *data, uint32_t width, uint32_t height, uint32_t rgb)
{
    uint32_t low = 1, high = 0;
    uint32_t count = height * (1 + 3 * width);
    must(count <= 65535);
    const uint8_t head[7] = {0x78,
                             0x01,
                             0x01,
                             (uint8_t)count,
                             (uint8_t)(count >> 8),
                             (uint8_t)~count,
                             (uint8_t)(~count >> 8)};
    text_buffer_append(data, (const char *)head, sizeof head);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t column = i % (1 + 3 * width);
        uint8_t byte = (uint8_t)(column == 0 ? 0 : rgb >> (16 - 8 * ((column - 1) % 3)));
        text_buffer_append(data, (const char *)&byte, 1);
        low = (low + byte) % 65521;
        high = (high + low) % 65521;
    }
    put_u32(data, high << 16 | low);
}

char *tiny_vision_png(uint32_t width, uint32_t height, uint32_t rgb)
{
    static const char tail[5] = {8, 2, 0, 0, 0}; /* 8 bits of red, green and blue */
    struct text_buffer file = {0}, data = {0}, base64 = {0};
    text_buffer_append(&file, "\x89PNG\r\n\x1a\n", 8);
    put_u32(&data, width);
    put_u32(&data, height);
    text_buffer_append(&data, tail, sizeof tail);
    put_chunk(&file, "IHDR", &data);
    text_buffer_clear(&data);
    put_pixels(&data, width, height, rgb);
    put_chunk(&file, "IDAT", &data);
    text_buffer_clear(&data);
    put_chunk(&file, "IEND", &data);
    base64_append((const uint8_t *)file.bytes, file.length, &base64);
    text_buffer_fini(&file);
    text_buffer_fini(&data);
    must(!base64.failed);
    return base64.bytes;
}
