# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The dyno authors
#
# What /bin/sh runs of the program `dyno`. The program is an escript: its second line, which is in
# rebar.config and which escript takes for a comment, has the shell evaluate the last 8,192 bytes of
# the file. They are this text without its comments, as the comment of the zip archive, put there
# by scripts/launcher.escript. So its length and that of the paths in it do not matter: escript
# itself takes no line of more than 1,023 bytes.
#
# The shell chooses the Erlang/OTP and stays until the emulator has ended, for the signals' sake. The
# emulator cannot handle SIGINT, and Ctrl-C would end it without a word. So the emulator ignores
# SIGINT (+Bi, and a background job of a shell does so anyway), the shell catches it and sends SIGUSR2,
# which dyno_cli_interrupt handles. Before dyno has come that far SIGUSR2 simply ends the emulator;
# SIGUSR1 would write a crash dump. If the shell itself is killed, a pipe of which only the shell
# has the writing end is closed, and dyno, which reads the other, ends (DYNO_STARTER: its number).
#
# Given: f, this file.

# i grows with each signal; p is the emulator's process id.
i=; p=
trap 'i=1$i; [ "$p" ] && kill -USR2 "$p" 2>/dev/null' INT TERM HUP

# The folders of the OTP that the build or the installation brought; or nothing.
own=@PATH@

# --otp PATH says which OTP; dyno itself reads the others.
o=; n=;
for a do
    if [ "$n" ]; then o=$a; break; fi
    case $a in --) break;; --otp) n=1;; --otp=*) o=${a#--otp=}; break;; esac
done

refuse() { echo "dyno: $1" >&2; exit "$2"; }

# Whether the program $1 is an erl of OTP 27 or later; r is its release, real the file behind links.
# The installation's files say it in no time. A version manager's shim has none, and is started.
serves() {
    real=$1; r=
    if [ -h "$1" ]; then real=$(readlink -f "$1") || real=$1; fi
    for v in "${real%/bin/erl}"/releases/[0-9]*/OTP_VERSION; do
        [ -f "$v" ] || continue
        v=${v%/OTP_VERSION}; v=${v##*/}
        [ "$v" -gt "${r:-0}" ] 2>/dev/null && r=$v
    done
    [ "$r" ] || r=$("$1" -noshell -eval \
        'io:put_chars(erlang:system_info(otp_release)),halt().' </dev/null 2>/dev/null)
    [ "${r:-0}" -ge 27 ] 2>/dev/null
}

# Such a node would look for dyno's own modules (dyno_epmd) before it knows where they are.
case " ${ERL_AFLAGS-} ${ERL_FLAGS-} ${ERL_ZFLAGS-} " in
*' -sname '*|*' -name '*)
    refuse 'ERL_AFLAGS, ERL_FLAGS or ERL_ZFLAGS give each Erlang node a name; take -sname and -name '\
'out of them, and name dyno with --name' 2;;
esac

if [ "$o" ]; then
    for e in "$o" "$o/erl" "$o/bin/erl" ''; do [ -f "$e" ] && [ -x "$e" ] && break; done
    case $e in
    '') refuse "there is no erl at $o; give --otp the program, or the folder it is installed in" 2;;
    */*) ;;
    *) e=./$e;;
    esac
    export DYNO_OTP="$o"
    serves "$e" || refuse "$o is Erlang/OTP ${r:-of an unknown release}; dyno needs 27 or later" 2
else
    e=$(command -v erl) || e=
    r=
    if [ -z "$e" ] || ! serves "$e"; then
        e=${own%%:*}/erl
        if [ "$own" ] && [ -x "$e" ]; then PATH=$own:$PATH
        elif [ "$r" ]; then
            refuse "the erl on the PATH is Erlang/OTP $r; put 27 or later first, or give --otp PATH" 3
        else
            refuse 'there is no erl on the PATH; install Erlang/OTP 27 or later, or give --otp PATH' 3
        fi
        real=$e
    fi
fi
# Beside it, so that both are of one release.
s=${e%/*}/escript
[ -x "$s" ] || s=${real%/*}/escript
[ -x "$s" ] || refuse "there is no escript beside $e; install all of Erlang/OTP" 3

# A background job would read from /dev/null; in dash also after <&0.
exec 3<&0
# A pipe with both ends of it here. The first opening, for both, is there so that no other one waits.
export DYNO_MARKED=1 DYNO_STARTER=3
t=$(mktemp -d "${TMPDIR:-/tmp}/dyno.XXXXXX" 2>/dev/null)
if [ "$t" ] && mkfifo "$t/pipe" 2>/dev/null; then
    exec 6<>"$t/pipe" 5<"$t/pipe" 4>"$t/pipe" 6<&-
else
    DYNO_STARTER=
    exec 5</dev/null 4>/dev/null
fi
[ -z "$t" ] || rm -r "$t"
"$s" "$f" "$@" <&3 3<&5 4>&- 5<&- & p=$!
exec 5<&-
# A signal before p was known.
[ -z "$i" ] || kill -USR2 "$p" 2>/dev/null
s=3
# A trapped signal ends wait early: wait again until no signal came. 127: the status was had before.
while w=$i; wait "$p" 2>/dev/null; r=$?; [ $r = 127 ] || s=$r; [ "$w" != "$i" ]; do :; done
# dyno marks its own endings by 208 and its status (dyno_cli_ending); an interrupt is 130. Any other
# ending was a kill, or that of a code that dyno ran, which must not look like success.
case $s in
208|209|210|211) exit $((s-208));;
130) exit 130;;
esac
if [ "$i" ] && [ $s -gt 128 ]; then exit 130; fi
if [ $s -gt 128 ]; then m='was killed'; else
    m='ended before dyno was done: look whether what it ran calls halt() or init:stop()'; fi
refuse "its Erlang VM $m (status $s)" 3
