/*
 * How keys and values are quantized in the KV cache: the options, and the quantization that follows
 * from them. Both processes resolve them by the same rules, so the frontend rejects an impossible
 * request before a worker starts.
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
    uint32_t key_half_bits; /* 0 for KV_QUANT_NONE, as are the fields below */
    uint32_t value_half_bits;
    uint32_t group_size; /* UNIFORM: elements that share a scale; 0: the largest that fits a head */
    /* Rows with at most this many visible positions read them in full precision; 0: none. */
    uint32_t start_tokens;
};

/* The values of the flags; 0: not given. */
struct kv_quantization_request {
    enum kv_quant_scheme scheme;
    uint32_t half_bits; /* of both sides */
    uint32_t key_half_bits;
    uint32_t value_half_bits;
    uint32_t group_size;
    uint32_t start_tokens;
};

/* Parses "uniform|turboquant"; returns 0, or -1 and leaves *scheme. */
int kv_quant_scheme_parse(const char *text, enum kv_quant_scheme *scheme);
/* Parses "4" or "3.5", a positive multiple of 0.5, at most 8; returns 0, or -1 and leaves
 * *half_bits. */
int kv_half_bits_parse(const char *text, uint32_t *half_bits);

/* RESULT_INVALID, naming the option and the numbers, if no model could use the combination. */
enum result kv_quantization_resolve(const struct kv_quantization_request *request,
                                    struct kv_quantization *quantization,
                                    struct error_text *error) RESULT_CHECKED;

/* For logs: "uniform, keys of 8 and values of 8 bits", "turboquant, keys of 3 and values of 4 bits
 * beyond 5000 tokens". */
#define KV_QUANTIZATION_TEXT_BYTES 96u
void kv_quantization_write(const struct kv_quantization *quantization,
                           char text[KV_QUANTIZATION_TEXT_BYTES]);

#endif
