/*
 * IEEE half precision, and E4M3, in file formats. Conversions are written out, so that they are the same on
 * every machine.
 */
#ifndef SHOAL_PROTO_GGML_HALF_H
#define SHOAL_PROTO_GGML_HALF_H

#include <stdbool.h>
#include <stdint.h>

float ggml_f16_to_f32(uint16_t half);
/* Round to nearest even; overflow gives infinity, NaN stays NaN. */
uint16_t ggml_f32_to_f16(float value);
/* Whether a half holds the number exactly; false for NaN. */
bool ggml_half_holds(float value);
/* The number of an E4M3 byte (OCP 8-bit floating point specification: bias 7, no infinities, NaN where all
 * bits after the sign are set). Exact. */
float ggml_e4m3_to_f32(uint8_t byte);
/* Little-endian, of any alignment. */
uint16_t ggml_load_u16(const uint8_t *bytes);

#endif
