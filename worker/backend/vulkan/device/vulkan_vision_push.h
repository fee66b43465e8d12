/*
 * Push constants of the kernels of vision towers, as in vulkan_push.h. They are kernels over one
 * row; "own" is VULKAN_ROW_OWN.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_VISION_PUSH_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_VISION_PUSH_H

#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/plan/op_list.h"

/* A tile of an image that is being encoded (shaders/patches.glsl). */
struct vulkan_patch_image {
    uint64_t pixels;      /*  0: u8 [frames, lines, line_bytes]: red, green, blue; of a sound f32 */
    uint32_t line_bytes;  /*  8 */
    uint32_t height;      /* 12: patches; of a sound mel rows */
    uint32_t width;       /* 16 */
    float scale[3];       /* 20: of red, green, blue */
    float bias[3];        /* 32 */
    uint32_t frame_bytes; /* 44: 0: all frames of a patch are the same image */
    uint32_t unused[4];   /* 48 */
};
static_assert(sizeof(struct vulkan_patch_image) == 64, "byte map");

/* own: whether channels follow pixels. */
struct vulkan_patch_rows_push {
    uint64_t places;                    /*  0: struct vulkan_step_sight [rows] */
    uint64_t images;                    /*  8: struct vulkan_patch_image [tiles] */
    struct vulkan_outputs_push outputs; /* 16: [rows, columns] */
    uint32_t columns;                   /* 48: zeros from 3 * frames * side * side on */
    uint32_t side;                      /* 52: of a patch, pixels */
    uint32_t frames;                    /* 56 */
    float gain;                         /* 60 */
    float shift;                        /* 64 */
    uint32_t first_frame;               /* 68 */
};
static_assert(sizeof(struct vulkan_patch_rows_push) == 72, "byte map");

#define VULKAN_POSITIONS_LEAD         8u /* after enum position_form */
#define VULKAN_POSITIONS_LEAD_RESIZED 9u

/* own: enum position_form, or VULKAN_POSITIONS_LEAD, or of CUBIC_AVERAGED VULKAN_POSITIONS_LEAD_RESIZED. */
struct vulkan_patch_positions_push {
    uint64_t x;       /*  0: f32 [rows, columns], in place */
    uint64_t table;   /*  8: f32 [side * side, columns], or of axes [2 * side, columns]; of LINE
                         [side, columns]; of
                         LEAD and LEAD_RESIZED [1 + side * side, columns], then the lead row */
    uint64_t places;  /* 16: struct vulkan_step_sight [rows of patches] */
    uint64_t images;  /* 24 */
    uint32_t columns; /* 32 */
    uint32_t side;    /* 36: of the table */
    uint32_t merge;   /* 40: patches along a row's square: 1 for rows of patches */
    uint32_t unused;  /* 44 */
};
static_assert(sizeof(struct vulkan_patch_positions_push) == 48, "byte map");

struct vulkan_sound_rows_push {
    uint64_t places;                    /*  0: struct vulkan_step_sight [rows] */
    uint64_t images;                    /*  8: struct vulkan_patch_image [sounds] */
    struct vulkan_outputs_push outputs; /* 16: [rows, columns] */
    uint32_t columns;                   /* 48: zeros from 3 * mels on */
    uint32_t mels;                      /* 52 */
    uint32_t tap;                       /* 56 */
    uint32_t lines;                     /* 60: 0: the form with a tap */
};
static_assert(sizeof(struct vulkan_sound_rows_push) == 64, "byte map");

struct vulkan_sound_taps_push {
    uint64_t x;           /*  0: f32 [rows, columns] */
    uint64_t out;         /*  8: f32 [rows, out_columns] */
    uint64_t places;      /* 16: struct vulkan_step_sight [rows] */
    uint64_t images;      /* 24: struct vulkan_patch_image [sounds] */
    uint32_t columns;     /* 32 */
    uint32_t out_columns; /* 36 */
    uint32_t tap;         /* 40 */
    uint32_t unused;      /* 44 */
};
static_assert(sizeof(struct vulkan_sound_taps_push) == 48, "byte map");

