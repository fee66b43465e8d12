/*
 * For each shader its push constants as a byte map and the numbers of its specialization constants,
 * in the order of the shader's declarations. Constant 0 is always the number of invocations of a
 * workgroup. Addresses are device addresses; 0 where a variant does not use one.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_PUSH_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_PUSH_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* --- weights (shaders/weight_blocks.glsl) --- */

struct vulkan_matrix_push {
    uint64_t codes;  /*  0 */
    uint64_t high;   /*  8 */
    uint64_t scales; /* 16 */
};
static_assert(sizeof(struct vulkan_matrix_push) == 24, "byte map");

/* --- products with few rows --- */

/* x: q8 codes or f32 [rows, k]; x_terms: q8's {d, d * sum} [rows, k / 32]; outputs: n columns of
 * rows, and n / 2 when gated. */
struct vulkan_linear_dot_push {
    struct vulkan_matrix_push weights; /*  0: [n, k]; gated: the gate's n / 2 rows, then up's */
    uint64_t x;                        /* 24 */
    uint64_t x_terms;                  /* 32 */
    uint64_t norm_weights;             /* 40: f32 [k] */
    uint64_t out_f32;                  /* 48 */
    uint64_t out_f16;                  /* 56 */
    uint64_t out_q8;                   /* 64 */
    uint64_t out_q8_terms;             /* 72 */
    uint32_t n;                        /* 80 */
    uint32_t k;                        /* 84 */
    float epsilon;                     /* 88 */
    float weight_offset;               /* 92 */
    uint32_t out_stride; /* 96: columns from one row of f32 or f16 output to the next */
    uint32_t rows;       /* 100: of x and the output; linear_dot has a constant for it */
};
static_assert(sizeof(struct vulkan_linear_dot_push) == 104, "byte map");
static_assert(offsetof(struct vulkan_linear_dot_push, out_f32) == 48, "byte map");
static_assert(offsetof(struct vulkan_linear_dot_push, n) == 80, "byte map");

enum vulkan_linear_input {
    VULKAN_LINEAR_Q8,
    VULKAN_LINEAR_F32,
    VULKAN_LINEAR_NORM, /* f32, through an rms norm */
    VULKAN_LINEAR_F16   /* of linear_register alone */
};
enum vulkan_linear_epilogue {
    VULKAN_LINEAR_STORE,
    VULKAN_LINEAR_ADD, /* to what out_f32 holds */
    VULKAN_LINEAR_GATE_SILU,
    VULKAN_LINEAR_GATE_GELU
};
/* Forms of an output tensor, as bits. Tiled and staged are f16 in other orders
 * (shaders/tiled_halves.glsl, staged_halves.glsl) and in the same place, so a tensor has one of the
 * three. */
enum vulkan_form {
    VULKAN_FORM_F32 = 1,
    VULKAN_FORM_F16 = 2,
    VULKAN_FORM_Q8 = 4,
    VULKAN_FORM_TILED = 8,
    VULKAN_FORM_STAGED = 16,
    VULKAN_HALF_FORMS = VULKAN_FORM_F16 | VULKAN_FORM_TILED | VULKAN_FORM_STAGED
};

enum vulkan_linear_dot_constant {
    VULKAN_LINEAR_DOT_INVOCATIONS,
    VULKAN_LINEAR_DOT_WEIGHT_KIND,
    VULKAN_LINEAR_DOT_ROWS,
    VULKAN_LINEAR_DOT_INPUT,         /* enum vulkan_linear_input */
    VULKAN_LINEAR_DOT_EPILOGUE,      /* enum vulkan_linear_epilogue */
    VULKAN_LINEAR_DOT_FORMS,         /* of the output; q8 only when gated */
    VULKAN_LINEAR_DOT_OUTPUTS,       /* rows of W that a team of subgroups works on at once */
    VULKAN_LINEAR_DOT_SPLIT,         /* subgroups of a team */
    VULKAN_LINEAR_DOT_DEPTH,         /* blocks that a lane has loaded of each of those rows */
    VULKAN_LINEAR_DOT_SHARED_BLOCKS, /* k / 32: activations in shared memory; 0: not */
    VULKAN_LINEAR_DOT_SUBGROUPS,     /* of a workgroup, at most */
    VULKAN_LINEAR_DOT_HAS_DOT,
    VULKAN_LINEAR_DOT_AHEAD, /* 0, 1, 2: how early the next blocks are loaded */
    VULKAN_LINEAR_DOT_CONSTANTS
};

/* linear_register takes vulkan_linear_dot_push too: x f16 [rows, k] or tiled, no norm, no q8. */
enum vulkan_linear_register_constant {
    VULKAN_LINEAR_REGISTER_INVOCATIONS,
    VULKAN_LINEAR_REGISTER_WEIGHT_KIND,
    VULKAN_LINEAR_REGISTER_ROWS,     /* rounded up to a multiple of 8 */
    VULKAN_LINEAR_REGISTER_EPILOGUE, /* enum vulkan_linear_epilogue */
    VULKAN_LINEAR_REGISTER_FORMS,
    VULKAN_LINEAR_REGISTER_OUTPUT_TILES, /* of 16 outputs, of a team of subgroups */
    VULKAN_LINEAR_REGISTER_SUBGROUPS,    /* of a workgroup */
    VULKAN_LINEAR_REGISTER_SPLIT,        /* of a team: columns are dealt to them in turn */
    VULKAN_LINEAR_REGISTER_AHEAD,        /* whether steps are loaded one ahead */
    VULKAN_LINEAR_REGISTER_TILED,        /* the form of x */
    VULKAN_LINEAR_REGISTER_CONSTANTS
};

