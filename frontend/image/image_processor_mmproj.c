/*
 * The image processor of a GGUF model, from the keys of its projector file. Filters, texts of
 * tokens and what the keys leave out are those of the published models of the family: the converter
 * does not write them.
 *
 * A projector that belongs to another kind of text model, or to one of another width, is refused
 * here as in the worker, so that images get a clear 400.
 *
 * Source: llama.cpp, tools/mtmd/clip.cpp and its conversion scripts for the keys; the published
 * preprocessor_config.json of each family for the rest.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/image/image_processor.h"
#include "proto/gguf_file.h"
#include "proto/limits.h"
#include "proto/must.h"

#define SECTION "clip.vision."

/* State of the reading; the first failure is kept. */
struct mmproj_settings {
    const struct gguf_file *tower;
    struct error_text *error;
    enum result result;
    uint32_t text_hidden; /* width of the text model's rows; 0: not stated */
};

static void fail(struct mmproj_settings *s, const char *key, const char *words)
{
    if (s->result == RESULT_OK)
        s->result = error_set(s->error, RESULT_INVALID, "key " SECTION "%s: %s", key, words);
}

/* A number from 1 to `most`; `absent` if the key is not there, or a failure if that is 0. */
static uint32_t read_u32(struct mmproj_settings *s, const char *key, uint32_t most, uint32_t absent)
{
    char name[96];
    uint32_t value = absent;
    snprintf(name, sizeof name, SECTION "%s", key);
    enum result result = gguf_file_u32(s->tower, name, &value);
    if (result == RESULT_NOT_FOUND && absent == 0)
        fail(s, key, "is missing");
    else if (result != RESULT_NOT_FOUND && (result != RESULT_OK || value < 1 || value > most))
        fail(s, key, "is no number, or out of range");
    return s->result == RESULT_OK ? value : 1;
}

static void read_channels(struct mmproj_settings *s, const char *key, float out[IMAGE_CHANNELS])
{
    char name[96];
    struct gguf_array array;
    snprintf(name, sizeof name, SECTION "%s", key);
    if (gguf_file_array(s->tower, name, &array) != RESULT_OK || array.type == GGUF_STRING ||
        array.type == GGUF_ARRAY || array.count != IMAGE_CHANNELS) {
        fail(s, key, "is no list of three numbers");
        return;
    }
    for (uint32_t c = 0; c < IMAGE_CHANNELS; c++)
        out[c] = (float)gguf_array_f64(&array, c);
}

/* byte * scale + bias for (byte / 255 - mean) / deviation. */
static void read_normalization(struct mmproj_settings *s, struct image_processor *p)
{
    float mean[IMAGE_CHANNELS] = {0}, deviation[IMAGE_CHANNELS] = {1, 1, 1};
    read_channels(s, "image_mean", mean);
    read_channels(s, "image_std", deviation);
    for (uint32_t c = 0; c < IMAGE_CHANNELS; c++) {
        p->scale[c] = 1.0f / 255.0f / deviation[c];
        p->bias[c] = -mean[c] / deviation[c];
        if (!(fabsf(p->scale[c]) <= IMAGE_SCALE_MAX) || !(fabsf(p->bias[c]) <= IMAGE_SCALE_MAX))
            fail(s, "image_std", "makes numbers that are out of range");
    }
}

static void set_token(char text[LIMIT_IMAGE_MARKER_BYTES], const char *token)
{
    must(strlen(token) < LIMIT_IMAGE_MARKER_BYTES);
    strcpy(text, token);
}

/* --- families --------------------------------------------------------------------------------- */

static void open_qwen(struct mmproj_settings *s, uint32_t least, uint32_t most,
                      struct image_processor *p)
{
    p->family = IMAGE_FAMILY_QWEN;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BICUBIC;
    p->merge = read_u32(s, "spatial_merge_size", LIMIT_MERGE_SIDE, 2);
    p->min_pixels = read_u32(s, "image_min_pixels", UINT32_MAX, least);
    p->max_pixels = read_u32(s, "image_max_pixels", UINT32_MAX, most);
    if (p->min_pixels > p->max_pixels)
        fail(s, "image_min_pixels", "is more than image_max_pixels");
    set_token(p->tokens.soft, "<|image_pad|>");
    set_token(p->tokens.marker, "<|image_pad|>");
}

