// SPDX-License-Identifier: GPL-2.0
/*
 * profile: where the instructions of a system call go, by kernel function.
 *
 * A plugin for QEMU 7.0 or newer. Each time that the guest's kernel enters the
 * function ENTER, it counts the instructions by the function that they belong
 * to, until the guest is back in user mode. Nothing is sampled: each
 * instruction counts, and none is disturbed. Interrupts that come meanwhile
 * are in it. For a guest of one CPU.
 *
 * -plugin profile.so,map=System.map,enter=ENTER,skip=N,out=FILE
 *
 * The first N calls are not counted. When the guest ends, FILE has the lines
 * "function TAB instructions", and before them a line "calls TAB number".
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu_plugin.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

#define MAX_SYMBOLS	262144
#define USER_END	0x8000000000000000ULL

static struct symbol {
	unsigned long long start;
	unsigned long long count;
	char name[56];
} symbols[MAX_SYMBOLS];

static size_t nr_symbols;
static struct symbol *enter;
static unsigned long long skip, calls;
static const char *out_path;
static bool inside;

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int read_symbols(const char *path)
{
	FILE *f = fopen(path, "r");
	char type;

	while (f && nr_symbols < MAX_SYMBOLS &&
	       fscanf(f, "%llx %c %55s%*[^\n]",
		      &symbols[nr_symbols].start, &type,
		      symbols[nr_symbols].name) == 3)
		if (strchr("TtWw", type))
			nr_symbols++;
	if (f)
		fclose(f);
	qsort(symbols, nr_symbols, sizeof(*symbols), compare);
	return nr_symbols ? 0 : -1;
}

/* The symbol that an address is in; the first one for what is below all. */
static struct symbol *symbol_at(unsigned long long addr)
{
	size_t low = 0, high = nr_symbols;

	while (high - low > 1) {
		size_t mid = (low + high) / 2;

		if (symbols[mid].start <= addr)
			low = mid;
		else
			high = mid;
	}
	return &symbols[low];
}

/* A piece of straight code, as QEMU translates and runs it. */
struct piece {
	struct symbol *symbol;
	size_t insns;
	bool enters;
};

static void in_user(unsigned int cpu, void *data)
{
	inside = false;
}

static void in_kernel(unsigned int cpu, void *data)
{
	struct piece *piece = data;

	if (piece->enters && calls++ >= skip)
		inside = true;
	if (inside)
		piece->symbol->count += piece->insns;
}

static void translated(unsigned long long id, struct qemu_plugin_tb *tb)
{
	unsigned long long start = qemu_plugin_tb_vaddr(tb);
	struct piece *piece;

	if (start < USER_END) {
		qemu_plugin_register_vcpu_tb_exec_cb(tb, in_user,
						     QEMU_PLUGIN_CB_NO_REGS,
						     NULL);
		return;
	}
	piece = malloc(sizeof(*piece));
	if (!piece)
		abort();
	piece->symbol = symbol_at(start);
	piece->insns = qemu_plugin_tb_n_insns(tb);
	piece->enters = start == enter->start;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, in_kernel,
					     QEMU_PLUGIN_CB_NO_REGS, piece);
}

static void finish(unsigned long long id, void *data)
{
	FILE *f = fopen(out_path, "w");
	size_t i;

	if (!f) {
		perror(out_path);
		return;
	}
	fprintf(f, "calls\t%llu\n", calls > skip ? calls - skip : 0);
	for (i = 0; i < nr_symbols; i++)
		if (symbols[i].count)
			fprintf(f, "%s\t%llu\n", symbols[i].name,
				symbols[i].count);
	fclose(f);
}

EXPORT int qemu_plugin_install(unsigned long long id, const struct qemu_info *info,
			       int argc, char **argv)
{
	const char *map = NULL, *name = NULL;
	size_t n;
	int i;

	for (i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			continue;
		value++;
		if (!strncmp(argv[i], "map=", 4))
			map = value;
		else if (!strncmp(argv[i], "enter=", 6))
			name = value;
		else if (!strncmp(argv[i], "skip=", 5))
			skip = strtoull(value, NULL, 10);
		else if (!strncmp(argv[i], "out=", 4))
			out_path = strdup(value);
	}
	if (!map || !name || !out_path) {
		fprintf(stderr, "profile: give it map=, enter= and out=\n");
		return -1;
	}
	if (read_symbols(map)) {
		fprintf(stderr, "profile: no symbols in %s\n", map);
		return -1;
	}
	for (n = 0; n < nr_symbols && !enter; n++)
		if (!strcmp(symbols[n].name, name))
			enter = &symbols[n];
	if (!enter) {
		fprintf(stderr, "profile: no %s in %s\n", name, map);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
