/*
 * Ops with recurrent state, and those that go with them in layers: where the state lies on the
 * device, and the dispatches.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECURRENT_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECURRENT_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* Memory for the states of `slots` sequences, a region for each recurrent layer. */
enum result vulkan_recurrent_place(struct vulkan_program *program, uint32_t slots,
                                   struct error_text *error) RESULT_CHECKED;

/* Slot `to` becomes what slot `from` is, in all layers; between barriers of the caller's. */
void vulkan_recurrent_record_copy(const struct vulkan_program *program,
                                  struct vulkan_commands *commands, uint32_t from, uint32_t to);

/* For the recorder: the op being recorded, its output in `forms`. */
void vulkan_recurrent_record_short_conv(struct vulkan_recorder *recorder, uint32_t forms);
void vulkan_recurrent_record_gated_delta(struct vulkan_recorder *recorder);
void vulkan_recurrent_record_head_norm_gate(struct vulkan_recorder *recorder, uint32_t forms);
void vulkan_recurrent_record_take_queries(struct vulkan_recorder *recorder, uint32_t forms);
void vulkan_recurrent_record_gate_heads(struct vulkan_recorder *recorder, uint32_t forms);

#endif