static void open_qwen2(struct mmproj_settings *s, struct image_processor *p)
{
    open_qwen(s, 56 * 56, 28 * 28 * 16384, p);
    p->video_rule = VIDEO_RULE_QWEN2;
}

static void open_qwen2_5(struct mmproj_settings *s, struct image_processor *p)
{
    open_qwen2(s, p);
    p->video_rule = VIDEO_RULE_QWEN2_5;
}

/* Bounds are those of the published models. */
static void open_glm4v(struct mmproj_settings *s, struct image_processor *p)
{
    open_qwen(s, 112 * 112, 28 * 28 * 12288, p);
    p->frames = 2;
    set_token(p->tokens.soft, "<|image|>");
    set_token(p->tokens.marker, "<|image|>");
}

static void open_paddleocr(struct mmproj_settings *s, struct image_processor *p)
{
    open_qwen(s, 384 * 384, 1536 * 1536, p);
    p->lifts = true;
    set_token(p->tokens.soft, "<|IMAGE_PLACEHOLDER|>");
    set_token(p->tokens.marker, "<|IMAGE_PLACEHOLDER|>");
}

static void open_hunyuan(struct mmproj_settings *s, struct image_processor *p)
{
    open_qwen(s, 512 * 512, 2048 * 2048, p);
    p->framed = true;
    set_token(p->tokens.soft, "<｜hy_place▁holder▁no▁102｜>");
    set_token(p->tokens.marker, "<｜hy_place▁holder▁no▁102｜>");
}

static void open_qwen3(struct mmproj_settings *s, struct image_processor *p)
{
    open_qwen(s, 256 * 256, 4096 * 4096, p);
    p->video_rule = VIDEO_RULE_QWEN3;
}

/* Sets the side of a tile and its placeholders. */
static void read_square(struct mmproj_settings *s, uint32_t scale, struct image_processor *p)
{
    p->side = read_u32(s, "image_size", LIMIT_IMAGE_SIDE, 0);
    uint32_t across = p->side / p->patch;
    if (across == 0 || across % scale != 0)
        fail(s, "image_size", "is no square of merged patches");
    p->side_tokens = across / scale * (across / scale);
    if (p->side_tokens > LIMIT_IMAGE_TOKENS)
        fail(s, "image_size", "makes too many tokens");
}

static void open_gemma3(struct mmproj_settings *s, struct image_processor *p)
{
    p->family = IMAGE_FAMILY_GEMMA3;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BILINEAR;
    p->merge = 1;
    read_square(s, read_u32(s, "projector.scale_factor", LIMIT_MERGE_SIDE, 4), p);
    set_token(p->tokens.begin, "<start_of_image>");
    set_token(p->tokens.end, "<end_of_image>");
    set_token(p->tokens.soft, "<image_soft_token>");
    set_token(p->tokens.marker, "<start_of_image>");
}

static void open_gemma4(struct mmproj_settings *s, struct image_processor *p)
{
    const struct gguf_tensor *table = gguf_file_find_tensor(s->tower, "v.position_embd.weight");
    p->family = IMAGE_FAMILY_GEMMA4;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BICUBIC;
    p->merge = read_u32(s, "projector.scale_factor", LIMIT_MERGE_SIDE, 3);
    p->max_tokens = 280;
    if (!table || table->dimensions[1] == 0 || table->dimensions[1] > LIMIT_PATCH_POSITIONS) {
        if (s->result == RESULT_OK)
            s->result = error_set(s->error, RESULT_INVALID,
                                  "tensor v.position_embd.weight is missing or out of range");
        return;
    }
    p->most_side = (uint32_t)table->dimensions[1];
    set_token(p->tokens.begin, "<|image>");
    set_token(p->tokens.end, "<image|>");
    set_token(p->tokens.soft, "<|image|>");
    set_token(p->tokens.marker, "<|image|>");
}

