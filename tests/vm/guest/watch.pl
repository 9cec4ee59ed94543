#!/usr/bin/perl
# watch.pl PID MEBIBYTES SECONDS: watches a process until it is gone, and what memory is available; looks every 10 ms, before everybody
# else. Prints as JSON the seconds from the last look before there were less than MEBIBYTES to its end (null: one of the two never
# came; a machine that stands still is not looked at), the least that was available in MiB, and the date of the first look after the
# crossing in seconds.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep time);
my ($pid, $threshold, $patience) = @ARGV;
system "chrt", "--fifo", "--pid", "50", $$;
sub state {
    open my $stat, "<", "/proc/$pid/stat" or return "";
    return (<$stat> // "") =~ /\) (.)/ ? $1 : "";
}
open my $meminfo, "<", "/proc/meminfo" or die;
my $start = clock_gettime(CLOCK_MONOTONIC);
my ($before, $crossed, $date, $lowest, $gone) = ($start, undef, 0, 1 << 30);
until (defined $gone) {
    sysseek $meminfo, 0, 0;
    sysread $meminfo, my $text, 4096;
    my ($available) = $text =~ /^MemAvailable:\s+(\d+)/m;
    my $now = clock_gettime(CLOCK_MONOTONIC);
    $lowest = $available / 1024 if $available / 1024 < $lowest;
    ($crossed, $date) = ($before, time) if !defined $crossed && $available / 1024 < $threshold;
    $gone = $now if state() =~ /^[ZX]?$/;
    $before = $now;
    last if $now - $start > $patience;
    sleep 0.01;
}
printf qq({"crossedToGone": %s, "lowest": %d, "crossedAt": %.3f}\n),
    defined $crossed && defined $gone ? sprintf("%.3f", $gone - $crossed) : "null", $lowest, $date;
