/*
 * Whether other processes of the same user may look into this one.
 */
#ifndef SHOAL_SHM_DEBUG_ACCESS_H
#define SHOAL_SHM_DEBUG_ACCESS_H

/*
 * This process writes no core dump, and only privileged processes can attach a debugger, read its
 * memory or take its descriptors. The programs that it starts are not affected. Does nothing in
 * builds with sanitizers: the leak check attaches to its own process.
 */
void debug_access_deny(void);

#endif
