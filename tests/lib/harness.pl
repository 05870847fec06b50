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
my $skipped = $all->skipped;
# a test that was to be skipped counts as passed there
my $passed = $all->passed - $skipped;
my $failed = $all->failed;
my %bad = map { $_ => 1 } $all->exit, $all->parse_errors, $all->wait;
delete @bad{$all->failed ? map { $_ } grep { ($all->parsers($_))[0]->failed } keys %bad : ()};
$failed += keys %bad;
printf "check: %d passed, %d failed, %d skipped\n", $passed, $failed, $skipped;
exit($failed || !$all->all_passed || !$passed);
