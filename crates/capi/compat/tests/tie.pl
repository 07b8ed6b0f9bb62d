# A Perl program with its data in an ndbm or dbm, as installed: tie.pl MODULE NAME
use strict;
use warnings;
use Fcntl;
my ($module, $name) = @ARGV;
eval "require $module" or die $@;
my $count = 5000;
my %words;
umask 022;
tie %words, $module, $name, O_RDWR | O_CREAT, 0640 or die "tie: $!";
-e "$name.dir" && -e "$name.pag" or die 'files';
((stat "$name.pag")[2] & 0777) == 0640 or die 'mode';
$words{"word $_"} = $_ x 3 for 1 .. $count;
$words{empty} = '';
$words{"any\0byte"} = join '', map chr, 0 .. 255;
$words{large} = 'x' x 3_000_000;
defined $words{'word 7'} && !defined $words{'word 0'} or die 'fetch';
length $words{large} == 3_000_000 or die 'large';
delete $words{large};
defined $words{large} and die 'delete';
untie %words;
tie %words, $module, $name, O_RDWR, 0640 or die "tie again: $!";
$words{"word $_"} eq $_ x 3 or die "word $_" for 1 .. $count;
defined $words{empty} && $words{empty} eq '' or die 'empty value';
length $words{"any\0byte"} == 256 or die 'any bytes';
my $walked = 0;
while (my ($key, $value) = each %words) {
    $walked++;
    delete $words{$key} if $key =~ /[02468]$/;
}
$walked == $count + 2 or die "walked $walked";
scalar(keys %words) == $count / 2 + 2 or die 'left: ' . keys %words;
%words = ();
scalar(keys %words) == 0 or die 'cleared';
untie %words;
