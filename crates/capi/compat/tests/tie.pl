# A Perl program with its data in an ndbm, dbm or gdbm, as installed: tie.pl MODULE NAME
use strict;
use warnings;
use Fcntl;
my ($module, $name) = @ARGV;
eval "require $module" or die $@;
my $gdbm = $module eq 'GDBM_File';
my ($create, $write) = $gdbm ? (GDBM_File::GDBM_WRCREAT(), GDBM_File::GDBM_WRITER()) : (O_RDWR | O_CREAT, O_RDWR);
my $file = $gdbm ? $name : "$name.pag";
my $count = 5000;
my %words;
umask 022;
tie %words, $module, $name, $create, 0640 or die "tie: $!";
-e $file && ($gdbm || -e "$name.dir") or die 'files';
((stat $file)[2] & 0777) == 0640 or die 'mode';
$words{"word $_"} = $_ x 3 for 1 .. $count;
$words{empty} = '';
$words{"any\0byte"} = join '', map chr, 0 .. 255;
$words{large} = 'x' x 3_000_000;
defined $words{'word 7'} && !defined $words{'word 0'} or die 'fetch';
length $words{large} == 3_000_000 or die 'large';
delete $words{large};
defined $words{large} and die 'delete';
untie %words;
tie %words, $module, $name, $write, 0640 or die "tie again: $!";
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
