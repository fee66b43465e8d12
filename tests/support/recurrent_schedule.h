/*
 * Random schedules over a checkpoint that keeps recurrent state: sequences advance by chunks of any
 * size in any company, are thrown away in the middle, and begin again at position 0 in a slot that
 * somebody else left, which is what a cancel or a preemption comes to, or where a copy of their
 * state was kept, which is what resuming a cached prefix comes to. Each position's logits are
 * held against those of the sequence alone and in one piece, on the same backend.
 */
#ifndef SHOAL_TESTS_SUPPORT_RECURRENT_SCHEDULE_H
#define SHOAL_TESTS_SUPPORT_RECURRENT_SCHEDULE_H

#include "worker/backend/host/backend.h"

struct recurrent_schedule_options {
    const char *path;
    const struct vulkan_settings *vulkan; /* NULL: on the CPU */
    uint32_t threads;
    uint32_t steps;
    double difference_most; /* of a row's largest logit; 0: bit for bit the same */
};

/* Fails the test at the first row that differs. */
void recurrent_schedule_check(const struct recurrent_schedule_options *options);

#endif
