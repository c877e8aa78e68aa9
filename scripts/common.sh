# shellcheck shell=bash
# What the scripts share. Sourced, from any directory: goes to the repository's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$HOME/.cargo/bin:$PATH"

die() {
    printf '%s\n' "$*" >&2
    exit 1
}

# Lines of a script's own comment at its top: its usage.
usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1" | grep -v '^shellcheck '
}

# Builds the command and prints where it is; RALLYPOINT_BIN names one that is there already.
rallypoint_bin() {
    if [ -n "${RALLYPOINT_BIN:-}" ]; then
        [ -x "$RALLYPOINT_BIN" ] || die "RALLYPOINT_BIN=$RALLYPOINT_BIN is not there"
        realpath "$RALLYPOINT_BIN"
        return
    fi
    cargo build --release --locked >&2
    echo "$PWD/target/release/rallypoint"
}

# Waits up to 10 s until a server says that it is ready: wait_for PID LOG. Not until something listens on its port: that may be
# another server, whose end ours waits for.
wait_for() {
    local pid=$1 log=$2
    for _ in $(seq 100); do
        if grep -qs ' ready: ' "$log"; then
            return
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 30 "$log" >&2
    die "the server is not ready"
}

# Ends a process that this script started, and waits for it.
stop() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