/* Of conv_2d and conv_depthwise (shaders/feature_map.glsl). */
struct vulkan_map_push {
    uint64_t x;                 /*  0: f32 [rows, x_columns] */
    uint64_t out;               /*  8: f32 [rows, out_columns] */
    uint64_t kernel;            /* 16: f32 [channels of the output, taps * channels] */
    uint64_t places;            /* 24: struct vulkan_step_sight [rows] */
    uint64_t images;            /* 32: struct vulkan_patch_image [tiles] */
    uint32_t x_columns;         /* 40 */
    uint32_t out_columns;       /* 44 */
    struct row_cells in;        /* 48 */
    struct row_cells out_cells; /* 60 */
    uint32_t taps_y;            /* 72 */
    uint32_t taps_x;            /* 76 */
    uint32_t before_y;          /* 80 */
    uint32_t before_x;          /* 84 */
    uint32_t unit;              /* 88: mel rows of a row of a sound; 0: images */
    uint32_t side;              /* 92: of merged squares */
};
static_assert(sizeof(struct vulkan_map_push) == 96, "byte map");

struct vulkan_part_norm_push {
    uint64_t x;            /*  0: f32 [rows, columns], in place */
    uint64_t weights;      /*  8: f32 [part_columns] */
    uint32_t columns;      /* 16 */
    uint32_t parts;        /* 20 */
    uint32_t part_columns; /* 24 */
    float epsilon;         /* 28 */
};
static_assert(sizeof(struct vulkan_part_norm_push) == 32, "byte map");

struct vulkan_line_moments_push {
    uint64_t x;           /*  0: f32 [rows, columns] */
    uint64_t out;         /*  8: f32 [rows, out_columns] */
    uint32_t columns;     /* 16 */
    uint32_t out_columns; /* 20 */
    uint32_t lines;       /* 24 */
    uint32_t values;      /* 28: of a line */
};
static_assert(sizeof(struct vulkan_line_moments_push) == 32, "byte map");

struct vulkan_past_norm_push {
    uint64_t x;              /*  0: f32 [rows, columns], in place */
    uint64_t moments;        /*  8: f32 [rows, moment_columns] */
    uint64_t weights;        /* 16: f32 [channels] */
    uint64_t places;         /* 24: struct vulkan_step_sight [rows] */
    uint32_t columns;        /* 32 */
    uint32_t moment_columns; /* 36 */
    uint32_t lines;          /* 40 */
    uint32_t values;         /* 44: of a line */
    uint32_t channels;       /* 48 */
    float epsilon;           /* 52 */
};
static_assert(sizeof(struct vulkan_past_norm_push) == 56, "byte map");

struct vulkan_embed_over_push {
    uint64_t rows;       /*  0: struct vulkan_step_row [rows] */
    uint64_t sampled;    /*  8: u32, by logit row of the step before */
    uint64_t sights;     /* 16: struct vulkan_step_sight [rows], or 0 */
    uint64_t table;      /* 24: f32 [table_rows, columns] */
    uint64_t out;        /* 32: f32 [rows, columns] */
    uint32_t columns;    /* 40 */
    uint32_t table_rows; /* 44 */
    uint32_t first;      /* 48: token of the table's first row */
    uint32_t unused;     /* 52 */
};
static_assert(sizeof(struct vulkan_embed_over_push) == 56, "byte map");

enum {
    VULKAN_NEAR_ATTENTION_INVOCATIONS,
    VULKAN_NEAR_ATTENTION_HEAD_DIM,
    VULKAN_NEAR_ATTENTION_HEADS,
    VULKAN_NEAR_ATTENTION_BEFORE,
    VULKAN_NEAR_ATTENTION_CONSTANTS
};
struct vulkan_near_attention_push {
    uint64_t x;         /*  0: f32 [rows, x_columns] */
    uint64_t out;       /*  8: f32 [rows, heads * head_dim] */
    uint64_t distances; /* 16: f32 [before + 1, heads * head_dim] */
    uint64_t places;    /* 24: struct vulkan_step_sight [rows] */
    uint32_t x_columns; /* 32 */
    uint32_t queries;   /* 36: first columns */
    uint32_t keys;      /* 40 */
    uint32_t values;    /* 44 */
    float scale;        /* 48 */
    float soft_cap;     /* 52: 0: none */
};
static_assert(sizeof(struct vulkan_near_attention_push) == 56, "byte map");

