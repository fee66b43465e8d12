/*
 * A vision plan is laid out and recorded like a text plan (vulkan_program_memory.c,
 * vulkan_plan_walk.c), over patches instead of tokens and one stage at a time. Stages are submitted
 * to the queue of the steps, each after a barrier, so they take effect in the order of the calls:
 * features are written after earlier steps have read the previous contents of their rows, and
 * before later steps. The output of a stage stays in the tensors for the next one.
 *
 * At most two submissions are in flight: a third waits for the older one. Images are written into
 * buffers that the device reads, so a new batch waits for both.
 *
 * Weights are not shared: every worker uploads them. Vision weights are a small part of a
 * checkpoint.
 */
#include "worker/backend/vulkan/step/vulkan_image_encoder.h"

#include <stdlib.h>

#include "proto/must.h"
#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/program/vulkan_program_memory.h"
#include "worker/backend/vulkan/record/vulkan_plan_walk.h"
#include "worker/backend/vulkan/weights/vulkan_padding.h"
#include "worker/backend/vulkan/weights/vulkan_weight_loader.h"

#define UNDER_WAY   2u
#define FORMS_BYTES 8u /* of an element as f32, f16 and 8 bits with its terms: 7.25 */
#define WARM_ROWS                                                                                  \
    512u /* from here on the same kernels are chosen, except at the largest                        \
          * number */

struct vulkan_image_encoder {
    struct vulkan_program program;
    struct vulkan_patch_batch patches;
    struct vulkan_commands *commands[UNDER_WAY]; /* used in turns */
    bool submitted[UNDER_WAY];
    uint32_t next;
    uint32_t stages_done;           /* of the batch, including the first; 0: there is no batch */
    struct vulkan_profile *profile; /* or NULL: then one submission is in flight at a time */
    _Atomic uint64_t *heartbeat;    /* or NULL */
};

static enum result load_weights(struct vulkan_image_encoder *vision,
                                const struct backend_options *options,
                                backend_progress_fn *progress, void *context,
                                struct error_text *error)
{
    struct backend_options own = *options;
    struct vulkan_weight_origin origin;
    own.has_vault = false;
    enum result result =
        vulkan_weight_loader_run(&vision->program.weights, &own, progress, context, &origin, error);
    return result == RESULT_OK ? vulkan_weights_upload_vectors(&vision->program.weights, error)
                               : result;
}

enum result vulkan_image_encoder_create(const struct vulkan_program *text,
                                        const struct backend_options *options,
                                        backend_progress_fn *progress, void *context,
                                        struct vulkan_image_encoder **created,
                                        struct error_text *error)
{
    struct vulkan_image_encoder *vision = must_alloc(1, sizeof *vision);
    struct vulkan_program *program = &vision->program;
    const struct backend_options sizes = {.kv_type = KV_CACHE_F16,
                                          .max_patch_rows = options->max_patch_rows};
    must(sizes.max_patch_rows > 0 && sizes.max_patch_rows <= LIMIT_PATCH_ROWS);
    vision->heartbeat = options->heartbeat;
    enum result result =
        vulkan_program_init(program, text->device, text->kernels, options->vision, &sizes, error);
    program->features_address = text->features_address;
    program->feature_columns = text->feature_columns;
    if (result == RESULT_OK)
        result = vulkan_patch_batch_init(&vision->patches, text->device, options->vision,
                                         sizes.max_patch_rows, program->tile_rows, error);
    if (result == RESULT_OK)
        result = load_weights(vision, options, progress, context, error);
    if (result == RESULT_OK && options->profile)
        result = vulkan_profile_create(text->device, text->kernels, &vision->profile, error);
    for (uint32_t i = 0; i < UNDER_WAY && result == RESULT_OK; i++)
        result = vulkan_commands_create(text->device, VULKAN_QUEUE_COMPUTE,
                                        vision->profile ? VULKAN_PROFILE_MARKS : 0,
                                        &vision->commands[i], error);
    if (result != RESULT_OK) {
        vulkan_image_encoder_destroy(vision);
        return result;
    }
    *created = vision;
    return RESULT_OK;
}

void vulkan_image_encoder_destroy(struct vulkan_image_encoder *vision)
{
    if (!vision)
        return;
    for (uint32_t i = 0; i < UNDER_WAY; i++)
        vulkan_commands_destroy(vision->commands[i]);
    vulkan_profile_destroy(vision->profile);
    vulkan_patch_batch_fini(&vision->patches);
    vulkan_program_fini(&vision->program);
    free(vision);
}

/* Waits until commands[i] can be recorded. */
static enum result wait_for(struct vulkan_image_encoder *vision, uint32_t i,
                            struct error_text *error)
{
    enum result result = vision->submitted[i] ? RESULT_TIMED_OUT : RESULT_OK;
    uint32_t limit_ms = STEP_WAIT_LIMIT_MS * vulkan_device_time_factor(vision->program.device);
    for (uint32_t waited_ms = 0; result == RESULT_TIMED_OUT && waited_ms < limit_ms;
         waited_ms += STEP_WAIT_BEAT_MS) {
        if (vision->heartbeat)
            atomic_fetch_add_explicit(vision->heartbeat, 1, memory_order_relaxed);
        result = vulkan_commands_wait(vision->commands[i], STEP_WAIT_BEAT_MS, error);
    }
    if (result == RESULT_OK)
        vision->submitted[i] = false;
    return result;
}

