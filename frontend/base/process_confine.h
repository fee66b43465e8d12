/*
 * What a process can take from itself before it parses foreign bytes: descriptors, resources, files
 * and the network. System call filters are in shm/seccomp_filter.h.
 */
#ifndef SHOAL_FRONTEND_BASE_PROCESS_CONFINE_H
#define SHOAL_FRONTEND_BASE_PROCESS_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* Closes all descriptors above `kept_fd`. */
void process_confine_descriptors(int kept_fd);

struct resource_limit {
    int resource; /* RLIMIT_* */
    rlim_t most;
};
/* Sets soft and hard limits; a lower hard limit stays. The hard limit of RLIMIT_CPU is a second later,
 * so that a process at its limit is ended by SIGXCPU and not, as by a person, by SIGKILL. False if one could not be set. */
bool process_confine_resources(const struct resource_limit *limits, size_t count);

/* Denies, with Landlock, all files, ports and abstract sockets, except that files below `readable`
 * ([count] files and folders; missing ones are skipped) can be read and executed. Needs
 * PR_SET_NO_NEW_PRIVS. False if this kernel has no Landlock. */
bool process_confine_files(const char *const *readable, size_t count);

#endif
