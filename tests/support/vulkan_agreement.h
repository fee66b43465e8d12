/*
 * Compares a whole checkpoint on a Vulkan device with the CPU backend.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_AGREEMENT_H
#define SHOAL_TESTS_SUPPORT_VULKAN_AGREEMENT_H

#include <stdbool.h>

/* Fails the running test unless the greedy answers to the first 10 prompts of the reference file
 * `prompts` (llama_cpp_reference.h) agree, near-ties aside, which are printed. `all`: 20 prompts, also
 * decoded token by token from the beginning to the end, which is for a GPU. */
void vulkan_agreement_check(const char *model, const char *prompts, bool all);

#endif