/* linear_register_probe: address of the elements, uint [lanes][16]. */
struct vulkan_linear_register_probe_push {
    uint64_t elements; /* 0 */
};

/* work_mark: adds one to a uint and writes the sum to another. */
struct vulkan_work_mark_push {
    uint64_t count;    /* 0 */
    uint64_t finished; /* 8 */
};
static_assert(sizeof(struct vulkan_work_mark_push) == 16, "byte map");

/* --- products with many rows (shaders/linear_matrix.comp, linear_matrix2.comp, linear_tile.comp,
 * linear_plain.comp, matrix_unpack.comp) --- */

/* x: [rows, k], f16 (linear_tile, linear_plain: f32); outputs: [rows, out_stride]. */
struct vulkan_linear_matrix_push {
    struct vulkan_matrix_push weights; /*  0: [n, k]; gated: the gate's n / 2 rows, then up's */
    uint64_t x;                        /* 24 */
    uint64_t out_f32;                  /* 32 */
    uint64_t out_f16;                  /* 40 */
    uint64_t partials;                 /* 48: f32, sums of splits */
    uint64_t counters;                 /* 56: u32 per tile, zeros before and after */
    uint32_t rows;                     /* 64 */
    uint32_t n;                        /* 68 */
    uint32_t k;                        /* 72 */
    uint32_t out_stride;               /* 76: columns from one row of an output to the next */
    uint32_t splits;                   /* 80 */
    uint32_t split_steps;              /* 84: steps of the tile's k that one split does */
};
static_assert(sizeof(struct vulkan_linear_matrix_push) == 88, "byte map");
static_assert(offsetof(struct vulkan_linear_matrix_push, rows) == 64, "byte map");

/* A product by a kernel in PTX (ptx/linear_wgmma.c): x staged, out_f16 in the one form of `forms`. */
struct vulkan_linear_ptx_push {
    struct vulkan_linear_matrix_push matrix; /*  0 */
    uint32_t epilogue;                       /* 88: enum vulkan_linear_epilogue */
    uint32_t forms;                          /* 92 */
    uint64_t biases; /* 96: f32 [n], added to each row's products; 0: none */
};
static_assert(sizeof(struct vulkan_linear_ptx_push) == 104, "byte map");

enum vulkan_linear_matrix_constant {
    VULKAN_LINEAR_MATRIX_INVOCATIONS,
    VULKAN_LINEAR_MATRIX_WEIGHT_KIND,
    VULKAN_LINEAR_MATRIX_EPILOGUE, /* enum vulkan_linear_epilogue */
    VULKAN_LINEAR_MATRIX_FORMS,    /* of the output, f32 and f16 */
    VULKAN_LINEAR_MATRIX_TILE_ROWS,
    VULKAN_LINEAR_MATRIX_TILE_COLUMNS,
    VULKAN_LINEAR_MATRIX_TILE_K,
    VULKAN_LINEAR_MATRIX_PART_ROWS, /* of a subgroup (linear_tile, linear_plain: of an invocation)
                                     */
    VULKAN_LINEAR_MATRIX_PART_COLUMNS,
    VULKAN_LINEAR_MATRIX_UNIT_ROWS, /* of the device's matrix units, from here linear_matrix only */
    VULKAN_LINEAR_MATRIX_UNIT_COLUMNS,
    VULKAN_LINEAR_MATRIX_UNIT_K,
    VULKAN_LINEAR_MATRIX_STAGES,
    VULKAN_LINEAR_MATRIX_SPLIT,
    VULKAN_LINEAR_MATRIX_CONSTANTS,
    VULKAN_LINEAR_MATRIX_DEPTH = VULKAN_LINEAR_MATRIX_UNIT_ROWS, /* linear_fragment */
    VULKAN_LINEAR_MATRIX_LANES = VULKAN_LINEAR_MATRIX_UNIT_ROWS  /* linear_plain */
};

/* --- kernels over one row (shaders/row_forms.glsl): 0 where a form is not written --- */

struct vulkan_outputs_push {
    uint64_t f32;      /*  0 */
    uint64_t f16;      /*  8 */
    uint64_t q8;       /* 16 */
    uint64_t q8_terms; /* 24 */
};
static_assert(sizeof(struct vulkan_outputs_push) == 32, "byte map");