/* own: enum activation. */
struct vulkan_activate_push {
    uint64_t x;                         /*  0: f32 [rows, row_columns] */
    struct vulkan_outputs_push outputs; /*  8: likewise; zeros from `columns` on */
    uint32_t row_columns;               /* 40 */
    uint32_t columns;                   /* 44 */
    struct xielu_params xielu;          /* 48: of XIELU */
};
static_assert(sizeof(struct vulkan_activate_push) == 64, "byte map");

struct vulkan_clip_columns_push {
    uint64_t x;           /*  0: f32 [rows, columns] */
    uint64_t out;         /*  8: f32 [rows, out_columns], from the first column that is written */
    uint32_t columns;     /* 16 */
    uint32_t out_columns; /* 20 */
    float least;          /* 24 */
    float most;           /* 28 */
    uint32_t stride;      /* 32: between columns of out */
    uint32_t unused;      /* 36 */
};
static_assert(sizeof(struct vulkan_clip_columns_push) == 40, "byte map");

struct vulkan_patch_table_push {
    struct vulkan_matrix_push weights; /*  0: [tiles * places, columns] */
    uint64_t x;                        /* 24: f32 [rows, row_columns], in place */
    uint64_t places;                   /* 32: struct vulkan_step_sight [rows] */
    uint32_t columns;                  /* 40 */
    uint32_t row_columns;              /* 44 */
    uint32_t tiles;                    /* 48: 0 or 1 */
    uint32_t tile_places;              /* 52: 0: none */
    uint32_t taking_part;              /* 56: 1 leads, 2 patches, 4 pads */
    float scale;                       /* 60 */
};
static_assert(sizeof(struct vulkan_patch_table_push) == 64, "byte map");

struct vulkan_pool_rows_push {
    uint64_t x;                         /*  0: f32 [rows * count, columns] */
    struct vulkan_outputs_push outputs; /*  8: [rows, columns] */
    uint32_t columns;                   /* 40 */
    uint32_t count;                     /* 44 */
    float scale;                        /* 48 */
    uint32_t unused;                    /* 52 */
};
static_assert(sizeof(struct vulkan_pool_rows_push) == 56, "byte map");

struct vulkan_join_padded_push {
    uint64_t x;                         /*  0: f32 [rows, columns / (join * join)] */
    struct vulkan_outputs_push outputs; /*  8: [rows, columns] */
    uint32_t columns;                   /* 40 */
    uint32_t side;                      /* 44: of a tile, rows of x */
    uint32_t join;                      /* 48 */
    uint32_t unused;                    /* 52 */
};
static_assert(sizeof(struct vulkan_join_padded_push) == 56, "byte map");

struct vulkan_neighbour_rows_push {
    uint64_t x;                         /*  0: f32 [rows of patches, columns / 9] */
    struct vulkan_outputs_push outputs; /*  8: [rows, columns] */
    uint64_t places;                    /* 40: struct vulkan_step_sight [rows of patches] */
    uint64_t images;                    /* 48: struct vulkan_patch_image [tiles] */
    uint32_t columns;                   /* 56 */
    uint32_t merge;                     /* 60: patches along a square */
    uint32_t lead;                      /* 64: 1: tiles begin with a lead row */
    uint32_t square;                    /* 68: patches of a row: 1, or those of a square */
    uint32_t step;                      /* 72 */
    uint32_t unused;                    /* 76 */
};
static_assert(sizeof(struct vulkan_neighbour_rows_push) == 80, "byte map");