static void open_idefics3(struct mmproj_settings *s, struct image_processor *p)
{
    p->family = IMAGE_FAMILY_IDEFICS3;
    p->arithmetic = IMAGE_ARITHMETIC_PIL;
    p->filter = IMAGE_FILTER_LANCZOS;
    p->merge = read_u32(s, "projector.scale_factor", LIMIT_MERGE_SIDE, 2);
    read_square(s, p->merge, p);
    p->longest_edge = read_u32(s, "preproc_image_size", LIMIT_IMAGE_SIDE, 4 * p->side);
    p->split = true;
    set_token(p->tokens.soft, "<image>");
    set_token(p->tokens.begin, "<fake_token_around_image>");
    set_token(p->tokens.end, "<fake_token_around_image>");
    set_token(p->tokens.whole, "<global-img>");
    set_token(p->tokens.marker, "<image>");
}

static void open_internvl(struct mmproj_settings *s, struct image_processor *p)
{
    p->family = IMAGE_FAMILY_TILES;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BICUBIC;
    p->merge = read_u32(s, "projector.scale_factor", LIMIT_MERGE_SIDE, 2);
    read_square(s, p->merge, p);
    p->min_tiles = read_u32(s, "preproc_min_tiles", LIMIT_IMAGE_TILES, 1);
    p->max_tiles = read_u32(s, "preproc_max_tiles", LIMIT_IMAGE_TILES - 1, 12);
    if (p->min_tiles > p->max_tiles)
        fail(s, "preproc_min_tiles", "is more than preproc_max_tiles");
    set_token(p->tokens.begin, "<img>");
    set_token(p->tokens.end, "</img>");
    set_token(p->tokens.soft, "<IMG_CONTEXT>");
    set_token(p->tokens.marker, "<IMG_CONTEXT>");
}

static void open_kimi(struct mmproj_settings *s, struct image_processor *p)
{
    p->family = IMAGE_FAMILY_PADDED;
    p->filter = IMAGE_FILTER_BICUBIC;
    p->merge = read_u32(s, "projector.scale_factor", LIMIT_MERGE_SIDE, 2);
    set_token(p->tokens.soft, "<|media_pad|>");
    set_token(p->tokens.marker, "<|media_pad|>");
}

static void open_kimi_vl(struct mmproj_settings *s, struct image_processor *p)
{
    open_kimi(s, p);
    p->arithmetic = IMAGE_ARITHMETIC_PIL;
    p->max_patches = 4096;
    p->most_side = 511;
}

/* image_max_pixels is the most patches in pixels. */
static void open_kimi_k25(struct mmproj_settings *s, struct image_processor *p)
{
    uint32_t square = p->patch * p->patch;
    open_kimi(s, p);
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->max_patches = read_u32(s, "image_max_pixels", UINT32_MAX, 16384 * square) / square;
    p->fit_side = 512;
    if (p->max_patches == 0)
        fail(s, "image_max_pixels", "is less than a patch");
}

/* image_size is no size of images here: the converter writes a fixed number. */
static void open_lfm2(struct mmproj_settings *s, struct image_processor *p)
{
    p->family = IMAGE_FAMILY_APART;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BILINEAR;
    p->merge = read_u32(s, "projector.scale_factor", LIMIT_MERGE_SIDE, 2);
    p->side = read_u32(s, "preproc_image_size", LIMIT_IMAGE_SIDE, 512);
    p->min_tiles = read_u32(s, "preproc_min_tiles", LIMIT_IMAGE_TILES, 2);
    p->max_tiles = read_u32(s, "preproc_max_tiles", LIMIT_IMAGE_TILES, 10);
    p->min_tokens = 64;
    p->max_tokens = 256;
    p->tolerance = 2.0f;
    p->split = true;
    uint32_t across = p->side / p->patch;
    if (across == 0 || across % p->merge != 0)
        fail(s, "patch_size", "does not part tiles into squares of patches");
    if (p->min_tiles < 2 || p->min_tiles > p->max_tiles)
        fail(s, "preproc_min_tiles", "is less than 2 or more than preproc_max_tiles");
    p->side_tokens = across / p->merge * (across / p->merge);
    if (p->side_tokens > LIMIT_IMAGE_TOKENS)
        fail(s, "patch_size", "makes too many tokens");
    set_token(p->tokens.begin, "<|image_start|>");
    set_token(p->tokens.end, "<|image_end|>");
    set_token(p->tokens.whole, "<|img_thumbnail|>");
    set_token(p->tokens.soft, "<image>");
    set_token(p->tokens.marker, "<image>");
}