struct vulkan_embed_rows_push {
    struct vulkan_matrix_push weights;  /*   0: [vocab, columns] */
    uint64_t rows;                      /*  24: struct vulkan_step_row */
    uint64_t sampled;                   /*  32: u32, by logit row of the step before */
    uint64_t sequences;                 /*  40: struct vulkan_step_sequence */
    uint64_t tables;                    /*  48: u32 */
    uint64_t history;                   /*  56: u32 [blocks of group 0, 16], or 0 */
    struct vulkan_outputs_push outputs; /*  64 */
    uint32_t columns;                   /*  96 */
    uint32_t vocab_tokens;              /* 100 */
    float scale;                        /* 104 */
    union {                             /* 108 */
        uint32_t feature_columns;       /* of a row of the pool */
        uint32_t image_token;           /* without a pool: the token of all images */
    };
    uint64_t sights;   /* 112: struct vulkan_step_sight, or 0 */
    uint64_t features; /* 120: f32 [pool rows, feature_columns], or 0 */
};
static_assert(sizeof(struct vulkan_embed_rows_push) == 128, "byte map");

struct vulkan_feature_add_push {
    uint64_t x;               /*  0: f32 [rows, columns], in place */
    uint64_t sights;          /*  8 */
    uint64_t features;        /* 16: of the part */
    uint32_t columns;         /* 24 */
    uint32_t feature_columns; /* 28 */
};
static_assert(sizeof(struct vulkan_feature_add_push) == 32, "byte map");

struct vulkan_gather_rows_push {
    uint64_t x;                         /*  0: f32 [step rows, columns] */
    uint64_t logit_rows;                /*  8: u32 */
    struct vulkan_outputs_push outputs; /* 16 */
    uint32_t columns;                   /* 48 */
    uint32_t unused;                    /* 52 */
};
static_assert(sizeof(struct vulkan_gather_rows_push) == 56, "byte map");

struct vulkan_gate_push {
    uint64_t x;                         /*  0: f32 [rows, 2 * columns] */
    struct vulkan_outputs_push outputs; /*  8 */
    uint32_t out_columns;               /* 40: of its rows; zeros from `columns` on */
    uint32_t columns;                   /* 44 */
};
static_assert(sizeof(struct vulkan_gate_push) == 48, "byte map");

struct vulkan_rms_norm_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    uint64_t sources;                   /*  8: u32, which row of x, when listed */
    uint64_t weights;                   /* 16: f32 [columns] */
    struct vulkan_outputs_push outputs; /* 24 */
    uint32_t columns;                   /* 56 */
    float epsilon;                      /* 60 */
    float weight_offset;                /* 64 */
    uint32_t unused;                    /* 68 */
};
static_assert(sizeof(struct vulkan_rms_norm_push) == 72, "byte map");

struct vulkan_layer_norm_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    uint64_t weights;                   /*  8: f32 [columns] */
    struct vulkan_outputs_push outputs; /* 16 */
    uint32_t columns;                   /* 48 */
    float epsilon;                      /* 52 */
    float weight_offset;                /* 56 */
    uint32_t unused;                    /* 60 */
};
static_assert(sizeof(struct vulkan_layer_norm_push) == 64, "byte map");

struct vulkan_soft_cap_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    struct vulkan_outputs_push outputs; /*  8 */
    uint32_t columns;                   /* 40 */
    float scale;                        /* 44 */
    float cap;                          /* 48: 0: none */
    uint32_t unused;                    /* 52 */
};
static_assert(sizeof(struct vulkan_soft_cap_push) == 56, "byte map");

struct vulkan_gate_with_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    uint64_t y;                         /*  8: f32 [rows, y_stride] */
    struct vulkan_outputs_push outputs; /* 16 */
    uint32_t columns;                   /* 48 */
    uint32_t y_stride;                  /* 52 */
    uint32_t y_offset;                  /* 56 */
    uint32_t unused;                    /* 60 */
};
static_assert(sizeof(struct vulkan_gate_with_push) == 64, "byte map");

struct vulkan_add_rows_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    uint64_t y;                         /*  8: f32 [rows, columns] */
    struct vulkan_outputs_push outputs; /* 16 */
    uint32_t columns;                   /* 48 */
    float scale;                        /* 52 */
};
static_assert(sizeof(struct vulkan_add_rows_push) == 56, "byte map");

struct vulkan_scale_columns_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    uint64_t weights;                   /*  8: f32 [weight_columns] */
    struct vulkan_outputs_push outputs; /* 16 */
    uint32_t columns;                   /* 48 */
    uint32_t weight_columns;            /* 52: 1 or columns */
};
static_assert(sizeof(struct vulkan_scale_columns_push) == 56, "byte map");

/* All ops over streams, and moe_shared; fields that a kernel does not use are 0. */
struct vulkan_stream_push {
    uint64_t x;           /*  0: f32 [rows, x_streams * columns] */
    uint64_t y;           /*  8: f32, the second input */
    uint64_t out;         /* 16: f32 [rows, out_streams * columns] */
    uint32_t columns;     /* 24: of a stream */
    uint32_t x_streams;   /* 28 */
    uint32_t x_stream;    /* 32 */
    uint32_t out_streams; /* 36 */
    uint32_t out_stream;  /* 40: the one that is written; stream_add: the first of those */
    float deviations;     /* 44: of stream_cut */
};
static_assert(sizeof(struct vulkan_stream_push) == 48, "byte map");

