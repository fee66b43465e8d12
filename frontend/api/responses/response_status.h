/*
 * States of a response, in their order.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_STATUS_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_STATUS_H

#include <stdbool.h>

/* Files hold these numbers (response_file.h). */
enum response_status {
    RESPONSE_QUEUED = 0,
    RESPONSE_IN_PROGRESS,
    RESPONSE_COMPLETED, /* this and the following are final */
    RESPONSE_INCOMPLETE,
    RESPONSE_FAILED,
    RESPONSE_CANCELLED
};

bool response_status_is_final(enum response_status status);

#endif