/* Reads a flat list of [height, width] in pixels as grids of tiles; false if the key is absent. */
static bool read_grids(struct mmproj_settings *s, struct image_processor *p)
{
    static const char key[] = "image_grid_pinpoints";
    struct gguf_array sizes;
    enum result result = gguf_file_array(s->tower, SECTION "image_grid_pinpoints", &sizes);
    if (result == RESULT_NOT_FOUND)
        return false;
    bool good = result == RESULT_OK && sizes.type != GGUF_STRING && sizes.type != GGUF_ARRAY &&
                sizes.count >= 2 && sizes.count % 2 == 0 && sizes.count / 2 <= LIMIT_IMAGE_GRIDS;
    for (uint64_t i = 0; good && i < sizes.count; i += 2) {
        double rows = gguf_array_f64(&sizes, i) / p->side;
        double columns = gguf_array_f64(&sizes, i + 1) / p->side;
        good = rows >= 1 && columns >= 1 && rows * columns < LIMIT_IMAGE_TILES &&
               rows == floor(rows) && columns == floor(columns);
        if (!good)
            break;
        p->grids[p->grid_count].rows = (uint16_t)rows;
        p->grids[p->grid_count++].columns = (uint16_t)columns;
    }
    if (!good)
        fail(s, key, "is no list of sizes in whole tiles, of fewer than 64");
    return true;
}

/* Checks the projection's width; projection_dim is CLIP's own. */
static void check_projection(struct mmproj_settings *s)
{
    const struct gguf_tensor *last = gguf_file_find_tensor(s->tower, "mm.2.weight");
    if (s->result == RESULT_OK && (!last || last->dimensions[1] != s->text_hidden))
        s->result = error_set(s->error, RESULT_INVALID,
                              "tensor mm.2.weight is missing or has not the text model's width");
}

/* CLIP's images are cut, SigLIP's squashed, as transformers' processors for these towers do. */
static void open_mlp(struct mmproj_settings *s, struct image_processor *p)
{
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BICUBIC;
    p->merge = 1;
    read_square(s, 1, p);
    check_projection(s);
    p->family = read_grids(s, p) ? IMAGE_FAMILY_MOSAIC : IMAGE_FAMILY_LLAVA;
    if (p->family == IMAGE_FAMILY_LLAVA && gguf_file_find_tensor(s->tower, "v.class_embd"))
        p->shortest_edge = p->side;
    set_token(p->tokens.soft, "<image>");
    set_token(p->tokens.marker, "<image>");
}

/* The colour around images is their mean. */
static void open_janus(struct mmproj_settings *s, struct image_processor *p)
{
    float mean[IMAGE_CHANNELS] = {0};
    p->family = IMAGE_FAMILY_CENTRED;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BICUBIC;
    p->merge = 1;
    read_square(s, 1, p);
    p->min_side = p->side < 14 ? p->side : 14;
    read_channels(s, "image_mean", mean);
    for (uint32_t c = 0; c < IMAGE_CHANNELS; c++)
        p->pad_colour[c] = (uint8_t)fminf(255.0f, fmaxf(0.0f, mean[c] * 255.0f));
    set_token(p->tokens.begin, "<begin_of_image>");
    set_token(p->tokens.end, "<end_of_image>");
    set_token(p->tokens.soft, "<image_placeholder>");
    set_token(p->tokens.marker, "<image_placeholder>");
}

/* image_size is the longer side's maximum. */
static void open_pixtral(struct mmproj_settings *s, struct image_processor *p)
{
    p->family = IMAGE_FAMILY_PIXTRAL;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BICUBIC;
    p->merge = read_u32(s, "spatial_merge_size", LIMIT_MERGE_SIDE, 1);
    p->longest_edge = read_u32(s, "image_size", LIMIT_IMAGE_SIDE, 0);
    set_token(p->tokens.soft, "[IMG]");
    set_token(p->tokens.after, "[IMG_BREAK]");
    set_token(p->tokens.end, "[IMG_END]");
    set_token(p->tokens.marker, "[IMG]");
}