struct vulkan_rms_norm_add_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    uint64_t y;                         /*  8: f32 [rows, columns], in place */
    uint64_t weights;                   /* 16: f32 [columns] */
    uint64_t next_weights;              /* 24: f32 [columns], or 0 */
    struct vulkan_outputs_push outputs; /* 32: of the next norm */
    uint32_t columns;                   /* 64 */
    float epsilon;                      /* 68 */
    float weight_offset;                /* 72 */
    float next_epsilon;                 /* 76 */
    float next_weight_offset;           /* 80 */
    uint32_t unused;                    /* 84 */
};
static_assert(sizeof(struct vulkan_rms_norm_add_push) == 88, "byte map");

struct vulkan_bias_add_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    uint64_t bias;                      /*  8: f32 [columns] */
    struct vulkan_outputs_push outputs; /* 16: f32 is x */
    uint32_t columns;                   /* 48 */
    uint32_t unused;                    /* 52 */
};
static_assert(sizeof(struct vulkan_bias_add_push) == 56, "byte map");

struct vulkan_short_conv_push {
    uint64_t x;                         /*  0: f32 [rows, stride] */
    uint64_t weights;                   /*  8: f32 [columns, taps], then biases [columns] */
    uint64_t state;                     /* 16: f32 [slots, slot_floats] of the layer */
    uint64_t rows;                      /* 24: struct vulkan_step_row */
    uint64_t sequences;                 /* 32: struct vulkan_step_sequence */
    uint64_t moves;                     /* 40: struct vulkan_step_move */
    uint64_t deferred;                  /* 48: f32 [places, place_floats] of the layer */
    struct vulkan_outputs_push outputs; /* 56 */
    uint32_t stride;                    /* 88: columns of x */
    uint32_t columns;                   /* 92: of the output */
    uint32_t taps;                      /* 96 */
    uint32_t slot_floats;               /* 100 */
    uint32_t place_floats;              /* 104 */
    uint32_t offset;                    /* 108: first column of x that is convolved */
};
static_assert(sizeof(struct vulkan_short_conv_push) == 112, "byte map");

struct vulkan_head_norm_gate_push {
    uint64_t x;                         /*  0: f32 [rows, columns] */
    uint64_t gates;                     /*  8: f32 [rows, gate_stride] */
    uint64_t weights;                   /* 16: f32 [head_dim] */
    struct vulkan_outputs_push outputs; /* 24 */
    uint32_t columns;                   /* 56 */
    uint32_t gate_stride;               /* 60 */
    uint32_t gate_offset;               /* 64: first column of the gates */
    uint32_t head_dim;                  /* 68 */
    float epsilon;                      /* 72 */
    uint32_t unused;                    /* 76 */
};
static_assert(sizeof(struct vulkan_head_norm_gate_push) == 80, "byte map");

struct vulkan_take_queries_push {
    uint64_t x;                         /*  0: f32 [rows, columns + queries] */
    struct vulkan_outputs_push outputs; /*  8 */
    uint32_t columns;                   /* 40: of the output */
    uint32_t queries;                   /* 44: columns of all heads' */
    uint32_t head_dim;                  /* 48 */
    uint32_t unused;                    /* 52 */
};
static_assert(sizeof(struct vulkan_take_queries_push) == 56, "byte map");

struct vulkan_take_heads_push {
    uint64_t x;                         /*  0: f32 [rows, heads * head_columns] */
    struct vulkan_outputs_push outputs; /*  8 */
    uint32_t columns;                   /* 40: of the output */
    uint32_t part;                      /* 44: its columns of a head */
    uint32_t head_columns;              /* 48 */
    uint32_t heads;                     /* 52 */
    uint32_t first;                     /* 56 */
    uint32_t unused;                    /* 60 */
};
static_assert(sizeof(struct vulkan_take_heads_push) == 64, "byte map");

struct vulkan_join_heads_push {
    uint64_t x;            /*  0: f32 [rows, heads * x_columns] */
    uint64_t y;            /*  8: f32 [rows, heads * y_columns] */
    uint64_t out;          /* 16: f32 [rows, columns] */
    uint32_t columns;      /* 24: heads * (x_columns - first + y_columns) */
    uint32_t head_columns; /* 28: of the output */
    uint32_t x_columns;    /* 32 */
    uint32_t y_columns;    /* 36 */
    uint32_t heads;        /* 40 */
    uint32_t first;        /* 44 */
};
static_assert(sizeof(struct vulkan_join_heads_push) == 48, "byte map");

struct vulkan_head_route_push {
    uint64_t out;     /*  0: f32 [rows, columns] */
    uint32_t columns; /*  8 */
    uint32_t unused;  /* 12 */
};
static_assert(sizeof(struct vulkan_head_route_push) == 16, "byte map");

struct vulkan_gate_heads_push {
    uint64_t x;                         /*  0: f32 [rows, stride] */
    uint64_t y;                         /*  8: f32 [rows, columns] */
    struct vulkan_outputs_push outputs; /* 16 */
    uint32_t columns;                   /* 48 */
    uint32_t stride;                    /* 52 */
    uint32_t head_dim;                  /* 56 */
    uint32_t unused;                    /* 60 */
};
static_assert(sizeof(struct vulkan_gate_heads_push) == 64, "byte map");

