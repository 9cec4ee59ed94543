#!/usr/bin/env bash
# Runs every fuzz target for a few seconds from its kept corpus; a crash fails:
#
#   fuzz/run.sh [SECONDS [TARGET...]]     5 seconds, every target
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-5}
shift $(($# > 0))

EVICTD_ROOT=$PWD RUSTC_WRAPPER=$PWD/fuzz/instrument \
    cargo build --release --manifest-path fuzz/Cargo.toml --target-dir fuzz/target
targets=("$@")
[[ $# -gt 0 ]] || mapfile -t targets < <(basename --suffix=.rs -a fuzz/fuzz_targets/*.rs)

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
for target in "${targets[@]}"; do
    # New inputs go to the first directory, so that the kept ones stay as they are.
    mkdir -p "$found/$target" "fuzz/artifacts/$target"
    if ! "fuzz/target/release/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="fuzz/artifacts/$target/" \
        "$found/$target" "fuzz/corpus/$target" >"$found/log" 2>&1; then
        cat "$found/log"
        echo "$target fails; again: fuzz/target/release/$target fuzz/artifacts/$target/<file>" >&2
        exit 1
    fi
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$found/log") inputs, no crash"
done
