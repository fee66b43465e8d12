/*
 * The tiled form of f16 rows of shaders/tiled_halves.glsl, implemented independently: an array
 * [row tiles][column tiles][4 eighths][8 rows][4 blocks][8 places]; and the staged form of
 * shaders/staged_halves.glsl: [row tiles][column tiles][4 eighths][128 rows][4 chunks][4 blocks][2].
 */
#ifndef SHOAL_TESTS_SUPPORT_TILED_PLACES_H
#define SHOAL_TESTS_SUPPORT_TILED_PLACES_H

#include <stddef.h>
#include <stdint.h>

/* Halves of a whole tensor, padding included. */
size_t tiled_places_count(uint32_t rows, uint32_t columns);
/* Where the element of that row and column lies. */
size_t tiled_places_find(uint32_t row, uint32_t column, uint32_t columns);
/* The same of the staged form; columns is a multiple of 128. */
size_t staged_places_count(uint32_t rows, uint32_t columns);
size_t staged_places_find(uint32_t row, uint32_t column, uint32_t columns);

#endif
