#!/usr/bin/env bash
# The binary as a person uses it: answers, inspection, damaged files, exit codes. Needs the models of scripts/models.sh.
#   cli_tests.sh BINARY
set -uo pipefail
ucuz=$1
models=${UCUZ_TEST_MODELS:?run scripts/models.sh and name its folder here}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
smollm2=$models/SmolLM2-135M-Instruct.Q4_1.gguf
qwen=$models/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf
gemma=$models/gemma-3-270m.Q4_K_M.gguf

# name, expected exit code, text that must appear, command ...
expect() {
  local name=$1 code=$2 text=$3 got
  shift 3
  "$@" > "$work/out" 2>&1 < /dev/null
  got=$?
  if [[ $got -ne $code ]] || ! grep -qF -- "$text" "$work/out"; then
    printf 'FAILED %s: exit %d (expected %d), looked for "%s" in:\n' "$name" "$got" "$code" "$text"
    head -c 2000 "$work/out"
    exit 1
  fi
  if grep -q 'panicked' "$work/out"; then printf 'FAILED %s: a panic\n' "$name"; head -c 2000 "$work/out"; exit 1; fi
  passed=$((passed + 1))
}

question="What is the capital of France?"
expect "smollm2 answers" 0 "Paris" "$ucuz" run "$smollm2" -p "$question" --temperature 0 -n 40
expect "qwen answers" 0 "Paris" "$ucuz" run "$qwen" -p "$question" --temperature 0 -n 40
expect "smollm2 answers from int8 keys and values" 0 "Paris" "$ucuz" run "$smollm2" -p "$question" --temperature 0 -n 40 --kv-dtype int8
expect "qwen answers from int8 keys and values" 0 "Paris" "$ucuz" run "$qwen" -p "$question" --temperature 0 -n 40 --kv-dtype int8
expect "gemma continues" 0 "100 degrees Celsius" "$ucuz" run "$gemma" -p "Water boils at a temperature of" --temperature 0 -n 12
for model in "$smollm2" "$qwen" "$gemma"; do
  expect "inspect $(basename "$model")" 0 "KV bytes/token" "$ucuz" inspect "$model"
  expect "inspect --json $(basename "$model")" 0 '"bits_per_weight"' "$ucuz" inspect "$model" --json
done
expect "doctor" 0 "linear Q4_1" "$ucuz" doctor
"$ucuz" inspect "$gemma" --tensors 2> "$work/out" | head -1 > /dev/null
if grep -q panicked "$work/out"; then echo "FAILED inspect into head"; exit 1; fi
passed=$((passed + 1))
expect "doctor --json" 0 '"arithmetic_version"' "$ucuz" doctor --json
expect "help has examples" 0 "Examples:" "$ucuz" serve --help
expect "no such model" 1 "smollm2" "$ucuz" inspect smollm3
expect "no such file" 1 "/nowhere.gguf" "$ucuz" inspect ./nowhere.gguf
expect "unknown flag" 2 "--portt" "$ucuz" serve --portt 1
expect "unknown KV precision" 2 "int8" "$ucuz" run "$smollm2" -p x --kv-dtype int4
expect "unknown tier" 2 "generic" "$ucuz" run "$smollm2" -p x --cpu-tier sse9
expect "context over the model's" 1 "8192" "$ucuz" run "$smollm2" -p x --context 9000
expect "no room for keys and values" 1 "--kv-memory" "$ucuz" run "$smollm2" -p x --kv-memory 1KiB
expect "offline without a model" 1 "offline" "$ucuz" inspect smollm2 --offline --cache-dir "$work/empty"

# Damaged files: each is refused with a sentence, never a panic.
head -c 1000000 "$smollm2" > "$work/truncated.gguf"
expect "truncated" 1 "truncated.gguf" "$ucuz" inspect "$work/truncated.gguf"
printf 'not a model' > "$work/text.gguf"
expect "not a model" 1 "text.gguf" "$ucuz" inspect "$work/text.gguf"
: > "$work/empty.gguf"
expect "empty file" 1 "empty.gguf" "$ucuz" inspect "$work/empty.gguf"
mkdir "$work/folder"
expect "folder without config" 1 "config.json" "$ucuz" inspect "$work/folder"
printf '\x02\0\0\0\0\0\0\0{}' > "$work/folder/model.safetensors"
printf '{"architectures": ["MysteryForCausalLM"]}' > "$work/folder/config.json"
expect "unknown architecture" 1 "MysteryForCausalLM" "$ucuz" inspect "$work/folder"
for offset in 4 8 16 24 40 100 1000 20000; do
  head -c 2000000 "$smollm2" > "$work/flipped.gguf"
  printf '\xff\xff\xff\xff\xff\xff\xff\x7f' | dd of="$work/flipped.gguf" bs=1 seek=$offset conv=notrunc status=none
  expect "bytes overwritten at $offset" 1 "flipped.gguf" "$ucuz" inspect "$work/flipped.gguf"
done
printf '%d passed, 0 failed\n' "$passed"
