#!/usr/bin/env bash
# The long checks of a part of the project, on a built tree; each prints its figures.
#   scripts/accept.sh 1          500 vanishing clients twice, start-up times, fuzz targets 60 s each
#   OTHER=http://127.0.0.1:8080/v1 scripts/accept.sh 1      also speed beside another server of the same model
#   scripts/accept.sh 2          exactness and accuracy of every layout on the real models, the benches with their pages, load time, peak memory
#   scripts/accept.sh 3          random lives and faults in their long form, 1,000 prompts run in every way, fairness, overload, half an hour of load,
#                                memory against the plan, shared beginnings, static and continuous batches, users in the same memory; two hours
#   scripts/accept.sh 4          clients that bring much of their own: LangChain, litellm, the evaluation harness; 200,000 bodies changed at random,
#                                20,000 cases drawn from /openapi.json
#   MODELS="a.gguf b.gguf" scripts/accept.sh 2              also benches and memory of these
#   CHROMIUM=chromium scripts/accept.sh 2                   also opens the pages in a browser without a window and keeps pictures
set -euo pipefail
cd "$(dirname "$0")/.."
part=${1:-}
[[ $part =~ ^[1234]$ ]] || { echo "parts: 1, 2, 3, 4" >&2; exit 2; }
UCUZ_TEST_MODELS=$(scripts/models.sh)
smollm2=$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf
cargo build --release --quiet
ucuz=target/release/ucuz
log=$(mktemp)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null; rm -f "$log"' EXIT
serve() { serve_model "$smollm2" "$@"; } # flags: starts a server on a free port and sets $server and $address
stop() { kill -TERM "$server"; wait "$server"; server=; }

serve_model() { # model, flags
  local model=$1
  shift
  "$ucuz" serve "$model" --port 0 "$@" 2> "$log" &
  server=$!
  address=
  while [[ -z $address ]]; do
    sleep 0.02
    address=$(sed -nE 's#^listening on http://##p' "$log")
  done
}
ask() { curl -sf "http://$address/v1/completions" -H 'content-type: application/json' -d "{\"prompt\": \"Hello\", \"max_tokens\": $1}" > /dev/null; }

echo "== binary"
stat -c '%s bytes' "$ucuz"

