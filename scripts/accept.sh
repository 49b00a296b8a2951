#!/usr/bin/env bash
# The long checks of a part of the project, on a built tree; each prints its figures.
#   scripts/accept.sh 1          500 vanishing clients twice, start-up times, fuzz targets 60 s each
#   OTHER=http://127.0.0.1:8080/v1 scripts/accept.sh 1      also speed beside another server of the same model
set -euo pipefail
cd "$(dirname "$0")/.."
[[ ${1:-} == 1 ]] || { echo "parts: 1" >&2; exit 2; }
UCUZ_TEST_MODELS=$(scripts/models.sh)
smollm2=$UCUZ_TEST_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf
cargo build --release --quiet
ucuz=target/release/ucuz
log=$(mktemp)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null; rm -f "$log"' EXIT
serve() { # flags: starts a server on a free port and sets $server and $address
  "$ucuz" serve "$smollm2" --port 0 "$@" 2> "$log" &
  server=$!
  address=
  while [[ -z $address ]]; do
    sleep 0.05
    address=$(sed -nE 's#^listening on http://##p' "$log")
  done
}
stop() { kill -TERM "$server"; wait "$server"; server=; }

echo "== binary"
stat -c '%s bytes' "$ucuz"

echo "== start to first token, five times"
for _ in 1 2 3 4 5; do
  began=$(date +%s%N)
  serve
  curl -sf "http://$address/v1/completions" -H 'content-type: application/json' -d '{"prompt": "Hello", "max_tokens": 1}' > /dev/null
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
