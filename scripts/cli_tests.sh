#!/usr/bin/env bash
# The binary as a person uses it: answers, inspection, damaged files, exit codes. Needs the models of scripts/models.sh.
#   cli_tests.sh BINARY
set -uo pipefail
ucuz=$1
models=${UCUZ_TEST_MODELS:?run scripts/models.sh and name its folder here}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UCUZ_CACHE=$work/cache
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
expect "KV events without a key" 2 "there is no key" "$ucuz" serve "$smollm2" --kv-events port=1
expect "KV events in no encoding" 2 "array or map" "$ucuz" serve "$smollm2" --kv-events encoding=json
expect "KV events without a prefix cache" 2 "no-prefix-cache" "$ucuz" serve "$smollm2" --no-prefix-cache --kv-events topic=a
expect "KV events on one port twice" 1 "cannot publish KV events on tcp://127.0.0.1:15557" "$ucuz" serve "$smollm2" --port 0 \
  --kv-events endpoint=tcp://127.0.0.1:15557,replay=tcp://127.0.0.1:15557
expect "context over the model's" 1 "8192" "$ucuz" run "$smollm2" -p x --context 9000
expect "no room for keys and values" 1 "--kv-memory" "$ucuz" run "$smollm2" -p x --kv-memory 1KiB
expect "offline without a model" 1 "offline" "$ucuz" inspect smollm2 --offline --cache-dir "$work/empty"

# Benches, as short as they can be: what is printed, and the keys that others read.
keys() { # JSON file, keys joined by dots ...
  python3 - "$@" <<'PYTHON'
import json, sys
result = json.load(open(sys.argv[1]))
for path in sys.argv[2:]:
    value = result
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    print(path, "=", json.dumps(value))
PYTHON
}
short=(--threads 1 --repeat 1)
expect "bench engine" 0 "Batches" "$ucuz" bench engine "$smollm2" "${short[@]}" --prompt-lengths 16,32 --contexts 16 \
  --batches 1,2 --batch-context 8 --json "$work/engine.json" --html "$work/engine.html"
expect "bench engine: keys" 0 'prefill.1.prompt_tokens = 32' keys "$work/engine.json" prefill.1.prompt_tokens prefill.0.measured.seconds.median \
  prefill.0.measured.seconds.repetitions decode.0.context decode.0.measured.tokens_per_s.median decode.0.measured.bytes_per_s batch.1.batch \
  batch.1.measured.work.kv_bytes knee.is_passed model.fingerprint provenance.command provenance.machine.threads roofline
expect "bench engine: page" 0 '<svg ' cat "$work/engine.html"
expect "bench engine --only" 0 '"decode": []' "$ucuz" bench engine "$smollm2" "${short[@]}" --only prefill --prompt-lengths 16 --json -
expect "bench engine beyond the context" 1 "8192" "$ucuz" bench engine "$smollm2" --only decode --contexts 9000
expect "bench engine without room" 1 "--kv-memory" "$ucuz" bench engine "$smollm2" --only decode --contexts 64 --kv-memory 1KiB
expect "bench engine into no folder" 1 "$work/no" "$ucuz" bench engine "$smollm2" --json "$work/no/engine.json"
expect "bench engine of length 0" 2 "1..=1048576" "$ucuz" bench engine "$smollm2" --contexts 0
expect "bench cache" 0 "all equal" "$ucuz" bench cache "$smollm2" "${short[@]}" --lengths 4,8,16 --json "$work/cache.json" --html "$work/cache.html"
expect "bench cache: keys" 0 'identity.tokens_equal = true' keys "$work/cache.json" identity.tokens_equal identity.logits_equal points.2.tokens \
  points.0.with.seconds.median points.0.without.macs points.0.without.score_bytes points.0.with.memory_bytes points.0.with.memory_peak_bytes \
  growth.0.quantity growth.1.without.exponent growth.1.without.standard_error
tiny=(--threads 1 --repeat 1 --shape 64x256 --rows 1,3 --contexts 40 --cold-memory 1MiB)
expect "bench kernels" 0 "Q4_1, 64x256" "$ucuz" bench kernels "${tiny[@]}" --json "$work/kernels.json" --html "$work/kernels.html"
expect "bench kernels: keys" 0 'rows.0.operation = "linear"' keys "$work/kernels.json" rows.0.operation rows.0.variant rows.0.device rows.0.seconds.median \
  rows.0.memory_bytes rows.0.operations_per_s rows.0.floor_seconds rows.0.bound rows.0.roofline_share ceilings.0.measured.0.kind ceilings.0.measured.4.after \
  picked slower_picks provenance.command
expect "bench kernels: page" 0 '<h2>sample</h2>' cat "$work/kernels.html"
expect "bench kernels of two tiers" 0 '"device": "generic"' "$ucuz" bench kernels "${tiny[@]}" --tiers generic,best --only add --json -
expect "bench kernels on the reference" 0 "nothing to compare" "$ucuz" bench kernels "${tiny[@]}" --backend reference --only linear --formats Q8_0
expect "bench kernels of no operation" 2 "linear, attention" "$ucuz" bench kernels --only matmul
expect "bench kernels of no shape" 2 "ROWSxCOLS" "$ucuz" bench kernels --shape 64
expect "bench kernels that a format cannot store" 1 "multiples of 256" "$ucuz" bench kernels --shape 64x32 --only linear --formats Q4_K --repeat 1
# Prepared weights: kept at the first start, mapped at the second, made anew when damaged, done without when there is no room.
ask() { "$ucuz" run "$qwen" -p "$question" --temperature 0 -n 8 --log info --cache-dir "$work/prepare" "$@"; }
expect "prepared weights are kept" 0 "kept for the next start" ask
expect "prepared weights are mapped" 0 "mapped as prepared earlier" ask
printf 'x' | dd of="$(echo "$work"/prepare/prepared/*.prepared)" bs=1 seek=5000000 conv=notrunc status=none
expect "a damaged part is named" 0 "the prepared bytes have the checksum" ask
expect "and answers all the same" 0 "Paris" ask --prepared-cache 0
rm -rf "$work/prepare"
: > "$work/prepare"
expect "no folder for prepared weights" 0 "prepared weights are not kept" ask
rm "$work/prepare"

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
