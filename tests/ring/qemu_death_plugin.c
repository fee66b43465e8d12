/*
 * A plugin of qemu-aarch64 that kills the emulated process between two of its instructions, for ring_kill_test.c: qemu has
 * no ptrace. The program arms it by the system call QEMU_DEATH_CALL, which Linux does not have, with a number of instructions;
 * SIGKILL comes before the instruction after them. A negative number disarms it.
 *
 * The declarations are those of qemu's qemu-plugin.h (docs/devel/tcg-plugins, versions 1 to 4 of its interface), which Debian
 * does not package. Built for the machine that emulates.
 */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "tests/ring/qemu_death.h"

#define EXPORTED __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
enum { QEMU_CALLBACK_READS_NO_REGISTERS = 0 };

typedef void tb_translated(uint64_t id, struct qemu_plugin_tb *tb);
typedef void instruction_runs(unsigned cpu, void *data);
typedef void call_begins(uint64_t id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                         uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                         uint64_t a8);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, tb_translated *function);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id, call_begins *function);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction,
                                            instruction_runs *function, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern EXPORTED const int qemu_plugin_version;
EXPORTED int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv);

EXPORTED const int qemu_plugin_version = QEMU_PLUGIN_INTERFACE;

static int64_t instructions_left = -1;

static void count_instruction(unsigned cpu, void *data)
{
    (void)cpu;
    (void)data;
    if (instructions_left < 0)
        return;
    if (instructions_left-- == 0)
        kill(getpid(), SIGKILL);
}

static void watch_block(uint64_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++)
        qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, i), count_instruction,
                                               QEMU_CALLBACK_READS_NO_REGISTERS, NULL);
}

static void arm(uint64_t id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)cpu, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (number == QEMU_DEATH_CALL)
        instructions_left = (int64_t)a1;
}

int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, watch_block);
    qemu_plugin_register_vcpu_syscall_cb(id, arm);
    return 0;
}
