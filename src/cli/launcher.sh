# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The dyno authors
#
# What /bin/sh runs of the escript `dyno`. rebar.config.script makes the second line of the escript
# of it: comments go, lines are joined, so every line here ends with `;` or where one may go on.
# escript itself takes that line for a comment, because it begins with %%. It must stay under
# 1,000 bytes: escript looks for the emulator's flags in the third line with a buffer of 1,024.
#
# Why a shell at all: the emulator cannot handle SIGINT, and Ctrl-C would end it without a word.
# So the emulator ignores SIGINT (+Bi, and a background job of a shell does so anyway), the shell
# catches it and sends SIGUSR2, which dyno_cli_interrupt handles. Before dyno has come that far
# SIGUSR2 simply ends the emulator, where SIGUSR1 would write a crash dump.
#
# @PATH@ becomes the folders of DYNO_OTP_PATH at build time, or nothing.
@PATH@
command -v escript >/dev/null || {
echo 'dyno: there is no escript on the PATH; install Erlang/OTP 27 or later' >&2; exit 3; };
case $0 in */*) f=$0;; *) f=./$0;; esac;
# i grows with each signal; s is the child's status, p its process id.
i=; p=; s=3;
trap 'i=1$i; [ "$p" ] && kill -USR2 "$p" 2>/dev/null' INT TERM;
# A background job would read from /dev/null; in dash also after <&0.
exec 3<&0;
DYNO_MARKED=1 escript "$f" "$@" <&3 3<&- & p=$!;
# A signal between the two commands of the line above found no p.
[ "$i" ] && kill -USR2 "$p";
# A trapped signal ends wait early: wait again until no signal came. 127: the status was had before.
while w=$i; wait "$p" 2>/dev/null; r=$?; [ $r = 127 ] || s=$r; [ "$w" != "$i" ]; do :; done;
# What an emulator that was killed could not remove (dyno_suite_source).
rm -rf "${TMPDIR:-/tmp}/dyno-$p-"*;
# dyno marks its own endings by 208 and its status (dyno_cli_ending); an interrupt is 130. What
# ends otherwise was killed, or ended by what dyno ran, which must not look like success.
case $s in 208|209|210|211) s=$((s-208));; 130) ;; *)
if [ "$i" ] && [ $s -gt 128 ]; then s=130; else
if [ $s -gt 128 ]; then m='was killed'; else
m='ended before dyno was done: look whether what it ran calls halt() or init:stop()'; fi;
echo "dyno: its Erlang VM $m (status $s)" >&2; s=3; fi;; esac;
exit $s
