# SPDX-License-Identifier: GPL-2.0
#
# The plots of results/, for gnuplot; run in the directory of its files.
set terminal svg noenhanced size 720,420 font "sans-serif,13" background "#ffffff"
set datafile separator tab
set datafile columnheaders
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set key top left
BEFORE = "#c05020"
AFTER = "#2060a0"
OTHER = "#888888"

# What is given to plot: the lines of FILE for which the awk CONDITION holds;
# c["NAME"] is a column in it.
lines(file, condition) = "< awk -F '\\t' 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; print; next } " . condition . "' " . file
plain = '$c["advice"] == "DONTNEED" && $c["memory"] == "anon" && $c["target"] == "self" && '
vector = plain . '$c["method"] == "process_madvise" && '

set logscale x 2
set xlabel "ranges per call"

set output "reduction.svg"
set title "Reduction by one flush per call (4 KiB ranges, MADV_DONTNEED)"
set ylabel "%"
set yrange [-5:*]
plot "table-time.tsv" using "ranges":"reduction_pct":"reduction_spread" with yerrorlines lw 2 lc rgb AFTER title "time, here", \
     "table-exact.tsv" using "ranges":"reduction_pct" with linespoints lw 2 dt 2 lc rgb AFTER title "instructions, here", \
     "table-time.tsv" using "ranges":"upstream_pct" with linespoints lw 2 lc rgb OTHER title "time, upstream (bare metal)"

set output "flushes.svg"
set title "TLB flushes of a call"
set ylabel "flushes"
set yrange [0.8:2000]
set logscale y
one = '$c["layout"] == "adjacent" && $c["callers"] == 1 && $c["busy"] == 0'
plot for [k in "before after"] lines("counts.tsv", vector . one . sprintf(' && $c["kernel"] == "%s"', k)) \
     using "ranges":"flushes_per_call" with linespoints lw 2 lc rgb (k eq "before" ? BEFORE : AFTER) title k
unset logscale

set output "threads.svg"
set title "Interrupts of other CPUs by TLB flushes, 64 ranges per call"
set xlabel "threads that run on other CPUs"
set ylabel "interrupts per MiB given back"
set yrange [0:*]
set xtics 1
some = '$c["layout"] == "adjacent" && $c["callers"] == 1 && $c["ranges"] == 64'
plot for [k in "before after"] lines("counts.tsv", vector . some . sprintf(' && $c["kernel"] == "%s"', k)) \
     using "busy":(column("flushes_remote") * column("busy") / (column("bytes") / 1048576)) \
     with linespoints lw 2 lc rgb (k eq "before" ? BEFORE : AFTER) title k

set output "layouts.svg"
set title "Guest instructions for each page given back, 1,024 ranges per call"
set xlabel "layout of the ranges"
set ylabel "instructions per page"
set style data histogram
set style histogram clustered gap 1
set style fill solid
set boxwidth 0.9
set key outside top right
many = '$c["ranges"] == 1024'
whole = lines("instructions.tsv", '$c["method"] == "whole" && $c["kernel"] == "after"')
stats whole using "per_page" nooutput name "limit"
set arrow from graph 0, first limit_mean to graph 1, first limit_mean nohead lw 2 dt 2 lc rgb OTHER front
set label "one madvise() over all of it" at graph 0.02, first limit_mean offset 0,0.6 tc rgb "#404040" front
set xtics auto
plot for [k in "before after"] lines("instructions.tsv", vector . many . sprintf(' && $c["kernel"] == "%s"', k)) \
     using "per_page":xtic(strcol("layout")) lc rgb (k eq "before" ? BEFORE : AFTER) title k