static struct vulkan_shape shape_of(const struct vulkan_patch_batch *patches)
{
    return (struct vulkan_shape){.patches = patches->arranged.rows,
                                 .patch_features = patches->arranged.features,
                                 .mixes = patches->arranged.mix_count,
                                 .whole_tiles = patches->whole.tile_count,
                                 .window_tiles = patches->windows.tile_count};
}

/* The next `stages`, in one submission. */
static enum result submit_stages(struct vulkan_image_encoder *vision, uint32_t stages,
                                 struct error_text *error)
{
    const uint32_t *ends = vision->program.plan->stage_ends;
    uint32_t first = vision->stages_done, i = vision->next;
    struct vulkan_commands *commands = vision->commands[i];
    const struct vulkan_recording recording = {
        .program = &vision->program,
        .batch = &vision->patches.batch,
        .patches = &vision->patches,
        .shape = shape_of(&vision->patches),
        .first_op = first > 0 ? ends[first - 1] : 0,
        .end_op = ends[first + stages - 1],
        .commands = commands,
        .profile = vision->profile,
    };
    enum result result = wait_for(vision, i, error);
    if (result == RESULT_OK)
        result = vulkan_commands_begin(commands, error);
    if (result == RESULT_OK && vision->profile)
        vulkan_profile_begin(vision->profile, commands);
    if (result == RESULT_OK)
        result = vulkan_plan_walk_run(&recording, error);
    if (result == RESULT_OK)
        result = vulkan_commands_end(commands, error);
    if (result == RESULT_OK)
        result = vulkan_commands_submit(commands, error);
    vision->submitted[i] = result == RESULT_OK;
    if (result == RESULT_OK && vision->profile)
        result = wait_for(vision, i, error);
    if (result == RESULT_OK && vision->profile)
        vulkan_profile_add(vision->profile, commands);
    vision->next = (i + 1) % UNDER_WAY;
    vision->stages_done += stages;
    return result;
}

enum result vulkan_image_encoder_finish(struct vulkan_image_encoder *vision,
                                        struct error_text *error)
{
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < UNDER_WAY && result == RESULT_OK; i++)
        result = wait_for(vision, i, error);
    return result;
}

enum result vulkan_image_encoder_begin(struct vulkan_image_encoder *vision,
                                       const struct encode_batch *batch, struct error_text *error)
{
    enum result result = vulkan_image_encoder_finish(vision, error);
    if (result != RESULT_OK)
        return result;
    vulkan_patch_batch_fill(&vision->patches, batch);
    vision->stages_done = 0;
    return submit_stages(vision, 1, error);
}

enum result vulkan_image_encoder_run(struct vulkan_image_encoder *vision, uint64_t work,
                                     uint64_t *left, struct error_text *error)
{
    uint32_t all = vision->program.plan->vision.stages + 1;
    must(vision->stages_done > 0 && vision->stages_done < all);
    uint32_t rows = vision->patches.arranged.rows, max = all - vision->stages_done;
    uint64_t stages = work / rows;
    stages = stages < 1 ? 1 : stages < max ? stages : max;
    enum result result = submit_stages(vision, (uint32_t)stages, error);
    *left = (uint64_t)rows * (all - vision->stages_done);
    if (*left > 0)
        return result;
    vision->stages_done = 0;
    if (result == RESULT_OK && vision->profile)
        vulkan_profile_print(vision->profile, "encoding", 1);
    return result;
}

/* The shape of an image of so many squares and attention tiles. */
static enum result warm_squares(const struct vulkan_image_encoder *vision, uint32_t squares,
                                uint32_t tiles, struct error_text *error)
{
    const struct model_vision *model = &vision->program.plan->vision;
    const struct vulkan_recording recording = {
        .program = &vision->program,
        .batch = &vision->patches.batch,
        .patches = &vision->patches,
        .shape = {.patches = squares * model_vision_square(model),
                  .patch_features = squares,
                  .mixes = model->mosaic || model->framed || model->sound_tokens > 0 ? squares : 0,
                  .whole_tiles = tiles,
                  .window_tiles = tiles}};
    return vulkan_plan_walk_run(&recording, error);
}

enum result vulkan_image_encoder_warm(const struct vulkan_image_encoder *vision,
                                      struct error_text *error)
{
    const struct model_vision *model = &vision->program.plan->vision;
    uint32_t max = vision->program.max_patch_rows / model_vision_square(model);
    enum result result = RESULT_OK;
    for (uint32_t squares = 1; squares <= max && result == RESULT_OK;
         squares = squares < WARM_ROWS ? vulkan_linear_next_rows(squares, max)
                                       : squares + (max - squares + 1) / 2 + (squares == max))
        result = warm_squares(vision, squares, squares, error);
    return result;
}

/* Tensors of a tower. */
static uint64_t tensor_bytes(const struct plan *plan, uint32_t max_patch_rows)
{
    uint32_t merged = model_vision_square(&plan->vision);
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        uint32_t rows =
            plan->tensors[t].rows == PLAN_ROWS_PATCHES ? max_patch_rows : max_patch_rows / merged;
        bytes += (uint64_t)rows * vulkan_padding_columns(plan, (plan_tensor_id)t) * FORMS_BYTES;
    }
    return bytes;
}

uint64_t vulkan_image_encoder_bytes(const struct backend_options *options)
{
    const struct plan *plan = options->vision;
    if (!plan)
        return 0;
    uint64_t bytes = (uint64_t)options->feature_rows * model_vision_feature_columns(&plan->vision) *
                     sizeof(float);
    bytes += tensor_bytes(plan, options->max_patch_rows);
    return plan->sound ? bytes + tensor_bytes(plan->sound, options->max_patch_rows) : bytes;
}