enum {
    VULKAN_TILE_ATTENTION_INVOCATIONS,
    VULKAN_TILE_ATTENTION_HEAD_DIM,
    VULKAN_TILE_ATTENTION_QUERIES,
    VULKAN_TILE_ATTENTION_SIDE,
    VULKAN_TILE_ATTENTION_FEATURES,
    VULKAN_TILE_ATTENTION_CONSTANTS
};
struct vulkan_tile_attention_push {
    uint64_t x;       /*  0: f32 [rows, x_columns] */
    uint64_t out_f32; /*  8: [rows, out_columns] */
    uint64_t places;  /* 16: struct vulkan_step_sight [rows of patches] */
    uint64_t images;  /* 24: struct vulkan_patch_image [tiles] */
    uint64_t
        tables; /* 32: f32 [line_rows, head_dim], then [column_rows, head_dim], then q|k|v of a row of zeros; 0 of
                               features */
    uint32_t x_columns;    /* 40 */
    uint32_t out_columns;  /* 44 */
    uint32_t query_offset; /* 48 */
    uint32_t key_offset;   /* 52 */
    uint32_t value_offset; /* 56 */
    uint32_t line_rows;    /* 60 */
    uint32_t column_rows;  /* 64 */
    uint32_t window;       /* 68 */
    uint32_t merge;        /* 72: patches along a square */
    uint32_t lead;         /* 76: 1: tiles begin with a lead row */
    float scale;           /* 80 */
    uint32_t unused;       /* 84 */
};
static_assert(sizeof(struct vulkan_tile_attention_push) == 88, "byte map");

struct vulkan_feature_write_push {
    uint64_t x;               /*  0: f32 [rows, columns] */
    uint64_t feature_rows;    /*  8: u32 [rows] of the pool */
    uint64_t features;        /* 16: f32 [pool rows, feature_columns], from the part's first on */
    uint32_t columns;         /* 24 */
    uint32_t feature_columns; /* 28 */
};
static_assert(sizeof(struct vulkan_feature_write_push) == 32, "byte map");

enum {
    VULKAN_CROSS_ATTENTION_INVOCATIONS,
    VULKAN_CROSS_ATTENTION_HEAD_DIM,
    VULKAN_CROSS_ATTENTION_HEADS,
    VULKAN_CROSS_ATTENTION_KV_HEADS,
    VULKAN_CROSS_ATTENTION_CONSTANTS
};
struct vulkan_cross_attention_push {
    uint64_t x;               /*  0: f32 [rows, x_columns] */
    uint64_t out_f32;         /*  8: [rows, heads * head_dim] */
    uint64_t sights;          /* 16: struct vulkan_step_sight [rows] */
    uint64_t features;        /* 24: f32 [pool rows, feature_columns], from the layer's keys on */
    uint64_t ranges;          /* 32: struct feature_range [], which sights name */
    uint32_t x_columns;       /* 40 */
    uint32_t query_offset;    /* 44 */
    uint32_t feature_columns; /* 48 */
    float scale;              /* 52 */
};
static_assert(sizeof(struct vulkan_cross_attention_push) == 56, "byte map");

struct vulkan_seeing_rows_push {
    uint64_t x;       /*  0: f32 [rows, columns], in place */
    uint64_t sights;  /*  8: struct vulkan_step_sight [rows] */
    uint32_t columns; /* 16 */
    uint32_t unused;  /* 20 */
};
static_assert(sizeof(struct vulkan_seeing_rows_push) == 24, "byte map");

struct vulkan_feature_place_push {
    uint64_t x;               /*  0: f32 [features, columns] */
    uint64_t newline;         /*  8: f32 [columns]; 0 with frames */
    uint64_t mixes;           /* 16: struct feature_mix [rows] */
    uint64_t features;        /* 24: f32 [pool rows, feature_columns] */
    uint32_t columns;         /* 32 */
    uint32_t feature_columns; /* 36 */
    uint32_t kind;            /* 40: enum feature_kind */
    uint32_t unused;          /* 44 */
};
static_assert(sizeof(struct vulkan_feature_place_push) == 48, "byte map");

#endif