if [[ $part == 2 ]]; then
  out=${OUT:-target/accept2} failed=
  mkdir -p "$out"
  read -ra models <<< "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf $UCUZ_TEST_MODELS/gemma-3-270m.Q4_K_M.gguf $UCUZ_TEST_MODELS/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf ${MODELS:-}"

  echo "== every layout on the real models: distance from float32, and tier = tier bit for bit"
  UCUZ_ACCEPT=1 cargo test --quiet -p ucuz-models --test real_golden -- --nocapture --test-threads 1 | grep '^|'

  echo "== kernels against the roofline; the table picks the fastest"
  "$ucuz" bench kernels --tiers all --assert --json "$out/kernels.json" --html "$out/kernels.html" || failed=1

  for model in "${models[@]}"; do
    name=$(basename "$model" .gguf)
    echo "== engine: $name"
    "$ucuz" bench engine "$model" --json "$out/$name.json" --html "$out/$name.html"
  done
  echo "== cache"
  "$ucuz" bench cache "$smollm2" --html "$out/cache.html"

  for model in "${models[@]}"; do
    echo "== load time, and memory with 16 requests of 1,024 + 128 tokens at once beside what inspect predicts: $(basename "$model")"
    predicted=$("$ucuz" inspect "$model" --max-sequences 16 --json | python3 -c '
import json, sys
sizes = json.load(sys.stdin)
kv = min(16 * 1152 * sizes["kv_bytes_per_token"]["bf16"], 448 << 20)
print((sizes["serving"]["bytes_before_kv"] + kv) >> 10)')
    for _ in 1 2 3; do
      began=$(date +%s%N)
      serve_model "$model" --kv-memory 448MiB --max-sequences 16
      ask 1
      first=$((($(date +%s%N) - began) / 1000000))
      python3 scripts/clients/fill.py "$address" 16
      peak=$(sed -nE 's/^VmHWM:\s+([0-9]+) kB/\1/p' "/proc/$server/status")
      echo "$first ms to the first token, at most $((peak >> 10)) MiB resident, $((predicted >> 10)) MiB predicted"
      # The program itself, its tokenizer and the stacks of its threads: 32 MiB and a twentieth.
      ((peak <= predicted + predicted / 20 + (32 << 10))) || { echo "above the prediction"; failed=1; }
      stop
    done
  done

  if [[ -n ${CHROMIUM:-} ]]; then
    for page in "$out"/*.html; do
      "$CHROMIUM" --headless --no-sandbox --disable-gpu --window-size=1200,3000 --screenshot="${page%.html}.png" "file://$PWD/$page" 2> /dev/null
      echo "picture: ${page%.html}.png"
    done
  fi
  exit ${failed:-0}
fi

if [[ $part == 3 ]]; then
  out=${OUT:-target/accept3} failed=
  mkdir -p "$out"
  echo "== random lives of the engine and the block pool, long form"
  UCUZ_ACCEPT=1 cargo test --quiet --release -p ucuz-engine --lib -- --nocapture what_is_found books_balance || failed=1
  echo "== faults put in on purpose"
  python3 scripts/sabotage.py || failed=1
  echo "== the same greedy answers however the server is run"
  python3 scripts/clients/same.py "$ucuz" "$smollm2" || failed=1
  for scene in fair overload soak; do
    echo "== $scene"
    python3 scripts/clients/stand.py "$ucuz" "$smollm2" $scene || failed=1
  done
  echo "== a world that breaks"
  python3 scripts/clients/kill.py "$ucuz" "$smollm2" || failed=1
  for model in "$smollm2" "$UCUZ_TEST_MODELS/gemma-3-270m.Q4_K_M.gguf" "$UCUZ_TEST_MODELS/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"; do
    echo "== peak memory against the plan: $(basename "$model")"
    python3 scripts/clients/worst.py "$ucuz" "$model" || failed=1
  done
  for shared in 50 512; do
    for flag in "" --no-prefix-cache; do
      # shellcheck disable=SC2086
      serve --kv-memory 1GiB --max-sequences 16 $flag
      for concurrency in 1 8 16; do
        echo "== $shared shared tokens, ${flag:-with prefix cache}, $concurrency at once"
        "$ucuz" bench serve "http://$address" --concurrency $concurrency --requests $((concurrency == 1 ? 6 : 3 * concurrency)) \
          --prompt-tokens 1024 --shared-tokens "$shared" --output-tokens 128 --seed $((shared + concurrency)) | grep -E '^(TTFT|ITL) .*p(50|95)|^ *[0-9.]+ +[0-9.]+ +[0-9]+ +[0-9.]+$|from cache'
      done
      stop
    done
  done
  echo "== static and continuous batches; users in the same memory"
  "$ucuz" bench policy "$smollm2" --json "$out/policy.json" --html "$out/policy.html"
  "$ucuz" bench memory "$smollm2" --json "$out/memory.json" --html "$out/memory.html"
  exit ${failed:-0}
fi

if [[ $part == 4 ]]; then
  venv=${VENV:-target/accept4}
  [[ -d $venv ]] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check langchain-openai litellm 'lm-eval[api]' schemathesis
  serve --max-sequences 16
  "$venv/bin/python" scripts/clients/frameworks.py "http://$address/v1"
  "$venv/bin/python" scripts/clients/lm_eval_client.py "http://$address"
  stop
  echo "== 200,000 bodies changed at random"
  UCUZ_ACCEPT=1 cargo test --quiet --release -p ucuz-serve --test http -- --nocapture changed_bodies
  echo "== 20,000 cases drawn from /openapi.json"
  "$venv/bin/python" scripts/clients/contract.py "$ucuz" tests/golden/tiny/qwen2
  exit 0
fi

echo "== start to first token, five times"
for _ in 1 2 3 4 5; do
  began=$(date +%s%N)
  serve
  ask 1
  echo "$((($(date +%s%N) - began) / 1000000)) ms"
  stop
done

echo "== 500 vanishing clients, twice"
serve --max-sequences 16
python3 scripts/clients/vanish.py "$address" "$server" 500
stop

if [[ -n ${OTHER:-} ]]; then
  echo "== speed: A is ucuz, B is $OTHER"
  for activations in int8x2 int8; do
    echo "--activations $activations"
    serve --activations "$activations"
    python3 scripts/clients/speed.py "http://$address/v1" "$OTHER" 5
    stop
  done
fi

echo "== fuzz targets, 60 s each"
scripts/fuzz.sh 60