/* Of kernels that keep a matrix for each head of a sequence: the beginning of their blocks. */
struct vulkan_state_matrix_push {
    uint64_t x;            /*  0: f32 [rows, columns of the convolution] */
    uint64_t y;            /*  8: f32 [rows, ...]: of each head */
    uint64_t weights;      /* 16: f32, of each head */
    uint64_t state;        /* 24: f32 [slots, slot_floats] of the layer */
    uint64_t sequences;    /* 32: struct vulkan_step_sequence */
    uint64_t moves;        /* 40: struct vulkan_step_move */
    uint64_t deferred;     /* 48: f32 [places, place_floats] of the layer */
    uint64_t out_f32;      /* 56 */
    uint32_t slot_floats;  /* 64 */
    uint32_t slot_offset;  /* 68: where the matrices begin in a slot */
    uint32_t place_floats; /* 72 */
    uint32_t place_offset; /* 76: where values of x begin in a place */
};
static_assert(sizeof(struct vulkan_state_matrix_push) == 80, "byte map");

/* gated_delta has nothing else: x is queries | keys | values, y beta | alpha, weights the rates, then the
 * biases of times, of each value head. */
enum vulkan_gated_delta_constant {
    VULKAN_GATED_DELTA_INVOCATIONS,
    VULKAN_GATED_DELTA_KEY_DIM,
    VULKAN_GATED_DELTA_VALUE_DIM,
    VULKAN_GATED_DELTA_KEY_HEADS,
    VULKAN_GATED_DELTA_VALUE_HEADS,
    VULKAN_GATED_DELTA_OWN, /* enum vulkan_gated_delta_own */
    VULKAN_GATED_DELTA_LANES,
    VULKAN_GATED_DELTA_CONSTANTS
};
enum vulkan_gated_delta_own { VULKAN_GATED_DELTA_TAKE_TURNS = 1, VULKAN_GATED_DELTA_LOG_RATE = 2 };

enum vulkan_short_conv_own {
    VULKAN_SHORT_CONV_GATED = 1,
    VULKAN_SHORT_CONV_ROWS = 2,
    VULKAN_SHORT_CONV_MOVE = 4,
    VULKAN_SHORT_CONV_BIASED = 8
};

/* x is values | B | C; weights are rates, biases of steps and skips. */
struct vulkan_ssm_scan_push {
    struct vulkan_state_matrix_push matrix; /*  0 */
    uint32_t y_stride;                      /* 80 */
    uint32_t y_offset;                      /* 84: the first head's step */
    float least_step;                       /* 88 */
    float most_step;                        /* 92 */
};
static_assert(sizeof(struct vulkan_ssm_scan_push) == 96, "byte map");
enum vulkan_ssm_scan_constant {
    VULKAN_SSM_SCAN_INVOCATIONS,
    VULKAN_SSM_SCAN_HEAD_DIM,
    VULKAN_SSM_SCAN_STATE,
    VULKAN_SSM_SCAN_HEADS,
    VULKAN_SSM_SCAN_GROUPS,
    VULKAN_SSM_SCAN_OWN, /* 1: the rate is a log */
    VULKAN_SSM_SCAN_LANES,
    VULKAN_SSM_SCAN_CONSTANTS
};

struct vulkan_group_norm_gate_push {
    uint64_t x;           /*  0: f32 [rows, columns] */
    uint64_t gates;       /*  8: f32 [rows, gate_stride] */
    uint64_t weights;     /* 16: f32 [columns], or 0 */
    uint64_t out_f32;     /* 24 */
    uint32_t columns;     /* 32 */
    uint32_t gate_stride; /* 36 */
    uint32_t gate_offset; /* 40: first column of the gates */
    uint32_t wide;        /* 44: columns of a group */
    float epsilon;        /* 48 */
    uint32_t unused;      /* 52 */
};
static_assert(sizeof(struct vulkan_group_norm_gate_push) == 56, "byte map");
enum vulkan_group_norm_gate_constant {
    VULKAN_GROUP_NORM_GATE_INVOCATIONS,
    VULKAN_GROUP_NORM_GATE_OWN, /* enum vulkan_group_norm_gate_own */
    VULKAN_GROUP_NORM_GATE_CONSTANTS
};
enum vulkan_group_norm_gate_own {
    VULKAN_GROUP_NORM_GATE_NORMS = 1,
    VULKAN_GROUP_NORM_GATE_NORM_FIRST = 2
};

#define VULKAN_SCALE_PARTS 5u
struct vulkan_scale_parts_push {
    uint64_t x;                        /*  0: f32 [rows, columns] */
    uint32_t columns;                  /*  8 */
    uint32_t count;                    /* 12 */
    uint32_t ends[VULKAN_SCALE_PARTS]; /* 16: the first column after each part */
    float scales[VULKAN_SCALE_PARTS];  /* 36 */
};
static_assert(sizeof(struct vulkan_scale_parts_push) == 56, "byte map");

