/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps the calling thread on one CPU, or ends the program. Needs _GNU_SOURCE. */
#ifndef BENCH_PIN_H
#define BENCH_PIN_H

#include <err.h>
#include <sched.h>

#define EXIT_LACK	4	/* the machine or the kernel lacks something */

static inline void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(EXIT_LACK, "no way to stay on CPU %d", cpu);
}

#endif /* BENCH_PIN_H */
