/*
 * An image processor: the preparation of an image for a checkpoint's vision tower, as in Hugging
 * Face's image processors and processors. It decides the size of the resized image, its tiles, the
 * number of its tokens, and the text that replaces the marker that the chat template wrote for it.
 *
 *   image_decoder_probe -> image_processor_plan   (nothing allocated: reject, count tokens)
 *   image_processor_expand                        (the prompt)
 *   image_decoder_run   -> image_processor_run    (pixels, and the sizes for an image_record)
 *
 * Pixels stay bytes: rescaling and normalizing is one multiplication and one addition for each
 * channel, done by the worker (scale, bias). An open processor is immutable, so threads share it.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_PROCESSOR_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "frontend/image/image_pixels.h"
#include "frontend/image/image_resizer.h"
#include "proto/image_record.h"
#include "proto/json_value.h"
#include "proto/keyed_hash.h"
#include "proto/limits.h"
#include "proto/result.h"

/* Kinds of image processors; several model_types share one. */
enum image_family {
    IMAGE_FAMILY_NONE,     /* the checkpoint has no vision part */
    IMAGE_FAMILY_QWEN,     /* qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5 and their mixtures */
    IMAGE_FAMILY_GEMMA3,   /* one fixed square */
    IMAGE_FAMILY_GEMMA4,   /* aspect kept, pooled tokens */
    IMAGE_FAMILY_IDEFICS3, /* idefics3, smolvlm: tiles, and the whole image as one more */
    IMAGE_FAMILY_LLAVA,    /* the middle square of the image */
    IMAGE_FAMILY_TILES,    /* internvl, aya_vision, cohere2_vision: a grid of squares, and the whole
                              image after it */
    IMAGE_FAMILY_MOSAIC, /* llava_next, llava_onevision, deepseek_vl_v2: the whole image, and a grid of squares */
    IMAGE_FAMILY_APART,  /* lfm2_vl: aspect kept; or a grid of squares, and the whole image after it
                              in a size of its own */
    IMAGE_FAMILY_PADDED, /* kimi_vl, kimi_k25: aspect kept, black pixels at the right and below */
    IMAGE_FAMILY_CENTRED, /* janus: aspect kept, in the middle of a square */
    IMAGE_FAMILY_CANVAS,  /* mllama: aspect kept, black pixels up to a grid of squares */
    IMAGE_FAMILY_PIXTRAL  /* mistral3, pixtral: aspect kept, a token after each line */
};

/* How videos are sampled and placed (video_processor.h). */
enum video_rule {
    VIDEO_RULE_NONE,
    VIDEO_RULE_QWEN2,   /* qwen2_vl: temporal patches are one apart */
    VIDEO_RULE_QWEN2_5, /* qwen2_5_vl: they are apart by seconds */
    VIDEO_RULE_OMNI,    /* qwen2_5_omni: likewise, of the rate that was asked for */
    VIDEO_RULE_QWEN3,   /* qwen3_vl, qwen3_5 and their mixtures: each has its time as text */
    VIDEO_RULE_GLM4V,   /* glm4v and its mixture: likewise, after it */
    VIDEO_RULE_GEMMA4,  /* gemma4: frames are images, each with its time as text */
    VIDEO_RULE_SMOLVLM  /* smolvlm: likewise, after a line about the video */
};

/* Texts of the marker and of its replacement; empty if the family has none. */
struct image_tokens {
    char marker[LIMIT_IMAGE_MARKER_BYTES]; /* the template writes it once for an image */
    char soft[LIMIT_IMAGE_MARKER_BYTES];   /* a placeholder: a feature row replaces it */
    char begin[LIMIT_IMAGE_MARKER_BYTES];  /* before a run of placeholders */
    char end[LIMIT_IMAGE_MARKER_BYTES];    /* after it */
    char whole[LIMIT_IMAGE_MARKER_BYTES];  /* idefics3, tiles, apart: before the whole image */
    char tile[LIMIT_IMAGE_MARKER_BYTES];   /* tiles: before the number of a tile and its run */
    char after
        [LIMIT_IMAGE_MARKER_BYTES]; /* tiles: after each tile's run; pixtral: after each line's but the last */
};

