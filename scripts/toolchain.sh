# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The dyno authors
#
# Sourced by the other scripts: which Erlang/OTP to use, and how to speak.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "$*"; exit 1; }

# Puts an OTP at the head of PATH, and everything that is built with it into a folder of its own.
# Sets release, nif_version and otp_root; own_erl is the one that was first on the PATH, or nothing.
use_otp() { # any | 27 | 29
    local answer
    own_erl=$(command -v erl) || own_erl=
    DYNO_OTP_PATH=$(scripts/otp path "$1") || return
    export DYNO_OTP_PATH
    export PATH=${DYNO_OTP_PATH:+$DYNO_OTP_PATH:}$PATH
    answer=$(erl -noshell -eval '
        io:format("~s ~s ~s", [erlang:system_info(otp_release), erlang:system_info(nif_version),
            code:root_dir()]), halt().')
    read -r release nif_version otp_root <<<"$answer"
    export REBAR_BASE_DIR=$root/_build/$release
    mkdir -p "$REBAR_BASE_DIR"
}
