/*
 * How keys and values are quantized in the KV cache: what flags say, and what follows. Both
 * processes decide it by the same rules, so that a wish that cannot work is refused before a worker
 * starts.
 */
#ifndef SHOAL_PROTO_KV_QUANTIZATION_H
#define SHOAL_PROTO_KV_QUANTIZATION_H

#include <stdint.h>

#include "proto/result.h"

enum kv_quant_scheme {
    KV_QUANT_NONE = 0,   /* full precision: kv_cache_type.h */
    KV_QUANT_UNIFORM,    /* affine groups along a head, 2 to 8 whole bits */
    KV_QUANT_TURBOQUANT, /* norm, rotation and codebook, 1 to 4 bits in halves */
};

#define KV_QUANT_HALF_BITS_MAX 16u

/* Bits of an element are counted in halves: 7 is 3.5 bits. */
struct kv_quantization {
    enum kv_quant_scheme scheme;
    uint32_t key_half_bits; /* 0 when nothing is quantized, like the rest */
    uint32_t value_half_bits;
    uint32_t group_size; /* UNIFORM: elements that share a scale; 0: the largest that fits a head */
    /* Rows that see at most so many positions see them in full precision; 0: none does. */
    uint32_t start_tokens;
};

/* What was said; 0 where nothing was. */
struct kv_quantization_wish {
    enum kv_quant_scheme scheme;
    uint32_t half_bits; /* of both sides */
    uint32_t key_half_bits;
    uint32_t value_half_bits;
    uint32_t group_size;
    uint32_t start_tokens;
};

/* "uniform|turboquant"; 0, or -1 and *scheme stays. */
int kv_quant_scheme_parse(const char *text, enum kv_quant_scheme *scheme);
/* Also "none". */
const char *kv_quant_scheme_name(enum kv_quant_scheme scheme);
/* "4", "3.5": a positive multiple of a half, at most 8; 0, or -1 and *half_bits stays. */
int kv_half_bits_parse(const char *text, uint32_t *half_bits);

/* RESULT_INVALID, with the flag and the numbers, for what cannot work whatever the model. */
enum result kv_quantization_resolve(const struct kv_quantization_wish *wish,
                                    struct kv_quantization *quantization,
                                    struct error_text *error) RESULT_CHECKED;

/* "uniform, keys of 8 and values of 8 bits", "turboquant, keys of 3 and values of 4 bits beyond
 * 5000 tokens": for logs. */
#define KV_QUANTIZATION_TEXT_BYTES 96u
void kv_quantization_write(const struct kv_quantization *quantization,
                           char text[KV_QUANTIZATION_TEXT_BYTES]);

#endif
