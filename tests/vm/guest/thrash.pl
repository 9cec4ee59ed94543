#!/usr/bin/perl
# thrash.pl MEBIBYTES: takes as much memory, then writes to every page of it over and over: what does not fit is swapped for ever.
use strict;
use warnings;
my $held = "\1" x ($ARGV[0] << 20);
my $page = 0;
while (1) {
    $page = ($page + 1) % ($ARGV[0] << 8);
    vec($held, $page << 12, 8) = $page & 255;
}
