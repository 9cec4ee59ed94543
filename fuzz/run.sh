#!/usr/bin/env bash
# Runs every fuzz target for a few seconds (5 unless told otherwise) from its kept corpus; a crash fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-5}

# The instrumentation is not stable yet; the compiler is.
export RUSTC_BOOTSTRAP=1
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
cargo fuzz build --sanitizer none
built=fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
for target in $(cargo fuzz list); do
    # New inputs go to the first directory, so that the kept ones stay as they are.
    mkdir -p "$found/$target" "fuzz/artifacts/$target"
    if ! "$built/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="fuzz/artifacts/$target/" \
        "$found/$target" "fuzz/corpus/$target" >"$found/log" 2>&1; then
        cat "$found/log"
        echo "$target fails; again: cargo fuzz run --sanitizer none $target fuzz/artifacts/$target/<file>" >&2
        exit 1
    fi
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$found/log") inputs, no crash"
done