/* Constants of these kernels: the forms (enum vulkan_form), then VULKAN_ROW_OWN, which depends on
 * the kernel: gate and gate_with their enum gate_activation, rms_norm whether its rows are listed,
 * rms_norm_add whether another norm follows, bias_add whether it is the biases alone, embed_rows
 * the enum vulkan_weight_kind, short_conv bits of enum vulkan_short_conv_own. */
enum vulkan_row_constant {
    VULKAN_ROW_INVOCATIONS,
    VULKAN_ROW_FORMS,
    VULKAN_ROW_OWN,
    VULKAN_ROW_CONSTANTS
};

/* --- mixtures of experts; a pair is a row and one of its experts --- */

struct vulkan_moe_route_push {
    uint64_t x;             /*  0: f32 [rows, experts] */
    uint64_t scales;        /*  8: f32 [experts], or 0; WEIGHED: the bias of the choice */
    uint64_t route;         /* 16: f32 [rows, 2 * chosen] */
    uint32_t experts;       /* 24 */
    uint32_t chosen;        /* 28 */
    float scale;            /* 32 */
    float epsilon;          /* 36: WEIGHED, as the next ones */
    uint32_t groups;        /* 40 */
    uint32_t groups_chosen; /* 44 */
    uint32_t group_best;    /* 48 */
    uint32_t normalized;    /* 52 */
    uint64_t rows; /* 56: struct vulkan_step_row; this and the next ones for experts of some rows */
    uint64_t sights;     /* 64: struct vulkan_step_sight, or 0 */
    uint64_t drawn;      /* 72: u32: tokens drawn by the previous step */
    uint64_t logit_rows; /* 80: u32 [rows], or 0: rows are the step's */
    uint32_t edges[2];   /* 88 */
    uint32_t of_rows;    /* 96: enum expert_rows */
    uint32_t unused;     /* 100 */
};
static_assert(sizeof(struct vulkan_moe_route_push) == 104, "byte map");
enum vulkan_moe_route_form {
    VULKAN_MOE_ROUTE_SCORES,
    VULKAN_MOE_ROUTE_SOFTMAX, /* weighed */
    VULKAN_MOE_ROUTE_SIGMOID  /* weighed */
};
enum vulkan_moe_route_constant {
    VULKAN_MOE_ROUTE_INVOCATIONS,
    VULKAN_MOE_ROUTE_SOFTMAX_ALL,
    VULKAN_MOE_ROUTE_FORM,
    VULKAN_MOE_ROUTE_CONSTANTS
};

struct vulkan_moe_group_push {
    uint64_t route;      /*  0 */
    uint64_t groups;     /*  8: shaders/moe_groups.glsl */
    uint64_t pairs;      /* 16: u32 [pair_count] */
    uint32_t pair_count; /* 24 */
    uint32_t chosen;     /* 28 */
    uint32_t experts;    /* 32 */
    uint32_t unused;     /* 36 */
};
static_assert(sizeof(struct vulkan_moe_group_push) == 40, "byte map");
enum vulkan_moe_group_constant {
    VULKAN_MOE_GROUP_INVOCATIONS,
    VULKAN_MOE_GROUP_TILE_ROWS,
    VULKAN_MOE_GROUP_CONSTANTS
};

struct vulkan_moe_linear_push {
    struct vulkan_matrix_push weights; /*  0: [experts * n, k] */
    uint64_t x;                        /* 24: f32 [rows, k], or [pairs, k] */
    uint64_t out_f32;                  /* 32: f32 [pairs, out_stride] */
    uint64_t groups;                   /* 40 */
    uint64_t pairs;                    /* 48 */
    uint32_t n;                        /* 56 */
    uint32_t k;                        /* 60 */
    uint32_t out_stride;               /* 64 */
    uint32_t pairs_per_x;              /* 68 */
};
static_assert(sizeof(struct vulkan_moe_linear_push) == 72, "byte map");
enum vulkan_moe_linear_constant {
    VULKAN_MOE_LINEAR_INVOCATIONS,
    VULKAN_MOE_LINEAR_WEIGHT_KIND,
    VULKAN_MOE_LINEAR_TILE_ROWS,
    VULKAN_MOE_LINEAR_OUTPUTS, /* of a subgroup */
    VULKAN_MOE_LINEAR_CONSTANTS
};

