#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0
#
# Reads what guest-ksft.sh printed and writes the result of every test case.
#
# What:   the output of each test goes to DIRECTORY/TEST.tap; a line KERNEL TEST
#         CASE RESULT NOTE, separated by tabs, goes to stdout for each case.
#         RESULT is pass, fail or skip.
# Checks: what TAP promises: that all cases of the plan ran, once each. A test
#         that ends badly, or not at all, has a case (exit) that failed; one
#         that does not speak TAP has only that case.
# Usage:  ktap.pl KERNEL DIRECTORY < OUTPUT
use strict;
use warnings;
use TAP::Parser;

my ($kernel, $directory) = @ARGV;
die "usage: ktap.pl KERNEL DIRECTORY < OUTPUT\n" unless defined $directory;

sub result {
	my ($test, $case, $result, $note) = @_;

	s/[\t\n\r]+/ /g for $case, $note;
	print join("\t", $kernel, $test, $case, $result, $note), "\n";
}

sub report {
	my ($test, $text, $status) = @_;

	open my $tap, '>', "$directory/$test.tap" or die "$directory/$test.tap: $!\n";
	print $tap $text;
	close $tap or die "$directory/$test.tap: $!\n";

	my $parser = TAP::Parser->new({ tap => $text });
	my ($good, %seen) = (1);
	while (my $line = $parser->next) {
		next unless $line->is_test;
		my $case = $line->description;
		$case =~ s/^[-\s]+|\s+$//g;
		$case =~ s/\d+(\.\d+)?/N/g if $case =~ /%/;	# a measurement is no name
		$case = $line->number unless length $case;
		$case .= " #$seen{$case}" if ++$seen{$case} > 1;
		if ($line->has_skip) {
			result($test, $case, 'skip', $line->explanation);
		} elsif ($line->is_ok) {
			result($test, $case, 'pass', '');
		} else {
			result($test, $case, 'fail', '');
			$good = 0;
		}
	}
	result($test, '(all)', 'skip', $parser->skip_all) if $parser->skip_all;

	if (!defined $status) {
		result($test, '(exit)', 'fail', 'the guest was lost');
	} elsif ($status == 124 || $status == 137) {
		result($test, '(exit)', 'fail', 'out of time, or killed');
	} elsif (!%seen && !$parser->skip_all) {
		my @kind = $status == 0 ? 'pass' : $status == 4 ? 'skip' : 'fail';
		result($test, '(exit)', @kind, $status ? "status $status" : '');
	} elsif ($status != 0 && $status != 4 && $good) {
		result($test, '(exit)', 'fail', "status $status, but every case passed");
	} elsif ($good && $parser->parse_errors) {
		result($test, '(plan)', 'fail', join '; ', $parser->parse_errors);
	}
}

my ($test, $text);
while (my $line = <STDIN>) {
	if ($line =~ /^\@\@ begin (\S+)$/) {
		($test, $text) = ($1, '');
	} elsif (defined $test && $line =~ /^\@\@ end \Q$test\E (\d+)$/) {
		report($test, $text, $1);
		undef $test;
	} elsif (defined $test) {
		$text .= $line;
	}
}
report($test, $text) if defined $test;
