#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0
#
# Runs test files and ends with a plain verdict: N passed, N failed, N skipped,
# counted by TAP::Harness. A file that ends badly counts as a failure.
# Usage: harness.pl FILE...
use strict;
use warnings;
use TAP::Harness;

my $harness = TAP::Harness->new({ verbosity => 1, timer => 1, errors => 1, merge => 0 });
my $all = $harness->runtests(@ARGV);
my ($passed, $failed, $skipped) = (0, 0, 0);
for my $file ($all->parsers($all->descriptions)) {
	$skipped += $file->skip_all ? 1 : $file->skipped;
	$passed += $file->passed - $file->skipped;	# to skip is to pass there
	$failed += $file->failed || ($file->has_problems ? 1 : 0);
}
printf "check: %d passed, %d failed, %d skipped\n", $passed, $failed, $skipped;
exit($failed || !$passed || !$all->all_passed ? 1 : 0);
