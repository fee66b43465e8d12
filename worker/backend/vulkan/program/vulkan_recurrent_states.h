/*
 * Memory of the states of recurrent layers.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_RECURRENT_STATES_H
#define SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_RECURRENT_STATES_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/program/vulkan_program.h"

/* Memory for the states of `slots` sequences, a region for each recurrent layer, in an arena that has
 * room for more_bytes after them. */
enum result vulkan_recurrent_states_place(struct vulkan_program *program,
                                          const struct vulkan_kept_pools *kept, uint32_t slots,
                                          uint64_t more_bytes,
                                          struct error_text *error) RESULT_CHECKED;

/* Copies slot `from` to slot `to` in all layers; the caller records the barriers. */
void vulkan_recurrent_states_copy(const struct vulkan_program *program,
                                  struct vulkan_commands *commands, uint32_t from, uint32_t to);

#endif
