# SPDX-License-Identifier: GPL-2.0
#
# The only entry point: each target is a script of the same name in scripts/,
# which says with -h what it does.

# Knobs: make NAME=value TARGET
BASE	?= 6.12
BASEVER	?=
KSRC	?=
KREF	?= HEAD
CONFIG	?= boot ksft
ARCH	?= x86
JOBS	?=
CPUS	?= 2
MEM	?= 2G
ACCEL	?=
RUNS	?= 5
K	?= before after
T	?=
TOPIC	?= batching selftests
V	?= 1
PREV	?=
SEND	?=

export BASE BASEVER KSRC KREF CONFIG ARCH JOBS CPUS MEM ACCEL RUNS K T TOPIC PREV SEND

VERBS := $(filter-out lib guest-%, $(basename $(notdir $(wildcard scripts/*.sh))))

.PHONY: help clean check-all $(VERBS)

help:
	@echo  'Main job:'
	@echo  '  run             - Everything from nothing: gets a 6.12 kernel, applies the'
	@echo  '                    series, builds, boots, and shows what process_madvise()'
	@echo  '                    costs before and after'
	@echo  '  check           - All tests that a change must pass'
	@echo  '  check-all       - These and what takes longer: other compilers and'
	@echo  '                    architectures, semantic patches, packages'
	@echo  ''
	@echo  'Single steps (each does those before it where needed):'
	@echo  '  deps            - Install the Debian packages of scripts/deps.txt'
	@echo  '  fetch           - Get the base from the Debian archive, or from KSRC'
	@echo  '  tree            - Assemble base and series as a git tree: out/$(BASE)/tree'
	@echo  '  patches         - Write patches/ back from the commits of that tree'
	@echo  '  build           - Compile the kernels before and after'
	@echo  '  selftests       - Compile the selftests that run in the guest'
	@echo  '  boot            - A shell in the patched kernel'
	@echo  '  judge           - Get a newer kernel'"'"'s own tests of the same, to run here'
	@echo  '  ksft            - Run kselftests of mm in the guest: T="name ..."'
	@echo  '  equal           - Compare what random requests on random memory get, before'
	@echo  '                    and after, in the guest'
	@echo  '  mutants         - Break the series in one place at a time (tests/mutants),'
	@echo  '                    and see which test notices'
	@echo  '  series          - Write the mail series of TOPIC: out/$(BASE)/series'
	@echo  '  send            - Show who would get these mails; SEND=yes sends them'
	@echo  '  bench           - Measure before and after in turn; writes results/'
	@echo  '  quote           - Write the results that README.md quotes into it again'
	@echo  '  quilt           - Write the series for quilt and Debian source packages'
	@echo  '  deb             - Debian packages of the patched kernel; CONFIG=FILE for one'
	@echo  '                    that a real machine can use'
	@echo  '  clean           - Remove out/'
	@echo  ''
	@echo  'Knobs:'
	@echo  '  BASE=$(BASE)       - Kernel the series is for: a directory of patches/'
	@echo  '  BASEVER=$(BASEVER)        - Version of the Debian package; empty: the newest tested one'
	@echo  '  KSRC=$(KSRC)           - A kernel git tree to use instead; it is never written to'
	@echo  '  KREF=$(KREF)       - What to take from KSRC'
	@echo  '  CONFIG="$(CONFIG)" - Fragments of configs/ that make the configuration'
	@echo  '  ARCH=$(ARCH)        - Architecture, as in the kernel'
	@echo  '  JOBS=$(JOBS)           - Compilations at once; empty: one for each CPU'
	@echo  '  CPUS=$(CPUS) MEM=$(MEM)  - Size of the guest'
	@echo  '  ACCEL=$(ACCEL)          - kvm, tcg or icount; empty: KVM where it is usable'
	@echo  '  RUNS=$(RUNS)          - Repetitions of a measurement'
	@echo  '  K="$(K)" - Kernels to run on'
	@echo  '  T=$(T)              - Tests to run; empty: all that lists/ksft.tsv names'
	@echo  '  TOPIC="$(TOPIC)" - Topics of patches/ that a mail series has'
	@echo  '  V=$(V) PREV=$(PREV)       - Its version, and the mails of the version before: a'
	@echo  '                    directory or an mbox; empty: those in out/'
	@echo  '  SEND=$(SEND)           - yes: make send sends'

clean:
	rm -rf out

run check: deps
tree: fetch
build: tree
selftests equal: build
boot ksft mutants: selftests
bench: tree
series send quilt deb: tree

# Not for the others: the kernel's own make takes V for something else.
series send: export V := $(V)

.NOTPARALLEL:

$(VERBS):
	@scripts/$@.sh

check-all:
	@scripts/deps.sh -a
	@scripts/check.sh -a