static const struct {
    const char *projector;
    const char *texts[5]; /* architectures of text models; the rest is NULL */
    bool clip_width;      /* projection_dim is not the text's width */
    void (*open)(struct mmproj_settings *s, struct image_processor *p);
} projectors[] = {
    {"gemma3", {"gemma3"}, false, open_gemma3},
    {"gemma4v", {"gemma4"}, false, open_gemma4},
    {"glm4v", {"glm4", "glm4moe"}, false, open_glm4v},
    {"paddleocr", {"paddleocr"}, false, open_paddleocr},
    {"hunyuanvl", {"hunyuan_vl"}, false, open_hunyuan},
    {"hunyuanocr", {"hunyuan_vl"}, false, open_hunyuan},
    {"idefics3", {"llama"}, false, open_idefics3},
    {"internvl", {"qwen2", "qwen3", "qwen3moe", "llama"}, false, open_internvl},
    {"janus_pro", {"llama"}, false, open_janus},
    {"kimivl", {"deepseek2"}, false, open_kimi_vl},
    {"kimik25", {"deepseek2"}, false, open_kimi_k25},
    {"lfm2", {"lfm2"}, false, open_lfm2},
    {"mlp", {"llama", "qwen2", "phi3", "gemma"}, true, open_mlp},
    {"pixtral", {"llama", "mistral3"}, false, open_pixtral},
    {"qwen2vl_merger", {"qwen2vl"}, false, open_qwen2},
    {"qwen2.5vl_merger", {"qwen2vl"}, false, open_qwen2_5},
    {"qwen3vl_merger", {"qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"}, false, open_qwen3},
};

static bool is_text(struct gguf_string text, size_t projector)
{
    for (const char *const *name = projectors[projector].texts; *name; name++)
        if (text.length == strlen(*name) && memcmp(text.bytes, *name, text.length) == 0)
            return true;
    return false;
}

static void check_width(struct mmproj_settings *s, const struct gguf_file *text,
                        struct gguf_string architecture, bool clip_width)
{
    char key[96];
    uint32_t hidden = 0;
    snprintf(key, sizeof key, "%.*s.embedding_length", (int)architecture.length,
             architecture.bytes);
    if (gguf_file_u32(text, key, &hidden) != RESULT_OK)
        return;
    s->text_hidden = hidden;
    if (hidden > 0 && !clip_width && read_u32(s, "projection_dim", UINT32_MAX, hidden) != hidden)
        fail(s, "projection_dim", "is not the text model's hidden size");
}

enum result image_processor_open_mmproj(const struct gguf_file *tower, const struct gguf_file *text,
                                        struct image_processor *processor, struct error_text *error)
{
    struct mmproj_settings s = {.tower = tower, .error = error};
    struct gguf_string name, architecture;
    *processor = (struct image_processor){.family = IMAGE_FAMILY_NONE};
    if (gguf_file_string(tower, "clip.vision.projector_type", &name) != RESULT_OK &&
        gguf_file_string(tower, "clip.projector_type", &name) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "key clip.projector_type is missing");
    if (gguf_file_string(text, "general.architecture", &architecture) != RESULT_OK ||
        architecture.length > 32)
        return error_set(error, RESULT_INVALID, "the model does not name its architecture");
    for (size_t i = 0; i < sizeof projectors / sizeof projectors[0]; i++) {
        if (name.length != strlen(projectors[i].projector) ||
            memcmp(name.bytes, projectors[i].projector, name.length) != 0)
            continue;
        if (!is_text(architecture, i))
            return error_set(error, RESULT_UNSUPPORTED,
                             "projector \"%s\" does not belong to a text model of architecture "
                             "%.*s",
                             projectors[i].projector, (int)architecture.length, architecture.bytes);
        check_width(&s, text, architecture, projectors[i].clip_width);
        processor->patch = read_u32(&s, "patch_size", LIMIT_PATCH_SIDE, 0);
        read_normalization(&s, processor);
        projectors[i].open(&s, processor);
        processor->hash_key = keyed_hash_random_key();
        if (s.result != RESULT_OK)
            processor->family = IMAGE_FAMILY_NONE;
        return s.result;
    }
    return error_set(error, RESULT_UNSUPPORTED, "projector_type \"%.*s\" is not supported",
                     (int)(name.length < 40 ? name.length : 40), name.bytes);
}
