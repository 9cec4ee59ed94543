#!/usr/bin/perl
# take.pl MEBIBYTES_PER_SECOND MEBIBYTES [SECONDS]: takes memory at that pace and holds it. With SECONDS it catches SIGTERM, says
# so, and ends that much later, as a program does that has things to bring in order.
use strict;
use warnings;
use Time::HiRes qw(time sleep);
my ($pace, $most, $grace) = @ARGV;
$| = 1;
$SIG{TERM} = sub { print "term ", time, "\n"; sleep $grace; print "end ", time, "\n"; exit } if defined $grace;
my @held;
my $start = time;
while (@held < $most) {
    my $piece = "\1" x (1 << 20);
    push @held, \$piece;
    my $ahead = @held / $pace - (time - $start);
    sleep $ahead if $ahead > 0;
}
print "holds $most\n";
sleep 1000 while 1;