struct image_processor {
    enum image_family family;
    enum image_filter filter;
    enum image_arithmetic arithmetic;
    uint32_t patch;      /* side of a patch in pixels */
    uint32_t merge;      /* patches of a placeholder each way: merged (qwen), pooled (gemma4) */
    uint32_t min_pixels; /* qwen: of the resized image */
    uint32_t max_pixels; /* qwen */
    bool
        framed; /* qwen: a placeholder after each line and two around the image, as in hunyuan_vl */
    bool lifts; /* qwen: a side below a square is scaled up first, as in paddleocr_vl */
    uint32_t frames; /* qwen: that the two bounds count for an image; glm4v: 2, and a side below a
                           * square is scaled up first */
    uint32_t min_tokens; /* apart: placeholders of the whole image */
    uint32_t max_tokens; /* gemma4: placeholders of an image; apart: as above */
    float tolerance;     /* apart: times max_tokens, more placeholders make a grid */
    uint32_t
        most_side; /* gemma4, kimi_vl: patches of a side that the tower has positions for; else 0 */
    uint32_t max_patches; /* padded: whole ones of the resized image */
    uint32_t fit_side;    /* padded: patches of a side that larger images are resized to; or 0 */
    uint32_t side;        /* gemma3, idefics3, llava, tiles, apart, canvas: of a tile */
    uint32_t side_tokens; /* gemma3, idefics3, llava, tiles, apart: placeholders of a tile */
    uint32_t
        longest_edge; /* idefics3: length of every resized image's longer side; pixtral: its maximum */
    uint32_t shortest_edge; /* llava: length of the shorter side before the cut; 0: no cut */
    uint32_t min_tiles;     /* tiles, apart, deepseek_ocr: of a grid */
    uint32_t max_tiles;     /* and canvas */
    bool least_upscaling;   /* tiles: how the grid is chosen; else by the aspect */
    bool split;             /* idefics3, apart: cut into tiles */
    uint32_t min_side;      /* centred: of the resized image, pixels */
    bool truncates;         /* centred: sides are rounded down, else to nearest */
    bool omits_whole;       /* apart: no whole image after a grid */
    struct {
        uint16_t rows;
        uint16_t columns;
    } grids[LIMIT_IMAGE_GRIDS]; /* mosaic: the ones to choose from, in tiles */
    uint32_t grid_count;
    uint32_t mosaic_tiles; /* mosaic: features of more tiles are resized; 0: never */
    bool pads_squares;     /* mosaic: of several images each is one padded square */
    bool views;            /* mosaic: deepseek_vl_v2, fitted and padded */
    uint32_t
        whole_side; /* mosaic: deepseek_ocr, of the whole image's own square, which is padded; else 0 */
    uint8_t pad_colour[IMAGE_CHANNELS]; /* mosaic, padded, centred */
    float scale[IMAGE_CHANNELS];
    float bias[IMAGE_CHANNELS];
    struct image_tokens tokens;
    enum video_rule video_rule;
    struct keyed_hash_key hash_key;
};

/* Contents get the same hashes from every processor of these settings that is given this key. Without
 * it the key is random. */
void image_processor_set_key(struct image_processor *processor, const struct keyed_hash_key *key);

/* The JSON of a checkpoint; all but `config` may be absent. */
struct image_processor_files {
    struct json_value config;       /* config.json */
    struct json_value preprocessor; /* preprocessor_config.json */
    struct json_value processor;    /* processor_config.json; its image_processor has precedence */
    struct json_value tokenizer;    /* tokenizer_config.json: texts of tokens */
};

/*
 * IMAGE_FAMILY_NONE and RESULT_OK if config.json has no vision part. RESULT_UNSUPPORTED for a
 * vision part or setting that is not implemented (the text names it), RESULT_INVALID for a setting
 * that is out of range or contradicts config.json.
 */
enum result image_processor_open(const struct image_processor_files *files,
                                 struct image_processor *processor,
                                 struct error_text *error) RESULT_CHECKED;
/* The same from a directory with these files. */
enum result image_processor_open_folder(int folder_fd, struct image_processor *processor,
                                        struct error_text *error) RESULT_CHECKED;

struct gguf_file;
/* The same for a GGUF model, from its projector file (mmproj) and its own. RESULT_UNSUPPORTED for a
 * projector that is not known or belongs to another kind of text model; errors name the key. */
enum result image_processor_open_mmproj(const struct gguf_file *tower, const struct gguf_file *text,
                                        struct image_processor *processor,
                                        struct error_text *error) RESULT_CHECKED;

enum image_detail {
    IMAGE_DETAIL_AUTO, /* as the checkpoint says; "high" is the same */
    IMAGE_DETAIL_LOW   /* qwen: at most 512 x 512 pixels; gemma4: 70 tokens; tiled ones: no tiles */
};

/* A request's settings for one image; zeroed: none. */
struct image_request {
    enum image_detail detail;
    /* resize_shape: the image is first fitted into this box, larger or smaller, aspect kept, by
     * PIL's bicubic. 0: not asked. */
    uint32_t box_width;
    uint32_t box_height;
    /* Of the prompt, 0 as 1. Of several images llava_onevision makes no tiles, deepseek_vl_v2 of more than two. */
    uint32_t images;
};

