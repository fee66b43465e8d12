/*
 * Requests exactly the kernels that steps of a text program can need.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_WARM_H
#define SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_WARM_H

#include "worker/backend/vulkan/program/vulkan_program.h"

/* Requests every kernel that a step may need, however the scheduler composes it: up to
 * max_step_rows rows of up to max_logit_rows sequences, of which each may have any number of rows
 * and is drawn from once or not at all. Between vulkan_kernels_note() and
 * vulkan_kernels_make_noted() it only notes them. The sampler and the image encoder request their
 * own. */
enum result vulkan_warm_ask(const struct vulkan_program *program,
                            struct error_text *error) RESULT_CHECKED;

#endif
