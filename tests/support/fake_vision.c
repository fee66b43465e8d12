/*
 * A queue of writes; each is due for the first step launched after it. Aborts if a step reads a row
 * that was never written, or that a later batch has begun to write.
 */
#include "tests/support/fake_vision.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define WRITES_MAX 256u

struct feature {
    uint64_t value;
    bool written;
};

struct feature_write {
    uint64_t before_step;
    uint32_t first_row;
    uint32_t row_count;
    uint64_t *values; /* [row_count]; NULL: the rows are invalid from here on */
};

struct fake_vision {
    struct fake_vision_options options;
    struct feature *rows; /* [feature_rows] */
    uint64_t steps;       /* launched */
    uint64_t patch_rows;  /* of the batch */
    uint64_t work_left;
    uint32_t batch_count;
    struct feature_write batch[WRITES_MAX]; /* begun and not finished */
    uint32_t write_count;
    struct feature_write writes[2 * WRITES_MAX]; /* not yet due */
    struct fake_vision_totals totals;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e6c63d0676a9a99ull;
    x ^= x >> 29;
    x *= 0x9e6d62d06f6a9a9bull;
    return x ^ x >> 32;
}

struct fake_vision *fake_vision_create(const struct fake_vision_options *options)
{
    struct fake_vision *fake = must_alloc(1, sizeof *fake);
    fake->options = *options;
    fake->rows = must_alloc(options->feature_rows, sizeof *fake->rows);
    return fake;
}

static void forget_batch(struct fake_vision *fake)
{
    for (uint32_t i = 0; i < fake->batch_count; i++)
        free(fake->batch[i].values);
    fake->batch_count = 0;
    fake->work_left = 0;
}

void fake_vision_destroy(struct fake_vision *fake)
{
    if (!fake)
        return;
    forget_batch(fake);
    for (uint32_t i = 0; i < fake->write_count; i++)
        free(fake->writes[i].values);
    free(fake->rows);
    free(fake);
}

static void apply(struct fake_vision *fake, struct feature_write *write)
{
    for (uint32_t i = 0; i < write->row_count; i++)
        fake->rows[write->first_row + i] = (struct feature){
            .value = write->values ? write->values[i] : 0, .written = write->values != NULL};
    free(write->values);
}

static void add_write(struct fake_vision *fake, struct feature_write write)
{
    write.before_step = fake->steps;
    if (!fake->options.late) {
        apply(fake, &write);
        return;
    }
    must(fake->write_count < 2 * WRITES_MAX);
    fake->writes[fake->write_count++] = write;
}

uint64_t fake_vision_feature(const struct encode_image *image, const struct model_vision *vision,
                             uint32_t index)
{
    struct feature_grid grid = model_vision_grid(vision, image->shape);
    size_t tile_bytes = (size_t)image->shape.width * image->shape.height * 3;
    const uint8_t *tile = image->pixels + index / (grid.height * grid.width) * tile_bytes;
    uint64_t hash = index % (grid.height * grid.width);
    for (size_t i = 0; i < tile_bytes; i++)
        hash = (hash ^ tile[i]) * 0x100000001b3ull;
    for (uint32_t i = 0; i < 3; i++)
        hash = mix(hash + (uint64_t)(int64_t)(image->scale[i] * 1000.0f) +
                   ((uint64_t)(int64_t)(image->bias[i] * 1000.0f) << 20));
    return mix(hash + image->shape.width);
}

void fake_vision_begin(struct fake_vision *fake, const struct encode_batch *batch)
{
    const struct model_vision *vision = fake->options.vision;
    must(batch->image_count > 0 && batch->image_count <= WRITES_MAX);
    forget_batch(fake);
    uint64_t patch_rows = 0;
    for (uint32_t i = 0; i < batch->image_count; i++) {
        const struct encode_image *image = &batch->images[i];
        must(model_vision_check(vision, image->shape, NULL) == RESULT_OK);
        patch_rows += model_vision_patch_rows(vision, image->shape);
        struct feature_write write = {.first_row = image->first_feature,
                                      .row_count = model_vision_feature_rows(vision, image->shape)};
        must(write.first_row + write.row_count <= fake->options.feature_rows);
        add_write(fake, write);
        write.values = must_alloc(write.row_count, sizeof *write.values);
        for (uint32_t j = 0; j < write.row_count; j++)
            write.values[j] = fake_vision_feature(image, vision, j);
        fake->batch[fake->batch_count++] = write;
    }
    must(patch_rows <= fake->options.patch_rows);
    fake->patch_rows = patch_rows;
    fake->work_left = patch_rows * vision->stages;
    fake->totals.begins++;
    if (batch->image_count > fake->totals.most_images)
        fake->totals.most_images = batch->image_count;
}

/* Patch rows of this part: between a quarter of a stage and a whole one. */
uint64_t fake_vision_part(struct fake_vision *fake, uint64_t work)
{
    must(fake->work_left > 0);
    uint64_t least = fake->patch_rows / 4;
    work = work > least ? work : least;
    work = work < fake->patch_rows ? work : fake->patch_rows;
    work = work < fake->work_left ? work : fake->work_left;
    fake->totals.parts++;
    fake->work_left -= work;
    if (fake->work_left > 0)
        return fake->work_left;
    for (uint32_t i = 0; i < fake->batch_count; i++)
        add_write(fake, fake->batch[i]);
    fake->totals.ends++;
    fake->totals.images += fake->batch_count;
    fake->batch_count = 0;
    return 0;
}

uint64_t fake_vision_launch(struct fake_vision *fake)
{
    return fake->steps++;
}

void fake_vision_settle(struct fake_vision *fake, uint64_t step)
{
    uint32_t done = 0;
    while (done < fake->write_count && fake->writes[done].before_step <= step)
        apply(fake, &fake->writes[done++]);
    fake->write_count -= done;
    memmove(fake->writes, fake->writes + done, fake->write_count * sizeof *fake->writes);
}

struct fake_vision_totals fake_vision_totals(const struct fake_vision *fake)
{
    return fake->totals;
}

uint64_t fake_vision_row(const struct fake_row *row)
{
    const struct rope_position *rope = &row->rope;
    uint64_t value = row->value;
    if (rope->time != row->position || rope->height != row->position ||
        rope->width != row->position)
        value = mix(value + mix(((uint64_t)rope->time << 40) + ((uint64_t)rope->height << 20) +
                                rope->width + 1));
    if (row->visible_end != row->position + 1)
        value = mix(value + row->visible_end);
    return value;
}

uint64_t fake_vision_read(const struct fake_vision *fake, uint32_t feature_row)
{
    must(feature_row < fake->options.feature_rows && fake->rows[feature_row].written);
    return fake->rows[feature_row].value;
}