/* Kernels for quantized weights and for matrix units. Gated, columns are those of the result. */
struct vulkan_moe_dot_push {
    struct vulkan_matrix_push weights; /*   0: [experts * expert_rows, k]; gated: of the gate */
    struct vulkan_matrix_push up;      /*  24: gated */
    uint64_t x;                        /*  48: q8 codes or f32 [rows or pairs, k] */
    uint64_t x_terms;                  /*  56 */
    union {                            /*  64 */
        uint64_t groups;               /* VULKAN_MOE_GROUPS */
        uint64_t route;                /* the other modes: f32 [rows, 2 * chosen] */
    };
    uint64_t out;        /*  72: [pairs or rows, out_stride] in its one form */
    uint64_t out_terms;  /*  80: of q8 */
    union {              /*  88 */
        uint64_t pairs;  /* VULKAN_MOE_GROUPS */
        uint64_t scores; /* if the kernel chooses the experts: f32 [rows, experts] */
    };
    uint32_t n;           /*  96 */
    uint32_t k;           /* 100 */
    uint32_t expert_rows; /* 104: of an expert in its stack */
    uint32_t up_row;      /* 108: of the up's first row in its stack */
    uint32_t row_stride;  /* 112: from a column's row to the next column's */
    uint32_t out_stride;  /* 116 */
    uint32_t chosen;      /* 120 */
    uint32_t pairs_per_x; /* 124 */
};
static_assert(sizeof(struct vulkan_moe_dot_push) == 128, "byte map");
static_assert(offsetof(struct vulkan_moe_dot_push, n) == 96, "byte map");
enum vulkan_moe_dot_mode { VULKAN_MOE_GROUPS, VULKAN_MOE_PAIRS, VULKAN_MOE_ROWS };
enum vulkan_moe_dot_constant {
    VULKAN_MOE_DOT_INVOCATIONS,
    VULKAN_MOE_DOT_WEIGHT_KIND,
    VULKAN_MOE_DOT_ACTIVATION, /* enum gate_activation */
    VULKAN_MOE_DOT_MODE,       /* enum vulkan_moe_dot_mode */
    VULKAN_MOE_DOT_TILE_ROWS,
    VULKAN_MOE_DOT_COLUMNS, /* of out, of a team */
    VULKAN_MOE_DOT_LANES,   /* of a team */
    VULKAN_MOE_DOT_DEPTH,   /* blocks that a lane has loaded of each of the team's rows */
    VULKAN_MOE_DOT_GATED,
    VULKAN_MOE_DOT_FORM,
    VULKAN_MOE_DOT_HAS_DOT,
    VULKAN_MOE_DOT_ADD,
    VULKAN_MOE_DOT_EXPERTS, /* to choose among; 0: the route is known */
    VULKAN_MOE_DOT_SOFTMAX_ALL,
    VULKAN_MOE_DOT_ROUTE_SCALE, /* bits of an f32 */
    VULKAN_MOE_DOT_CONSTANTS
};

/* moe_matrix, with the constants of enum vulkan_linear_matrix_constant up to
 * VULKAN_LINEAR_MATRIX_STAGES, and moe_register, with those of linear_register. */
struct vulkan_moe_matrix_push {
    struct vulkan_matrix_push weights; /*   0 */
    struct vulkan_matrix_push up;      /*  24 */
    uint64_t x;                        /*  48: f16 [rows or pairs, k] */
    uint64_t out_f32;                  /*  56: [pairs, out_stride] */
    uint64_t out_f16;                  /*  64 */
    uint64_t groups;                   /*  72 */
    uint32_t n;                        /*  80 */
    uint32_t k;                        /*  84 */
    uint32_t expert_rows;              /*  88 */
    uint32_t up_row;                   /*  92 */
    uint32_t row_stride;               /*  96 */
    uint32_t out_stride;               /* 100 */
    uint32_t pairs_per_x;              /* 104 */
    uint32_t pairs_offset;             /* 108 */
};
static_assert(sizeof(struct vulkan_moe_matrix_push) == 112, "byte map");
static_assert(offsetof(struct vulkan_moe_matrix_push, n) == 80, "byte map");

/* A product of experts by a kernel in PTX (ptx/moe_wgmma.c): x gathered, [k / 32][x_rows][32]. */
struct vulkan_moe_ptx_push {
    struct vulkan_moe_matrix_push matrix; /*   0: pairs_per_x unused */
    uint32_t epilogue;                    /* 112: enum vulkan_linear_epilogue */
    uint32_t forms;                       /* 116: f32 or f16 */
    uint32_t x_rows;                      /* 120 */
    uint32_t unused;                      /* 124 */
};
static_assert(sizeof(struct vulkan_moe_ptx_push) == 128, "byte map");

/* moe_gather lays the pairs' rows out for it. Its one constant is the number of invocations. */
struct vulkan_moe_gather_push {
    uint64_t x;            /*  0: f16 [rows or pairs, k] */
    uint64_t gathered;     /*  8 */
    uint64_t groups;       /* 16 */
    uint32_t k;            /* 24 */
    uint32_t pairs_per_x;  /* 28 */
    uint32_t pairs_offset; /* 32 */
    uint32_t x_rows;       /* 36 */
};
static_assert(sizeof(struct vulkan_moe_gather_push) == 40, "byte map");

struct vulkan_moe_gate_push {
    uint64_t x;            /*  0: f32 [pairs, 2 * columns] */
    uint64_t route;        /*  8 */
    uint64_t bias;         /* 16: f32 [experts, bias_columns], or 0 */
    uint64_t bias_up;      /* 24: of columns from bias_columns on */
    uint64_t out_f32;      /* 32: f32 [pairs, columns] */
    uint32_t columns;      /* 40 */
    uint32_t chosen;       /* 44 */
    uint32_t bias_columns; /* 48 */
    float limit;           /* 52 */
    float alpha;           /* 56 */
    uint32_t unused;       /* 60 */
};
static_assert(sizeof(struct vulkan_moe_gate_push) == 64, "byte map");
enum vulkan_moe_gate_constant {
    VULKAN_MOE_GATE_INVOCATIONS,
    VULKAN_MOE_GATE_ACTIVATION, /* enum gate_activation */
    VULKAN_MOE_GATE_INTERLEAVED,
    VULKAN_MOE_GATE_LIMITED,
    VULKAN_MOE_GATE_CONSTANTS
};

