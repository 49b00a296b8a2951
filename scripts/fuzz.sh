#!/usr/bin/env bash
# Builds the fuzz targets and runs each on its seeds for a while, two at a time.
#   fuzz.sh [SECONDS] [TARGET...]     default: 10 seconds each, all targets
# First every past crasher (fuzz/regressions/TARGET) is replayed. Prints one line a target. A crash, a hang (5 s) or
# memory above its bound ends with exit code 1 and the path of the reproducer under fuzz/artifacts/TARGET:
#   FOLDER/release/TARGET FILE        replays it; FOLDER is printed in the first line
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=10
if [[ ${1:-} =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi
all=(gguf safetensors prepared config tokenizer template grammar request dialects stream tool_calls forced_calls)
targets=("${@:-${all[@]}}")
[[ $# -gt 0 ]] || targets=("${all[@]}")

# What cargo-fuzz passes, less the sanitizers: coverage of edges and compares. All of it works on stable.
flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0
  -Cforce-frame-pointers=yes --cfg fuzzing)
host=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-$PWD/fuzz/target}/$host
bins=()
for target in "${targets[@]}"; do
  [[ -f fuzz/targets/$target.rs ]] || { echo "no target $target; there are: ${all[*]}" >&2; exit 2; }
  bins+=(--bin "$target")
done
echo "building ${#targets[@]} fuzz targets in $folder"
# The target triple keeps the flags away from build scripts and procedural macros.
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/fuzz/target} RUSTFLAGS="${flags[*]}" \
  cargo build --quiet --release --target "$host" --manifest-path fuzz/Cargo.toml "${bins[@]}"

work=$(mktemp -d -p "$([[ -w /dev/shm ]] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
trap 'rm -rf "$work"' EXIT

# Names that the readers compare with are worth trying: the string literals of their sources.
dictionary() { # source folders and files
  grep -rhoE --include='*.rs' --include='*.names' '"[^"\\]{2,48}"' "$@" | grep -P '^[\x20-\x7e]*$' | sort -u
}
sources() {
  case $1 in
    gguf) echo crates/formats/src crates/tensor/src/format.rs ;;
    safetensors | prepared | config) echo crates/formats/src ;;
    tokenizer) echo crates/text/src/tokenizer crates/formats/src/gguf ;;
    template) echo crates/text/src/template fuzz/template.names ;;
    grammar) echo crates/text/src/grammar ;;
    request | dialects) echo crates/serve/src/protocol ;;
    stream) echo crates/text/src/stop.rs ;;
    forced_calls) echo crates/text/src/grammar ;;
    tool_calls) echo crates/text/src/tools crates/text/src/reasoning.rs ;;
  esac
}
longest_bytes() {
  case $1 in
    gguf | safetensors) echo 20000 ;;
    tokenizer) echo 6000 ;;
    *) echo 2048 ;;
  esac
}

fuzz() { # target: prints its line; the exit code is the fuzzer's
  local target=$1 bin=$folder/release/$1 log=$work/$1.log past artifacts=fuzz/artifacts/$1/ code=0
  local options=(-rss_limit_mb=512 -timeout=5 "-artifact_prefix=$artifacts")
  mkdir -p "$artifacts" "$work/$target/corpus" "$work/$target/tmp"
  cp fuzz/seeds/"$target"/* "$work/$target/corpus"
  # shellcheck disable=SC2046
  dictionary $(sources "$target") > "$work/$target.dict" 2> /dev/null || true
  past=$(find fuzz/regressions/"$target" -type f 2> /dev/null | sort || true)
  # A thread of the server has 2 MB of stack.
  ulimit -s 2048
  export TMPDIR=$work/$target/tmp
  # shellcheck disable=SC2086
  if [[ -n $past ]] && ! "$bin" "${options[@]}" $past > "$log" 2>&1; then
    printf '%-12s FAILED on a past crasher: %s\n' "$target" "$(grep -oE '^Running: .*' "$log" | tail -1 | cut -c10-)"
    tail -30 "$log" >&2
    return 1
  fi
  "$bin" "${options[@]}" "-dict=$work/$target.dict" "-max_len=$(longest_bytes "$target")" "-max_total_time=$seconds" \
    -print_final_stats=1 "$work/$target/corpus" > "$log" 2>&1 || code=$?
  stat_of() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }
  local cover
  cover=$(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1 || true)
  printf '%-12s %s: %s runs, %s/s, %s, %s MB at most, %s past crashers\n' "$target" \
    "$([[ $code == 0 ]] && echo ok || echo FAILED)" "$(stat_of number_of_executed_units)" \
    "$(stat_of average_exec_per_sec)" "${cover:-no coverage}" "$(stat_of peak_rss_mb)" "$(wc -w <<< "$past")"
  if [[ $code != 0 ]]; then
    { grep -vE '^#[0-9]+|^(INFO|Recommended)' "$log" || true; } | head -60 >&2
    printf '%-12s reproducer: %s\n' "$target" "$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)"
    return 1
  fi
}

passed=0 failed=0
waiting=("${targets[@]}")
running=0
while [[ ${#waiting[@]} -gt 0 || $running -gt 0 ]]; do
  while [[ ${#waiting[@]} -gt 0 && $running -lt 2 ]]; do
    (fuzz "${waiting[0]}") &
    waiting=("${waiting[@]:1}")
    running=$((running + 1))
  done
  if wait -n; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  running=$((running - 1))
done
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
