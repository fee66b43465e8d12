/*
 * Nine digits identify an f32. The Euclidean norm is taken in double precision, so that the length
 * of the result is 1 within rounding.
 */
#include "frontend/api/pooling/vector_text.h"

#include <math.h>
#include <stdio.h>

#include "frontend/base/base64.h"

#define NUMBER_BYTES      32u
#define LARGEST_MAGNITUDE 32760.0 /* llama.cpp's, so that the numbers fit 16 bits */

static double scale_of(int norm, const float *vector, size_t columns)
{
    double sum = 0, most = 0;
    for (size_t c = 0; c < columns; c++) {
        double size = fabs((double)vector[c]);
        if (size > most)
            most = size;
    }
    if (most == 0)
        return 0;
    if (norm == 0)
        return LARGEST_MAGNITUDE / most;
    for (size_t c = 0; c < columns; c++) {
        double share = fabs((double)vector[c]) / most; /* no power overflows */
        sum += norm == 2 ? share * share : pow(share, norm);
    }
    return 1 / (most * (norm == 2 ? sqrt(sum) : pow(sum, 1.0 / norm)));
}

size_t vector_text_shape(const struct vector_form *form, float *vector, size_t columns)
{
    if (form->dimensions > 0 && form->dimensions < columns)
        columns = form->dimensions;
    if (form->norm == VECTOR_NORM_NONE)
        return columns;
    double scale = scale_of(form->norm, vector, columns);
    for (size_t c = 0; c < columns; c++)
        vector[c] = (float)((double)vector[c] * scale);
    return columns;
}

void vector_text_append(const struct vector_form *form, const float *vector, size_t columns,
                        struct text_buffer *out)
{
    if (form->base64) {
        text_buffer_append_text(out, "\"");
        base64_append((const uint8_t *)vector, columns * sizeof *vector, out);
        text_buffer_append_text(out, "\"");
        return;
    }
    text_buffer_append_text(out, "[");
    for (size_t c = 0; c < columns; c++) {
        char text[NUMBER_BYTES];
        int bytes = snprintf(text, sizeof text, c > 0 ? ",%.9g" : "%.9g", (double)vector[c]);
        text_buffer_append(out, text, (size_t)bytes);
    }
    text_buffer_append_text(out, "]");
}
