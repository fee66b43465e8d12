/*
 * What qemu_death_plugin.c and the emulated program agree on.
 */
#ifndef SHOAL_TESTS_RING_QEMU_DEATH_H
#define SHOAL_TESTS_RING_QEMU_DEATH_H

#define QEMU_DEATH_CALL 7777 /* number of the system call that arms the plugin */

#endif
