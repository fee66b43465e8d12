/*
 * Prompts and keys are in the memory of the processes; a core dump would write them to a disk.
 */
#include "shm/debug_access.h"

#include <sys/prctl.h>

void debug_access_deny(void)
{
#ifndef SHOAL_SANITIZED
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* these arguments cannot fail */
#endif
}
