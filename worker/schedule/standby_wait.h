/*
 * A standby: a worker process that has loaded everything while another one serves, and waits. It uses
 * the weights and the KV memory that the serving one keeps in vaults, and changes neither before it
 * takes over; if it cannot adopt both, it ends. The frontend rings it once the serving one is dead.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STANDBY_WAIT_H
#define SHOAL_WORKER_SCHEDULE_STANDBY_WAIT_H

#include "proto/result.h"

/* Waits until the eventfd is rung. RESULT_PEER_GONE: the parent, of this pidfd, has ended.
 * RESULT_IO. */
enum result standby_wait(int standby_fd, int parent_fd, struct error_text *error) RESULT_CHECKED;

#endif
