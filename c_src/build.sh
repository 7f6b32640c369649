#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The dyno authors
#
# Builds the libraries of this folder into priv/ if there is a C compiler: the hook of rebar3, which
# sets ERLANG_ROOT_DIR, also as a dependency of another project. dyno works without them.
#
# The clock's library has a folder for each version of the NIF interface, so that libraries for two
# releases don't get in the way of each other. The sampler's library is of any release, and is built
# for x86-64 with the GNU C library only.
cd "$(dirname "$0")/.." || exit
headers=$ERLANG_ROOT_DIR/usr/include
[ -f "$headers/erl_nif.h" ] || exit 0
for compiler in "${CC:-cc}" cc gcc clang none; do
    command -v "$compiler" >/dev/null && break
done
[ "$compiler" != none ] || exit 0

version() { sed -n "s/^#define ERL_NIF_$1_VERSION *//p" "$headers/erl_nif.h"; }

build() { # source library
    [ -n "$(find "$2" -newer "$1" 2>/dev/null)" ] && return
    mkdir -p "$(dirname "$2")"
    case $(uname) in
        Darwin) shared="-bundle -undefined dynamic_lookup" ;;
        *) shared=-shared ;;
    esac
    # Under a name of its own until it is whole: several may build at once.
    # shellcheck disable=SC2086
    "$compiler" -std=c11 -O2 -fPIC $shared -Wall -Wextra -I"$headers" "$1" -o "$2.$$" &&
        mv "$2.$$" "$2"
}

build c_src/dyno_clock_nif.c "priv/nif-$(version MAJOR).$(version MINOR)/dyno_clock_nif.so"
case $("$compiler" -dumpmachine) in
    *musl*) ;;
    x86_64-*linux*) build c_src/dyno_cpu_nif.c priv/cpu/dyno_cpu_nif-x86_64-linux-gnu.so ;;
esac
exit 0
