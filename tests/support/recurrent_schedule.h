/*
 * Random schedules over a checkpoint with recurrent state: sequences advance by chunks of any size
 * beside others and are dropped halfway. They begin again at position 0 in a slot that another
 * sequence used, as after a cancel or a preemption, or at a position whose state was kept, as from a
 * cached prefix. The logits of each position are compared with those of the sequence alone and in one
 * piece, on the same backend.
 */
#ifndef SHOAL_TESTS_SUPPORT_RECURRENT_SCHEDULE_H
#define SHOAL_TESTS_SUPPORT_RECURRENT_SCHEDULE_H

#include "worker/backend/host/backend_options.h"

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
