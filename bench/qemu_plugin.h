/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Of QEMU's plugin interface, what profile.c uses: Debian has no package with
 * its header. The interface is versioned, and QEMU checks this.
 */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;

enum { QEMU_PLUGIN_CB_NO_REGS };

typedef void (*tb_trans_cb)(unsigned long long id, struct qemu_plugin_tb *tb);
typedef void (*exec_cb)(unsigned int cpu, void *data);
typedef void (*exit_cb)(unsigned long long id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(unsigned long long id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  exec_cb cb, int flags, void *data);
void qemu_plugin_register_atexit_cb(unsigned long long id, exit_cb cb, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
unsigned long long qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
