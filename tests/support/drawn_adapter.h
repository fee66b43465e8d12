/*
 * A LoRA adapter drawn at random for a plan: any of its projections, ranks from 1 to
 * LIMIT_ADAPTER_RANK, and every type of matrix that an adapter may have.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAWN_ADAPTER_H
#define SHOAL_TESTS_SUPPORT_DRAWN_ADAPTER_H

#include "tests/support/test_random.h"
#include "worker/plan/lora_adapter.h"

/* `rank`: of all pairs; 0: each has another. At least one pair. */
void drawn_adapter_init(struct lora_adapter *adapter, const struct plan *plan,
                        struct test_random *random, uint32_t rank);
void drawn_adapter_fini(struct lora_adapter *adapter);

#endif
