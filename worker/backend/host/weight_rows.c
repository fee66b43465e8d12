/*
 * A transposed matrix is read by columns: of each of the other matrix' rows, the blocks that hold the
 * wanted columns are made floats once for all wanted rows.
 */
#include "worker/backend/host/weight_rows.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"

#define WINDOW_COLUMNS 256u /* whole blocks of every type */
#define ROWS_MAX       64u  /* that are read at a time */
#define FLOATS_MAX     (ROWS_MAX + 2 * WINDOW_COLUMNS)

/* Columns [first, first + count) of a row of the other matrix, both multiples of WINDOW_COLUMNS or the
 * row's end. */
static void read_window(const struct weight_turned *turned, uint64_t row, uint32_t first,
                        uint32_t count, float *out)
{
    uint8_t stored[FLOATS_MAX * sizeof(float)];
    const uint8_t *at = stored;
    if (turned->source)
        weight_source_read(turned->source, turned->columns,
                           (struct weight_span){.row = row, .first = first, .count = count},
                           stored);
    else
        at = turned->rows + row * ggml_row_bytes(turned->type, turned->columns) +
             ggml_row_bytes(turned->type, first);
    ggml_dequantize_row(turned->type, at, count, out);
}

static void read_turned(const struct weight_turned *turned, uint32_t columns, uint64_t first,
                        uint32_t count, uint8_t *out)
{
    float floats[FLOATS_MAX];
    uint32_t begin = (uint32_t)(first / WINDOW_COLUMNS * WINDOW_COLUMNS);
    uint64_t end = (first + count + WINDOW_COLUMNS - 1) / WINDOW_COLUMNS * WINDOW_COLUMNS;
    end = end < turned->columns ? end : turned->columns;
    must(count <= ROWS_MAX && first + count <= turned->columns);
    for (uint32_t c = 0; c < columns; c++) {
        read_window(turned, turned->row + c, begin, (uint32_t)(end - begin), floats);
        for (uint32_t i = 0; i < count; i++)
            memcpy(out + ((size_t)i * columns + c) * sizeof(float), &floats[first + i - begin],
                   sizeof(float));
    }
}

void weight_rows_read(const struct weight_source *source, uint32_t columns, uint64_t first,
                      uint32_t count, uint8_t *out)
{
    uint64_t row_bytes = ggml_row_bytes(source->type, columns);
    if (source->layout == WEIGHT_TURNED) {
        for (uint32_t done = 0; done < count; done += ROWS_MAX)
            read_turned(&source->turned, columns, first + done,
                        count - done < ROWS_MAX ? count - done : ROWS_MAX, out + done * row_bytes);
        return;
    }
    struct weight_span span = {.row = first, .count = columns};
    for (uint32_t row = 0; row < count; row++, span.row++)
        weight_source_read(source, columns, span, out + row * row_bytes);
}
