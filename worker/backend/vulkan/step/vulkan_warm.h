/*
 * Which kernels the steps of a text program need: all of them, and none that no step can ask for.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_WARM_H
#define SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_WARM_H

#include "worker/backend/vulkan/program/vulkan_program.h"

/* Asks the program's kernels for every one that a step may need, whatever the scheduler puts into
 * it: up to max_step_rows rows of up to max_logit_rows sequences, of which each may have any number
 * of rows and is drawn from once or not at all. Between vulkan_kernels_note() and
 * vulkan_kernels_make_noted() it only notes them. Samplers' and towers' are theirs. */
enum result vulkan_warm_ask(const struct vulkan_program *program,
                            struct error_text *error) RESULT_CHECKED;

#endif
