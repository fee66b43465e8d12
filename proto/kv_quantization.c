/*
 * Resolves the --kv-* options to a quantization of the KV cache.
 *
 * --kv-bits sets both sides; a fraction means fewer bits for keys and more for values (3.5 is 3 and
 * 4), because errors add up in values. --kv-key-bits and --kv-value-bits set one side, whose
 * fraction then splits its channels between two whole numbers of bits.
 *
 * Bits without a codec and incomplete combinations of options give RESULT_INVALID.
 */
#include "proto/kv_quantization.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

static const struct {
    const char *name;
    uint32_t least_half_bits, most_half_bits;
} schemes[] = {
    [KV_QUANT_NONE] = {"none", 0, 0},
    [KV_QUANT_UNIFORM] = {"uniform", 4, 16},
    [KV_QUANT_TURBOQUANT] = {"turboquant", 2, 8},
};
#define SCHEME_COUNT (sizeof schemes / sizeof schemes[0])

int kv_quant_scheme_parse(const char *text, enum kv_quant_scheme *scheme)
{
    for (size_t i = 1; i < SCHEME_COUNT; i++) {
        if (strcmp(text, schemes[i].name) == 0) {
            *scheme = (enum kv_quant_scheme)i;
            return 0;
        }
    }
    return -1;
}

int kv_half_bits_parse(const char *text, uint32_t *half_bits)
{
    if (text[0] < '0' || text[0] > '8')
        return -1;
    uint32_t halves = 2u * (uint32_t)(text[0] - '0');
    if (strcmp(text + 1, ".5") == 0)
        halves++;
    else if (text[1] != '\0' && strcmp(text + 1, ".0") != 0)
        return -1;
    if (halves == 0 || halves > KV_QUANT_HALF_BITS_MAX)
        return -1;
    *half_bits = halves;
    return 0;
}

static enum result check_side(const char *side, enum kv_quant_scheme scheme, uint32_t half_bits,
                              struct error_text *error)
{
    double bits = half_bits / 2.0;
    if (half_bits < schemes[scheme].least_half_bits || half_bits > schemes[scheme].most_half_bits)
        return error_set(error, RESULT_INVALID, "%.1f bits a %s: %s has %u to %u", bits, side,
                         schemes[scheme].name, schemes[scheme].least_half_bits / 2,
                         schemes[scheme].most_half_bits / 2);
    if (scheme == KV_QUANT_UNIFORM && half_bits % 2 != 0)
        return error_set(error, RESULT_INVALID, "%.1f bits a %s: uniform has whole bits", bits,
                         side);
    return RESULT_OK;
}

static void set_bits(const struct kv_quantization_request *request, struct kv_quantization *out)
{
    bool split = request->half_bits % 2 != 0 && out->scheme == KV_QUANT_TURBOQUANT;
    out->key_half_bits = split ? request->half_bits - 1 : request->half_bits;
    out->value_half_bits = split ? request->half_bits + 1 : request->half_bits;
    if (request->key_half_bits > 0)
        out->key_half_bits = request->key_half_bits;
    if (request->value_half_bits > 0)
        out->value_half_bits = request->value_half_bits;
}

enum result kv_quantization_resolve(const struct kv_quantization_request *request,
                                    struct kv_quantization *quantization, struct error_text *error)
{
    *quantization = (struct kv_quantization){.scheme = KV_QUANT_NONE};
    bool bits =
        request->half_bits > 0 || request->key_half_bits > 0 || request->value_half_bits > 0;
    if (!bits && request->start_tokens > 0)
        return error_set(error, RESULT_INVALID, "--quantized-kv-start %u needs --kv-bits",
                         request->start_tokens);
    if (!bits && (request->scheme != KV_QUANT_NONE || request->group_size > 0))
        return error_set(error, RESULT_INVALID, "%s needs --kv-bits",
                         request->group_size > 0 ? "--kv-group-size" : "--kv-quant-scheme");
    if (!bits)
        return RESULT_OK;
    struct kv_quantization out = {.scheme = request->scheme,
                                  .group_size = request->group_size,
                                  .start_tokens = request->start_tokens};
    if (out.scheme == KV_QUANT_NONE)
        out.scheme = KV_QUANT_UNIFORM;
    if (out.scheme == KV_QUANT_TURBOQUANT && out.group_size > 0)
        return error_set(error, RESULT_INVALID, "--kv-group-size goes with uniform only");
    if (out.group_size != 0 && out.group_size != 32 && out.group_size != 64 &&
        out.group_size != 128)
        return error_set(error, RESULT_INVALID, "--kv-group-size %u: groups are of 32, 64 or 128",
                         out.group_size);
    set_bits(request, &out);
    if (request->half_bits == 0 && (request->key_half_bits == 0 || request->value_half_bits == 0))
        return error_set(error, RESULT_INVALID,
                         "--kv-key-bits and --kv-value-bits go together, or with --kv-bits");
    enum result result = check_side("key", out.scheme, out.key_half_bits, error);
    if (result == RESULT_OK)
        result = check_side("value", out.scheme, out.value_half_bits, error);
    if (result == RESULT_OK)
        *quantization = out;
    return result;
}

void kv_quantization_write(const struct kv_quantization *quantization,
                           char text[KV_QUANTIZATION_TEXT_BYTES])
{
    snprintf(text, KV_QUANTIZATION_TEXT_BYTES, "%s", schemes[quantization->scheme].name);
    if (quantization->scheme == KV_QUANT_NONE)
        return;
    int length = snprintf(text, KV_QUANTIZATION_TEXT_BYTES, "%s, keys of %g and values of %g bits",
                          schemes[quantization->scheme].name, quantization->key_half_bits / 2.0,
                          quantization->value_half_bits / 2.0);
    must(length > 0 && length < (int)KV_QUANTIZATION_TEXT_BYTES);
    if (quantization->start_tokens > 0)
        snprintf(text + length, KV_QUANTIZATION_TEXT_BYTES - (size_t)length, " beyond %u tokens",
                 quantization->start_tokens);
}
