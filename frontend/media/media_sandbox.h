/*
 * Confines this process to computing: after media_sandbox_enter() it can only answer on the
 * descriptors that it has, and allocate memory.
 */
#ifndef SHOAL_FRONTEND_MEDIA_MEDIA_SANDBOX_H
#define SHOAL_FRONTEND_MEDIA_MEDIA_SANDBOX_H

#include <stdint.h>

/*
 * For a process with one thread, before it reads a foreign byte. Irreversible. Closes every
 * descriptor above `kept_fd`; sets resource limits (LIMIT_MEDIA_*; no file, no process, no core
 * dump); denies ptrace and new privileges; denies the file system and the network through Landlock;
 * and admits through seccomp only the system calls of a table: any other one kills the process with
 * SIGSYS.
 *
 * `parts` and the result are bits of enum media_sandbox_part (media_record.h): those to set up, and
 * those that are. A part that this kernel does not have is left out. Sanitizers need more of the kernel: builds with SHOAL_SANITIZED do nothing and return 0.
 */
uint32_t media_sandbox_enter(int kept_fd, uint32_t parts);

#endif