/* Constants as for kernels over one row (VULKAN_ROW_OWN: whether it adds), and one more. */
enum vulkan_moe_combine_constant {
    VULKAN_MOE_COMBINE_CHOSEN = VULKAN_ROW_CONSTANTS,
    VULKAN_MOE_COMBINE_CONSTANTS
};
struct vulkan_moe_combine_push {
    uint64_t x;                         /*  0: f32 [pairs, columns] */
    uint64_t route;                     /*  8 */
    uint64_t bias;                      /* 16: f32 [experts, columns], or 0 */
    uint64_t held;                      /* 24: f32 [rows, columns] */
    struct vulkan_outputs_push outputs; /* 32 */
    uint32_t columns;                   /* 64 */
    uint32_t unused;                    /* 68 */
};
static_assert(sizeof(struct vulkan_moe_combine_push) == 72, "byte map");

struct vulkan_matrix_unpack_push {
    struct vulkan_matrix_push weights; /*  0: [n, k] */
    uint64_t halves;                   /* 24: f16 [n, k] */
    uint32_t chunks;                   /* 32: n * k / 8 */
    uint32_t reserved;                 /* 36: 0 */
};
static_assert(sizeof(struct vulkan_matrix_unpack_push) == 40, "byte map");

/* --- sampling: all kernels have the same push constants (shaders/sample_rows.glsl) --- */

struct vulkan_sample_push {
    uint64_t logits;     /*   0: f32 [rows, vocab_tokens]; biases, masks and penalties change it */
    uint64_t records;    /*   8: struct vulkan_sampler_record [rows] */
    uint64_t entries;    /*  16: u32 pairs: biases, counts and masks */
    uint64_t parts;      /*  24: VULKAN_SAMPLE_PART_BYTES [rows, chunk_count] */
    uint64_t block_keys; /*  32: u32 [rows, chunk_count * VULKAN_SAMPLE_SCANNERS] */
    uint64_t arrivals;   /*  40: u32 [rows], 0 between steps */
    uint64_t drawn;      /*  48: u32 [rows] */
    uint64_t results;    /*  56: struct vulkan_sampler_result [rows] */
    uint64_t rows;       /*  64: struct vulkan_step_row */
    uint64_t sequences;  /*  72: struct vulkan_step_sequence */
    uint64_t tables;     /*  80: u32 */
    uint64_t logit_rows; /*  88: u32 [rows] */
    uint64_t history;    /*  96: u32 [blocks of group 0, 16] */
    uint64_t copies;     /* 104: VULKAN_SAMPLE_COPY_BYTES [copies asked for] */
    uint32_t vocab_tokens; /* 112 */
    uint32_t chunk_count;  /* 116 */
    uint64_t spreads;      /* 120: VULKAN_SAMPLE_PART_BYTES [rows, chunk_count] */
};
static_assert(sizeof(struct vulkan_sample_push) == 128, "byte map");

#define VULKAN_SAMPLE_SCANNERS   128u /* invocations of sample_scan and sample_spread */
#define VULKAN_SAMPLE_CHUNK      (VULKAN_SAMPLE_SCANNERS * 32u) /* tokens of one workgroup of it */
#define VULKAN_SAMPLE_PART_BYTES 32u
#define VULKAN_SAMPLE_DRAWERS                                                                      \
    512u /* invocations of the kernels of one workgroup a row, at most 512 */

/* A row as it was: its logits, parts and blocks' keys. */
#define VULKAN_SAMPLE_COPY_BYTES(vocab_tokens, chunk_count)                                        \
    (((vocab_tokens) + 3ull) / 4 * 16 +                                                            \
     (chunk_count) * (uint64_t)(VULKAN_SAMPLE_PART_BYTES + 4 * VULKAN_SAMPLE_SCANNERS))

enum vulkan_sample_constant {
    VULKAN_SAMPLE_INVOCATIONS,
    VULKAN_SAMPLE_SCANNER_COUNT,
    VULKAN_SAMPLE_PLAIN,   /* sample_scan: all rows are greedy, without bias, penalty and sum */
    VULKAN_SAMPLE_COMPACT, /* the other kernels: loops instead of unrolled loads, for drivers that
                            * compile for a CPU */
    VULKAN_SAMPLE_CONSTANTS
};

/* --- memory bandwidth (shaders/read_peak.comp); constants: invocations --- */

struct vulkan_read_peak_push {
    uint64_t memory; /*  0: zeros */
    uint32_t pieces; /*  8: of 16 bytes */
    uint32_t unused; /* 12 */
};
static_assert(sizeof(struct vulkan_read_peak_push) == 16, "byte map");

#endif