struct image_plan {
    uint32_t width; /* of the source image, upright */
    uint32_t height;
    uint32_t boxed_width; /* after the request's box; the same as above without one */
    uint32_t boxed_height;
    uint32_t first_width; /* idefics3: after its first resizing, to the longest edge; else 0 */
    uint32_t first_height;
    uint32_t wanted_width; /* after the first resizing: for image_decoder_run() */
    uint32_t wanted_height;
    uint32_t resized_width; /* before the cut into tiles */
    uint32_t resized_height;
    uint32_t
        cut_x; /* llava: where the tile begins in the resized image; centred: the other way round */
    uint32_t cut_y;
    bool whole_of_source; /* the whole image's tile is not resized from the cut one */
    bool without_whole;   /* the tiles are the grid's only */
    uint32_t rows;        /* of tiles; 0 if the image is not cut */
    uint32_t columns;
    uint32_t tile_width; /* padded, canvas: after the padding */
    uint32_t tile_height;
    uint32_t tiles;  /* rows x columns, and the whole image after them unless without_whole; or 1 */
    uint32_t grid_h; /* rows and columns of patches of a tile */
    uint32_t grid_w;
    uint32_t lines;                      /* pixtral: of placeholders, with tokens between; else 0 */
    uint32_t tile_tokens;                /* placeholders of a tile, in one piece or in lines */
    uint32_t mosaic[IMAGE_MOSAIC_SIZES]; /* as in image_record */
    uint32_t mosaic_tokens; /* mosaic: placeholders after those of the first tile; else 0 */
    uint32_t token_count;   /* of all tiles */
    size_t byte_count;      /* of all tiles' pixels */
    /* apart, deepseek_ocr: the whole image after the grid, in a size of its own, which the three numbers above
     * do not count; else 0 */
    uint32_t apart_width;
    uint32_t apart_height;
    uint32_t apart_tokens;
};

/* Whether the image has a whole one apart, which is a record of its own after that of the grid, with
 * this plan. */
bool image_plan_apart(const struct image_plan *plan, struct image_plan *whole);

/*
 * Plans an image of `width` x `height` (1..LIMIT_SOURCE_IMAGE_SIDE each). RESULT_INVALID for a
 * shape that the processor rejects (thinner than 200 to 1, a side of 0, or more patches along a
 * side than the tower has positions), RESULT_TOO_LARGE if the result exceeds LIMIT_IMAGE_*;
 * RESULT_UNSUPPORTED for IMAGE_FAMILY_NONE.
 */
enum result image_processor_plan(const struct image_processor *processor, uint32_t width,
                                 uint32_t height, const struct image_request *request,
                                 struct image_plan *plan, struct error_text *error) RESULT_CHECKED;

/* Appends the text that replaces one tokens.marker in the rendered prompt, with plan->token_count
 * and plan->apart_tokens times tokens.soft. The text is the processor's own, so its special tokens are trusted. */
void image_processor_expand(const struct image_processor *processor, const struct image_plan *plan,
                            struct text_buffer *text);

/*
 * Resizes and cuts. `pixels` is the plan's image, or that image decoded at a fraction of its
 * size; of a whole image apart, the same pixels as for its grid. Fills out[plan->byte_count]: u8 [tiles, tile_height, tile_width, 3], and the hash of these
 * bytes and the plan: keyed, equal for equal content while this processor is open, never zero.
 * RESULT_OUT_OF_MEMORY.
 */
enum result image_processor_run(const struct image_processor *processor,
                                const struct image_plan *plan, const struct image_pixels *pixels,
                                uint8_t *out, uint8_t hash[IMAGE_HASH_BYTES],
                                struct error_text *error) RESULT_CHECKED;

/* The part of image_processor_plan() for IMAGE_FAMILY_CANVAS. */
enum result image_canvas_plan(const struct image_processor *processor, bool low,
                              struct image_plan *plan, struct error_text *error) RESULT_CHECKED;

/* The parts of image_processor_plan() and image_processor_run() for IMAGE_FAMILY_MOSAIC. `low`: no
 * tiles, in processors that pad such images to a square; `source`: after the request's box. */
enum result image_mosaic_plan(const struct image_processor *processor, bool low,
                              struct image_plan *plan, struct error_text *error) RESULT_CHECKED;
enum result image_mosaic_run(const struct image_processor *processor, const struct image_plan *plan,
                             const struct image_pixels *source, uint8_t *out,
                             struct error_text *error) RESULT_CHECKED;

#endif
